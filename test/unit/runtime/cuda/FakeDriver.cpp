//===- FakeDriver.cpp - Stands for CUDA's driver --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeDriver.h"

#include "SimulatedStreams.h"
#include "kernels/GpuCode.h"
#include "kernels/Loader.h"
#include "plan/DType.h"
#include "plan/Kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <stdexcept>
#include <utility>

using namespace fsdp;
using namespace fsdp::test;
using driver::Result;

namespace {

/// What a text that was taught computes.
struct Taught {
  plan::KernelProgramT program;
  std::vector<PtxLaunch> launches;
};

} // namespace

// The driver's opaque types.
struct CUfunc_st {
  CUmod_st *module;
  std::string name;
  size_t parameters;
  unsigned threads; ///< that it was made for, at most
};

struct CUmod_st {
  std::string ptx;
  std::shared_ptr<const Taught> taught;
  std::map<std::string, CUfunc_st> functions;
};

namespace {

struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Taught>> taught; ///< by PTX
  std::vector<std::unique_ptr<CUmod_st>> modules;
  std::function<void(const FakeLaunch &)> executor;
  std::optional<Result> failure;
  uint64_t loads = 0, launches = 0;
};

State &state() {
  static State only;
  return only;
}

thread_local int rehearsals = 0;
thread_local std::vector<std::function<void()>> *noted = nullptr;

/// The entries of a module's text, as a driver finds them.
void findEntries(CUmod_st &module) {
  static const std::regex entry(
      R"(\.entry\s+(\w+)\s*\(([^)]*)\)\s*(?:\.maxntid\s+(\d+))?)");
  for (std::sregex_iterator at(module.ptx.begin(), module.ptx.end(), entry),
       end;
       at != end; ++at) {
    std::string parameters = (*at)[2];
    size_t count = 0;
    for (size_t from = parameters.find(".param"); from != std::string::npos;
         from = parameters.find(".param", from + 1))
      ++count;
    unsigned threads =
        (*at)[3].matched ? unsigned(std::stoul((*at)[3])) : 1024u;
    module.functions[(*at)[1]] = {&module, (*at)[1], count, threads};
  }
}

Result getErrorName(Result result, const char **name) {
  *name = result == Result::invalidPtx       ? "CUDA_ERROR_INVALID_PTX"
          : result == Result::illegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == Result::captureUnsupported
              ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
              : "CUDA_ERROR_OTHER";
  return Result::success;
}

Result getErrorString(Result result, const char **text) {
  *text = result == Result::invalidPtx ? "a PTX JIT compilation failed"
          : result == Result::captureUnsupported
              ? "operation not permitted when stream is capturing"
              : "an error";
  return Result::success;
}

Result loadModule(driver::Module *module, const void *image, unsigned count,
                  driver::JitOption *options, void **values) {
  if (!module || !image || (count && (!options || !values)))
    return Result::invalidValue;
  SimulatedDevice *device = SimulatedDevice::used();
  if (!device)
    return Result::invalidContext;
  if (device->isCapturing())
    return Result::captureUnsupported;
  State &all = state();
  std::lock_guard lock(all.mutex);
  auto made = std::make_unique<CUmod_st>();
  made->ptx = static_cast<const char *>(image);
  auto found = all.taught.find(made->ptx);
  if (found == all.taught.end()) {
    for (unsigned i = 0; i + 1 < count; ++i)
      if (options[i] == driver::JitOption::errorLog &&
          options[i + 1] == driver::JitOption::errorLogBytes)
        std::snprintf(static_cast<char *>(values[i]),
                      reinterpret_cast<size_t>(values[i + 1]),
                      "ptxas fatal : nobody taught this text");
    return Result::invalidPtx;
  }
  made->taught = found->second;
  findEntries(*made);
  ++all.loads;
  *module = made.get();
  all.modules.push_back(std::move(made));
  return Result::success;
}

Result getFunction(driver::Function *function, driver::Module module,
                   const char *name) {
  if (!function || !module || !name)
    return Result::invalidValue;
  if (!SimulatedDevice::used())
    return Result::invalidContext;
  auto found = module->functions.find(name);
  if (found == module->functions.end())
    return Result::notFound;
  *function = &found->second;
  return Result::success;
}

/// One argument of an entry: what it is, and which bytes are touched there.
struct Touched {
  uint64_t bytes, alignment;
  bool isWritten, isScratch;
};

