//===- Manifest.cpp - What a checkpoint consists of -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Manifest.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/Version.h"
#include "support/Hash.h"
#include "support/JsonIntegers.h"
#include "support/Nesting.h"
#include "support/ReadOnlyFile.h"

#include <nlohmann/json.hpp>

#include <filesystem>

using namespace fsdp;
using Json = nlohmann::ordered_json;

const char *const fsdp::kManifestName = "manifest.json";

static constexpr const char *kFormat = "fsdp-opt checkpoint";
/// Raised by a change that an older runtime would misread.
static constexpr uint64_t kVersion = 1;
static constexpr const char *kChecksum = "checksum";
/// Some hundred bytes a state and file.
static constexpr uint64_t kMaxBytes = 256 << 20;

uint64_t Manifest::worldSize() const {
  uint64_t size = 1;
  for (const auto &axis : mesh)
    size *= axis.second;
  return size;
}

std::string fsdp::printManifest(const Manifest &manifest) {
  Json json;
  json["format"] = kFormat;
  json["format_version"] = kVersion;
  json["fsdp_run"] = kCompilerVersion;
  json["step"] = manifest.step;
  json["rows"] = manifest.rows;
  json["seed"] = manifest.seed;
  json["lr"] = manifest.lr;
  json["lr_schedule"] = manifest.schedule;
  json["world_size"] = manifest.worldSize();
  json["mesh"] = Json::object();
  for (const auto &[name, size] : manifest.mesh)
    json["mesh"][name] = size;
  json["plan"] = manifest.plan;
  json["files"] = Json::array();
  for (const FileSeal &file : manifest.files)
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"head_xxh3_128", file.head}});
  json["states"] = Json::array();
  for (const ManifestState &state : manifest.states) {
    json["states"].push_back({{"name", state.name},
                              {"role", plan::EnumNameRole(state.role)},
                              {"dtype", dtypeName(state.dtype)},
                              {"shape", state.shape}});
    if (state.copies > 1) {
      json["states"].back()["of_rank"] = true;
      json["states"].back()["copies"] = state.copies;
    }
  }
  json[kChecksum] = hash128(json.dump());
  return json.dump(2) + "\n";
}

[[noreturn]] static void refuse(const std::string &path,
                                const std::string &what) {
  throw Error(ErrorId::CheckpointDamaged,
              "'" + path + "' is no manifest of a checkpoint: " + what +
                  "; copy the checkpoint again, or start from another one");
}

static std::optional<plan::Role> findRole(const std::string &name) {
  for (plan::Role role : plan::EnumValuesRole())
    if (name == plan::EnumNameRole(role))
      return role;
  return std::nullopt;
}

Manifest fsdp::parseManifest(const std::string &text, const std::string &path) {
  checkJsonDepth(text, "the manifest '" + path + "'");
  Json json = Json::parse(text, /*callback=*/nullptr,
                          /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", Json()) != kFormat)
    refuse(path, "expected a JSON object of the format '" +
                     std::string(kFormat) + "'");
  Json version = json.value("format_version", Json());
  if (version != kVersion)
    throw Error(ErrorId::CheckpointVersion,
                "'" + path + "' has version " + version.dump() +
                    " of the format; this fsdp-run reads version " +
                    std::to_string(kVersion) + "; it was written by fsdp-run " +
                    json.value("fsdp_run", Json("of another version")).dump());
  Json checksum = json.value(kChecksum, Json());
  json.erase(kChecksum);
  if (checksum != hash128(json.dump()))
    refuse(path, "its checksum does not fit, bytes of it have changed");
  try {
    Manifest manifest;
    manifest.step = readInteger<uint64_t>(json.at("step"));
    manifest.rows = readInteger<uint64_t>(json.at("rows"));
    manifest.seed = readInteger<uint64_t>(json.at("seed"));
    manifest.lr = json.at("lr");
    manifest.schedule = json.at("lr_schedule");
    for (const auto &[name, size] : json.at("mesh").items())
      manifest.mesh.emplace_back(name, readInteger<uint32_t>(size));
    manifest.plan = json.at("plan");
    for (const Json &file : json.at("files")) {
      manifest.files.push_back({file.at("name"),
                                readInteger<uint64_t>(file.at("bytes")),
                                file.at("head_xxh3_128")});
      const std::string &name = manifest.files.back().name;
      if (std::filesystem::path(name).filename() != name)
        refuse(path, "it names the file '" + name + "' of another folder");
    }
    for (const Json &each : json.at("states")) {
      std::optional<plan::DType> dtype =
          findDType(each.at("dtype").get<std::string>());
      std::optional<plan::Role> role = findRole(each.at("role"));
      ManifestState state{each.at("name"), role.value_or(plan::Role::buffer),
                          dtype.value_or(plan::DType::f32),
                          readIntegers<int64_t>(each.at("shape"))};
      // Without a number: older files, whose ranks had a copy each.
      if (each.value("of_rank", false))
        state.copies = each.contains("copies")
                           ? readInteger<uint64_t>(each.at("copies"))
                           : manifest.worldSize();
      if (!dtype || !role || !checkedElements(state.shape))
        refuse(path, "state '" + state.name + "' has no valid type or role");
      manifest.states.push_back(std::move(state));
    }
    return manifest;
  } catch (const nlohmann::json::exception &error) {
    refuse(path, error.what());
  }
}

Manifest fsdp::readManifest(const std::string &folder) {
  std::string path = (std::filesystem::path(folder) / kManifestName).string();
  return parseManifest(readWholeFile(path, "the manifest", kMaxBytes), path);
}
