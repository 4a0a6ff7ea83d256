//===- Harness.cpp - What the fuzzers share -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/Harness.h"

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/pt2/Capture.h"
#include "ir/capture/torchscript/LoadLimits.h"
#include "ir/capture/torchscript/TorchScript.h"
#include "support/Error.h"

#include <zlib.h>

using namespace fsdp;
using namespace fsdp::fuzz;

namespace {
/// Little endian.
template <typename T>
void append(std::string &bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(char(uint64_t(value) >> (8 * i)));
}

/// What an entry's local header and its row of the directory share.
void appendEntry(std::string &bytes, const std::string &name,
                 const std::string &content) {
  append<uint16_t>(bytes, 20); // version
  append<uint16_t>(bytes, 0);  // flags
  append<uint16_t>(bytes, 0);  // stored
  append<uint32_t>(bytes, 0);  // time and date
  append<uint32_t>(bytes,
                   crc32(0, reinterpret_cast<const Bytef *>(content.data()),
                         content.size()));
  append<uint32_t>(bytes, content.size());
  append<uint32_t>(bytes, content.size());
  append<uint16_t>(bytes, name.size());
  append<uint16_t>(bytes, 0); // extra field
}
} // namespace

std::string fuzz::makeArchive(
    const std::vector<std::pair<std::string, std::string>> &entries) {
  std::string bytes, directory;
  for (const auto &[name, content] : entries) {
    uint32_t offset = bytes.size();
    append<uint32_t>(bytes, 0x04034b50);
    appendEntry(bytes, name, content);
    bytes += name + content;
    append<uint32_t>(directory, 0x02014b50);
    append<uint16_t>(directory, 20);
    appendEntry(directory, name, content);
    append<uint16_t>(directory, 0); // comment
    append<uint16_t>(directory, 0); // disk
    append<uint16_t>(directory, 0); // attributes
    append<uint32_t>(directory, 0);
    append<uint32_t>(directory, offset);
    directory += name;
  }
  uint32_t offset = bytes.size(), size = directory.size();
  bytes += directory;
  append<uint32_t>(bytes, 0x06054b50);
  append<uint32_t>(bytes, 0);
  append<uint16_t>(bytes, entries.size());
  append<uint16_t>(bytes, entries.size());
  append<uint32_t>(bytes, size);
  append<uint32_t>(bytes, offset);
  append<uint16_t>(bytes, 0);
  return bytes;
}

std::vector<std::string> fuzz::splitParts(std::string_view text) {
  static constexpr std::string_view line = "\n=====\n";
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(line, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos)
      return parts;
    begin = end + line.size();
  }
}

void fuzz::captureArchive(const std::string &path) {
  capture::triesFirst = false;
  try {
    ZipDirectory archive = ZipDirectory::read(path);
    capture::JointCapture capture;
    if (capture::isPt2(archive)) {
      const DimSizes exported{{}, /*keepExported=*/true};
      capture::findUnsupportedPt2(archive, CaptureOptions(), exported);
      capture::capturePt2(archive, exported, capture);
    } else if (capture::isTorchScript(archive)) {
      capture::findUnsupportedTorchScript(archive);
    }
  } catch (const Error &) {
  }
}
