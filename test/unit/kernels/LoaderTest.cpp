//===- LoaderTest.cpp - Programs become ready to run ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Loader.h"
#include "kernels/CodeLibrary.h"
#include "kernels/GpuCode.h"
#include "kernels/Library.h"
#include "support/Error.h"
#include "test/unit/kernels/Programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;
namespace fs = std::filesystem;
using plan::DType;
using testing::HasSubstr;

namespace {

/// With a cache folder of its own.
class KernelLoader : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kernels-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    setenv("XDG_CACHE_HOME", name.c_str(), 1);
    unsetenv("FSDP_KERNELS");
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("FSDP_KERNELS");
    fs::remove_all(folder);
  }

  fs::path cache() const { return folder / "fsdp-opt" / "kernels"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    if (fs::exists(cache()))
      for (const auto &entry : fs::directory_iterator(cache()))
        files.push_back(entry.path());
    return files;
  }

  fs::path folder;
};

} // namespace

/// y = x + `number`, over eight columns.
static plan::KernelProgramT adds(double number) {
  ProgramBuilder builder({});
  uint32_t x = builder.load(DType::f32, 8);
  uint32_t c = builder.op(KernelOpKind::constant, {}, {}, number);
  builder.store(DType::f32, builder.op(KernelOpKind::add, {x, c}));
  return std::move(builder.program);
}

static float run(const LoadedKernel &kernel) {
  std::vector<float> x(8, 1), y(8);
  void *operands[] = {x.data(), y.data()};
  kernel.run(operands, 0, 8);
  EXPECT_EQ(y[0], y[7]);
  return y[0];
}

TEST_F(KernelLoader, MakesCodeOnce) {
  auto first = loadKernel(adds(1)), second = loadKernel(adds(1)),
       other = loadKernel(adds(2));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_NE(first->code(), nullptr);
  EXPECT_EQ(run(*first), 2);
  EXPECT_EQ(run(*other), 3);
  EXPECT_EQ(files().size(), 2u);
}

/// The sum of one number that is repeated `columns` times.
static plan::KernelProgramT repeats(int64_t columns) {
  ProgramBuilder builder({});
  uint32_t x = builder.load(DType::f32, 1);
  uint32_t all = builder.op(KernelOpKind::repeat, {x}, {columns});
  builder.store(DType::f32, builder.op(KernelOpKind::sum_columns, {all}));
  return std::move(builder.program);
}

TEST_F(KernelLoader, InterpretsNoRowThatTakesMoreMemoryThanThereMayBe) {
  setenv("FSDP_KERNELS", "interpret", 1);
  float x = 1, sum = 0;
  void *operands[] = {&x, &sum};
  loadKernel(repeats(1000))->run(operands, 0, 1);
  EXPECT_EQ(sum, 1000);
  try {
    loadKernel(repeats(int64_t{1} << 46));
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("for a row when it is interpreted"));
  }
}

/// Of a program that adds 1, with code for `target` that adds 41.
static plan::PlanT bringsCode(std::string_view target) {
  plan::PlanT plan;
  plan.kernels.push_back(std::make_unique<plan::KernelProgramT>(adds(1)));
  auto code = std::make_unique<plan::KernelCodeT>();
  code->target = target;
  code->emitter = kEmitterVersion;
  std::string made = makeCode(serialize(adds(41)), target);
  code->code.assign(made.begin(), made.end());
  plan.kernel_code.push_back(std::move(code));
  return plan;
}

static float runGiven(const plan::PlanT &plan) {
  return run(*loadKernel(*plan.kernels[0], GivenCode(plan, 0)));
}

TEST_F(KernelLoader, RunsWhatIsGivenForThisProcessorAlone) {
  plan::PlanT plan = bringsCode(targetOfProcessor());
  EXPECT_EQ(runGiven(plan), 42);
  EXPECT_TRUE(files().empty());
  // Another's, another build's, and a stranger's, which a reader left out.
  plan.kernel_code[0]->target = "aarch64/other";
  EXPECT_EQ(runGiven(plan), 2);
  plan.kernel_code[0]->target = targetOfProcessor();
  plan.kernel_code[0]->emitter = kEmitterVersion + 1;
  EXPECT_EQ(runGiven(plan), 2);
  plan.kernel_code[0]->emitter = kEmitterVersion;
  plan.kernel_code[0]->code.clear();
  EXPECT_EQ(runGiven(plan), 2);
}

TEST_F(KernelLoader, MakesCodeForAllTargetsAheadOfTime) {
  for (std::string_view target :
       {"x86-64-v3", "x86-64-v4", "aarch64", "sm_80", "sm_90", "sm_100"}) {
    EXPECT_TRUE(isCodeTarget(target));
    EXPECT_FALSE(makeCode(serialize(adds(1)), target).empty());
    EXPECT_THAT(listCodeTargets(), HasSubstr(target));
  }
  EXPECT_FALSE(isCodeTarget("sm_90/exact"));
  plan::PlanT plan = bringsCode("sm_90");
  auto given = makeGpuCode(*plan.kernels[0], 90, GivenCode(plan, 0));
  auto made = makeGpuCode(*plan.kernels[0], 90);
  EXPECT_NE(given->ptx, made->ptx);
  EXPECT_EQ(given->ptx, makeGpuCode(adds(41), 90)->ptx);
}

