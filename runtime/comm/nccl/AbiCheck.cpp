//===- AbiCheck.cpp - Abi.h says what nccl.h says -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled where nccl.h is. Holds no code.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/nccl/Abi.h"
#include "runtime/comm/nccl/Library.h"

#include <nccl.h>

#include <type_traits>

using namespace fsdp;

static_assert(std::is_same_v<nccl::Comm, ncclComm_t>);
static_assert(std::is_same_v<nccl::Window, ncclWindow_t>);
static_assert(std::is_same_v<StreamHandle, cudaStream_t>);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(alignof(nccl::UniqueId) == alignof(ncclUniqueId));

template <auto Ours, auto Theirs>
constexpr bool same = static_cast<int>(Ours) == static_cast<int>(Theirs);

static_assert(sizeof(nccl::Result) == sizeof(ncclResult_t));
static_assert(same<nccl::Result::success, ncclSuccess>);
static_assert(same<nccl::Result::unhandledCudaError, ncclUnhandledCudaError>);
static_assert(same<nccl::Result::systemError, ncclSystemError>);
static_assert(same<nccl::Result::internalError, ncclInternalError>);
static_assert(same<nccl::Result::invalidArgument, ncclInvalidArgument>);
static_assert(same<nccl::Result::invalidUsage, ncclInvalidUsage>);
static_assert(same<nccl::Result::remoteError, ncclRemoteError>);
static_assert(same<nccl::Result::inProgress, ncclInProgress>);

static_assert(sizeof(nccl::DataType) == sizeof(ncclDataType_t));
static_assert(same<nccl::DataType::int8, ncclInt8>);
static_assert(same<nccl::DataType::uint8, ncclUint8>);
static_assert(same<nccl::DataType::int32, ncclInt32>);
static_assert(same<nccl::DataType::uint32, ncclUint32>);
static_assert(same<nccl::DataType::int64, ncclInt64>);
static_assert(same<nccl::DataType::uint64, ncclUint64>);
static_assert(same<nccl::DataType::float16, ncclFloat16>);
static_assert(same<nccl::DataType::float32, ncclFloat32>);
static_assert(same<nccl::DataType::float64, ncclFloat64>);
static_assert(same<nccl::DataType::bfloat16, ncclBfloat16>);

static_assert(sizeof(nccl::RedOp) == sizeof(ncclRedOp_t));
static_assert(same<nccl::RedOp::sum, ncclSum>);
static_assert(same<nccl::RedOp::max, ncclMax>);
static_assert(same<nccl::RedOp::avg, ncclAvg>);

static_assert(sizeof(nccl::ScalarResidence) == sizeof(ncclScalarResidence_t));
static_assert(same<nccl::ScalarResidence::device, ncclScalarDevice>);
static_assert(
    same<nccl::ScalarResidence::hostImmediate, ncclScalarHostImmediate>);

static_assert(nccl::kWindowCollSymmetric == NCCL_WIN_COLL_SYMMETRIC);
static_assert(nccl::kWindowAlignment == NCCL_WIN_REQUIRED_ALIGNMENT);
static_assert(nccl::version(2, 28, 9) == NCCL_VERSION(2, 28, 9));
static_assert(nccl::Config::undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(nccl::Config().magic ==
              ncclConfig_t NCCL_CONFIG_INITIALIZER.magic);

static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
#define FSDP_SAME_FIELD(name)                                                  \
  static_assert(offsetof(nccl::Config, name) == offsetof(ncclConfig_t, name)); \
  static_assert(std::is_same_v<decltype(nccl::Config::name),                   \
                               decltype(ncclConfig_t::name)>)
FSDP_SAME_FIELD(size);
FSDP_SAME_FIELD(magic);
FSDP_SAME_FIELD(version);
FSDP_SAME_FIELD(blocking);
FSDP_SAME_FIELD(cgaClusterSize);
FSDP_SAME_FIELD(minCTAs);
FSDP_SAME_FIELD(maxCTAs);
FSDP_SAME_FIELD(netName);
FSDP_SAME_FIELD(splitShare);
#undef FSDP_SAME_FIELD

namespace {

/// Whether a parameter of theirs is passed like one of ours: the same type, an
/// enumeration of the same size, the id, or a pointer to one of these.
template <typename Ours, typename Theirs>
constexpr bool isPassedAlike() {
  if constexpr (std::is_same_v<Ours, Theirs>)
    return true;
  else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>)
    return isPassedAlike<std::remove_cv_t<std::remove_pointer_t<Ours>>,
                         std::remove_cv_t<std::remove_pointer_t<Theirs>>>();
  else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>)
    return sizeof(Ours) == sizeof(Theirs);
  else
    return (std::is_same_v<Ours, nccl::UniqueId> &&
            std::is_same_v<Theirs, ncclUniqueId>) ||
           (std::is_same_v<Ours, nccl::Config> &&
            std::is_same_v<Theirs, ncclConfig_t>);
}

template <typename Ours, typename Theirs>
constexpr bool isCalledAlike = false;
template <typename R1, typename... A1, typename R2, typename... A2>
constexpr bool isCalledAlike<R1 (*)(A1...), R2(A2...)> = [] {
  if constexpr (sizeof...(A1) != sizeof...(A2))
    return false;
  else
    return isPassedAlike<R1, R2>() && (isPassedAlike<A1, A2>() && ...);
}();

#define FSDP_NCCL_FUNCTION(name, result, ...)                                  \
  static_assert(                                                               \
      isCalledAlike<decltype(NcclLibrary::name), decltype(::nccl##name)>,      \
      "nccl" #name " takes other parameters");
#include "runtime/comm/nccl/Functions.def"

} // namespace
