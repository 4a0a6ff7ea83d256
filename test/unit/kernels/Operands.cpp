//===- Operands.cpp - Memory of kernels' operands -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/Operands.h"

#include "plan/DType.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fsdp;
using plan::DType;

static constexpr size_t kBetween = 128;

Operands::Operands(const plan::KernelProgramT &program, std::mt19937_64 &random,
                   bool overlays) {
  size_t end = kBetween;
  std::vector<bool> isTaken(program.operands.size());
  for (size_t i = 0; i < program.operands.size(); ++i) {
    // Code adds rows in f32, whatever the sum of all parts is rounded to.
    dtypes.push_back(takesRowSum(program, i) ? DType::f32
                                             : program.operands[i]->dtype);
    size_t size = dtypeBytes(dtypes.back());
    extents.push_back(extentOf(program, i) * size);
    // Aligned to the element and to no more.
    end = (end + size - 1) / size * size + size * (random() % 7);
    places.push_back(end);
    for (size_t read = 0; read < i && overlays; ++read)
      if (!isTaken[read] && random() % 2 && mayOverwrite(program, i, read)) {
        places[i] = places[read];
        isTaken[read] = true;
        break;
      }
    if (places[i] == end)
      end += extents[i] + kBetween;
  }
  bytes.resize(end + kBetween, 0xa5);
  for (size_t i = 0; i < program.operands.size(); ++i)
    if (program.operands[i]->written == -1 || takesRowSum(program, i))
      fill(program, i, random);
}

static uint64_t randomBits(DType dtype, std::mt19937_64 &random) {
  auto number = float(double(random() % 20001) / 1000 - 10);
  if (random() % 16 == 0)
    number *= std::exp2(float(random() % 240) - 120);
  if (random() % 64 == 0) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float special[] = {0,   -0.0f, kInfinity, -kInfinity, 1e-41f, -3e-42f,
                             NAN, 88.7f, -87.4f,    65520,      -65519, 6e-8f};
    number = special[random() % std::size(special)];
  }
  auto bits = std::bit_cast<uint32_t>(number);
  switch (dtype) {
  case DType::f32:
    return bits;
  case DType::bf16:
    return bits >> 16;
  case DType::f16:
    return random() % 16 ? std::bit_cast<uint16_t>(_Float16(number)) : random();
  case DType::bool_:
    return random() % 2 ? 0 : random() % 2 ? 1 : random();
  default:
    return random() % 8 ? random() % 300 - 20 : random();
  }
}

void Operands::fill(const plan::KernelProgramT &program, size_t operand,
                    std::mt19937_64 &random) {
  size_t size = dtypeBytes(dtypes[operand]);
  for (size_t at = 0; at < extents[operand]; at += size) {
    uint64_t bits = randomBits(dtypes[operand], random);
    std::memcpy(&bytes[places[operand] + at], &bits, size);
  }
}

std::vector<void *> Operands::addresses() {
  std::vector<void *> addresses;
  for (size_t i = 0; i < places.size(); ++i)
    addresses.push_back(at(i));
  return addresses;
}

std::optional<std::string> Operands::compare(const Operands &other) const {
  auto number = [](const Operands &of, size_t at) {
    float value;
    std::memcpy(&value, &of.bytes[at], sizeof(value));
    return value;
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] == other.bytes[at])
      continue;
    std::string where = "byte " + std::to_string(at) + ", between operands";
    bool isSame = false;
    for (size_t i = 0; i < places.size(); ++i) {
      if (at < places[i] || at >= places[i] + extents[i])
        continue;
      size_t size = dtypeBytes(dtypes[i]), element = (at - places[i]) / size;
      where = "element " + std::to_string(element) + " of operand " +
              std::to_string(i);
      size_t first = places[i] + element * size;
      if (dtypes[i] == DType::f32) {
        where += ": " + std::to_string(number(*this, first)) + ", " +
                 std::to_string(number(other, first));
        isSame = isSame || (std::isnan(number(*this, first)) &&
                            std::isnan(number(other, first)));
      }
    }
    if (!isSame)
      return where;
  }
  return std::nullopt;
}