TEST_F(KernelLoader, FindsWhatWasMadeBefore) {
  loadKernel(adds(3));
  ASSERT_EQ(files().size(), 1u);
  auto written = fs::last_write_time(files()[0]);
  EXPECT_EQ(run(*loadKernel(adds(3))), 4);
  EXPECT_EQ(fs::last_write_time(files()[0]), written);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KernelLoader, DoesNotRunAFileThatWasChanged) {
  loadKernel(adds(4));
  fs::path file = files().at(0);
  // Whatever stands there, the code is made again.
  for (const char *content : {"", "no code", "\xc3"}) {
    std::ofstream(file, std::ios::trunc) << content;
    EXPECT_EQ(run(*loadKernel(adds(4))), 5);
  }
  std::fstream changed(file, std::ios::in | std::ios::out | std::ios::binary);
  changed.put('\xcc'); // a trap in place of the first instruction
  changed.close();
  EXPECT_EQ(run(*loadKernel(adds(4))), 5);
}

TEST_F(KernelLoader, DoesNotRunAnotherProgramsFile) {
  loadKernel(adds(5));
  fs::path of5 = files().at(0);
  loadKernel(adds(6));
  for (const fs::path &file : files())
    if (file != of5)
      fs::copy_file(of5, file, fs::copy_options::overwrite_existing);
  EXPECT_EQ(run(*loadKernel(adds(6))), 7);
}

TEST_F(KernelLoader, DoesWithoutACacheThatOthersReach) {
  fs::create_directories(cache());
  ASSERT_EQ(chmod(cache().c_str(), 0770), 0);
  EXPECT_EQ(run(*loadKernel(adds(7))), 8);
  EXPECT_TRUE(files().empty());
  ASSERT_EQ(chmod(cache().c_str(), 0700), 0);
  EXPECT_EQ(run(*loadKernel(adds(7))), 8);
  EXPECT_EQ(files().size(), 1u);
  // A link is no folder.
  fs::rename(cache(), folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", cache());
  EXPECT_EQ(run(*loadKernel(adds(8))), 9);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KernelLoader, DoesWithoutACacheThatCannotBeMade) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  EXPECT_EQ(run(*loadKernel(adds(9))), 10);
}

TEST_F(KernelLoader, InterpretsWhereItIsAskedTo) {
  setenv("FSDP_KERNELS", "interpret", 1);
  auto kernel = loadKernel(adds(10));
  EXPECT_EQ(kernel->code(), nullptr);
  EXPECT_EQ(run(*kernel), 11);
  EXPECT_TRUE(files().empty());
  setenv("FSDP_KERNELS", "intrepret", 1);
  try {
    loadKernel(adds(10));
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("expected 'interpret'"));
  }
}

TEST_F(KernelLoader, RefusesWhatIsNotSound) {
  plan::KernelProgramT program = adds(1);
  program.operands[0]->columns = 9;
  try {
    loadKernel(program);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("a kernel's program writes what is of "
                                        "another type or size"));
  }
}

/// A GPU's text is kept as a processor's code is, for each generation.
TEST_F(KernelLoader, TextsOfGpusAreKept) {
  std::string text = makeGpuCode(adds(8), 90)->ptx;
  EXPECT_THAT(text, HasSubstr(".target sm_90"));
  ASSERT_EQ(files().size(), 1u);
  fs::path file = files()[0];
  auto written = fs::last_write_time(file);
  EXPECT_EQ(makeGpuCode(adds(8), 90)->ptx, text);
  EXPECT_EQ(fs::last_write_time(file), written);
  // Of a later GPU of the generation it is the same, of another one not.
  auto first = makeGpuCode(adds(8), 90), second = makeGpuCode(adds(8), 91);
  EXPECT_EQ(first, second);
  EXPECT_THAT(makeGpuCode(adds(8), 86)->ptx, HasSubstr(".target sm_80"));
  EXPECT_EQ(files().size(), 2u);
  first = second = nullptr;
  // What was changed is made again.
  std::fstream changed(file, std::ios::in | std::ios::out | std::ios::binary);
  changed.seekp(40);
  changed.put('!');
  changed.close();
  EXPECT_EQ(makeGpuCode(adds(8), 90)->ptx, text);
}

TEST_F(KernelLoader, NoGpuInterprets) {
  setenv("FSDP_KERNELS", "interpret", 1);
  try {
    makeGpuCode(adds(9), 90);
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelsUnusable);
    EXPECT_THAT(error.what(), HasSubstr("the interpreter runs on no GPU"));
  }
}

TEST_F(KernelLoader, ManyThreadsShareWhatOneMakes) {
  std::vector<std::shared_ptr<const LoadedKernel>> kernels(8);
  std::vector<std::thread> threads;
  for (auto &kernel : kernels)
    threads.emplace_back([&kernel] { kernel = loadKernel(adds(11)); });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &kernel : kernels)
    EXPECT_EQ(kernel, kernels[0]);
  EXPECT_EQ(run(*kernels[0]), 12);
}
