//===- UpdateNumbers.cpp - What updates on a device are to compute --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/cuda/KernelNumbers.h"

#include "runtime/cuda/UpdateTables.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// Tables of an update among what a test makes.
class TableMemory final : public Memory {
public:
  explicit TableMemory(KernelMemory &kernels) : kernels(kernels) {}
  bool isHost() const override { return false; }
  char *map(uint64_t bytes) override { return kernels.make(bytes); }
  void unmap(char *, uint64_t) noexcept override {}
  void clear(char *, uint64_t) override { FAIL(); }
  void write(char *to, const void *from, uint64_t bytes) override {
    kernels.write(to, from, bytes);
  }
  void read(void *to, const char *from, uint64_t bytes) override {
    kernels.read(to, from, bytes);
  }
  void fill(char *, unsigned char, uint64_t) override { FAIL(); }

private:
  KernelMemory &kernels;
};

/// The device's copy of a tensor, which only knows where it is.
class Copy {
public:
  Copy(KernelMemory &memory, at::Tensor host, uint64_t skew)
      : memory(memory), host(std::move(host)) {
    bytes = this->host.storage().nbytes();
    place = memory.make(bytes, skew);
    memory.write(place, this->host.storage().data(), bytes);
    there = at::from_blob(place, this->host.sizes(), this->host.strides(),
                          this->host.options());
  }

  /// That the device has what the host's tensor has now. NaNs are NaNs.
  void expectTheHosts(const std::string &what) const {
    at::Tensor found =
        at::empty_strided(host.sizes(), host.strides(), host.options());
    ASSERT_EQ(found.storage().nbytes(), bytes);
    memory.read(found.storage().mutable_data(), place, bytes);
    at::Tensor mine = host, theirs = found;
    if (host.scalar_type() == at::kFloat8_e4m3fn) {
      mine = mine.view(at::kByte);
      theirs = theirs.view(at::kByte);
    }
    at::Tensor differ =
        (mine != theirs)
            .logical_and(
                mine.isnan().logical_and(theirs.isnan()).logical_not());
    if (!differ.any().item<bool>())
      return;
    auto at = differ.flatten().nonzero()[0].item<int64_t>();
    ADD_FAILURE() << what << ": " << differ.sum().item<int64_t>()
                  << " elements differ, the first one is " << at << ": "
                  << theirs.flatten()[at].item<double>() << ", expected "
                  << mine.flatten()[at].item<double>();
  }

  at::Tensor there;

private:
  KernelMemory &memory;
  at::Tensor host;
  uint64_t bytes;
  char *place;
};

struct Case {
  OptimizerKind kind;
  OptimizerNumbers numbers;
  at::ScalarType param, moments;
  int64_t elements;
  uint64_t skew = 0;
  bool isRounded = false, shares = false, isTransposed = false;

  std::string text() const {
    return std::string(getFacts(kind).name) + " of " + c10::toString(param) +
           ", moments " + c10::toString(moments) + ", " +
           std::to_string(elements) + " elements, skew " +
           std::to_string(skew) + (isRounded ? ", rounded" : "") +
           (shares ? ", shared" : "") + (isTransposed ? ", transposed" : "");
  }
};

/// Numbers over many decades, with all that is special among them.
at::Tensor makeNumbers(int64_t count, uint64_t seed, bool withSpecial) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  at::Tensor numbers = at::randn({count}, generator) *
                       at::pow(10.0, at::rand({count}, generator) * -9);
  numbers.slice(0, 0, count, 97).zero_();
  numbers.slice(0, 5, count, 101).fill_(1e-42);
  // A block of zeros.
  if (count > 1024)
    numbers.slice(0, 512, 768).zero_();
  if (withSpecial && count > 2000) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    numbers[1300] = std::numeric_limits<float>::quiet_NaN();
    numbers[1601] = kInfinity;
    numbers[1900] = -kInfinity;
  }
  return numbers;
}

at::Tensor zeros(int64_t count, at::ScalarType type) {
  if (c10::elementSize(type) != 1)
    return at::zeros({count}, type);
  at::Tensor bytes = at::zeros({count}, at::kByte);
  return type == at::kByte ? bytes : bytes.view(type);
}

