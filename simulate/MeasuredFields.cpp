//===- MeasuredFields.cpp - Measurements in a cluster's file --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/MeasuredFields.h"

#include "plan/DType.h"

#include <algorithm>

using namespace fsdp;

double fsdp::readNumber(const YamlReader &reader, const YAML::Node &node,
                        std::string_view key, double least, double most) {
  double value = reader.readDouble(node, key);
  if (value < least || value > most)
    reader.fail(
        ErrorId::ConfigBadValue, node,
        "'" + std::string(key) + "': expected a number from " +
            YAML::Dump(YAML::Node(least)) +
            (most == kAny ? " on" : " to " + YAML::Dump(YAML::Node(most))) +
            ", found " + node.Scalar());
  return value;
}

int64_t fsdp::readCount(const YamlReader &reader, const YAML::Node &node,
                        std::string_view key) {
  constexpr int64_t most = 1 << 20;
  int64_t value = reader.readInt(node, key);
  if (value < 1 || value > most)
    reader.fail(ErrorId::ConfigBadValue, node,
                "'" + std::string(key) + "': expected a number from 1 to " +
                    std::to_string(most) + ", found " + node.Scalar());
  return value;
}

/// "[[1, 2, 3], …]", rows of `width` numbers.
std::vector<std::vector<double>> fsdp::readRows(const YamlReader &reader,
                                                const YAML::Node &node,
                                                std::string_view key,
                                                size_t width) {
  std::string expected =
      "a list of lists of " + std::to_string(width) + " numbers";
  if (!node.IsSequence() || node.size() == 0)
    reader.failType(node, key, expected);
  std::vector<std::vector<double>> rows;
  for (const YAML::Node &row : node) {
    if (!row.IsSequence() || row.size() != width)
      reader.failType(row, key, expected);
    std::vector<double> &numbers = rows.emplace_back();
    for (const YAML::Node &each : row)
      numbers.push_back(readNumber(reader, each, key, 0, kAny));
  }
  return rows;
}

static Curve readCurve(const YamlReader &reader, const YAML::Node &node,
                       std::string_view key) {
  std::vector<std::pair<double, double>> points;
  for (const auto &row : readRows(reader, node, key, 2)) {
    if (!points.empty() && row[0] <= points.back().first)
      reader.fail(ErrorId::ConfigBadValue, node,
                  "'" + std::string(key) + "': expected ascending sizes");
    points.emplace_back(row[0], row[1]);
  }
  return Curve(std::move(points));
}

static MeasuredCollective readCollective(const YamlReader &reader,
                                         const YAML::Node &entry) {
  if (!entry.IsMap())
    reader.failType(entry, "measured",
                    "a map {kind, nodes, ranks, seconds: [[bytes, s], …]}");
  MeasuredCollective one{};
  bool hasKind = false;
  for (const auto &field : entry) {
    std::string key = reader.readString(field.first, "measured");
    if (key == "kind") {
      std::vector<std::string_view> choices;
      for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
        choices.push_back(getName(kind));
      std::string name = reader.readChoice(field.second, key, choices);
      one.kind = static_cast<CollectiveKind>(std::ranges::find(choices, name) -
                                             choices.begin());
      hasKind = true;
    } else if (key == "nodes" || key == "ranks") {
      (key == "nodes" ? one.nodes : one.ranks) =
          readCount(reader, field.second, key);
    } else if (key == "seconds") {
      one.seconds = readCurve(reader, field.second, key);
    } else if (key == "start") {
      one.start = readCurve(reader, field.second, key);
    } else if (key == "finish") {
      one.finish = readCurve(reader, field.second, key);
    } else if (key == "beside") {
      one.beside = readCurve(reader, field.second, key);
    } else if (key == "lost") {
      one.lost = readCurve(reader, field.second, key);
    } else if (key == "tensor") {
      one.tensor = readNumber(reader, field.second, key, 0, 1);
    } else if (key == "processor") {
      one.processor = readNumber(reader, field.second, key, 0, kAny);
    } else {
      reader.fail(ErrorId::ConfigUnknownKey, field.first,
                  "'" + key +
                      "' is no key of a measured collective; expected kind, "
                      "nodes, ranks, seconds, start, finish, beside, "
                      "lost, tensor, processor");
    }
  }
  if (!hasKind || one.ranks == 0 || one.seconds.empty())
    reader.fail(ErrorId::ConfigMissingKey, entry,
                "a measured collective needs kind, ranks and seconds");
  return one;
}

