//===- MakeArtifacts.cpp - Artifacts that were made to do harm ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// make-hostile-artifacts STEP.fsdp FOLDER changes an artifact in one way after
// another, with the hash that fits, and writes FOLDER/NAME.fsdp. For each it
// prints its name and the errors one of which must be told.
//
//===----------------------------------------------------------------------===//

#include "plan/Worlds.h"
#include "support/Error.h"
#include "test/unit/plan/RawArtifact.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace fsdp;
using namespace fsdp::plan;

namespace {

struct Case {
  const char *name;
  const char *errors;
  std::function<void(PlanT &)> change;
};

ProgramT &step(PlanT &plan) { return *plan.programs[0]; }

/// Several plans; said to be for 1 and 2 ranks is what is for 2.
struct WorldsCase {
  const char *name;
  const char *errors;
  std::function<std::string(const std::string &whole, const PlanT &plan)> make;
};

const WorldsCase kWorldsCases[] = {
    {"worlds-of-one", "E061",
     [](const std::string &whole, const PlanT &plan) {
       return test::rawWorlds({{2, whole}}, fingerprintTraining(plan));
     }},
    {"worlds-out-of-order", "E061",
     [](const std::string &whole, const PlanT &plan) {
       return test::rawWorlds({{3, whole}, {2, whole}},
                              fingerprintTraining(plan));
     }},
    {"worlds-of-another-training", "E061",
     [](const std::string &whole, const PlanT &) {
       return test::rawWorlds({{1, whole}, {2, whole}}, std::string(32, '0'));
     }},
    {"worlds-of-another-number", "E061",
     [](const std::string &whole, const PlanT &plan) {
       PlanT other = plan;
       other.mesh.push_back(std::make_unique<AxisT>());
       other.mesh.back()->name = "more";
       other.mesh.back()->size = 2;
       return test::rawWorlds({{1, whole}, {2, test::rawArtifact(other)}},
                              fingerprintTraining(plan));
     }},
    {"worlds-within-worlds", "E060",
     [](const std::string &whole, const PlanT &plan) {
       std::string inner =
           test::rawWorlds({{1, whole}, {2, whole}}, fingerprintTraining(plan));
       return test::rawWorlds({{1, whole}, {2, inner}},
                              fingerprintTraining(plan));
     }},
    {"worlds-with-a-plan-of-an-exabyte", "E061",
     [](const std::string &whole, const PlanT &plan) {
       PlanT other = plan;
       other.memory->peak = uint64_t{1} << 60;
       return test::rawWorlds({{1, whole}, {2, test::rawArtifact(other)}},
                              fingerprintTraining(plan));
     }},
};

/// The n-th call of the step.
CallT &call(PlanT &plan, size_t n = 0) {
  for (auto &instruction : step(plan).instructions)
    if (CallT *call = instruction->body.AsCall(); call && n-- == 0)
      return *call;
  throw std::logic_error("the artifact has no such call");
}

/// The first value that a call makes anew.
ValueT &made(PlanT &plan) {
  for (auto &instruction : step(plan).instructions)
    if (CallT *call = instruction->body.AsCall())
      for (int32_t result : call->results)
        if (result >= 0 &&
            step(plan).values[size_t(result)]->place == Place::slot)
          return *step(plan).values[size_t(result)];
  throw std::logic_error("the artifact makes nothing");
}

class CallBuilder {
public:
  CallBuilder(PlanT &plan, const char *op, const char *overload = "")
      : plan(plan) {
    plan.operators.push_back(std::make_unique<OperatorT>());
    plan.operators.back()->name = op;
    plan.operators.back()->overload = overload;
    call.op = uint32_t(plan.operators.size() - 1);
  }

