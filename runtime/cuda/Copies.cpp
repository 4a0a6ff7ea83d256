//===- Copies.cpp - Copies between a GPU and the host ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Copies.h"

#include "runtime/cuda/Memory.h"
#include "support/Error.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

using namespace fsdp;

CudaCopies::CudaCopies(std::shared_ptr<Streams> onDevice,
                       std::chrono::milliseconds deadline)
    : streams(std::move(onDevice)), deadline(deadline),
      upload(streams->createStream(StreamPriority::normal, "upload")),
      download(streams->createStream(StreamPriority::normal, "download")),
      issued(streams->createEvent()) {}

CudaCopies::~CudaCopies() {
  for (const Place &place : slots)
    streams->destroyEvent(place.done);
  streams->destroyEvent(issued);
  streams->destroyStream(download);
  streams->destroyStream(upload);
}

Copies::Slot CudaCopies::reserve(plan::Stream stream) {
  slots.push_back({stream == plan::Stream::download, streams->createEvent()});
  return static_cast<Slot>(slots.size() - 1);
}

void CudaCopies::start(Slot slot, std::span<const Part> parts) {
  const Place &place = slots[slot];
  StreamHandle stream = place.isDownload ? download : upload;
  streams->record(issued, streams->compute());
  streams->wait(stream, issued);
  for (const Part &part : parts)
    checkCuda(cudaMemcpyAsync(part.to, part.from, part.bytes,
                              place.isDownload ? cudaMemcpyDeviceToHost
                                               : cudaMemcpyHostToDevice,
                              stream),
              "cudaMemcpyAsync");
  streams->record(place.done, stream);
}

void CudaCopies::wait(Slot slot) {
  const Place &place = slots[slot];
  streams->wait(streams->compute(), place.done);
  (place.isDownload ? lastDownload : lastUpload) = place.done;
}

void CudaCopies::join() {
  for (EventHandle *last : {&lastUpload, &lastDownload})
    if (EventHandle event = std::exchange(*last, nullptr))
      if (!streams->synchronize(event, Streams::Clock::now() + deadline))
        throw Error(ErrorId::DeadlinePassed,
                    "expected a copy between the GPU and the host to end "
                    "within " +
                        std::to_string(deadline.count() / 1000) +
                        " s, but it did not: a transfer in front of it waits "
                        "for a rank that is gone, or a kernel does not end");
}