std::vector<MeasuredCollective>
fsdp::readMeasuredCollectives(const YamlReader &reader,
                              const YAML::Node &node) {
  if (!node.IsSequence())
    reader.failType(node, "measured", "a list of measured collectives");
  std::vector<MeasuredCollective> all;
  for (const YAML::Node &entry : node)
    all.push_back(readCollective(reader, entry));
  return all;
}

std::vector<std::pair<int64_t, Curve>> fsdp::readSkew(const YamlReader &reader,
                                                      const YAML::Node &node) {
  const char *form = "a list of maps {ranks, seconds: [[s, s], …]}";
  if (!node.IsSequence())
    reader.failType(node, "skew", form);
  std::vector<std::pair<int64_t, Curve>> all;
  for (const YAML::Node &entry : node) {
    if (!entry.IsMap())
      reader.failType(entry, "skew", form);
    auto &[ranks, seconds] = all.emplace_back();
    for (const auto &field : entry) {
      std::string key = reader.readString(field.first, "skew");
      if (key == "ranks")
        ranks = readCount(reader, field.second, key);
      else if (key == "seconds")
        seconds = readCurve(reader, field.second, key);
      else
        reader.fail(ErrorId::ConfigUnknownKey, field.first,
                    "'" + key + "' is no key of 'skew'; expected " + form);
    }
    if (ranks == 0 || seconds.empty())
      reader.fail(ErrorId::ConfigMissingKey, entry,
                  "'skew': each needs ranks and seconds");
    if (all.size() > 1 && ranks <= all[all.size() - 2].first)
      reader.fail(ErrorId::ConfigBadValue, entry,
                  "'skew': expected ascending ranks");
  }
  return all;
}

static MatmulTable readProducts(const YamlReader &reader,
                                const YAML::Node &entry) {
  const char *form =
      "a map {dtype, transposed, seconds: [[rows, columns, depth, s], …]}";
  if (!entry.IsMap())
    reader.failType(entry, "measured", form);
  std::optional<plan::DType> dtype;
  bool isTransposed = false;
  std::vector<MatmulTable::Row> rows;
  for (const auto &field : entry) {
    std::string key = reader.readString(field.first, "measured");
    if (key == "dtype") {
      dtype = findDType(reader.readString(field.second, key));
      if (!dtype)
        reader.fail(ErrorId::ConfigBadValue, field.second,
                    "'dtype': expected an element type such as f32, found '" +
                        field.second.Scalar() + "'");
    } else if (key == "transposed") {
      isTransposed = reader.readBool(field.second, key);
    } else if (key == "seconds") {
      for (const auto &row : readRows(reader, field.second, key, 4))
        rows.push_back({row[0], row[1], row[2], row[3]});
      if (!MatmulTable::isGrid(rows))
        reader.fail(ErrorId::ConfigBadValue, field.second,
                    "'seconds': expected each combination of rows, columns "
                    "and depths once, all numbers positive");
    } else {
      reader.fail(ErrorId::ConfigUnknownKey, field.first,
                  "'" + key + "' is no key of measured products; expected " +
                      form);
    }
  }
  if (!dtype || rows.empty())
    reader.fail(ErrorId::ConfigMissingKey, entry,
                "measured products need dtype and seconds");
  return {*dtype, isTransposed, rows};
}

std::vector<MatmulTable> fsdp::readMeasuredProducts(const YamlReader &reader,
                                                    const YAML::Node &node) {
  if (!node.IsSequence())
    reader.failType(node, "measured", "a list of measured products");
  std::vector<MatmulTable> all;
  for (const YAML::Node &entry : node)
    all.push_back(readProducts(reader, entry));
  return all;
}

std::map<std::string, Curve, std::less<>>
fsdp::readMeasuredOperators(const YamlReader &reader, const YAML::Node &node) {
  if (!node.IsMap())
    reader.failType(node, "operators",
                    "a map from operators to [[bytes, seconds], …]");
  std::map<std::string, Curve, std::less<>> all;
  for (const auto &entry : node) {
    std::string name = reader.readString(entry.first, "operators");
    all[name] = readCurve(reader, entry.second, name);
  }
  return all;
}
