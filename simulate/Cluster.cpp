//===- Cluster.cpp - The hardware that a step is predicted for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Cluster.h"

#include "plan/DType.h"
#include "simulate/BuiltinClusters.h"
#include "simulate/MeasuredFields.h"
#include "support/ByteAmount.h"
#include "support/Nearest.h"
#include "support/ReadOnlyFile.h"
#include "support/yaml/Reader.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>

using namespace fsdp;

/// Far more than a list of measurements needs.
static constexpr uint64_t kMaxBytes = 16 << 20;

namespace {

struct Key {
  std::string_view section, name;
  bool isRequired;
  std::function<void(Cluster &, const YamlReader &, const YAML::Node &)> read;
};

/// Divisors: anything above.
constexpr double kSome = 1e-3;

/// `find` gives the place of the number.
Key number(std::string_view section, std::string_view name, bool isRequired,
           double least, double most, double &(*find)(Cluster &)) {
  return {
      section, name, isRequired,
      [=](Cluster &cluster, const YamlReader &reader, const YAML::Node &node) {
        find(cluster) = readNumber(reader, node, name, least, most);
      }};
}

bool readKind(const YamlReader &reader, const YAML::Node &node,
              std::string_view yes, std::string_view no) {
  std::string_view choices[] = {yes, no};
  return reader.readChoice(node, "kind", choices) == yes;
}

/// Bytes, or "24 GB".
double readMemory(const YamlReader &reader, const YAML::Node &node) {
  std::optional<double> bytes;
  if (node.IsScalar())
    bytes = parseBytes(node.Scalar());
  if (!bytes || *bytes < 1)
    reader.fail(ErrorId::ConfigBadValue, node,
                "'memory': expected bytes, such as 25.2e9, 24 GB or 24GiB, "
                "found " +
                    describeValue(node));
  return *bytes;
}

/// "sm_86"
int readArch(const YamlReader &reader, const YAML::Node &node) {
  std::string text = reader.readString(node, "arch");
  int capability = 0;
  const char *end = text.data() + text.size();
  if (!text.starts_with("sm_") ||
      std::from_chars(text.data() + 3, end, capability).ptr != end ||
      capability < 10 || capability > 999)
    reader.fail(ErrorId::ConfigBadValue, node,
                "'arch': expected a GPU's architecture such as sm_90, found '" +
                    text + "'");
  return capability;
}

std::map<plan::DType, double> readRates(const YamlReader &reader,
                                        const YAML::Node &node) {
  if (!node.IsMap() || node.size() == 0)
    reader.failType(node, "rates", "a map from element types to rates");
  std::map<plan::DType, double> rates;
  for (const auto &entry : node) {
    std::string name = reader.readString(entry.first, "rates");
    std::optional<plan::DType> dtype = findDType(name);
    if (!dtype)
      reader.fail(ErrorId::ConfigBadValue, entry.first,
                  "'rates': expected element types such as bf16 and f32, found "
                  "'" +
                      name + "'");
    rates[*dtype] = readNumber(reader, entry.second, name, 1, kAny);
  }
  return rates;
}

std::vector<MatmulTile> readTiles(const YamlReader &reader,
                                  const YAML::Node &node) {
  std::vector<MatmulTile> tiles;
  for (const std::vector<double> &row : readRows(reader, node, "tiles", 3)) {
    if (row[0] < 1 || row[1] < 1 || row[2] < kSome)
      reader.fail(ErrorId::ConfigBadValue, node,
                  "'tiles': expected rows, columns and a positive efficiency");
    tiles.push_back({row[0], row[1], row[2]});
  }
  return tiles;
}

#define FSDP_NUMBER(section, name, required, least, most, place)               \
  number(section, name, required, least, most,                                 \
         [](Cluster &c) -> double & { return c.place; })
/// `what` reads the node `n` with the reader `r`.
#define FSDP_KEY(section, name, required, place, what)                         \
  {section, name, required,                                                    \
   [](Cluster &c, const YamlReader &r, const YAML::Node &n) {                  \
     c.place = what;                                                           \
   }}

const Key kKeys[] = {
    FSDP_KEY("", "name", true, name, r.readString(n, "name")),
    FSDP_KEY("", "ranks_per_node", true, ranksPerNode,
             readCount(r, n, "ranks_per_node")),
    FSDP_KEY("device", "kind", true, device.isHost,
             readKind(r, n, "cpu", "cuda")),
    FSDP_KEY("device", "name", false, device.name, r.readString(n, "name")),
    FSDP_KEY("device", "arch", false, device.capability, readArch(r, n)),
    FSDP_KEY("device", "memory", true, device.memory, readMemory(r, n)),
    FSDP_NUMBER("device", "reserved", false, 0, kAny, device.reserved),
    FSDP_NUMBER("device", "bandwidth", true, 1, kAny, device.bandwidth),
    FSDP_NUMBER("device", "cache", false, 0, kAny, device.cache),
    FSDP_NUMBER("device", "cache_bandwidth", false, 1, kAny,
                device.cacheBandwidth),
    FSDP_NUMBER("device", "vector_rate", true, 1, kAny, device.vectorRate),
    FSDP_NUMBER("device", "kernel", false, 0, 1, device.kernel),
    FSDP_NUMBER("device", "issue", false, 0, 1, device.issue),
    FSDP_NUMBER("device", "sustained", false, kSome, 1, device.sustained),
    FSDP_NUMBER("device", "elementwise", false, kSome, kAny,
                device.elementwise),
    FSDP_NUMBER("device", "attention_forward", false, kSome, 1,
                device.attentionForward),
    FSDP_NUMBER("device", "attention_backward", false, kSome, 1,
                device.attentionBackward),
    FSDP_NUMBER("device", "convolution", false, kSome, 1, device.convolution),
    FSDP_NUMBER("device", "cores", false, 0, kAny, device.cores),
    FSDP_KEY("matmul", "rates", true, device.matmul.rates, readRates(r, n)),
    FSDP_NUMBER("matmul", "efficiency", false, kSome, 1,
                device.matmul.efficiency),
    FSDP_NUMBER("matmul", "units", false, 1, kAny, device.matmul.units),
    FSDP_NUMBER("matmul", "ramp", false, 0, kAny, device.matmul.ramp),
    FSDP_NUMBER("matmul", "seconds", false, 0, 1, device.matmul.seconds),
    FSDP_KEY("matmul", "splits", false, device.matmul.splits,
             r.readBool(n, "splits")),
    FSDP_KEY("matmul", "tiles", false, device.matmul.tiles, readTiles(r, n)),
    FSDP_KEY("matmul", "measured", false, device.matmul.measured,
             readMeasuredProducts(r, n)),
    FSDP_KEY("", "operators", false, device.operators,
             readMeasuredOperators(r, n)),
    // Read when all else is known.
    {"", "crowded", false,
     [](Cluster &, const YamlReader &r, const YAML::Node &n) {
       if (!n.IsSequence())
         r.failType(n, "crowded", "a list of devices for numbers of ranks");
     }},
    FSDP_NUMBER("host", "upload", false, 1, kAny, host.upload),
    FSDP_NUMBER("host", "download", false, 1, kAny, host.download),
    FSDP_NUMBER("host", "copy", false, 0, 1, host.copy),
    FSDP_NUMBER("host", "bandwidth", false, 1, kAny, host.bandwidth),
    FSDP_KEY("network", "kind", true, network.isNccl,
             readKind(r, n, "nccl", "linear")),
    FSDP_NUMBER("network", "link", true, 1, kAny, network.link),
    FSDP_NUMBER("network", "network", false, 1, kAny, network.network),
    FSDP_NUMBER("network", "latency", false, 0, 1, network.latency),
    FSDP_NUMBER("network", "launch", false, 0, 1, network.launch),
    FSDP_NUMBER("network", "gather", false, kSome, 1, network.gather),
    FSDP_NUMBER("network", "reduce", false, kSome, 1, network.reduce),
    FSDP_NUMBER("network", "processor", false, 0, 1, network.processor),
    FSDP_NUMBER("network", "traffic", false, 0, kAny, network.traffic),
    FSDP_NUMBER("network", "communicator", false, 0, kAny,
                network.communicator),
    FSDP_KEY("network", "staging", false, network.staging,
             r.readBool(n, "staging")),
    FSDP_KEY("network", "measured", false, network.measured,
             readMeasuredCollectives(r, n)),
    FSDP_KEY("network", "skew", false, network.skew, readSkew(r, n)),
};

#undef FSDP_KEY
#undef FSDP_NUMBER

std::string path(const Key &key) {
  return (key.section.empty() ? "" : std::string(key.section) + ".") +
         std::string(key.name);
}

/// Reads the keys of one section; those of "" are the file's own.
void readSection(const YamlReader &reader, const YAML::Node &map,
                 std::string_view section, Cluster &cluster,
                 std::vector<std::string> &found) {
  if (!map.IsMap())
    reader.failType(map, section.empty() ? "cluster" : section, "a map");
  for (const auto &entry : map) {
    std::string name = reader.readString(entry.first, section);
    std::vector<std::string_view> known;
    bool isSection = false, isRead = false;
    for (const Key &key : kKeys) {
      if (section.empty() && !key.section.empty()) {
        isSection |= key.section == name;
        known.push_back(key.section);
      } else if (key.section == section) {
        known.push_back(key.name);
        if (key.name == name) {
          if (std::ranges::find(found, path(key)) != found.end())
            reader.fail(ErrorId::ConfigBadValue, entry.first,
                        "'" + name + "' stands twice; keep one");
          key.read(cluster, reader, entry.second);
          found.push_back(path(key));
          isRead = true;
        }
      }
    }
    if (isSection && !isRead) {
      if (std::ranges::find(found, name) != found.end())
        reader.fail(ErrorId::ConfigBadValue, entry.first,
                    "'" + name + "' stands twice; keep one");
      found.push_back(name);
      readSection(reader, entry.second, name, cluster, found);
    } else if (!isRead) {
      std::string_view nearest = findNearest(name, known);
      reader.fail(ErrorId::ConfigUnknownKey, entry.first,
                  "'" + name + "' is no key of a cluster" +
                      (section.empty() ? "" : "'s " + std::string(section)) +
                      (nearest.empty()
                           ? "; docs/Simulate.md lists them"
                           : "; did you mean '" + std::string(nearest) + "'?"));
    }
  }
}

/// Where a key is missing: its section, or what stands around that.
YAML::Node findSection(const YAML::Node &root, std::string_view section) {
  if (section.empty())
    return root;
  YAML::Node found = root[std::string(section)];
  return found.IsDefined() && !found.IsNull() ? found : root;
}

/// "{ranks: 2, device: …, matmul: …, operators: …}": what is different of the
/// device, where a node has so many ranks.
void readCrowded(const YamlReader &reader, const YAML::Node &list,
                 Cluster &cluster) {
  for (const YAML::Node &entry : list) {
    if (!entry.IsMap() || !entry["ranks"])
      reader.failType(entry, "crowded",
                      "a map {ranks, device, matmul, operators}");
    int64_t ranks = readCount(reader, entry["ranks"], "ranks");
    if (!cluster.crowded.empty() && cluster.crowded.back().first >= ranks)
      reader.fail(ErrorId::ConfigBadValue, entry["ranks"],
                  "'crowded': expected ascending ranks");
    Cluster other = cluster;
    std::vector<std::string> found;
    for (const auto &section : entry) {
      std::string name = reader.readString(section.first, "crowded");
      if (name == "ranks")
        continue;
      if (name == "operators") {
        other.device.operators = readMeasuredOperators(reader, section.second);
        continue;
      }
      if (name != "device" && name != "matmul")
        reader.fail(ErrorId::ConfigUnknownKey, section.first,
                    "'" + name +
                        "' is no key of 'crowded'; expected ranks, device, "
                        "matmul, operators");
      readSection(reader, section.second, name, other, found);
    }
    cluster.crowded.emplace_back(ranks, std::move(other.device));
  }
}

} // namespace

