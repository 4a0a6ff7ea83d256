//===- NcclOnStreams.h - The fake NCCL on played streams --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_NCCLONSTREAMS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_NCCLONSTREAMS_H

#include "FakeNccl.h"
#include "RecordingStreams.h"

#include <memory>
#include <mutex>
#include <set>

namespace fsdp::test {

/// From now on, what the library is asked for stands among the other work of
/// `streams`, which is captured as they are. A communicator whose stream is
/// held has kernels that wait for peers: aborting it lets them go.
inline void playOn(NcclScript &script,
                   std::shared_ptr<RecordingStreams> streams) {
  struct Used {
    std::mutex mutex;
    std::map<int, std::set<StreamHandle>> streams; ///< by communicator

    std::set<StreamHandle> of(int comm) {
      std::lock_guard lock(mutex);
      return streams[comm];
    }
  };
  auto used = std::make_shared<Used>();
  std::lock_guard lock(script.mutex);
  script.observer = [=](const NcclCall &call) {
    {
      std::lock_guard lock(used->mutex);
      used->streams[call.comm].insert(call.stream);
    }
    streams->put(call.stream, call.name);
  };
  script.isCapturing = [=](StreamHandle stream) {
    return streams->isCapturing(stream);
  };
  script.take = [=](size_t bytes) { streams->take(bytes); };
  script.letGo = [=](int comm) {
    for (StreamHandle stream : used->of(comm))
      streams->release(stream);
  };
  script.isIdle = [=](int comm) {
    for (StreamHandle stream : used->of(comm))
      if (!streams->isIdle(stream))
        return false;
    return true;
  };
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_NCCLONSTREAMS_H
