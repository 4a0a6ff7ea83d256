//===- HappensBefore.h - Which accesses nothing orders ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vector clocks (Lamport 1978, Mattern 1989): each stream of a device and each
// rank's host is an actor whose clock says how far along all others it is
// known to come after. Two accesses to the same byte, one of which writes, are
// a race unless the later one's actor knows of the earlier one. What is found
// depends on the order in which work was issued, not on when it was done.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_HAPPENSBEFORE_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_HAPPENSBEFORE_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::test {

/// Used by one thread at a time.
class HappensBefore {
public:
  using Actor = size_t;
  /// By actor: how many of its works are known to be over.
  using Clock = std::vector<uint64_t>;

  /// `name` is for people: "stream upload of rank 0".
  Actor add(std::string name);
  const Clock &clock(Actor actor) const { return actors[actor].clock; }
  const std::string &name(Actor actor) const { return actors[actor].name; }

  /// What the actor does from now on comes after all that `clock` knows.
  void follow(Actor actor, const Clock &clock);
  /// The actor begins its next work.
  void begin(Actor actor);

  /// The actor's current work reads or writes bytes. `what` says who it is and
  /// what the bytes are.
  void access(Actor actor, const void *begin, size_t bytes, bool isWrite,
              const std::string &what);
  /// Nobody has used these bytes: they are given back, or new.
  void forget(const void *begin, size_t bytes);

  /// What was found, each pair once: "A writes …, which B reads …".
  const std::vector<std::string> &races() const { return found; }
  /// Pairs of conflicting accesses that were looked at, so that a test sees
  /// that something was.
  uint64_t compared() const { return pairs; }

private:
  struct Access {
    Actor actor;
    uint64_t time;
    uint32_t what;
    bool operator==(const Access &) const = default;
  };
  struct Bytes {
    uintptr_t end;
    std::vector<Access> writes; ///< the last one; none
    std::vector<Access> reads;  ///< since then, the last of each actor
  };
  struct Known {
    std::string name;
    Clock clock;
  };
  using Map = std::map<uintptr_t, Bytes>;

  Map::iterator splitAt(uintptr_t at);
  void compare(const Access &earlier, bool wasWrite, const Access &later,
               bool isWrite, uintptr_t begin, uintptr_t end);
  uint32_t number(const std::string &what);

  std::vector<Known> actors;
  Map memory;
  std::vector<std::string> texts;
  std::map<std::string, uint32_t> numbers;
  std::set<std::pair<uint32_t, uint32_t>> reported;
  std::vector<std::string> found;
  uint64_t pairs = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_HAPPENSBEFORE_H