std::vector<Touched> listTouched(const Taught &taught,
                                 const PtxLaunch &launch) {
  const plan::KernelProgramT &program = taught.program;
  auto partial = [&](size_t operand, bool isWritten) {
    return Touched{taught.launches.front().partialRows *
                       program.operands[operand]->columns * sizeof(float),
                   sizeof(float), isWritten, true};
  };
  auto whole = [&](size_t operand) {
    uint64_t size = dtypeBytes(program.operands[operand]->dtype);
    return Touched{extentOf(program, operand) * size, size,
                   program.operands[operand]->written != -1, false};
  };
  if (launch.entry.starts_with("sum_")) {
    size_t operand = std::stoul(launch.entry.substr(4));
    return {partial(operand, false), whole(operand)};
  }
  std::vector<Touched> all;
  for (size_t i = 0; i < program.operands.size(); ++i)
    all.push_back(takesRowSum(program, i) ? partial(i, true) : whole(i));
  if (launch.entry == "kernel_aligned")
    for (Touched &each : all)
      each.alignment = 16;
  return all;
}

/// What a GPU would fail of, later, in words.
void checkArguments(const FakeLaunch &launched, const SimulatedDevice &device,
                    const std::vector<Touched> &touched) {
  auto fail = [&](size_t i, const std::string &what) {
    throw std::logic_error("kernel '" + launched.program.name + "', entry '" +
                           launched.launch.entry + "', argument " +
                           std::to_string(i) + " " + what);
  };
  for (size_t i = 0; i < touched.size(); ++i) {
    if (reinterpret_cast<uintptr_t>(launched.arguments[i]) %
        touched[i].alignment)
      fail(i, "is not aligned");
    // What observed calls take is beside the device's arenas.
    bool isElsewhere = touched[i].isScratch && rehearsals > 0;
    if (!isElsewhere &&
        !device.reaches(launched.arguments[i], touched[i].bytes))
      fail(i, "is no memory of the device");
  }
}

Result launchKernel(driver::Function function, unsigned gridX, unsigned gridY,
                    unsigned gridZ, unsigned blockX, unsigned blockY,
                    unsigned blockZ, unsigned sharedBytes, StreamHandle stream,
                    void **parameters, void **extra) {
  State &all = state();
  SimulatedDevice *device = SimulatedDevice::used();
  if (!device)
    return Result::invalidContext;
  if (!function || !gridX || !gridY || !gridZ || gridX > 0x7fffffff ||
      gridY > 0xffff || gridZ > 0xffff || !blockX || !blockY || !blockZ ||
      uint64_t(blockX) * blockY * blockZ > 1024 || sharedBytes > 48 << 10 ||
      (!parameters && !extra) || (parameters && extra))
    return Result::invalidValue;
  if (uint64_t(blockX) * blockY * blockZ > function->threads)
    return Result::invalidValue;
  if (!device->has(stream))
    return Result::invalidHandle;
  const CUmod_st &module = *function->module;
  std::function<void(const FakeLaunch &)> executor;
  {
    std::lock_guard lock(all.mutex);
    if (std::optional<Result> failure = std::exchange(all.failure, {}))
      return *failure;
    ++all.launches;
    executor = all.executor ? all.executor : computeOnHost;
  }
  const Taught &taught = *module.taught;
  auto launch =
      std::ranges::find(taught.launches, function->name, &PtxLaunch::entry);
  if (launch == taught.launches.end() || gridX != launch->blocks ||
      gridY * gridZ * blockY * blockZ != 1 || blockX != launch->threads)
    throw std::logic_error("'" + function->name +
                           "' is launched by other numbers than its code's");
  std::vector<Touched> touched = listTouched(taught, *launch);
  if (touched.size() != function->parameters)
    throw std::logic_error("'" + function->name +
                           "' has other parameters than its program");
  // Copied when the call is made, as the driver does.
  FakeLaunch launched{taught.program, module.ptx, *launch, {}};
  for (size_t i = 0; i < function->parameters; ++i)
    launched.arguments.push_back(*static_cast<void **>(parameters[i]));
  checkArguments(launched, *device, touched);
  if (rehearsals > 0) {
    executor(launched);
    return Result::success;
  }
  std::vector<ByteUse> uses, scratch;
  const Issuer *issuer = SimulatedDevice::issuer();
  for (size_t i = 0; i < touched.size(); ++i) {
    const void *at = launched.arguments[i];
    if (touched[i].isScratch)
      scratch.push_back({at, touched[i].bytes, touched[i].isWritten,
                         (issuer ? issuer->what : taught.program.name) +
                             ", of its temporaries,"});
    else if (touched[i].bytes > 0)
      uses.push_back(
          {at, touched[i].bytes, touched[i].isWritten, device->describe(at)});
  }
  auto put = [=] {
    device->putKernel(
        stream, [executor, launched] { executor(launched); }, uses, scratch);
  };
  noted ? noted->push_back(put) : put();
  return Result::success;
}

} // namespace

