//===- Interfaces.td - What passes ask of ops --------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_INTERFACES_TD
#define FSDP_INTERFACES_TD

include "mlir/IR/OpBase.td"

class Fsdp_Interface<string name, list<Interface> bases = []>
    : OpInterface<name, bases> {
  let cppNamespace = "::fsdp";
}

def CollectiveOpInterface : Fsdp_Interface<"CollectiveOpInterface"> {
  let description = [{
    A gather or a reduction over a group of ranks, logical or started. Its
    operands are what each rank brings.
  }];
  let methods = [
    InterfaceMethod<"The ranks that take part.", "::fsdp::GroupAttr",
                    "getGroup">,
    InterfaceMethod<"Which of them it is.", "::fsdp::Collective", "getKind">,
    InterfaceMethod<"What it is for.", "::fsdp::Purpose", "getPurpose">,
    InterfaceMethod<"Along which dim the rows of a logical one are moved.",
                    "int64_t", "getRowsDim", (ins), [{}],
                    [{ llvm_unreachable("moves no rows of one tensor"); }]>,
    InterfaceMethod<"In which parts rows lie; null: in one.",
                    "::fsdp::PartsAttr", "getPartsAttr", (ins), [{}],
                    [{ return {}; }]>,
    InterfaceMethod<[{
        The parameter whose gradient the operand at `index` is; null if it is
        none.
      }], "::mlir::FlatSymbolRefAttr", "getGradientOf",
      (ins "unsigned":$index), [{}], [{ return {}; }]>,
  ];
}

def ReductionOpInterface
    : Fsdp_Interface<"ReductionOpInterface", [CollectiveOpInterface]> {
  let description = [{
    A collective that combines what the ranks bring. A sum may divide operands
    by `pre` and results by `post`. A start is one if its collective combines.
  }];
  let extraClassOf = [{ return $_op.isCombining(); }];
  let methods = [
    InterfaceMethod<"Whether it combines.", "bool", "isCombining", (ins), [{}],
                    [{ return true; }]>,
    InterfaceMethod<"How ranks are combined.", "::fsdp::Reduction",
                    "getReduction">,
    InterfaceMethod<"", "void", "setReduction",
                    (ins "::fsdp::Reduction":$reduction)>,
    InterfaceMethod<"By what operands are divided; null: by nothing.",
                    "::mlir::FloatAttr", "getPreAttr">,
    InterfaceMethod<"", "void", "setPreAttr", (ins "::mlir::FloatAttr":$pre)>,
    InterfaceMethod<"By what results are divided; null: by nothing.",
                    "::mlir::FloatAttr", "getPostAttr">,
    InterfaceMethod<"", "void", "setPostAttr", (ins "::mlir::FloatAttr":$post)>,
  ];
  let extraSharedClassDeclaration = [{
    /// By how much the reduction scales what all ranks bring alike.
    double getScale() {
      double scale = $_op.getReduction() == ::fsdp::Reduction::Avg
                         ? 1
                         : double($_op.getGroup().getSize());
      for (::mlir::FloatAttr divisor : {$_op.getPreAttr(), $_op.getPostAttr()})
        if (divisor)
          scale /= divisor.getValueAsDouble();
      return scale;
    }
  }];
}

def StartOpInterface : Fsdp_Interface<"StartOpInterface"> {
  let description = [{
    Begins the transfer of a bucket's members, one for each operand: among ranks,
    or between a rank's memories. Its one result promises as many tensors.
  }];
  let methods = [
    InterfaceMethod<"What is moved.", "::mlir::OperandRange", "getInputs">,
    InterfaceMethod<"What is promised.",
                    "::mlir::TypedValue<::fsdp::FutureType>", "getFuture">,
    InterfaceMethod<"On which stream.", "::fsdp::Stream", "getStream">,
    InterfaceMethod<"The bucket's name; null if it has none.",
                    "::mlir::StringAttr", "getBucketAttr">,
    InterfaceMethod<[{
        Along which dims rows are gathered or scattered, one for each operand;
        null if no rows are moved.
      }], "::mlir::DenseI64ArrayAttr", "getDimsAttr", (ins), [{}],
      [{ return {}; }]>,
    InterfaceMethod<"", "void", "setDimsAttr",
      (ins "::mlir::DenseI64ArrayAttr":$dims), [{}],
      [{ llvm_unreachable("moves no rows"); }]>,
    InterfaceMethod<"Whether the promised tensors take the operands' places.",
      "bool", "isInPlace", (ins), [{}], [{ return !$_op.getDimsAttr(); }]>,
  ];
  let extraClassDeclaration = [{
    /// The ranks that take part; null if it is this one alone.
    ::fsdp::GroupAttr getGroup() {
      auto collective = ::llvm::dyn_cast<::fsdp::CollectiveOpInterface>(
          this->getOperation());
      return collective ? collective.getGroup() : ::fsdp::GroupAttr();
    }
    /// The parameter whose gradient the operand at `index` is; null if it is
    /// none that ranks combine.
    ::mlir::FlatSymbolRefAttr getGradientOf(unsigned index) {
      auto collective = ::llvm::dyn_cast<::fsdp::CollectiveOpInterface>(
          this->getOperation());
      return collective ? collective.getGradientOf(index)
                        : ::mlir::FlatSymbolRefAttr();
    }
  }];
  let extraSharedClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getPromised() {
      return $_op.getFuture().getType().getTensors();
    }
  }];
}

def ForwardingOpInterface : Fsdp_Interface<"ForwardingOpInterface"> {
  let description = [{
    An op that is the identity once there is one rank and one micro-batch:
    erasing the sharding replaces its results by what it forwards.
  }];
  let methods = [
    InterfaceMethod<[{
        What a result stands for; null if that is not known, as in a program
        that does not verify.
      }], "::mlir::Value", "getForwarded", (ins "::mlir::OpResult":$result),
      [{}], [{ return $_op->getOperand(0); }]>,
  ];
}

def AliasOpInterface : Fsdp_Interface<"AliasOpInterface"> {
  let description = [{
    An op whose one result is another name for its operand's memory, or for a
    part of it. At run time nothing happens.
  }];
  let methods = [
    InterfaceMethod<"The operand.", "::mlir::Value", "getAliased", (ins), [{}],
                    [{ return $_op->getOperand(0); }]>,
  ];
}

#endif // FSDP_INTERFACES_TD
