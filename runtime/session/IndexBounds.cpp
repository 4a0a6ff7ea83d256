//===- IndexBounds.cpp - Which inputs are places in tables ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program's inputs are replaced by the numbers of their elements, and what
// moves elements is done to these: an operator that takes indices then sees
// which elements it reads.
//
//===----------------------------------------------------------------------===//

#include "runtime/session/IndexBounds.h"

#include "plan/Operators.h"
#include "runtime/exec/Transfers.h"
#include "support/Error.h"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

using namespace fsdp;
using plan::ArgKind;

/// In the place of elements that no input has.
static constexpr int64_t kNone = -1;
/// Of a value that is followed. A batch of tokens has a thousandth of it.
static constexpr int64_t kMostElements = int64_t(1) << 26;

namespace {

/// Elements of an input, by their numbers.
struct Elements {
  const plan::InputT *input;
  at::Tensor numbers; ///< i64, in the shape of the value
  /// Of a table that so many ranks have equal parts of, the elements count from
  /// this rank's first row on.
  int64_t parts = 1;
};

class Tracer {
public:
  Tracer(const plan::PlanT &plan, const plan::ProgramT &program, int rank)
      : plan(plan), program(program), rank(rank) {}

  using Found =
      std::map<const plan::InputT *,
               std::vector<std::pair<IndexBound, at::Tensor>>>; // and a mask

  void run(Found &to) {
    found = &to;
    for (const auto &binding : program.arguments) {
      if (binding->input < 0)
        continue;
      const plan::InputT *input = plan.inputs[binding->input].get();
      if (input->dtype != plan::DType::i64 && input->dtype != plan::DType::i32)
        continue;
      at::IntArrayRef shape(input->shape);
      if (c10::multiply_integers(shape) > kMostElements)
        continue;
      known[binding->value] = {
          input, at::arange(c10::multiply_integers(shape)).reshape(shape)};
    }
    if (known.empty())
      return;
    for (const auto &instruction : program.instructions) {
      location = instruction->at;
      if (const auto *call = instruction->body.AsCall())
        follow(*call);
      else if (const auto *rows = instruction->body.AsSelectRows())
        follow(*rows);
    }
  }

private:
  const Elements *find(const plan::CallT &call, size_t argument) const {
    if (argument >= call.args.size() ||
        call.args[argument]->kind != ArgKind::tensor)
      return nullptr;
    return find(call.args[argument]->values[0]);
  }
  const Elements *find(int64_t value) const {
    auto it = known.find(static_cast<uint32_t>(value));
    return value < 0 || it == known.end() ? nullptr : &it->second;
  }

  void follow(const plan::SelectRowsT &op) {
    int64_t start = op.starts[groupPosition(*plan.groups[op.group], rank)];
    if (const Elements *from = find(op.input))
      known[op.output] = {
          from->input,
          from->numbers.narrow(op.dim, start,
                               program.values[op.output]->shape[op.dim]),
          from->parts};
    else
      ofRank[op.output] = plan.groups[op.group]->size;
  }

  void follow(const plan::CallT &call) {
    bool isKnown = false;
    for (const auto &arg : call.args)
      for (int32_t value : arg->values)
        isKnown |=
            find(value) != nullptr ||
            (value >= 0 && ofParts.contains(static_cast<uint32_t>(value)));
    if (!isKnown)
      return;
    const std::string &name = plan.operators[call.op]->name;
    CallOperands operands(program, call);
    read(name, call, operands);
    if (const Elements *from = find(call, 0))
      move(name, call, operands, *from);
    if (name == "aten::where")
      choose(call);
  }

  //===--------------------------------------------------------------------===//
  // What takes indices
  //===--------------------------------------------------------------------===//

  void read(const std::string &name, const plan::CallT &call,
            const CallOperands &operands) {
    if (name == "aten::embedding" || name == "aten::_embedding_bag" ||
        name == "aten::_embedding_bag_forward_only") {
      add(name, call, 1, operands.tensor(0), 0);
    } else if (name == "aten::nll_loss_forward" ||
               name == "aten::nll_loss2d_forward") {
      const plan::ValueT *scores = operands.tensor(0);
      add(name, call, 1, scores, scores && scores->shape.size() == 1 ? 0 : 1,
          false, operands.number(4));
    } else if (name == "aten::gather" || name == "aten::index_select" ||
               name == "aten::scatter") {
      if (const std::vector<int64_t> &dim = operands.integers(1); !dim.empty())
        add(name, call, 2, operands.tensor(0), dim[0]);
    } else if (name == "aten::index" && call.args.size() > 1 &&
               call.args[1]->kind == ArgKind::optional_tensors) {
      const std::vector<int32_t> &values = call.args[1]->values;
      for (size_t dim = 0; dim < values.size(); ++dim)
        if (const Elements *from = find(values[dim]))
          add(name, *from, operands.tensor(0), static_cast<int64_t>(dim), true);
    }
  }

