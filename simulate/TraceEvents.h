//===- TraceEvents.h - What stands in a profile ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_TRACEEVENTS_H
#define FSDP_SIMULATE_TRACEEVENTS_H

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace fsdp {

/// Hands the events of a trace of `fsdp-run --profile` to `visit`, one after
/// the other; none is kept, since there are millions. Returns whether there was
/// a list of them. Throws fsdp::Error (ProfileInvalid, which names `file`) if
/// `text` is no such JSON or an event lacks what `visit` asks it for, and
/// (FileImplausible) for lists in lists.
bool readTraceEvents(std::string_view text, const std::string &file,
                     const std::function<void(const nlohmann::json &)> &visit);

/// "cuda:sm_90" of an event that says what a rank was measured on; empty: it is
/// another one. A trace without any is of a host.
std::string readDeviceLabel(const nlohmann::json &event);

} // namespace fsdp

#endif // FSDP_SIMULATE_TRACEEVENTS_H