/// Elements that a rank has of a model's tensor that is cut on its second dim:
/// rows of 37 out of rows of 61.
std::vector<ElementRun> makeRuns(int64_t elements) {
  std::vector<ElementRun> runs;
  for (int64_t local = 0; local < elements; local += 37)
    runs.push_back({local, local / 37 * 61 + 24,
                    std::min<int64_t>(37, elements - local), 0xABCD});
  return runs;
}

PreparedUpdate makeUpdate(const Case &each, int64_t step) {
  PreparedUpdate update;
  update.rule = {each.kind, each.numbers};
  update.lr = at::full({}, 3e-3, at::kDouble);
  update.step = at::full({}, static_cast<double>(step), at::kFloat);
  update.gradScale = at::full({}, step == 1 ? 1.0 : 8.0, at::kFloat);
  update.foundInf = at::zeros({}, at::kFloat);
  if (each.isRounded)
    update.seed = 12345;
  UpdatedTensor tensor;
  int64_t count = each.elements;
  tensor.param = makeNumbers(count, 1, false).to(each.param);
  if (each.isTransposed)
    tensor.param = tensor.param.view({count / 5, 5});
  if (each.shares || each.isRounded)
    tensor.runs = makeRuns(count);
  int64_t blocks =
      (each.shares ? tensor.runs.back().whole + tensor.runs.back().count + 255
                   : count + 255) /
      256;
  size_t moments = getFacts(each.kind).getMoments(each.numbers).size();
  at::Tensor found = at::full({int64_t(moments) * blocks}, 7.0, at::kFloat);
  for (size_t i = 0; i < moments; ++i) {
    tensor.moments.push_back(zeros(count, each.moments));
    if (c10::elementSize(each.moments) == 1)
      tensor.scales.push_back(at::zeros({blocks}, at::kFloat));
    if (each.shares)
      tensor.maxima.push_back(found.narrow(0, int64_t(i) * blocks, blocks));
  }
  if (each.shares)
    update.found = found;
  tensor.cut();
  update.tensors.push_back(std::move(tensor));
  return update;
}

void setGradient(const Case &each, UpdatedTensor &tensor, int64_t step) {
  at::Tensor grad =
      makeNumbers(each.elements, uint64_t(10 + step), step == 3).to(each.param);
  tensor.grad =
      each.isTransposed ? grad.view({5, each.elements / 5}).t() : grad;
}

/// The same with tensors of the device.
struct Copies {
  std::vector<std::pair<std::string, Copy>> all;
  PreparedUpdate update;

  Copies(KernelMemory &memory, const PreparedUpdate &host, uint64_t skew)
      : update(host) {
    auto copy = [&](std::string what, at::Tensor &tensor, uint64_t beside) {
      if (!tensor.defined())
        return;
      all.emplace_back(std::move(what), Copy(memory, tensor, beside));
      tensor = all.back().second.there;
    };
    for (at::Tensor *number :
         {&update.lr, &update.step, &update.gradScale, &update.foundInf})
      copy("a number", *number, 0);
    copy("maxima", update.found, 0);
    UpdatedTensor &tensor = update.tensors[0];
    auto beside = [&](const at::Tensor &of) {
      return skew * of.element_size();
    };
    copy("the parameter", tensor.param, beside(tensor.param));
    copy("the gradient", tensor.grad, beside(tensor.grad));
    for (size_t i = 0; i < tensor.moments.size(); ++i) {
      copy("moment " + std::to_string(i), tensor.moments[i],
           beside(tensor.moments[i]));
      if (!tensor.scales.empty())
        copy("scales " + std::to_string(i), tensor.scales[i], 0);
      if (!tensor.maxima.empty())
        tensor.maxima[i] = update.found.narrow(
            0, int64_t(i) * tensor.scales[i].numel(), tensor.scales[i].numel());
    }
  }

  void expectTheHosts() const {
    for (const auto &[what, copy] : all)
      if (what != "the gradient")
        copy.expectTheHosts(what);
  }
};

UpdateNumbers readNumbers(const PreparedUpdate &update) {
  return {update.lr.item<double>(), update.step.item<double>(),
          update.gradScale.item<float>()};
}

