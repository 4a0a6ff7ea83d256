//===- StreamCopies.cpp - Copies between a device and the host ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/StreamCopies.h"

#include "support/Error.h"

#include <string>
#include <utility>

using namespace fsdp;

StreamCopies::StreamCopies(std::shared_ptr<Streams> onDevice,
                           std::chrono::milliseconds deadline)
    : streams(std::move(onDevice)), deadline(deadline),
      upload(streams->createStream(StreamPriority::normal, "upload")),
      download(streams->createStream(StreamPriority::normal, "download")),
      issued(streams->createEvent()), launch(streams->createEvent()) {}

StreamCopies::~StreamCopies() {
  for (const Place &place : slots) {
    streams->destroyEvent(place.done);
    streams->destroyEvent(place.captured);
  }
  streams->destroyEvent(launch);
  streams->destroyEvent(issued);
  streams->destroyStream(download.stream);
  streams->destroyStream(upload.stream);
}

Copies::Slot StreamCopies::reserve(plan::Stream stream) {
  slots.push_back({stream == plan::Stream::download, streams->createEvent(),
                   streams->createEvent()});
  return static_cast<Slot>(slots.size() - 1);
}

void StreamCopies::start(Slot slot, std::span<const Part> parts) {
  Place &place = slots[slot];
  Direction &direction = directionOf(place);
  place.isCaptured = streams->isCapturing(streams->compute());
  streams->record(issued, streams->compute());
  streams->wait(direction.stream, issued);
  for (const Part &part : parts)
    if (place.isDownload)
      streams->download(part.to, part.from, part.bytes, direction.stream);
    else
      streams->upload(part.to, part.from, part.bytes, direction.stream);
  if (place.isCaptured) {
    hasCaptured = true;
  } else {
    place.number = ++direction.started;
  }
  streams->record(place.isCaptured ? place.captured : place.done,
                  direction.stream);
}

void StreamCopies::wait(Slot slot) {
  const Place &place = slots[slot];
  streams->wait(streams->compute(),
                place.isCaptured ? place.captured : place.done);
  Direction &direction = directionOf(place);
  // Waits come in another order than starts.
  if (!place.isCaptured && place.number > direction.lastNumber) {
    direction.last = place.done;
    direction.lastNumber = place.number;
  }
}

void StreamCopies::noteLaunch() {
  if (!hasCaptured)
    return;
  streams->record(launch, streams->compute());
  isLaunched = true;
}

void StreamCopies::join() {
  for (Direction *direction : {&upload, &download})
    if (EventHandle event = std::exchange(direction->last, nullptr))
      synchronize(event);
  if (std::exchange(isLaunched, false))
    synchronize(launch);
}

void StreamCopies::synchronize(EventHandle event) {
  if (!streams->synchronize(event, Streams::Clock::now() + deadline))
    throw Error(ErrorId::DeadlinePassed,
                "expected a copy between the GPU and the host to end "
                "within " +
                    std::to_string(deadline.count() / 1000) +
                    " s, but it did not: a transfer in front of it waits "
                    "for a rank that is gone, or a kernel does not end");
}