const driver::Functions &FakeDriver::functions() {
  static constexpr driver::Functions all = {
      getErrorName, getErrorString, loadModule, getFunction, launchKernel};
  return all;
}

void FakeDriver::teach(const plan::KernelProgramT &program, int capability) {
  std::shared_ptr<const GpuCode> code = makeGpuCode(program, capability);
  std::lock_guard lock(state().mutex);
  state().taught[code->ptx] =
      std::make_shared<Taught>(Taught{program, code->launches});
}

void FakeDriver::computeBy(std::function<void(const FakeLaunch &)> executor) {
  std::lock_guard lock(state().mutex);
  state().executor = std::move(executor);
}

void FakeDriver::failNextLaunch(Result result) {
  std::lock_guard lock(state().mutex);
  state().failure = result;
}

FakeDriver::Rehearsal::Rehearsal() { ++rehearsals; }
FakeDriver::Rehearsal::~Rehearsal() { --rehearsals; }

FakeDriver::Launches::Launches() { ::noted = &noted; }
FakeDriver::Launches::~Launches() { ::noted = nullptr; }

void FakeDriver::Launches::put() {
  ::noted = nullptr;
  for (const std::function<void()> &each : noted)
    each();
}

uint64_t FakeDriver::loadCount() {
  std::lock_guard lock(state().mutex);
  return state().loads;
}

uint64_t FakeDriver::launchCount() {
  std::lock_guard lock(state().mutex);
  return state().launches;
}

//===----------------------------------------------------------------------===//
// What launches compute
//===----------------------------------------------------------------------===//

/// Rows, in as many parts as the host has; partial rows beyond are zeros.
static void computeRows(const FakeLaunch &launched) {
  const plan::KernelProgramT &program = launched.program;
  std::shared_ptr<const LoadedKernel> kernel = loadKernel(program);
  int64_t rows =
      isFlat(program) ? int64_t(columnsOf(program)) : rowsOf(program);
  const int64_t partials = launched.launch.partialRows;
  if (partials == 0)
    return kernel->run(launched.arguments.data(), 0, rows);
  int64_t each = (rows + kKernelParts - 1) / kKernelParts;
  for (int64_t part = 0; part < partials; ++part) {
    std::vector<void *> operands = launched.arguments;
    for (size_t i = 0; i < operands.size(); ++i)
      if (takesRowSum(program, i)) {
        uint64_t columns = program.operands[i]->columns;
        float *own = static_cast<float *>(operands[i]) + part * columns;
        std::fill_n(own, columns, 0.0f);
        operands[i] = own;
      }
    int64_t begin = std::min(rows, part * each);
    int64_t end = std::min(rows, begin + each);
    if (begin < end)
      kernel->run(operands.data(), begin, end);
  }
}

template <typename Element>
static void addUp(const float *parts, int64_t rows, uint64_t columns,
                  void *to) {
  for (uint64_t c = 0; c < columns; ++c) {
    float sum = 0;
    for (int64_t row = 0; row < rows; ++row)
      sum += parts[row * columns + c];
    static_cast<Element *>(to)[c] = static_cast<Element>(sum);
  }
}

void fsdp::test::computeOnHost(const FakeLaunch &launched) {
  if (!launched.launch.entry.starts_with("sum_"))
    return computeRows(launched);
  const auto &operand =
      *launched.program.operands[std::stoul(launched.launch.entry.substr(4))];
  int64_t rows = readLaunches(launched.ptx)->front().partialRows;
  auto *parts = static_cast<const float *>(launched.arguments[0]);
  void *to = launched.arguments[1];
  switch (operand.dtype) {
  case plan::DType::bf16:
    return addUp<c10::BFloat16>(parts, rows, operand.columns, to);
  case plan::DType::f16:
    return addUp<c10::Half>(parts, rows, operand.columns, to);
  default:
    return addUp<float>(parts, rows, operand.columns, to);
  }
}
