//===- Places.h - What is made once and shared ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_PLACES_H
#define FSDP_KERNELS_PLACES_H

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace fsdp {

/// What is still held of each request, made by one thread at a time, whoever
/// asks first. Any thread may call it.
template <typename Made>
class SharedPlaces {
public:
  template <typename Make>
  std::shared_ptr<const Made> find(const std::string &request, Make make) {
    std::shared_ptr<Place> place = placeOf(request);
    std::lock_guard lock(place->mutex);
    std::shared_ptr<const Made> made = place->made.lock();
    if (!made) {
      made = make();
      place->made = made;
    }
    return made;
  }

private:
  struct Place {
    std::mutex mutex;
    std::weak_ptr<const Made> made;
  };

  std::shared_ptr<Place> placeOf(const std::string &request) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Place> &place = places[request];
    if (!place)
      place = std::make_shared<Place>();
    return place;
  }

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Place>> places;
};

} // namespace fsdp

#endif // FSDP_KERNELS_PLACES_H
