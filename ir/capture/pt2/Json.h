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

#include "llvm/Support/JSON.h"

#include <string>

namespace fsdp::capture::json {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

[[noreturn]] inline void fail(llvm::StringRef what) {
  throw Error(ErrorId::ArchiveDamaged,
              "the model's description (JSON) is not understood: expected " +
                  what.str());
}

/// The value of `text`, or an error: text that is not JSON, or nested so deeply
/// that reading it, which recurs, would use up the stack.
llvm::Expected<Value> parse(llvm::StringRef text);

inline const Object &asObject(const Value &value) {
  if (const Object *object = value.getAsObject())
    return *object;
  fail("an object");
}

inline const Array &asArray(const Value &value) {
  if (const Array *array = value.getAsArray())
    return *array;
  fail("a list");
}

inline int64_t asInt(const Value &value) {
  if (std::optional<int64_t> number = value.getAsInteger())
    return *number;
  fail("an integer");
}

inline bool asBool(const Value &value) {
  if (std::optional<bool> flag = value.getAsBoolean())
    return *flag;
  fail("true or false");
}

inline std::string asString(const Value &value) {
  if (std::optional<llvm::StringRef> text = value.getAsString())
    return text->str();
  fail("a string");
}

inline const Value &get(const Object &object, llvm::StringRef key) {
  if (const Value *value = object.get(key))
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
