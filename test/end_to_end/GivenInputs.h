//===- GivenInputs.h - A rank's inputs out of a file ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_END_TO_END_GIVENINPUTS_H
#define FSDP_TEST_END_TO_END_GIVENINPUTS_H

#include "plan/DType.h"
#include "runtime/session/Session.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"

#include <algorithm>
#include <string>
#include <vector>

namespace fsdp::test {

/// The shape that some program gives the input: the file's, but for its rows.
inline std::vector<int64_t> shapeOf(const plan::PlanT &plan,
                                    const std::string &name,
                                    const StoredTensor &stored) {
  for (const auto &input : plan.inputs)
    if (input->name == name &&
        std::equal(input->shape.begin() + 1, input->shape.end(),
                   stored.shape.begin() + 1, stored.shape.end()))
      return input->shape;
  throw Error(ErrorId::DataShape, "no program takes '" + name + "'");
}

/// Sets the inputs to the rank's first rows of the file.
inline void setInputs(Session &session, const SafetensorsFile &file) {
  for (const auto &[name, stored] : file.tensors()) {
    std::vector<int64_t> shape = shapeOf(session.plan(), name, stored);
    size_t bytes = dtypeBytes(stored.dtype);
    for (int64_t size : shape)
      bytes *= static_cast<size_t>(size);
    const char *begin =
        stored.data + static_cast<size_t>(session.rank()) * bytes;
    session.setInput(name, shape,
                     std::as_bytes(std::span<const char>(begin, bytes)));
  }
}

} // namespace fsdp::test

#endif // FSDP_TEST_END_TO_END_GIVENINPUTS_H
