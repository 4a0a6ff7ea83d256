//===- Store.h - Values that the ranks share --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_STORE_H
#define FSDP_RUNTIME_COMM_PROCESSES_STORE_H

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <optional>
#include <string>

namespace c10d {
class Store;
}

namespace fsdp {

/// A c10d store with keys below one prefix. Calls do not block for longer than
/// it takes to ask the server; they throw fsdp::Error (RendezvousFailed) if the
/// store is gone, or has not answered within the deadline. Calls of several
/// threads take turns.
class Store {
public:
  Store(c10::intrusive_ptr<c10d::Store> base, std::string prefix,
        bool servedHere);
  ~Store();

  void set(const std::string &key, const std::string &value);
  /// Sets `key` unless it is there; returns what is there then.
  std::string setFirst(const std::string &key, const std::string &value);
  /// Empty if nobody set it yet.
  std::optional<std::string> tryGet(const std::string &key);
  /// Blocks until somebody sets it; empty at the deadline.
  std::optional<std::string>
  wait(const std::string &key, std::chrono::steady_clock::time_point deadline);

  /// For libraries that want a c10d store: keys below `purpose`.
  c10::intrusive_ptr<c10d::Store> under(const std::string &purpose) const;
  /// Whether the store ends with this process.
  bool isServedHere() const { return servedHere; }

private:
  c10::intrusive_ptr<c10d::Store> base;
  const std::string prefix;
  const bool servedHere;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_STORE_H