  int32_t value(std::vector<int64_t> shape, DType dtype,
                std::vector<uint8_t> literal) {
    uint64_t bytes = dtype == DType::i64 ? 8 : 4;
    for (int64_t size : shape)
      bytes *= uint64_t(size);
    auto value = std::make_unique<ValueT>();
    value->shape = std::move(shape);
    value->dtype = dtype;
    if (literal.empty()) {
      value->offset = (plan.memory->peak + 127) / 128 * 128;
      value->bytes = bytes;
      plan.memory->peak = value->offset + bytes;
    } else {
      value->place = Place::literal;
      value->literal = std::move(literal);
      value->literal.resize(bytes);
    }
    step(plan).values.push_back(std::move(value));
    return int32_t(step(plan).values.size() - 1);
  }
  CallBuilder &tensor(std::vector<int64_t> shape, DType dtype = DType::f32,
                      std::vector<uint8_t> literal = {0}) {
    add(ArgKind::tensor).values = {
        value(std::move(shape), dtype, std::move(literal))};
    return *this;
  }
  CallBuilder &operand(int32_t value) {
    add(ArgKind::tensor).values = {value};
    return *this;
  }
  CallBuilder &integers(std::vector<int64_t> list) {
    add(ArgKind::integers).ints = std::move(list);
    return *this;
  }
  CallBuilder &booleans(std::vector<int64_t> list) {
    add(ArgKind::booleans).ints = std::move(list);
    return *this;
  }
  CallBuilder &integer(int64_t number, ArgKind kind = ArgKind::integer) {
    add(kind).ints = {number};
    return *this;
  }
  CallBuilder &text(const char *text) {
    add(ArgKind::text).text = text;
    return *this;
  }
  CallBuilder &none(size_t count = 1) {
    for (; count; --count)
      add(ArgKind::none);
    return *this;
  }
  /// The last: a new tensor, or a view of `base`.
  void result(std::vector<int64_t> shape, int32_t base = -1,
              std::vector<int64_t> strides = {}) {
    int32_t id = value(std::move(shape), DType::f32, {});
    ValueT &made = *step(plan).values[size_t(id)];
    made.strides = std::move(strides);
    if (base >= 0) {
      made.place = Place::view;
      made.base = uint32_t(base);
    }
    call.results = {id};
    auto instruction = std::make_unique<InstructionT>();
    instruction->body.Set(std::move(call));
    auto &list = step(plan).instructions;
    list.insert(list.begin(), std::move(instruction));
  }

private:
  ArgT &add(ArgKind kind) {
    call.args.push_back(std::make_unique<ArgT>());
    call.args.back()->kind = kind;
    return *call.args.back();
  }

