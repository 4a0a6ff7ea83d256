//===- Recorder.h - Records operators below autograd ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a Recorder is active on a thread, every functional operator that
// reaches the dispatch key Fake is appended to its graph. The order of keys is
// Autograd, Functionalize, Fake, Meta: what arrives here is differentiated and
// functional, and only its shapes are computed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_RECORDER_H
#define FSDP_IR_CAPTURE_JOINT_RECORDER_H

#include "ir/capture/joint/Draws.h"
#include "ir/capture/joint/JointGraph.h"
#include "support/Error.h"

#include <exception>
#include <functional>
#include <unordered_map>

namespace fsdp::capture {

class Recorder {
public:
  explicit Recorder(JointGraph &graph) : graph(graph) {}
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// Makes the recorder the thread's active one, with the dispatch keys that
  /// lead to it. One at a time.
  class Scope;

  /// Defines a value for `meta`, a meta tensor that no operator made.
  ValueId define(const at::Tensor &meta);

  /// The value that `tensor` holds, which may be wrapped for functionalization;
  /// a real tensor becomes a constant. kNoValue if it is undefined.
  ValueId lookup(const at::Tensor &tensor);

  /// The tensor, without data, that the value was defined for.
  const at::Tensor &getMeta(ValueId value) const { return alive[value]; }

  /// Whether an operator made `meta` in storage of its own, rather than as a
  /// view of what was there.
  bool hasOwnStorage(const at::Tensor &meta) const;

  /// Operators recorded from here on come from `location`, as do the backward
  /// operators of the autograd nodes that are made from here on.
  void setLocation(const Location &location);

  /// Where the operator that is running comes from.
  const Location &currentLocation() const;

  /// What is recorded while the object lives is a cast that mixed precision
  /// puts in, for that reason.
  class CastScope {
  public:
    CastScope(Recorder &recorder, Cast::Cause cause, const std::string &name);
    ~CastScope() { recorder.cast = kNoCast; }
    CastScope(const CastScope &) = delete;
    CastScope &operator=(const CastScope &) = delete;

  private:
    Recorder &recorder;
  };

  /// That the next draw will have.
  int64_t getNextSite() const { return nextSite; }

  /// Throws again what `call` threw last, if it did: an interpreter between it
  /// and the caller may have turned it into an error of its own.
  void rethrowFailure() const;

  /// Throws `error`, which `rethrowFailure` repeats.
  [[noreturn]] void raise(const Error &error);

  /// Called by the dispatcher.
  void call(const c10::OperatorHandle &op, std::vector<c10::IValue> &stack);

private:
  void record(const c10::OperatorHandle &op, std::vector<c10::IValue> &stack);
  /// Whether a call is no node of its own: what it is defined by is recorded,
  /// or it is computed now.
  bool answer(const c10::OperatorHandle &op, std::vector<c10::IValue> &stack);
  Argument recordArgument(const c10::Argument &argument,
                          const c10::IValue &value);
  /// Whether there is a tensor among them.
  bool defineResults(Node &node, at::ArrayRef<c10::IValue> results);
  void checkAllowed(const c10::OperatorHandle &op,
                    const std::vector<c10::IValue> &arguments) const;
  [[noreturn]] void refuse(const c10::OperatorHandle &op,
                           const c10::Error &error) const;
  void recordDefinition(const c10::OperatorHandle &op,
                        const std::function<void()> &define);
  at::Tensor draw(const Draw &draw);
  LocationId currentLocationId() const;
  ValueId addConstant(const at::Tensor &tensor);

  JointGraph &graph;
  std::unordered_map<const c10::TensorImpl *, ValueId> valueOf;
  std::unordered_map<const c10::StorageImpl *, ValueId> firstIn;
  std::vector<at::Tensor> alive; // keeps the keys of both maps unique

  /// Autograd nodes numbered from `sequence` on were made at `location`.
  struct Span {
    uint64_t sequence;
    LocationId location;
  };
  std::vector<Span> spans;
  at::Tensor random; ///< the state of draws, from the first one on
  int64_t nextSite = 0;
  LocationId location = kNoLocation;
  CastId cast = kNoCast;
  std::exception_ptr failure;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_RECORDER_H
