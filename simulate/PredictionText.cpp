//===- PredictionText.cpp - A prediction for people -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/PredictionText.h"

#include "plan/Activities.h"
#include "simulate/Comparison.h"
#include "simulate/FusionText.h"
#include "support/Format.h"
#include "support/Table.h"

#include <algorithm>
#include <cstdio>
#include <optional>

using namespace fsdp;

namespace {

std::string percent(double part, double whole) {
  return formatFixed(whole > 0 ? 100 * part / whole : 0, 1) + " %";
}

std::string plural(int64_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Operators beside each other that are listed.
constexpr size_t kMostOperators = 12;

/// "1.03 x": predicted over measured.
std::string ratioText(const SecondsPair &pair) {
  return pair.ratio() == 0 ? "-" : formatFixed(pair.ratio(), 2) + " x";
}

std::string printTimes(const Prediction &prediction,
                       const Comparison *compared) {
  TextTable table;
  table.add({"", "ms", "of the step"});
  auto row = [&](const char *name, double seconds) {
    table.add({name, formatMilliseconds(seconds),
               percent(seconds, prediction.seconds)});
  };
  row("step", prediction.seconds);
  row("kernels", prediction.compute);
  row("waiting for transfers", prediction.exposed);
  row("waiting for the host", prediction.idle);
  if (!compared)
    return table.print();
  TextTable both;
  both.add({"", "predicted ms", "measured ms", "ratio"});
  auto pair = [&](const char *name, const SecondsPair &pair) {
    both.add({name, formatMilliseconds(pair.predicted),
              formatMilliseconds(pair.measured), ratioText(pair)});
  };
  pair("step", compared->step);
  pair("kernels", compared->compute);
  pair("waiting for transfers", compared->exposed);
  both.add(
      {"waiting for the host", formatMilliseconds(prediction.idle), "-", "-"});
  both.add(
      {"starting transfers", "-", formatMilliseconds(compared->starting), "-"});
  both.add({"reading inputs", "-", formatMilliseconds(compared->inputs), "-"});
  return both.print();
}

/// Kinds of kernels, and the operators that were measured to take most.
std::string printKernels(const Comparison &compared) {
  auto row = [](TextTable &table, const std::string &name,
                const SecondsPair &pair) {
    table.add({name, formatCount(int64_t(pair.count)),
               formatMilliseconds(pair.predicted),
               formatMilliseconds(pair.measured), ratioText(pair)});
  };
  std::vector<size_t> order;
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    if (compared.kinds[kind].count != 0)
      order.push_back(kind);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return compared.kinds[a].measured > compared.kinds[b].measured;
  });
  TextTable kinds, operators;
  kinds.add({"kernels", "calls", "predicted ms", "measured ms", "ratio"});
  for (size_t kind : order)
    row(kinds,
        WorkKind(kind) == WorkKind::none ? "taken to cost nothing"
                                         : getName(WorkKind(kind)),
        compared.kinds[kind]);
  operators.add({"operators", "calls", "predicted ms", "measured ms", "ratio"});
  size_t count = std::min(kMostOperators, compared.operators.size());
  for (size_t i = 0; i < count; ++i)
    row(operators, compared.operators[i].first, compared.operators[i].second);
  return kinds.print() + "\n" + operators.print();
}

std::string printKernels(const Prediction &prediction) {
  std::array<double, kWorkKinds> sums{};
  std::array<uint64_t, kWorkKinds> counts{};
  for (const PredictedProgram &program : prediction.programs) {
    for (size_t kind = 0; kind < kWorkKinds; ++kind)
      sums[kind] += program.runs * program.byKind[kind];
    for (const PredictedKernel &kernel : program.kernels)
      counts[size_t(kernel.kind)] += program.runs;
  }
  std::vector<size_t> order;
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    if (counts[kind] != 0)
      order.push_back(kind);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  TextTable table;
  table.add({"kernels", "calls", "ms", "of the step"});
  for (size_t kind : order)
    table.add({getName(WorkKind(kind)), formatCount(int64_t(counts[kind])),
               formatMilliseconds(sums[kind]),
               percent(sums[kind], prediction.seconds)});
  return table.print();
}

std::string printMemory(const Prediction &prediction) {
  TextTable table;
  table.add({"memory of a rank", "size"});
  table.add({"planned", formatBytes(prediction.planned)});
  if (prediction.scratch != 0)
    table.add({prediction.scratchUnknown.empty()
                   ? "kernels' temporaries, at most"
                   : "kernels' temporaries, as far as known",
               formatBytes(prediction.scratch)});
  for (const std::string &name : prediction.scratchUnknown)
    table.add({"  beside it, of " + name, "unknown"});
  if (prediction.isHost && prediction.hostPlanned != 0)
    table.add({"the host's part of it", formatBytes(prediction.hostPlanned)});
  table.add({"context and libraries", formatBytes(prediction.reserved)});
  if (prediction.communicators != 0)
    table.add({"buffers of " + plural(int64_t(prediction.communicatorCount),
                                      "communicator"),
               formatBytes(prediction.communicators)});
  table.add({"all", formatBytes(prediction.held())});
  table.add(
      {prediction.isHost ? "a rank's part of the host's" : "the device has",
       formatBytes(prediction.capacity)});
  if (!prediction.isHost && prediction.hostPlanned != 0)
    table.add({"beside it, on the host", formatBytes(prediction.hostPlanned)});
  return table.print();
}

