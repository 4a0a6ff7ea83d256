//===- Json.h - Reads JSON whose form is known ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accessors that throw fsdp::Error (ArchiveDamaged) where a model file's JSON
// is not as expected.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_JSON_H
#define FSDP_IR_CAPTURE_PT2_JSON_H

#include "support/Error.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <optional>
#include <string>

namespace fsdp::capture::json {

using Value = nlohmann::json;
using Object = Value::object_t;
using Array = Value::array_t;

[[noreturn]] inline void fail(llvm::StringRef what) {
  throw Error(ErrorId::ArchiveDamaged,
              "the model's description (JSON) is not understood: expected " +
                  what.str());
}

/// The value of `text`, or an error: text that is not JSON, or nested so deeply
/// that reading it, which recurs, would use up the stack.
llvm::Expected<Value> parse(llvm::StringRef text);

// What a value is, if it is that.

inline const Object *toObject(const Value &value) {
  return value.get_ptr<const Object *>();
}
inline const Array *toArray(const Value &value) {
  return value.get_ptr<const Array *>();
}
inline std::optional<int64_t> toInt(const Value &value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())))
    return std::nullopt;
  return value.get<int64_t>();
}
inline std::optional<double> toNumber(const Value &value) {
  if (!value.is_number())
    return std::nullopt;
  return value.get<double>();
}
/// Lives as long as the value.
inline std::optional<llvm::StringRef> toString(const Value &value) {
  if (const std::string *text = value.get_ptr<const std::string *>())
    return llvm::StringRef(*text);
  return std::nullopt;
}

// The same, or an error.

inline const Object &asObject(const Value &value) {
  if (const Object *object = toObject(value))
    return *object;
  fail("an object");
}

inline const Array &asArray(const Value &value) {
  if (const Array *array = toArray(value))
    return *array;
  fail("a list");
}

inline int64_t asInt(const Value &value) {
  if (std::optional<int64_t> number = toInt(value))
    return *number;
  fail("an integer");
}

inline bool asBool(const Value &value) {
  if (const bool *flag = value.get_ptr<const bool *>())
    return *flag;
  fail("true or false");
}

inline std::string asString(const Value &value) {
  if (std::optional<llvm::StringRef> text = toString(value))
    return text->str();
  fail("a string");
}

// An object's fields: nothing if there is none, or one of another type.

inline const Value *find(const Object &object, llvm::StringRef key) {
  auto found = object.find(std::string_view(key));
  return found == object.end() ? nullptr : &found->second;
}
inline const Object *findObject(const Object &object, llvm::StringRef key) {
  const Value *value = find(object, key);
  return value ? toObject(*value) : nullptr;
}
inline const Array *findArray(const Object &object, llvm::StringRef key) {
  const Value *value = find(object, key);
  return value ? toArray(*value) : nullptr;
}
inline std::optional<llvm::StringRef> findString(const Object &object,
                                                 llvm::StringRef key) {
  const Value *value = find(object, key);
  return value ? toString(*value) : std::nullopt;
}
inline std::optional<int64_t> findInt(const Object &object,
                                      llvm::StringRef key) {
  const Value *value = find(object, key);
  return value ? toInt(*value) : std::nullopt;
}

// The same, or an error.

inline const Value &get(const Object &object, llvm::StringRef key) {
  if (const Value *value = find(object, key))
    return *value;
  fail("the key '" + key.str() + "'");
}

inline const Object &getObject(const Object &object, llvm::StringRef key) {
  return asObject(get(object, key));
}
inline const Array &getArray(const Object &object, llvm::StringRef key) {
  return asArray(get(object, key));
}
inline int64_t getInt(const Object &object, llvm::StringRef key) {
  return asInt(get(object, key));
}
inline bool getBool(const Object &object, llvm::StringRef key) {
  return asBool(get(object, key));
}
inline std::string getString(const Object &object, llvm::StringRef key) {
  return asString(get(object, key));
}

/// The only entry of a tagged union, {"as_int": 3}.
inline std::pair<llvm::StringRef, const Value &> getUnion(const Value &value) {
  const Object &object = asObject(value);
  if (object.size() != 1)
    fail("a tagged value with one key");
  return {object.begin()->first, object.begin()->second};
}

} // namespace fsdp::capture::json

#endif // FSDP_IR_CAPTURE_PT2_JSON_H
