//===- Target.cpp - What code is made for ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Target.h"

#include "kernels/Failure.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <algorithm>
#include <iterator>
#include <mutex>

using namespace fsdp;

static constexpr std::string_view kX86 = "x86_64-unknown-linux-gnu",
                                  kGpu = "nvptx64-nvidia-cuda";
static constexpr EmitTarget kTargets[] = {
    {"x86-64-v3", kX86, "x86-64-v3", "", 8, false, false},
    {"x86-64-v4", kX86, "x86-64-v4", "", 16, true, false},
    {"aarch64", "aarch64-unknown-linux-gnu", "generic", "", 4, false, true},
    {"sm_80", kGpu, "sm_80", "+ptx80", 8, false, false, true, false},
    {"sm_90", kGpu, "sm_90", "+ptx80", 8, false, false, true, false},
    {"sm_100", kGpu, "sm_100", "+ptx86", 8, false, false, true, false},
    {"sm_80/exact", kGpu, "sm_80", "+ptx80", 8, false, false, true, true},
    {"sm_90/exact", kGpu, "sm_90", "+ptx80", 8, false, false, true, true},
    {"sm_100/exact", kGpu, "sm_100", "+ptx86", 8, false, false, true, true},
};

const EmitTarget *fsdp::findTarget(std::string_view name) {
  auto found = std::ranges::find(kTargets, name, &EmitTarget::name);
  return found == std::end(kTargets) ? nullptr : found;
}

static void initialize() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

std::unique_ptr<llvm::TargetMachine>
fsdp::makeMachine(const EmitTarget &target) {
  static std::once_flag once;
  std::call_once(once, initialize);
  std::string error;
  llvm::Triple triple{llvm::StringRef(target.triple)};
  const llvm::Target *backEnd =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backEnd)
    throw EmitFailure("is for a target without a back end: " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  bool isArm = triple.isAArch64();
  // Constants lie within a megabyte of AArch64's code, and are found by its
  // address alone.
  return std::unique_ptr<llvm::TargetMachine>(backEnd->createTargetMachine(
      triple, llvm::StringRef(target.processor),
      llvm::StringRef(target.features), options, llvm::Reloc::PIC_,
      isArm ? std::optional(llvm::CodeModel::Tiny) : std::nullopt,
      llvm::CodeGenOptLevel::Default));
}
