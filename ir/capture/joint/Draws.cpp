//===- Draws.cpp - Random operators in terms of draws ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions run below autograd: a derivative that LibTorch has for the random
// operator stays in force, and what it saves, a mask or noise, is the draw's
// result. They call functional operators only, none that decomposes above
// autograd, since each call is recorded as it is.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/joint/DrawCall.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/add.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/le.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/slice.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <c10/core/DefaultDtype.h>

#include <cmath>
#include <limits>
#include <unordered_map>

using namespace fsdp::capture;
using at::Tensor;
using Stack = torch::jit::Stack;

namespace {

using Results = std::vector<Tensor>;
using Definition = Results (*)(const DrawCall &);

c10::ScalarType defaultDtype() {
  return c10::get_default_dtype_as_scalartype();
}

Tensor castTo(const Tensor &tensor, c10::ScalarType dtype) {
  return tensor.scalar_type() == dtype
             ? tensor
             : at::_to_copy(tensor, tensor.options().dtype(dtype));
}

Tensor contiguousCopy(const Tensor &tensor) {
  return tensor.is_contiguous()
             ? tensor
             : at::clone(tensor, c10::MemoryFormat::Contiguous);
}

/// Half precision is too coarse for sums of probabilities.
c10::ScalarType wide(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Double ? dtype : c10::ScalarType::Float;
}

//===----------------------------------------------------------------------===//
// Uniform, normal and others that fill a tensor
//===----------------------------------------------------------------------===//

Results rand(const DrawCall &call) {
  return {call.drawParts("uniform", call.sized(defaultDtype()), 0, 1)};
}
Results randLike(const DrawCall &call) {
  return {call.drawParts("uniform", call.likeSelf(), 0, 1)};
}
Results uniform(const DrawCall &call) {
  return {call.drawParts("uniform", call.likeSelf(), call.number("from"),
                         call.number("to"))};
}

/// Real and imaginary part have half of the variance each.
Tensor drawNormal(const DrawCall &call, const DrawType &type, double mean,
                  double deviation) {
  TORCH_CHECK(deviation >= 0, "normal expects std >= 0.0, but found std ",
              deviation);
  if (!c10::isComplexType(type.dtype))
    return call.drawParts("normal", type, mean, deviation);
  Tensor noise = call.drawParts("normal", type, 0, deviation * std::sqrt(0.5));
  return mean == 0 ? noise : at::add(noise, mean);
}

Results randn(const DrawCall &call) {
  return {drawNormal(call, call.sized(defaultDtype()), 0, 1)};
}
Results randnLike(const DrawCall &call) {
  return {drawNormal(call, call.likeSelf(), 0, 1)};
}
Results normalOfNumbers(const DrawCall &call) {
  return {drawNormal(
      call, call.has("size") ? call.sized(defaultDtype()) : call.likeSelf(),
      call.number("mean"), call.number("std"))};
}

/// Mean, deviation or both are tensors, which broadcast.
Results normalOfTensors(const DrawCall &call) {
  const c10::IValue &mean = call.get("mean"), &deviation = call.get("std");
  std::vector<int64_t> sizes =
      !mean.isTensor()        ? deviation.toTensor().sizes().vec()
      : !deviation.isTensor() ? mean.toTensor().sizes().vec()
                              : at::infer_size(mean.toTensor().sizes(),
                                               deviation.toTensor().sizes());
  c10::ScalarType dtype =
      (mean.isTensor() ? mean : deviation).toTensor().scalar_type();
  Tensor noise =
      drawNormal(call, {dtype, sizes, contiguousStrides(sizes)}, 0,
                 deviation.isTensor() ? 1 : deviation.toScalar().toDouble());
  if (deviation.isTensor())
    noise = at::mul(noise, castTo(deviation.toTensor(), dtype));
  return {mean.isTensor() ? at::add(noise, mean.toTensor())
                          : at::add(noise, mean.toScalar())};
}

Results exponential(const DrawCall &call) {
  return {call.draw("exponential", call.likeSelf(), {call.number("lambd")})};
}
Results cauchy(const DrawCall &call) {
  return {call.draw("cauchy", call.likeSelf(),
                    {call.number("median"), call.number("sigma")})};
}
Results logNormal(const DrawCall &call) {
  return {call.draw("log_normal", call.likeSelf(),
                    {call.number("mean"), call.number("std")})};
}
Results geometric(const DrawCall &call) {
  return {call.draw("geometric", call.likeSelf(), {call.number("p")})};
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

/// Integers from `low` up to, but not including, `high`.
Tensor drawIntegers(const DrawCall &call, const DrawType &type, int64_t low,
                    int64_t high) {
  TORCH_CHECK(low < high,
              "random_ expects 'from' to be less than 'to', but "
              "found from=",
              low, " >= to=", high);
  return call.draw("integer", type, {}, {low, high - 1});
}

int64_t getLow(const DrawCall &call) {
  return call.has("low") ? call.get("low").toInt() : 0;
}

Results randint(const DrawCall &call) {
  return {drawIntegers(call, call.sized(c10::ScalarType::Long), getLow(call),
                       call.get("high").toInt())};
}
Results randintLike(const DrawCall &call) {
  return {drawIntegers(call, call.likeSelf(), getLow(call),
                       call.get("high").toInt())};
}

/// The greatest integer that `random_()` draws: floating types hold all up to
/// it exactly.
int64_t greatestRandom(c10::ScalarType dtype) {
  switch (dtype) {
  case c10::ScalarType::Bool:
    return 1;
  case c10::ScalarType::Byte:
    return std::numeric_limits<uint8_t>::max();
  case c10::ScalarType::Char:
    return std::numeric_limits<int8_t>::max();
  case c10::ScalarType::Short:
    return std::numeric_limits<int16_t>::max();
  case c10::ScalarType::Int:
    return std::numeric_limits<int32_t>::max();
  case c10::ScalarType::Half:
    return int64_t(1) << std::numeric_limits<c10::Half>::digits;
  case c10::ScalarType::BFloat16:
    return int64_t(1) << std::numeric_limits<c10::BFloat16>::digits;
  case c10::ScalarType::Float:
    return int64_t(1) << std::numeric_limits<float>::digits;
  case c10::ScalarType::Double:
    return int64_t(1) << std::numeric_limits<double>::digits;
  default:
    return std::numeric_limits<int64_t>::max();
  }
}

Results random(const DrawCall &call) {
  DrawType type = call.likeSelf();
  int64_t low = call.has("from") ? call.get("from").toInt() : 0;
  if (call.has("to") && !call.get("to").isNone())
    return {drawIntegers(call, type, low, call.get("to").toInt())};
  // Without an end it is included.
  return {call.draw("integer", type, {}, {low, greatestRandom(type.dtype)})};
}

/// The order of 64 random bits: equal ones are as good as impossible.
Results randperm(const DrawCall &call) {
  int64_t count = call.get("n").toInt();
  TORCH_CHECK(count >= 0, "n must be non-negative, got ", count);
  Tensor bits = call.draw("integer", {c10::ScalarType::Long, {count}, {1}}, {},
                          {std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max()});
  Tensor order = std::get<1>(
      at::sort(bits, /*stable=*/std::optional<bool>(true), /*dim=*/0));
  const c10::IValue &dtype = call.get("dtype");
  return {dtype.isNone() ? order : castTo(order, dtype.toScalarType())};
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

void checkProbability(const char *name, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, name,
              " expects a probability between 0 and 1, but found ", p);
}

/// A probability for each element.
Tensor bernoulliOf(const DrawCall &call, const Tensor &p,
                   const DrawType &type) {
  // As fine as p itself: the comparison must not round.
  DrawType uniform = type;
  uniform.dtype = wide(p.scalar_type());
  Tensor drawn = call.draw("uniform", uniform, {0, 1});
  return castTo(at::lt(drawn, castTo(p, uniform.dtype)), type.dtype);
}

Results bernoulli(const DrawCall &call) {
  if (!call.has("p"))
    return {bernoulliOf(call, call.tensor("self"), call.likeSelf())};
  const c10::IValue &p = call.get("p");
  if (p.isTensor())
    return {bernoulliOf(call, p.toTensor(), call.likeSelf())};
  checkProbability("bernoulli_", p.toDouble());
  return {call.draw("bernoulli", call.likeSelf(), {p.toDouble()})};
}

/// (input * mask / keep, mask), as the kernel computes it.
Results dropout(const DrawCall &call, const Tensor &input, double keep,
                c10::ScalarType maskType) {
  checkProbability("dropout", keep);
  Tensor mask = call.draw("bernoulli", call.like(input, maskType), {keep});
  Tensor kept = at::mul(input, mask);
  return {at::mul(kept, keep == 0 ? 0.0 : 1 / keep), mask};
}

Results nativeDropout(const DrawCall &call) {
  return dropout(call, call.tensor("input"), 1 - call.number("p"),
                 c10::ScalarType::Bool);
}

/// `p` is the probability to keep.
Results fusedDropout(const DrawCall &call) {
  return dropout(call, call.tensor("self"), call.number("p"),
                 c10::ScalarType::Byte);
}

/// (self * noise, noise): negative elements get a random slope, and the mean
/// one outside of training.
Results rrelu(const DrawCall &call) {
  Tensor self = call.tensor("self");
  double lower = call.number("lower"), upper = call.number("upper");
  TORCH_CHECK(lower <= upper, "rrelu expects lower <= upper");
  if (!call.get("training").toBool())
    return {at::leaky_relu(self, (lower + upper) / 2), call.tensor("noise")};
  Tensor slopes =
      call.draw("uniform", call.like(self, self.scalar_type()), {lower, upper});
  Tensor noise = at::where(at::le(self, 0), slopes, at::ones_like(slopes));
  return {at::mul(self, noise), noise};
}

//===----------------------------------------------------------------------===//
// Distributions with a parameter for each element
//===----------------------------------------------------------------------===//

Tensor drawGiven(const DrawCall &call, const char *distribution,
                 std::vector<Tensor> parameters) {
  std::vector<int64_t> sizes = parameters.front().sizes().vec();
  for (const Tensor &parameter : parameters)
    sizes = at::infer_size(sizes, parameter.sizes());
  c10::ScalarType dtype = parameters.front().scalar_type();
  TORCH_CHECK(c10::isFloatingType(dtype), distribution,
              " draws floating-point numbers, not ", dtype);
  for (Tensor &parameter : parameters)
    parameter = contiguousCopy(castTo(parameter, dtype).expand(sizes));
  return call.draw(distribution, {dtype, sizes, contiguousStrides(sizes)}, {},
                   {}, std::move(parameters));
}

Results poisson(const DrawCall &call) {
  return {drawGiven(call, "poisson", {call.tensor("self")})};
}
Results binomial(const DrawCall &call) {
  return {
      drawGiven(call, "binomial", {call.tensor("count"), call.tensor("prob")})};
}
Results standardGamma(const DrawCall &call) {
  return {drawGiven(call, "gamma", {call.tensor("self")})};
}

/// Gammas divided by their sum.
Results dirichlet(const DrawCall &call) {
  Tensor gammas = drawGiven(call, "gamma", {call.tensor("self")});
  Tensor parts =
      at::div(gammas, at::sum(gammas, at::IntArrayRef{-1}, /*keepdim=*/true));
  bool isDouble = gammas.scalar_type() == c10::ScalarType::Double;
  double least = isDouble ? std::numeric_limits<double>::min()
                          : std::numeric_limits<float>::min();
  double step = isDouble ? std::numeric_limits<double>::epsilon()
                         : std::numeric_limits<float>::epsilon();
  // Inside of the open interval: the density is asked for at these points.
  return {at::clamp(parts, least, 1 - step / 2)};
}

/// Without replacement the k greatest of weight / Exp(1); with replacement the
/// inverse of the cumulated weights.
Results multinomial(const DrawCall &call) {
  Tensor weights = call.tensor("self");
  int64_t count = call.get("num_samples").toInt();
  TORCH_CHECK(weights.dim() == 1 || weights.dim() == 2,
              "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(c10::isFloatingType(weights.scalar_type()),
              "multinomial only supports floating-point dtypes for input, "
              "got: ",
              weights.scalar_type());
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  bool isReplaced = call.get("replacement").toBool();
  int64_t categories = weights.size(-1);
  TORCH_CHECK(isReplaced || count <= categories,
              "cannot sample n_sample > prob_dist.size(-1) samples without "
              "replacement");
  weights = castTo(weights, wide(weights.scalar_type()));
  if (!isReplaced || count == 1) {
    Tensor race = at::div(
        weights, call.draw("exponential",
                           call.like(weights, weights.scalar_type()), {1}));
    if (count == 1)
      return {at::argmax(race, -1, /*keepdim=*/true)};
    return {std::get<1>(at::topk(race, count, -1))};
  }
  Tensor sums = contiguousCopy(at::cumsum(weights, -1));
  Tensor total = at::slice(sums, -1, categories - 1, categories);
  std::vector<int64_t> sizes = weights.sizes().vec();
  sizes.back() = count;
  // Below the total also when rounded: uniform draws have no more digits.
  Tensor points = at::mul(
      call.draw("uniform",
                {weights.scalar_type(), sizes, contiguousStrides(sizes)},
                {0, 1}),
      total);
  return {at::searchsorted(sums, points, /*out_int32=*/false, /*right=*/true)};
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// By name and overload, "name" or "name.overload", without "aten::".
const std::unordered_map<std::string_view, Definition> definitions = {
    {"rand", rand},
    {"rand.generator", rand},
    {"rand.names", rand},
    {"rand.generator_with_names", rand},
    {"rand_like", randLike},
    {"rand_like.generator", randLike},
    {"uniform", uniform},
    {"randn", randn},
    {"randn.generator", randn},
    {"randn.names", randn},
    {"randn.generator_with_names", randn},
    {"randn_like", randnLike},
    {"randn_like.generator", randnLike},
    {"normal_functional", normalOfNumbers},
    {"normal.float_float", normalOfNumbers},
    {"normal.Tensor_float", normalOfTensors},
    {"normal.float_Tensor", normalOfTensors},
    {"normal.Tensor_Tensor", normalOfTensors},
    {"exponential", exponential},
    {"cauchy", cauchy},
    {"log_normal", logNormal},
    {"geometric", geometric},
    {"randint", randint},
    {"randint.generator", randint},
    {"randint.low", randint},
    {"randint.low_generator", randint},
    {"randint_like", randintLike},
    {"randint_like.generator", randintLike},
    {"randint_like.low_dtype", randintLike},
    {"randint_like.low_generator_dtype", randintLike},
    {"random", random},
    {"random.to", random},
    {"random.from", random},
    {"randperm", randperm},
    {"randperm.generator", randperm},
    {"bernoulli", bernoulli},
    {"bernoulli.p", bernoulli},
    {"bernoulli.Tensor", bernoulli},
    {"native_dropout", nativeDropout},
    {"_fused_dropout", fusedDropout},
    {"rrelu_with_noise_functional", rrelu},
    {"poisson", poisson},
    {"binomial", binomial},
    {"_standard_gamma", standardGamma},
    {"_sample_dirichlet", dirichlet},
    {"multinomial", multinomial},
};

Definition findDefinition(const c10::OperatorHandle &op) {
  std::string name = op.operator_name().name;
  if (!name.starts_with("aten::"))
    return nullptr;
  if (const std::string &overload = op.operator_name().overload_name;
      !overload.empty())
    name += "." + overload;
  auto it = definitions.find(std::string_view(name).substr(6));
  return it == definitions.end() ? nullptr : it->second;
}

} // namespace

bool fsdp::capture::needsDrawDefinition(const c10::OperatorHandle &op,
                                        const Stack &stack) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded))
    return false;
  const c10::FunctionSchema &schema = op.schema();
  // Some are questions that a drawing operator asks before.
  bool givesTensors = false;
  for (const c10::Argument &result : schema.returns())
    givesTensors |= result.type()->kind() != c10::TypeKind::IntType;
  bool isDropout = schema.name().find("dropout") != std::string::npos;
  size_t base = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string &name = schema.arguments()[i].name();
    const c10::IValue &value = stack[base + i];
    if (((name == "p" && isDropout) || name == "dropout_p" ||
         name == "dropout") &&
        value.isDouble() && value.toDouble() == 0)
      return false;
    // Without training dropout is the identity; rrelu still has a definition.
    if (name == "train" && value.isBool() && !value.toBool())
      return false;
  }
  return givesTensors;
}

bool fsdp::capture::hasDrawDefinition(const c10::OperatorHandle &op) {
  return findDefinition(op) || op.hasKernelForDispatchKey(
                                   c10::DispatchKey::CompositeImplicitAutograd);
}

void fsdp::capture::callDrawDefinition(const c10::OperatorHandle &op,
                                       Stack &stack, const DrawFunction &draw) {
  Definition definition = findDefinition(op);
  TORCH_INTERNAL_ASSERT(definition, op.operator_name(), " has no definition");
  Results results = definition(DrawCall(op, stack, draw));
  torch::jit::drop(stack, op.schema().arguments().size());
  for (Tensor &result : results)
    stack.push_back(std::move(result));
}