/// What stands where a transfer starts, or is waited for.
std::string placeOf(const std::vector<Activity> &activities, size_t number) {
  std::string place = findPlace(activities, number);
  return place.empty() ? "the end" : place;
}

/// The end of a path says which file it is.
std::string shorten(const std::string &source) {
  size_t slash = source.rfind('/');
  if (slash != source.npos && slash != 0)
    slash = source.rfind('/', slash - 1);
  return slash == source.npos ? source : source.substr(slash + 1);
}

/// Of transient tensors alone: states are there all the time.
std::string printHighestUse(const std::vector<Activity> &activities,
                            const PredictedProgram &program) {
  auto highest =
      std::ranges::max_element(program.uses, {}, &PredictedUse::bytes);
  if (highest == program.uses.end())
    return "";
  const Activity &at = activities[highest->instruction];
  return "  beside states at most " + formatBytes(highest->bytes) + ", at " +
         formatMilliseconds(highest->at) + " ms: " + at.name +
         (at.module.empty() ? "" : " of " + at.module) +
         (at.source.empty() ? "" : " (" + shorten(at.source) + ")") + "\n";
}

/// In flight and exposed, predicted and measured.
std::string printTransfers(const PredictedProgram &program,
                           const ProfiledProgram &measured) {
  TextTable table;
  table.add({"bucket", "transfer", "size", "in flight ms", "measured ms",
             "ratio", "exposed ms", "measured ms", "ratio"});
  for (const PredictedTransfer &each : program.transfers) {
    const ProfiledTransfer *found = measured.findTransfer(each.start);
    SecondsPair flight{getFlight(each), found ? found->flight : 0, 1};
    SecondsPair exposed{each.exposed(), found ? found->exposed : 0, 1};
    auto text = [&](double seconds) {
      return found ? formatMilliseconds(seconds) : "-";
    };
    table.add({each.bucket.empty() ? "-" : each.bucket, each.kind,
               formatBytes(each.bytes), formatMilliseconds(flight.predicted),
               text(flight.measured), ratioText(flight),
               formatMilliseconds(exposed.predicted), text(exposed.measured),
               ratioText(exposed)});
  }
  return table.print();
}

std::string printTransfers(const std::vector<Activity> &activities,
                           const PredictedProgram &program) {
  TextTable table;
  table.add({"bucket", "transfer", "size", "starts ms", "alone ms", "moves ms",
             "hidden ms", "exposed ms", "starts in front of",
             "waited for in front of"});
  for (const PredictedTransfer &each : program.transfers) {
    double moves = each.end - each.begin;
    double exposed = each.exposed();
    table.add({each.bucket.empty() ? "-" : each.bucket, each.kind,
               formatBytes(each.bytes), formatMilliseconds(each.given),
               formatMilliseconds(each.alone), formatMilliseconds(moves),
               formatMilliseconds(std::max(0.0, moves - exposed)),
               formatMilliseconds(exposed), placeOf(activities, each.start),
               placeOf(activities, each.wait)});
  }
  return table.print();
}

} // namespace

std::string fsdp::printPrediction(const plan::PlanT &plan,
                                  const Prediction &prediction,
                                  const Profile *measured,
                                  const Fusion *fusion) {
  std::optional<Comparison> compared;
  if (measured)
    compared = compare(plan, prediction, *measured);
  std::string text = "predicted step on " + prediction.cluster + ", " +
                     plural(prediction.ranks, "rank") + " on " +
                     plural(prediction.nodes, "node");
  if (measured)
    text += ", beside " + plural(int64_t(measured->steps), "step") +
            " measured on " + plural(int64_t(measured->ranks), "rank");
  text += "\n" + printTimes(prediction, compared ? &*compared : nullptr);
  if (prediction.seconds > 0)
    text += "  " +
            formatFixed(prediction.flops / prediction.seconds / 1e12, 2) +
            " TFLOP/s a rank; " +
            (prediction.tokens > 0
                 ? formatCount(int64_t(prediction.tokensPerSecond())) +
                       " tokens/s, " +
                       formatCount(int64_t(prediction.tokensPerSecond() /
                                           double(prediction.ranks))) +
                       " a rank; "
                 : "") +
            formatBytes(prediction.wireBytes) + " in collectives\n";
  text +=
      "\n" + (compared ? printKernels(*compared) : printKernels(prediction));
  if (fusion)
    text += "\n" + printFusion(*fusion);
  text += "\n" + printMemory(prediction);
  text += prediction.fits()
              ? "  It fits.\n"
              : "  It does not fit: " +
                    formatBytes(prediction.held() - prediction.capacity) +
                    " are missing.\n";
  for (const PredictedProgram &program : prediction.programs) {
    const plan::ProgramT &each = *plan.programs[program.program];
    const ProfiledProgram *beside =
        measured ? measured->findProgram(program.program) : nullptr;
    std::vector<Activity> activities = describeActivities(plan, each);
    text += "\n" + getEntryName(getEntry(each)) + ", " +
            formatMilliseconds(program.seconds) + " ms" +
            (program.runs == 1
                 ? ""
                 : ", " + std::to_string(program.runs) + " times a step");
    if (beside)
      text += "; measured " + formatMilliseconds(beside->seconds) +
              " ms in the median of " + plural(int64_t(beside->runs), "run");
    else if (measured)
      text += "; not measured";
    text += "\n" + printHighestUse(activities, program) +
            printTransfers(activities, program);
    if (beside)
      text += "\n" + printTransfers(program, *beside);
  }
  return text;
}
