//===- JsonIntegers.h - Integers of a JSON that others wrote ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nlohmann::json converts any number to any type: 1.5 to 1, -1 to 2^64 - 1, and
// 1e30 to what C++ does not define. These take integers that the type holds.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_JSONINTEGERS_H
#define FSDP_SUPPORT_JSONINTEGERS_H

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

namespace fsdp {

/// Throws nlohmann::json::type_error, as `get` does of other types.
template <std::integral T>
T readInteger(const nlohmann::json &json) {
  bool holds =
      json.is_number_unsigned()
          ? std::in_range<T>(json.get<uint64_t>())
          : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (!holds)
    throw nlohmann::json::type_error::create(
        302, "expected an integer of its range, found " + json.dump(), &json);
  return json.get<T>();
}

/// A list of them.
template <std::integral T>
std::vector<T> readIntegers(const nlohmann::json &json) {
  if (!json.is_array())
    throw nlohmann::json::type_error::create(
        302, "expected a list of integers, found " + json.dump(), &json);
  std::vector<T> integers;
  for (const nlohmann::json &each : json)
    integers.push_back(readInteger<T>(each));
  return integers;
}

} // namespace fsdp

#endif // FSDP_SUPPORT_JSONINTEGERS_H