  void add(const std::string &name, const plan::CallT &call, size_t argument,
           const plan::ValueT *table, int64_t dim, bool countsFromEnd = false,
           std::optional<double> other = {}) {
    if (const Elements *from = find(call, argument))
      add(name, *from, table, dim, countsFromEnd, other);
  }

  void add(const std::string &name, const Elements &from,
           const plan::ValueT *table, int64_t dim, bool countsFromEnd,
           std::optional<double> other = {}) {
    if (!table)
      return;
    auto dims = static_cast<int64_t>(table->shape.size());
    dim += dim < 0 ? dims : 0;
    if (dim < 0 || dim >= dims)
      return;
    int64_t size = table->shape[static_cast<size_t>(dim)] * from.parts;
    IndexBound bound{countsFromEnd ? -size : 0, size - 1, {}, name, {}};
    if (other)
      bound.other = static_cast<int64_t>(*other);
    if (location >= 0)
      bound.reader += " of " + plan.locations[static_cast<size_t>(location)];
    auto &all = (*found)[from.input];
    auto same = std::ranges::find_if(all, [&](const auto &each) {
      return each.first.least == bound.least &&
             each.first.greatest == bound.greatest &&
             each.first.other == bound.other;
    });
    if (same == all.end()) {
      at::Tensor none = at::zeros(
          {c10::multiply_integers(at::IntArrayRef(from.input->shape))},
          at::kBool);
      same = all.insert(all.end(), {std::move(bound), std::move(none)});
    }
    at::Tensor numbers = from.numbers.flatten();
    same->second.index_fill_(0, numbers.masked_select(numbers.ne(kNone)), true);
  }

  //===--------------------------------------------------------------------===//
  // What moves elements
  //===--------------------------------------------------------------------===//

  void move(const std::string &name, const plan::CallT &call,
            const CallOperands &operands, const Elements &from) {
    if (call.results.size() != 1 || call.results[0] < 0)
      return;
    auto result = static_cast<uint32_t>(call.results[0]);
    at::IntArrayRef shape(program.values[result]->shape);
    if (c10::multiply_integers(shape) > kMostElements)
      return;
    const std::vector<int64_t> &first = operands.integers(1);
    auto number = [&](size_t argument, int64_t otherwise) {
      const std::vector<int64_t> &given = operands.integers(argument);
      return given.empty() ? otherwise : given[0];
    };
    at::Tensor made;
    if (name == "aten::_to_copy" || name == "aten::to" ||
        name == "aten::clone" || name == "aten::alias" ||
        name == "aten::detach" || name == "aten::contiguous") {
      made = from.numbers;
    } else if (name == "aten::view" || name == "aten::_unsafe_view" ||
               name == "aten::reshape" || name == "aten::unsqueeze" ||
               name == "aten::squeeze" || name == "aten::flatten" ||
               name == "aten::unflatten") {
      made = from.numbers.reshape(shape);
    } else if (name == "aten::expand") {
      made = from.numbers.expand(shape);
    } else if (name == "aten::t") {
      made = from.numbers.t();
    } else if (name == "aten::transpose" && !first.empty()) {
      made = from.numbers.transpose(first[0], number(2, 0));
    } else if (name == "aten::permute") {
      made = from.numbers.permute(first);
    } else if (name == "aten::slice" && !first.empty()) {
      made = from.numbers.slice(first[0], number(2, 0),
                                number(3, std::numeric_limits<int64_t>::max()),
                                number(4, 1));
    } else if (name == "aten::select" && !first.empty()) {
      made = from.numbers.select(first[0], number(2, 0));
    } else if (name == "aten::constant_pad_nd") {
      made = at::constant_pad_nd(from.numbers, first, kNone);
    } else if (name == "aten::sub" && call.args.size() > 1 &&
               call.args[1]->kind == ArgKind::tensor) {
      // Of a table in parts, each rank counts from its own first row on.
      auto parts = ofRank.find(static_cast<uint32_t>(call.args[1]->values[0]));
      if (parts != ofRank.end() && from.parts == 1)
        ofParts[result] = {from.input, from.numbers, parts->second};
      return;
    } else {
      return;
    }
    // A number that is no type's own bound may have become another one.
    plan::DType dtype = program.values[result]->dtype;
    if ((dtype == plan::DType::i64 || dtype == plan::DType::i32) &&
        made.sizes() == shape)
      known[result] = {from.input, made, from.parts};
  }

