//===- MomentStorage.cpp - What is kept of a parameter, in which form -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/MomentStorage.h"

#include "support/BlockCodes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fsdp;

static bool isBlockwise(StateDType dtype) {
  return dtype == StateDType::Int8 || dtype == StateDType::Float8;
}

bool fsdp::isCoded(StateOp param, StateDType dtype) {
  return isBlockwise(dtype) &&
         param.getWholeType().getNumElements() >= kLeastCodedElements;
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t all = 1;
  for (int64_t size : sizes)
    all *= size;
  return all;
}

namespace {

/// Blocks of a whole tensor as a tensor: leading dims as they are as long as
/// what follows them is whole blocks, and the rest as one dim of blocks.
class BlockShape {
public:
  explicit BlockShape(ArrayRef<int64_t> whole) : whole(whole) {
    for (leading = whole.size(); leading > 0; --leading)
      if (product(whole.drop_front(leading)) % kBlockElements == 0)
        break;
    shape.assign(whole.begin(), whole.begin() + leading);
    shape.push_back(
        llvm::divideCeil(product(whole.drop_front(leading)), kBlockElements));
  }

  /// Blocks along the dim that `dim` of the tensor belongs to.
  SmallVector<int64_t> shape;

  /// Whether parts of `rows` rows along `dim`, one behind the other, are parts
  /// of `blocks` blocks.
  bool fits(int64_t dim, int64_t rows, int64_t blocks) const {
    if (dim < leading)
      return true;
    return dim == leading &&
           rows * product(whole.drop_front(dim + 1)) == blocks * kBlockElements;
  }

private:
  ArrayRef<int64_t> whole;
  int64_t leading;
};

} // namespace

ScaleLayout fsdp::getScaleLayout(StateOp param, bool ignoresShards) {
  SmallVector<int64_t> whole(param.getWholeType().getShape());
  SmallVector<int64_t> rows(param.getGlobalType().getShape());
  BlockShape blocks(whole);
  SmallVector<int64_t> shape = blocks.shape;
  Type f32 = Builder(param.getContext()).getF32Type();
  ScaleLayout shared{RankedTensorType::get(shape, f32), {}, {}, true};
  ScaleLayout layout;
  if (std::optional<SplitAttr> split = param.getSplit();
      split && split->getGroup().getSize() > 1) {
    int64_t dim = split->getDim(), ranks = split->getGroup().getSize();
    if (split->getBlocks() != 1 || dim >= int64_t(shape.size()) ||
        shape[dim] % ranks != 0 ||
        !blocks.fits(dim, rows[dim], shape[dim] / ranks))
      return shared;
    shape[dim] /= ranks;
    layout.split = *split;
  } else if (split) {
    layout.split = *split;
    if (split->getDim() >= int64_t(shape.size()))
      return shared;
  }
  if (ShardingAttr sharding = param.getSharding(); sharding && !ignoresShards) {
    int64_t dim = sharding.getDim(), ranks = sharding.getGroup().getSize();
    if (ranks > 1) {
      if (dim >= int64_t(shape.size()) ||
          !blocks.fits(dim, getShardRows(rows[dim], ranks),
                       getShardRows(shape[dim], ranks)))
        return shared;
      layout.sharding = sharding;
    }
  }
  layout.type = RankedTensorType::get(shape, f32);
  return layout;
}

FailureOr<MomentStorage> fsdp::getMomentStorage(StateOp param,
                                                ArrayRef<StateOp> members,
                                                StateDType dtype) {
  RankedTensorType type = param.getGlobalType();
  MomentStorage storage{type.getElementType(), {}, false, ""};
  if (dtype == StateDType::Parameter)
    return storage;
  auto refuse = [&](const Twine &what) {
    return param.emitOpError("cannot have its optimizer states as ")
           << stringifyStateDType(dtype) << ": " << what;
  };
  if (type.getElementType().isF64())
    return refuse("it is in f64, whose digits they would not have; leave "
                  "optimizer.state_dtype out");
  if (type.getEncoding())
    return refuse("it is stored with strides; make it contiguous");
  Builder builder(param.getContext());
  if (dtype == StateDType::BFloat16 || dtype == StateDType::Float32) {
    storage.element = dtype == StateDType::Float32 ? Type(builder.getF32Type())
                                                   : builder.getBF16Type();
    return storage;
  }
  StateOp first = members.empty() ? param : members.front();
  storage.isCoded = isCoded(first, dtype);
  for (StateOp member : members)
    if (isCoded(member, dtype) != storage.isCoded)
      return refuse("of its members only some have fewer than " +
                    Twine(kLeastCodedElements) +
                    " elements; flatten buckets with the same settings");
  if (!storage.isCoded) {
    storage.element = builder.getF32Type();
    return storage;
  }
  bool isInt = dtype == StateDType::Int8;
  storage.element = isInt ? Type(builder.getIntegerType(8, false))
                          : Type(Float8E4M3FNType::get(param.getContext()));
  storage.suffix = isInt ? "_int8" : "_float8";
  if (members.empty()) {
    storage.scales = getScaleLayout(param);
    return storage;
  }
  for (StateOp member : members)
    if (member.getPart().getOffset() % kBlockElements != 0 ||
        getScaleLayout(member, /*ignoresShards=*/true).isShared)
      return refuse("its member '" + member.getSymName() +
                    "' does not begin with a block; flatten buckets with the "
                    "same settings");
  if (param.getLocalType().getNumElements() % kBlockElements != 0)
    return refuse("its parts are not whole blocks; flatten buckets with the "
                  "same settings");
  return storage;
}
