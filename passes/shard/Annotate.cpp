//===- Annotate.cpp - Settings for a program without a config ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"

#include "mlir/AsmParser/AsmParser.h"

#include <cstring>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_ANNOTATE
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct Annotate final : fsdp::impl::AnnotateBase<Annotate> {
  using Base::Base;

  void runOnOperation() override {
    for (StringRef rest = StringRef(with).trim(); !rest.empty();) {
      size_t length = 0;
      Attribute setting = parseAttribute(("#fsdp." + rest).str(), &getContext(),
                                         Type(), &length);
      if (!setting) {
        getOperation().emitError("expected settings such as "
                                 "'with={step<micro_batches = 4>}', found '")
            << rest << "'";
        return signalPassFailure();
      }
      // The verifier of the module, which runs next, knows which are settings.
      getOperation()->setAttr(setting.getAbstractAttribute().getName(),
                              setting);
      rest = rest.drop_front(length - strlen("#fsdp.")).ltrim(", ");
    }
  }
};

} // namespace
