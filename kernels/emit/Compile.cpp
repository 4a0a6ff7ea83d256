//===- Compile.cpp - From programs to code --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Compile.h"

#include "kernels/Failure.h"
#include "kernels/Nest.h"
#include "kernels/emit/CpuKernel.h"
#include "kernels/emit/GpuKernel.h"
#include "kernels/emit/Image.h"
#include "kernels/emit/Target.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>

using namespace fsdp;

/// What O2 does in three times the time, to such code.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::legacy::FunctionPassManager passes(&module);
  passes.add(llvm::createTargetTransformInfoWrapperPass(
      machine.getTargetIRAnalysis()));
  passes.add(llvm::createSROAPass());
  passes.add(llvm::createEarlyCSEPass(true));
  passes.add(llvm::createInstructionCombiningPass());
  passes.add(llvm::createCFGSimplificationPass());
  passes.add(llvm::createLICMPass());
  passes.add(llvm::createEarlyCSEPass(true));
  passes.add(llvm::createDeadCodeEliminationPass());
  passes.doInitialization();
  for (llvm::Function &function : module)
    passes.run(function);
  passes.doFinalization();
}

static std::string generate(llvm::Module &module, llvm::TargetMachine &machine,
                            llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    throw EmitFailure("is for a target that writes no files");
  passes.run(module);
  return {bytes.begin(), bytes.end()};
}

std::string fsdp::compileKernel(const plan::KernelProgramT &program,
                                std::string_view name) {
  bool isText = name.ends_with("/asm");
  if (isText)
    name.remove_suffix(4);
  const EmitTarget *target = findTarget(name);
  if (!target)
    throw EmitFailure("is for '" + std::string(name) +
                      "', for which there is no code");
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(*target);
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  // What a sum over rows is rounded to is the matter of who adds the parts
  // (Kernel.h).
  plan::KernelProgramT added(program);
  for (size_t i = 0; i < added.operands.size() && !target->isGpu; ++i)
    if (takesRowSum(program, i))
      added.operands[i]->dtype = plan::DType::f32;
  Nest nest(added);
  std::vector<PtxLaunch> launches;
  if (target->isGpu)
    launches = emitGpuKernel(module, *target, nest);
  else
    emitCpuKernel(module, *target, nest);
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems))
    throw EmitFailure("became code that is not valid: " + problem);
  optimize(module, *machine);
  isText = isText || target->isGpu;
  std::string file = generate(module, *machine,
                              isText ? llvm::CodeGenFileType::AssemblyFile
                                     : llvm::CodeGenFileType::ObjectFile);
  return isText ? toText(launches) + file
                : makeImage(llvm::MemoryBufferRef(file, "kernel"));
}