void expectTheHostsBits(KernelMemory &memory, const Case &each) {
  SCOPED_TRACE(each.text());
  PreparedUpdate host;
  for (int64_t step = 1; step <= 4; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    PreparedUpdate next = makeUpdate(each, step);
    if (step != 1) { // what the step before left
      next.tensors = host.tensors;
      next.found = host.found;
    }
    host = next;
    UpdatedTensor &tensor = host.tensors[0];
    setGradient(each, tensor, step);
    memory.clear();
    Copies there(memory, host, each.skew);
    TableMemory tables(memory);
    UpdateOnDevice device(there.update, tables);
    UpdatedTensor inOrder = tensor;
    inOrder.grad = tensor.grad.contiguous();
    if (each.shares) {
      host.found.zero_();
      findMaxima(host.rule, readNumbers(host), inOrder);
      findMaximaOnDevice(device.get(), memory.onStream());
      there.expectTheHosts();
    }
    fsdp::update(host.rule, readNumbers(host), inOrder, host.seed);
    updateOnDevice(device.get(), memory.onStream());
    there.expectTheHosts();
  }
}

void expectNoUpdateWhereNumbersOverflow(KernelMemory &memory) {
  Case each{OptimizerKind::adamw, getFacts(OptimizerKind::adamw).getDefaults(),
            at::kBFloat16, at::kByte, 300};
  PreparedUpdate host = makeUpdate(each, 1);
  host.foundInf.fill_(1);
  setGradient(each, host.tensors[0], 1);
  memory.clear();
  Copies there(memory, host, 0);
  TableMemory tables(memory);
  UpdateOnDevice device(there.update, tables);
  updateOnDevice(device.get(), memory.onStream());
  there.expectTheHosts();
}

} // namespace

void fsdp::test::expectTheHostsUpdates(KernelMemory &memory) {
  using Number = OptimizerNumber;
  const OptimizerNumbers adam{{Number::beta1, 0.9},
                              {Number::beta2, 0.95},
                              {Number::eps, 1e-8},
                              {Number::weight_decay, 0.1}},
      sgd{{Number::momentum, 0.9},
          {Number::weight_decay, 0.01},
          {Number::nesterov, 1}},
      plain{{Number::weight_decay, 0.01}};
  constexpr auto kAdamW = OptimizerKind::adamw, kAdam = OptimizerKind::adam,
                 kSgd = OptimizerKind::sgd;
  constexpr auto kF32 = at::kFloat, kBf16 = at::kBFloat16, kF16 = at::kHalf,
                 kCodes = at::kByte, kFloat8 = at::kFloat8_e4m3fn;
  for (auto moments : {kF32, kBf16, kCodes, kFloat8})
    for (auto param : {kF32, kBf16, kF16}) {
      expectTheHostsBits(memory, {kAdamW, adam, param, moments, 2345});
      expectTheHostsBits(memory, {kAdam, adam, param, moments, 257, 1});
      expectTheHostsBits(memory, {kSgd, sgd, param, moments, 2304, 1});
    }
  for (auto moments : {kF32, kCodes}) {
    for (int64_t elements : {1, 255, 256})
      expectTheHostsBits(memory, {kAdamW, adam, kBf16, moments, elements});
    expectTheHostsBits(memory, {.kind = kAdamW,
                                .numbers = adam,
                                .param = kBf16,
                                .moments = moments,
                                .elements = 2345,
                                .isRounded = true});
    expectTheHostsBits(memory, {.kind = kSgd,
                                .numbers = sgd,
                                .param = kF32,
                                .moments = moments,
                                .elements = 2500,
                                .isTransposed = true});
  }
  for (auto moments : {kCodes, kFloat8})
    expectTheHostsBits(memory, {.kind = kAdamW,
                                .numbers = adam,
                                .param = kBf16,
                                .moments = moments,
                                .elements = 2345,
                                .isRounded = true,
                                .shares = true});
  expectTheHostsBits(memory, {kSgd, plain, kBf16, kBf16, 1000});
  expectTheHostsBits(memory, {.kind = kSgd,
                              .numbers = plain,
                              .param = kBf16,
                              .moments = kBf16,
                              .elements = 1000,
                              .isRounded = true});
  expectNoUpdateWhereNumbersOverflow(memory);
}
