//===- MeasuredTimes.cpp - What a profile says of kernels -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/MeasuredTimes.h"

#include "simulate/TraceEvents.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

using namespace fsdp;

static std::string kernelKey(const std::string &name,
                             const std::string &operands) {
  return name + "(" + operands + ")";
}

static std::string transferKey(const std::string &collective, uint64_t bytes,
                               uint64_t ranks) {
  return collective + " of " + std::to_string(bytes) + " among " +
         std::to_string(ranks);
}

static double median(std::vector<double> &values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

MeasuredTimes MeasuredTimes::read(const std::string &path) {
  struct Seen {
    std::vector<double> starts, exposed, whole, moves;
  };
  std::map<std::string, std::vector<double>> kernels;
  std::map<std::string, Seen> transfers;
  std::string device;
  MappedFile file(path, "the profile");
  readTraceEvents(
      {file.data() ? file.data() : "", file.bytes()}, path,
      [&](const nlohmann::json &event) {
        std::string category = event.value("cat", "");
        if (std::string label = readDeviceLabel(event); !label.empty())
          device = label;
        if (event.value("ph", "") != "X")
          return;
        const nlohmann::json &arguments = event.at("args");
        double seconds = 1e-6 * event.at("dur").get<double>();
        if (category == "compute" && arguments.contains("operands")) {
          kernels[kernelKey(event.at("name"), arguments.at("operands"))]
              .push_back(arguments.contains("busy_us")
                             ? 1e-6 * arguments.at("busy_us").get<double>()
                             : seconds);
        } else if (category == "transfer" && arguments.contains("ranks")) {
          Seen &seen = transfers[transferKey(arguments.at("collective"),
                                             arguments.at("bytes"),
                                             arguments.at("ranks"))];
          seen.starts.push_back(1e-6 * arguments.at("start_us").get<double>());
          seen.exposed.push_back(1e-6 *
                                 arguments.at("exposed_us").get<double>());
          seen.whole.push_back(seconds);
          if (arguments.contains("moves_us"))
            seen.moves.push_back(1e-6 * arguments.at("moves_us").get<double>());
        }
      });
  if (kernels.empty())
    throw Error(ErrorId::ProfileInvalid,
                "profile '" + path +
                    "': expected a trace that this version's fsdp-run "
                    "--profile wrote, found one without times of kernels; "
                    "profile a run again");
  MeasuredTimes times;
  times.measuredOn = device;
  for (auto &[key, all] : kernels)
    times.kernels[key] = median(all);
  for (auto &[key, seen] : transfers) {
    if (!device.empty()) {
      // A device that did not list a transfer knows nothing of it.
      if (!seen.moves.empty())
        times.transfers[key] = {0, *std::ranges::min_element(seen.moves), 0};
      continue;
    }
    MeasuredTransfer one{median(seen.starts), 0,
                         *std::ranges::min_element(seen.exposed)};
    one.seconds = std::max(0.0, *std::ranges::min_element(seen.whole) -
                                    one.start - one.finish);
    times.transfers[key] = one;
  }
  return times;
}

std::optional<double> MeasuredTimes::kernel(const Activity &activity) const {
  auto found = kernels.find(kernelKey(activity.name, activity.operands));
  return found == kernels.end() ? std::nullopt : std::optional(found->second);
}

std::optional<MeasuredTransfer>
MeasuredTimes::transfer(const Activity &activity) const {
  auto found = transfers.find(
      transferKey(activity.collective, activity.bytes, activity.ranks));
  return found == transfers.end() ? std::nullopt : std::optional(found->second);
}