  /// where(is of an own row, place among these, any): the others' are looked up
  /// by other ranks.
  void choose(const plan::CallT &call) {
    if (call.args.size() < 3 || call.args[1]->kind != ArgKind::tensor)
      return;
    auto part = ofParts.find(static_cast<uint32_t>(call.args[1]->values[0]));
    if (part != ofParts.end() && call.results.size() == 1)
      known[static_cast<uint32_t>(call.results[0])] = part->second;
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  const int rank;
  Found *found = nullptr;
  int32_t location = -1; ///< into the plan's locations
  std::unordered_map<uint32_t, Elements> known, ofParts; // by value
  std::unordered_map<uint32_t, int64_t> ofRank; // ranks, by selected value
};

std::vector<std::pair<uint64_t, uint64_t>> toRuns(const at::Tensor &mask) {
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  const auto *isRead = static_cast<const bool *>(mask.const_data_ptr());
  auto count = static_cast<uint64_t>(mask.numel());
  for (uint64_t i = 0; i < count; ++i) {
    if (!isRead[i])
      continue;
    if (runs.empty() || runs.back().first + runs.back().second != i)
      runs.push_back({i, 0});
    ++runs.back().second;
  }
  return runs;
}

/// The first element that is out of range.
template <typename T>
std::optional<uint64_t> findOutside(const T *elements,
                                    const IndexBound &bound) {
  for (auto [first, count] : bound.runs) {
    const T *begin = elements + first, *end = begin + count;
    T least = std::numeric_limits<T>::max();
    T greatest = std::numeric_limits<T>::min();
    for (const T *each = begin; each != end; ++each) {
      least = std::min(least, *each);
      greatest = std::max(greatest, *each);
    }
    if (least >= bound.least && greatest <= bound.greatest)
      continue;
    // It may be the one that counts for nothing.
    for (const T *each = begin; each != end; ++each)
      if ((*each < bound.least || *each > bound.greatest) &&
          *each != bound.other)
        return first + static_cast<uint64_t>(each - begin);
  }
  return std::nullopt;
}

} // namespace

IndexBounds::IndexBounds(const plan::PlanT &plan, int rank) {
  Tracer::Found found;
  for (const auto &program : plan.programs)
    try {
      Tracer(plan, *program, rank).run(found);
    } catch (const c10::Error &) {
      // Shapes that do not fit: whoever prepares the program refuses it.
    }
  for (auto &[input, all] : found)
    for (auto &[bound, mask] : all) {
      bound.runs = toRuns(mask);
      bounds[input].push_back(std::move(bound));
    }
}

const std::vector<IndexBound> &
IndexBounds::of(const plan::InputT &input) const {
  static const std::vector<IndexBound> none;
  auto it = bounds.find(&input);
  return it == bounds.end() ? none : it->second;
}

void IndexBounds::check(
    const plan::InputT &input, std::span<const std::byte> bytes,
    const std::function<std::string(uint64_t)> &nameRow) const {
  for (const IndexBound &bound : of(input)) {
    bool isLong = input.dtype == plan::DType::i64;
    std::optional<uint64_t> place =
        isLong ? findOutside(reinterpret_cast<const int64_t *>(bytes.data()),
                             bound)
               : findOutside(reinterpret_cast<const int32_t *>(bytes.data()),
                             bound);
    if (!place)
      continue;
    int64_t value;
    if (isLong) {
      std::memcpy(&value, bytes.data() + *place * sizeof(value), sizeof(value));
    } else {
      int32_t narrow;
      std::memcpy(&narrow, bytes.data() + *place * sizeof(narrow),
                  sizeof(narrow));
      value = narrow;
    }
    uint64_t rows =
        input.shape.empty() ? 1 : static_cast<uint64_t>(input.shape[0]);
    uint64_t ofRow = bytes.size() / (isLong ? 8 : 4) / rows;
    throw Error(
        ErrorId::DataOutOfRange,
        "'" + input.name + "', " + nameRow(*place / ofRow) + ": " +
            std::to_string(value) + " of " +
            std::to_string(bound.greatest + 1) + ": " + bound.reader +
            " takes " + std::to_string(bound.least) + " to " +
            std::to_string(bound.greatest) +
            (bound.other ? ", or " + std::to_string(*bound.other) : "") +
            "; were these rows made with the model's tokenizer, and "
            "for as many classes?");
  }
}
