//===- Layers.cpp - A step of unlike layers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/decide/Layers.h"

#include <optional>
#include <random>
#include <string>

using namespace fsdp;
using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

class Builder {
public:
  explicit Builder(const std::vector<Layer> &layers) : layers(layers) {}

  SmallPlan run() {
    PlanT &plan = small.plan;
    plan.locations.clear();
    plan.states.clear();
    for (size_t i = 0; i < layers.size(); ++i) {
      names.push_back("layers." + std::to_string(i));
      plan.locations.push_back(names.back() + " (model.py:1)");
      plan.states.push_back(std::make_unique<StateT>());
      plan.states.back()->bucket = names.back();
    }
    plan.memory->peak = 64 << 20;
    uint32_t loss = addForward();
    addBackward();
    auto result = std::make_unique<BindingT>();
    result->value = loss;
    result->output = "loss";
    small.program().results.push_back(std::move(result));
    return std::move(small);
  }

private:
  void in(size_t layer) {
    small.program().instructions.back()->at = int32_t(layer);
  }
  uint32_t gather(size_t layer) {
    return small.gather(layers[layer].gather, names[layer].c_str());
  }

  uint32_t addForward() {
    uint32_t next = gather(0), loss = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      uint32_t arrived = next;
      if (i + 1 < layers.size())
        next = gather(i + 1);
      small.wait(arrived);
      if (i > 0) {
        small.use(outputs[i - 1]);
        in(i);
      }
      small.kernel(layers[i].forward);
      in(i);
      uint32_t temporary = small.slot(layers[i].temporary);
      small.make(temporary);
      in(i);
      inner.push_back(small.slot(layers[i].inner));
      small.copy(temporary, inner.back());
      in(i);
      outputs.push_back(small.slot(layers[i].output));
      small.make(outputs.back());
      in(i);
      if (i + 1 == layers.size()) {
        loss = small.slot(64);
        small.make(loss);
        in(i);
      }
    }
    return loss;
  }

  void addBackward() {
    std::optional<uint32_t> reduction;
    uint32_t next = gather(layers.size() - 1);
    for (size_t i = layers.size(); i-- > 0;) {
      uint32_t arrived = next;
      if (i > 0)
        next = gather(i - 1);
      small.wait(arrived);
      small.kernel(layers[i].backward);
      in(i);
      for (uint32_t value : {inner[i], outputs[i]}) {
        small.use(value);
        in(i);
      }
      uint32_t started = small.reduce(layers[i].reduce, names[i].c_str());
      if (reduction)
        small.wait(*reduction);
      reduction = started;
    }
    small.wait(*reduction);
  }

  const std::vector<Layer> &layers;
  SmallPlan small;
  std::vector<std::string> names;
  std::vector<uint32_t> outputs, inner;
};

} // namespace

SmallPlan fsdp::test::makeLayers(const std::vector<Layer> &layers) {
  return Builder(layers).run();
}

std::vector<Layer> fsdp::test::drawLayers(size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  auto draw = [&](uint32_t from, uint32_t to) {
    return from + random() % (to - from);
  };
  std::vector<Layer> layers;
  for (size_t i = 0; i < count; ++i)
    layers.push_back({double(draw(1, 6)), double(draw(2, 12)),
                      double(draw(1, 5)), double(draw(1, 5)), draw(1, 9) << 16,
                      draw(1, 65) << 16, draw(1, 33) << 16});
  return layers;
}
