//===- EventFile.cpp - Numbers for TensorBoard ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/EventFile.h"

#include "support/Error.h"

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

#include <unistd.h>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Checksums
//===----------------------------------------------------------------------===//

static constexpr std::array<uint32_t, 256> makeTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78; // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

uint32_t fsdp::crc32cOf(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = makeTable();
  uint32_t crc = ~uint32_t{0};
  for (char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

//===----------------------------------------------------------------------===//
// Protocol buffers
//===----------------------------------------------------------------------===//

/// Little-endian, whatever the machine is.
template <typename T>
static void appendFixed(std::string &to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    to += static_cast<char>((value >> (8 * i)) & 0xFF);
}

static void appendVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>((value & 0x7F) | 0x80);
  to += static_cast<char>(value);
}

namespace {
enum Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
}

static void appendTag(std::string &to, uint64_t field, Wire wire) {
  appendVarint(to, field << 3 | wire);
}

static void appendBytes(std::string &to, uint64_t field,
                        std::string_view value) {
  appendTag(to, field, bytes);
  appendVarint(to, value.size());
  to += value;
}

// Fields of Event, Summary, Summary.Value and SessionLog.
static constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3,
                          kSummary = 5, kSessionLog = 7;
static constexpr uint64_t kValue = 1, kTag = 1, kSimpleValue = 2;
static constexpr uint64_t kStatus = 1, kStart = 1;

static std::string beginEvent() {
  std::string event;
  auto now = std::chrono::system_clock::now().time_since_epoch();
  appendTag(event, kWallTime, fixed64);
  appendFixed(event, std::bit_cast<uint64_t>(
                         std::chrono::duration<double>(now).count()));
  return event;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static Error eventsNotWritable(const std::string &path) {
  return Error(ErrorId::FileNotWritable,
               "the event file '" + path + "' cannot be written: " +
                   std::error_code(errno, std::generic_category()).message());
}

/// As TensorBoard's own writers call it, which its readers sort by.
static std::string chooseName() {
  static std::atomic<int> files = 0;
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  char name[384];
  std::snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%d.%d",
                static_cast<long long>(seconds), host,
                static_cast<int>(getpid()), files++);
  return name;
}

EventFile::EventFile(const std::string &folder, uint64_t first) {
  name = (std::filesystem::path(folder) / chooseName()).string();
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) {
    errno = code.value();
    throw eventsNotWritable(name);
  }
  file = std::fopen(name.c_str(), "wxe");
  if (!file)
    throw eventsNotWritable(name);
  std::string event = beginEvent();
  appendBytes(event, kFileVersion, "brain.Event:2");
  writeRecord(event);
  if (first == 0)
    return;
  event = beginEvent();
  appendTag(event, kStep, varint);
  appendVarint(event, first);
  std::string log;
  appendTag(log, kStatus, varint);
  appendVarint(log, kStart);
  appendBytes(event, kSessionLog, log);
  writeRecord(event);
}

EventFile::~EventFile() {
  if (file)
    std::fclose(file);
}

void EventFile::write(uint64_t step, const Values &values) {
  std::string event = beginEvent(), summary;
  appendTag(event, kStep, varint);
  appendVarint(event, step);
  for (const auto &[tag, value] : values) {
    std::string one;
    appendBytes(one, kTag, tag);
    appendTag(one, kSimpleValue, fixed32);
    appendFixed(one, std::bit_cast<uint32_t>(static_cast<float>(value)));
    appendBytes(summary, kValue, one);
  }
  appendBytes(event, kSummary, summary);
  writeRecord(event);
}

void EventFile::writeRecord(const std::string &event) {
  auto masked = [](std::string_view bytes) {
    return std::rotr(crc32cOf(bytes), 15) + 0xA282EAD8U;
  };
  std::string record;
  appendFixed(record, uint64_t{event.size()});
  appendFixed(record, masked(record));
  record += event;
  appendFixed(record, masked(event));
  if (std::fwrite(record.data(), 1, record.size(), file) != record.size() ||
      std::fflush(file) != 0)
    throw eventsNotWritable(name);
}