Cluster Cluster::withRanks(int64_t ranks) const {
  Cluster result = *this;
  for (const auto &[least, other] : crowded)
    if (least <= ranks)
      result.device = other;
  return result;
}

Curve Cluster::skewOf(int64_t ranks) const {
  Curve result;
  for (const auto &[least, curve] : network.skew)
    if (least <= ranks)
      result = curve;
  return result;
}

/// "a6000, a100x8"
static std::string listClusters() {
  std::string list;
  for (std::string_view name : Cluster::names())
    list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

/// A key that is not there comes with its place.
static void put(YAML::Node &map, const YAML::Node &key,
                const YAML::Node &value) {
  const YAML::Node &known = map;
  if (key.IsScalar() && known[key.Scalar()])
    map[key.Scalar()] = value;
  else
    map.force_insert(key, value);
}

/// `base: a6000`: that cluster, but for what the file has itself. `memory` at
/// the top is then the device's.
static YAML::Node applyBase(const YamlReader &reader, const YAML::Node &root) {
  if (!root.IsMap() || !root["base"])
    return root;
  std::string name = reader.readString(root["base"], "base");
  const BuiltinCluster *found = nullptr;
  for (const BuiltinCluster &each : getBuiltinClusters())
    if (each.name == name)
      found = &each;
  if (!found)
    reader.fail(ErrorId::ConfigBadValue, root["base"],
                "'base': expected one of " + listClusters() + ", found '" +
                    name + "'");
  YAML::Node merged = YAML::Load(std::string(found->text));
  merged["name"] = name + " as in " + reader.getFile();
  for (const auto &entry : root) {
    std::string key = reader.readString(entry.first, "cluster");
    if (key == "base")
      continue;
    const YAML::Node &all = merged;
    YAML::Node there = all[key];
    if (key == "memory")
      merged["device"]["memory"] = entry.second;
    else if (there && there.IsMap() && entry.second.IsMap())
      for (const auto &each : entry.second)
        put(there, each.first, each.second);
    else
      put(merged, entry.first, entry.second);
  }
  return merged;
}

Cluster Cluster::parse(const std::string &text, const std::string &file) {
  YamlReader reader(file);
  YAML::Node root;
  try {
    root = applyBase(reader, YAML::Load(text));
  } catch (const YAML::Exception &error) {
    refuseYaml(file, error);
  }
  Cluster cluster;
  std::vector<std::string> found;
  readSection(reader, root, "", cluster, found);
  for (const Key &key : kKeys)
    if (key.isRequired && std::ranges::find(found, path(key)) == found.end())
      reader.fail(ErrorId::ConfigMissingKey, findSection(root, key.section),
                  "a cluster needs '" + path(key) +
                      "'; docs/Simulate.md says what it is");
  DeviceModel &device = cluster.device;
  YAML::Node given = root["device"];
  if (device.reserved >= device.memory)
    reader.fail(ErrorId::ConfigBadValue, given["reserved"],
                "'reserved': expected less than the device's memory, found " +
                    given["reserved"].Scalar() + " of " +
                    given["memory"].Scalar());
  // As gloo does, which moves what hosts compute.
  if (std::ranges::find(found, "network.staging") == found.end())
    cluster.network.staging = device.isHost && !cluster.network.isNccl;
  if (device.isHost && device.cores == 0)
    reader.fail(ErrorId::ConfigMissingKey, given,
                "a device of kind cpu needs 'device.cores', which all ranks of "
                "a node share");
  if (root["crowded"])
    readCrowded(reader, root["crowded"], cluster);
  return cluster;
}

std::vector<std::string_view> Cluster::names() {
  std::vector<std::string_view> names;
  for (const BuiltinCluster &each : getBuiltinClusters())
    names.push_back(each.name);
  return names;
}

Cluster Cluster::load(const std::string &nameOrPath,
                      const std::string &profile) {
  if (!profile.empty()) {
    Cluster cluster = load(nameOrPath);
    auto times = std::make_shared<MeasuredTimes>(MeasuredTimes::read(profile));
    if (cluster.device.isHost != times->device().empty())
      throw Error(ErrorId::ProfileInvalid,
                  "profile '" + profile + "': expected a cluster of " +
                      (times->device().empty() ? "hosts" : "GPUs") +
                      ", since it was measured on device '" +
                      (times->device().empty() ? "cpu" : times->device()) +
                      "', found '" + cluster.name + "', whose device is a " +
                      (cluster.device.isHost ? "cpu" : "GPU") +
                      "; name another cluster, or profile a run there");
    cluster.profile = std::move(times);
    return cluster;
  }
  for (const BuiltinCluster &each : getBuiltinClusters())
    if (each.name == nameOrPath)
      return parse(std::string(each.text), std::string(each.name) + ".yaml");
  if (nameOrPath.find_first_of("./") == std::string::npos) {
    std::string list = listClusters();
    std::string_view nearest = findNearest(nameOrPath, names());
    throw Error(ErrorId::ConfigBadValue,
                "expected a cluster, " + list +
                    " or the path of a file that describes one, found '" +
                    nameOrPath + "'" +
                    (nearest.empty()
                         ? ""
                         : "; did you mean '" + std::string(nearest) + "'?"));
  }
  return parse(readWholeFile(nameOrPath, "the cluster", kMaxBytes), nameOrPath);
}
