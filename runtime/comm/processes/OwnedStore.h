//===- OwnedStore.h - A c10d store that is left at a deadline ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_OWNEDSTORE_H
#define FSDP_RUNTIME_COMM_PROCESSES_OWNEDSTORE_H

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace fsdp {

/// A c10d store that one thread makes, calls and ends. Whoever calls it waits
/// for the thread, and for so long as it has patience: c10d would wait without
/// end for a server that is stopped, or whose machine is lost, since nobody
/// closes the connection. A store that kept somebody waiting for longer is
/// given up, and its thread left to itself: calls fail at once from then on.
/// What a call throws is a std::exception.
class OwnedStore final : public c10d::Store {
public:
  using Make = std::function<c10::intrusive_ptr<c10d::Store>()>;

  /// Throws what `make` throws, or that it did not end before `end`. `make` may
  /// outlive the caller, and so may what it refers to.
  OwnedStore(Make make, std::chrono::steady_clock::time_point end,
             std::chrono::milliseconds patience);
  /// Ends the store, unless it was given up.
  ~OwnedStore() override;

  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string &key, const std::vector<uint8_t> &value) override;
  std::vector<uint8_t> compareSet(const std::string &key,
                                  const std::vector<uint8_t> &expected,
                                  const std::vector<uint8_t> &desired) override;
  /// Waits until it is there, as any c10d store does.
  std::vector<uint8_t> get(const std::string &key) override;
  int64_t add(const std::string &key, int64_t value) override;
  bool deleteKey(const std::string &key) override;
  bool check(const std::vector<std::string> &keys) override;
  int64_t getNumKeys() override;
  /// Ask again and again, so that nobody's call waits behind them.
  void wait(const std::vector<std::string> &keys) override;
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override;
  /// The same store: calls of several threads take turns.
  c10::intrusive_ptr<c10d::Store> clone() override;

private:
  struct Shared;
  using Act = std::function<void(c10::intrusive_ptr<c10d::Store> &)>;

  static void run(const std::shared_ptr<Shared> &shared);
  void callUntil(std::chrono::steady_clock::time_point end, Act act);
  /// `act` keeps what it needs: the caller may be gone when it runs.
  template <typename OnStore>
  auto call(OnStore act);
  void end() noexcept;

  const std::chrono::milliseconds patience;
  const std::shared_ptr<Shared> shared;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_OWNEDSTORE_H
