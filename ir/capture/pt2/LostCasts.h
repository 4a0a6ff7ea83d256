//===- LostCasts.h - Casts that an export holds as no-ops -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A norm of Hugging Face's computes in float32 and returns its input's dtype:
//
//   hidden = x.to(torch.float32); ...; return self.weight * hidden.to(dtype)
//
// Exported in float32, neither cast does anything: the second has float32 as
// its constant dtype, and since the first returned x itself, whatever reads x
// later, in other modules, too, reads the cast in the file. Where the program
// is to compute in another dtype, both have to mean again what the model says.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_LOSTCASTS_H
#define FSDP_IR_CAPTURE_PT2_LOSTCASTS_H

#include "ir/capture/pt2/Json.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace fsdp::capture {

class Pt2LostCasts {
public:
  /// None.
  Pt2LostCasts() = default;
  explicit Pt2LostCasts(const json::Object &graph);

  /// Whether the value is cast to the dtype of something else, such as a
  /// module's input, rather than to one that the model names.
  bool isToAnothers(const std::string &value) const {
    return toAnothers.contains(value);
  }

  /// The value that an operator of `module` means where it reads `value`: what
  /// was cast, outside of the module that computes with the cast.
  const std::string &resolve(const std::string &value,
                             llvm::StringRef module) const;

private:
  struct Widened {
    std::string source;
    std::string module;
    bool isReadInside = false;
  };
  void noteReaders(const json::Object &node);

  std::unordered_set<std::string> toAnothers;
  std::unordered_map<std::string, Widened> widened; ///< by result
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_LOSTCASTS_H
