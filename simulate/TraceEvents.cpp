//===- TraceEvents.cpp - What stands in a profile -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/TraceEvents.h"

#include "support/Error.h"
#include "support/Nesting.h"

#include <nlohmann/json.hpp>

using namespace fsdp;
using nlohmann::json;

bool fsdp::readTraceEvents(std::string_view text, const std::string &file,
                           const std::function<void(const json &)> &visit) {
  checkJsonDepth(text, "profile '" + file + "'");
  bool hasEvents = false;
  try {
    json whole = json::parse(
        text, [&](int depth, json::parse_event_t what, json &value) {
          if (what == json::parse_event_t::key && depth == 1)
            hasEvents = hasEvents || value == "traceEvents";
          if (what != json::parse_event_t::object_end || depth != 2)
            return true;
          if (value.contains("ph"))
            visit(value);
          return false;
        });
  } catch (const json::exception &error) {
    throw Error(ErrorId::ProfileInvalid,
                "profile '" + file +
                    "': expected what fsdp-run --profile writes, found: " +
                    error.what());
  }
  return hasEvents;
}

std::string fsdp::readDeviceLabel(const json &event) {
  if (event.value("ph", "") != "M" ||
      event.value("name", "") != "process_labels")
    return "";
  return event.at("args").at("labels").get<std::string>();
}