  PlanT &plan;
  CallT call;
};

void pool(PlanT &plan, std::vector<int64_t> gradient, uint8_t index) {
  std::vector<uint8_t> places(8, 0);
  places[5] = index; // far beyond the image
  CallBuilder(plan, "aten::max_pool2d_with_indices_backward")
      .tensor(gradient)
      .tensor({1, 4, 4})
      .integers({2, 2})
      .integers({2, 2})
      .integers({0, 0})
      .integers({1, 1})
      .integer(0, ArgKind::boolean)
      .tensor({1, 2, 2}, DType::i64, places)
      .result({1, 4, 4});
}

const Case kCases[] = {
    {"opens-a-file", "E065",
     [](PlanT &plan) {
       CallBuilder(plan, "aten::from_file")
           .text("made-by-the-artifact")
           .integer(1, ArgKind::boolean)
           .integer(1 << 20)
           .none(4)
           .result({1 << 20});
     }},
    {"calls-what-torch-does-not-have", "E065",
     [](PlanT &plan) { plan.operators[0]->name = "aten::none_such"; }},
    {"calls-another-library", "E065",
     [](PlanT &plan) { plan.operators[0]->name = "prim::Print"; }},
    {"writes-in-place", "E065",
     [](PlanT &plan) { plan.operators[0]->name = "aten::zero_"; }},
    {"sets-a-storage", "E065",
     [](PlanT &plan) {
       plan.operators[0]->name = "aten::set";
       plan.operators[0]->overload = "source_Tensor";
     }},
    {"reads-packed-pointers", "E065",
     [](PlanT &plan) {
       plan.operators[0]->name = "aten::fbgemm_linear_fp16_weight";
     }},
    {"indices-beyond-the-image", "E072",
     [](PlanT &plan) { pool(plan, {1, 2, 2}, 1); }},
    {"a-gradient-of-another-shape", "E065",
     [](PlanT &plan) { pool(plan, {1, 2, 3}, 0); }},
    {"moments-of-another-shape", "E065",
     [](PlanT &plan) {
       CallBuilder(plan, "aten::native_layer_norm_backward")
           .tensor({64, 8})
           .tensor({64, 8})
           .integers({8})
           .tensor({1, 1})
           .tensor({1, 1})
           .none(2)
           .booleans({1, 0, 0})
           .result({64, 8});
     }},
    {"segments-of-any-length", "E065",
     [](PlanT &plan) {
       CallBuilder(plan, "aten::_segment_reduce_backward")
           .tensor({2})
           .tensor({2})
           .tensor({4})
           .text("sum")
           .tensor({2}, DType::i64, std::vector<uint8_t>(16, 0x11))
           .none(1)
           .integer(0)
           .none(1)
           .result({4});
     }},
    {"a-view-beyond-its-base", "E061 E072 E073",
     [](PlanT &plan) {
       CallBuilder builder(plan, "aten::as_strided");
       int32_t base = builder.value({64}, DType::f32, {0});
       builder.operand(base).integers({64}).integers({1}).integer(60).result(
           {64}, base);
     }},
    {"a-slot-beyond-the-arena", "E061",
     [](PlanT &plan) { made(plan).offset = plan.memory->peak; }},
    {"a-slot-that-wraps-around", "E061",
     [](PlanT &plan) { made(plan).offset = ~uint64_t{0} - 127; }},
    {"less-room-than-the-shape", "E061",
     [](PlanT &plan) { made(plan).shape = {1 << 20, 1 << 20}; }},
    {"a-negative-stride", "E061",
     [](PlanT &plan) {
       made(plan).strides.assign(made(plan).shape.size(), -1);
     }},
    {"sizes-whose-product-wraps", "E061",
     [](PlanT &plan) { made(plan).shape = {1l << 32, 1l << 32}; }},
    {"more-memory-than-any-machine", "E061",
     [](PlanT &plan) { plan.memory->peak = uint64_t{1} << 60; }},
    {"more-memory-than-this-machine", "E075",
     [](PlanT &plan) { plan.memory->peak = uint64_t{1} << 46; }},
    {"a-state-over-another", "E061",
     [](PlanT &plan) { plan.states[1]->offset = plan.states[0]->offset; }},
    {"a-result-of-a-terabyte", "E072 E073 E075",
     [](PlanT &plan) {
       CallBuilder(plan, "aten::zeros")
           .integers({1l << 40})
           .none(4)
           .result({2});
     }},
    {"another-type-than-the-kernel-gives", "E073",
     [](PlanT &plan) {
       // With a reader, in front of which it is put: what nobody reads is let
       // go, whatever it is.
       auto made = int32_t(step(plan).values.size() + 1);
       CallBuilder(plan, "aten::neg").operand(made).result({1, 2});
       CallBuilder(plan, "aten::zeros").integers({2}).none(4).result({1, 2});
     }},
    {"more-arguments-than-the-schema", "E061",
     [](PlanT &plan) { call(plan).args.push_back(std::make_unique<ArgT>()); }},
    {"an-argument-of-another-kind", "E061 E072",
     [](PlanT &plan) {
       call(plan).args[0] = std::make_unique<ArgT>();
       call(plan).args[0]->kind = ArgKind::text;
     }},
    {"a-value-that-does-not-exist", "E061",
     [](PlanT &plan) { call(plan).results = {1 << 20}; }},
    {"a-result-twice", "E061",
     [](PlanT &plan) {
       auto copy = std::make_unique<InstructionT>();
       copy->body.Set(CallT(call(plan)));
       step(plan).instructions.push_back(std::move(copy));
     }},
    {"a-future-that-nobody-started", "E061",
     [](PlanT &plan) {
       auto wait = std::make_unique<InstructionT>();
       wait->body.Set(WaitT());
       step(plan).instructions.insert(step(plan).instructions.begin(),
                                      std::move(wait));
     }},
    {"a-step-without-end", "E061",
     [](PlanT &plan) {
       plan.training->gradient_accumulation_steps = ~uint32_t{0};
     }},
    {"ranks-without-end", "E061",
     [](PlanT &plan) { plan.mesh[0]->size = ~uint32_t{0}; }},
    {"a-record-beyond-the-model", "E061",
     [](PlanT &plan) {
       for (auto &state : plan.states)
         if (state->source)
           state->source->offset = ~uint64_t{0} - 8;
     }},
    {"a-model-that-is-not-there", "E001",
     [](PlanT &plan) { plan.model->path = "/nowhere/model.pt2"; }},
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make-hostile-artifacts STEP.fsdp FOLDER\n");
    return 2;
  }
  try {
    for (const Case &each : kCases) {
      PlanT plan = PlanFile::read(argv[1]).plan();
      each.change(plan);
      std::filesystem::path path =
          std::filesystem::path(argv[2]) / (std::string(each.name) + ".fsdp");
      std::ofstream(path, std::ios::binary) << test::rawArtifact(plan);
      std::printf("%s %s\n", each.name, each.errors);
    }
    PlanT plan = PlanFile::read(argv[1]).plan();
    for (const WorldsCase &each : kWorldsCases) {
      std::filesystem::path path =
          std::filesystem::path(argv[2]) / (std::string(each.name) + ".fsdp");
      std::ofstream(path, std::ios::binary)
          << each.make(test::rawArtifact(plan), plan);
      std::printf("%s %s\n", each.name, each.errors);
    }
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return 1;
  }
  return 0;
}
