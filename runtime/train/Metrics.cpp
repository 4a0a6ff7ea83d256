//===- Metrics.cpp - One line of JSON a step ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Metrics.h"

#include "runtime/comm/Communicator.h"
#include "support/Error.h"
#include "support/OutputPath.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

using namespace fsdp;

uint64_t fsdp::peakResidentBytes() {
  // Not what getrusage says at first: that begins with the resident memory of
  // whoever started this process (torchrun: some hundreds of megabytes).
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:"))
      return std::stoull(line.substr(6)) * 1024;
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

static Error metricsNotWritable(const std::string &path) {
  return Error(ErrorId::FileNotWritable,
               "the metrics file '" + path + "' cannot be written: " +
                   std::error_code(errno, std::generic_category()).message());
}

/// Bytes of the lines at the begin of a file that are of steps before `step`.
static uint64_t bytesBefore(const std::string &path, uint64_t step) {
  std::ifstream stream(path);
  uint64_t bytes = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();
       bytes += line.size() + 1) {
    nlohmann::json json = nlohmann::json::parse(line, /*callback=*/nullptr,
                                                /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("step", step) >= step)
      break;
  }
  return bytes;
}

Metrics::Metrics(const Session &session, const std::string &path)
    : session(session), path(path), first(session.stepsDone()),
      resident(static_cast<size_t>(session.worldSize())) {
  if (session.rank() != 0)
    return;
  uint64_t kept = 0;
  std::error_code code;
  if (first != 0 && std::filesystem::is_regular_file(path, code))
    kept = bytesBefore(path, first);
  file = std::fopen(findOutput(path).path.c_str(), kept == 0 ? "we" : "ae");
  if (!file ||
      (kept != 0 && ftruncate(fileno(file), static_cast<off_t>(kept)) != 0))
    throw metricsNotWritable(path);
}

Metrics::~Metrics() {
  if (file)
    std::fclose(file);
}

void Metrics::updateResident(uint64_t step, bool isLast) {
  uint64_t own = step - first;
  if (session.isInProcess()) {
    resident.assign(resident.size(), peakResidentBytes());
    return;
  }
  // Peaks settle early; asking all ranks in every step would slow steps down.
  if (own < 4 || std::has_single_bit(own) || isLast) {
    std::vector<std::string> all =
        session.fabric().exchange("resident/" + std::to_string(step),
                                  std::to_string(peakResidentBytes()));
    for (size_t i = 0; i < all.size(); ++i)
      resident[i] = std::stoull(all[i]);
  }
}

void Metrics::write(const StepReport &report, bool isLast) {
  const StepResult &result = report.result;
  updateResident(result.step, isLast);
  if (!file)
    return;
  const MemoryUse &memory = report.memory;
  nlohmann::ordered_json line;
  line["step"] = result.step;
  if (result.loss)
    line["loss"] = *result.loss;
  if (result.gradNorm)
    line["grad_norm"] = *result.gradNorm;
  if (result.isSkipped)
    line["skipped"] = true;
  if (result.lr)
    line["lr"] = *result.lr;
  // Below a key of their own: a model may call an output anything.
  for (const auto &[name, value] : result.metrics)
    line["outputs"][name] = value;
  for (const auto &[name, value] : result.norms)
    line["norms"][name] = value;
  for (const CollectiveCount &each : result.collectives)
    line["collectives"].push_back({{"kind", each.kind},
                                   {"group", each.group},
                                   {"count", each.count},
                                   {"bytes", each.bytes}});
  if (session.choosesPrograms())
    line["program"] = result.program;
  line["step_time_s"] = report.seconds;
  if (result.exposedSeconds)
    line["exposed_s"] = *result.exposedSeconds;
  line["samples_per_s"] = report.samplesPerSecond;
  if (report.tokensPerSecond)
    line["tokens_per_s"] = *report.tokensPerSecond;
  if (report.flopsPerSecond)
    line["flops_per_s"] = *report.flopsPerSecond;
  if (report.utilization)
    line["mfu"] = *report.utilization;
  line["time_left_s"] = report.secondsLeft;
  line["peak_memory_bytes"] = report.peakBytes();
  if (memory.host)
    line["host_memory_bytes"] = memory.host;
  line["scratch_bytes"] = memory.scratch;
  line["unplanned_bytes"] = result.unplannedBytes;
  line["rank_peak_rss_bytes"] = resident;
  writeLine(line.dump());
}

void Metrics::write(const EvalResult &result, uint64_t steps, double seconds) {
  if (!file)
    return;
  nlohmann::ordered_json line;
  line["step"] = steps;
  line["eval_loss"] = result.loss;
  line["eval_batches"] = result.batches;
  line["eval_rows"] = result.rows;
  line["eval_time_s"] = seconds;
  writeLine(line.dump());
}

void Metrics::writeLine(const std::string &line) {
  std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fflush(file) != 0)
    throw metricsNotWritable(path);
}
