//===- ZipDirectoryTest.cpp - Archives, whole and damaged -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ZipDirectory.h"

#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

using namespace fsdp;

namespace {

/// Writes zip archives by hand, byte for byte.
class ZipWriter {
public:
  /// `data` as it is in the file; `crc` and `size` of what it was made from.
  void add(const std::string &name, const std::string &data, uint32_t crc,
           uint16_t method = 0, std::optional<size_t> size = std::nullopt) {
    Entry entry{name,        crc,    bytes.size(),
                data.size(), method, size.value_or(data.size())};
    put(0x04034b50, 4);
    put(20, 2), put(0, 2), put(method, 2), put(0, 4), put(crc, 4);
    put(data.size(), 4), put(data.size(), 4), put(name.size(), 2);
    put(5, 2); // a local extra field that the directory does not have
    bytes += name + "extra" + data;
    entries.push_back(entry);
  }

  std::string finish(bool zip64, const std::string &comment = "") {
    size_t begin = bytes.size();
    for (const Entry &entry : entries) {
      put(0x02014b50, 4);
      put(20, 2), put(20, 2), put(0, 2), put(entry.method, 2), put(0, 4);
      put(entry.crc, 4);
      put(zip64 ? 0xffffffff : entry.bytes, 4);
      put(zip64 ? 0xffffffff : entry.unpacked, 4);
      put(entry.name.size(), 2), put(zip64 ? 28 : 0, 2), put(0, 2), put(0, 2);
      put(0, 2), put(0, 4), put(zip64 ? 0xffffffff : entry.offset, 4);
      bytes += entry.name;
      if (zip64) {
        put(1, 2), put(24, 2);
        put(entry.unpacked, 8), put(entry.bytes, 8), put(entry.offset, 8);
      }
    }
    size_t end = bytes.size();
    if (zip64) {
      put(0x06064b50, 4), put(44, 8), put(45, 2), put(45, 2), put(0, 4);
      put(0, 4), put(entries.size(), 8), put(entries.size(), 8);
      put(end - begin, 8), put(begin, 8);
      put(0x07064b50, 4), put(0, 4), put(end, 8), put(1, 4);
    }
    put(0x06054b50, 4), put(0, 2), put(0, 2);
    put(zip64 ? 0xffff : entries.size(), 2);
    put(zip64 ? 0xffff : entries.size(), 2);
    put(zip64 ? 0xffffffff : end - begin, 4);
    put(zip64 ? 0xffffffff : begin, 4);
    put(comment.size(), 2);
    return bytes + comment;
  }

private:
  struct Entry {
    std::string name;
    uint32_t crc;
    size_t offset, bytes;
    uint16_t method;
    size_t unpacked;
  };
  void put(uint64_t value, int count) {
    for (; count-- > 0; value >>= 8)
      bytes += static_cast<char>(value & 255);
  }
  std::string bytes;
  std::vector<Entry> entries;
};

uint32_t checksum(const std::string &data) {
  return crc32_z(0, reinterpret_cast<const Bytef *>(data.data()), data.size());
}

/// As zip archives hold it: a raw stream.
std::string deflated(const std::string &data) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = data.size();
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = out.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class ZipDirectoryTest : public testing::Test {
protected:
  std::string path = testing::TempDir() + "fsdp-zip-test.zip";
  void TearDown() override { std::filesystem::remove(path); }

  void write(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ErrorId refusal() {
    try {
      ZipDirectory::read(path);
    } catch (const Error &error) {
      return error.id();
    }
    ADD_FAILURE() << "was read";
    return ErrorId::BadUsage;
  }
  static ZipWriter sample() {
    ZipWriter writer;
    writer.add("model/data/weight_0", "01234567", checksum("01234567"));
    writer.add("model/version", "3\n", checksum("3\n"));
    return writer;
  }
};

TEST_F(ZipDirectoryTest, FindsEntries) {
  for (bool zip64 : {false, true}) {
    std::string bytes = sample().finish(zip64, "a comment");
    write(bytes);
    ZipDirectory directory = ZipDirectory::read(path);
    EXPECT_EQ(directory.rootFolder(), "model");
    EXPECT_EQ(directory.fileBytes(), bytes.size());
    ASSERT_EQ(directory.entries().size(), 2u);
    const ZipEntry *entry = directory.find("data/weight_0");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(bytes.substr(entry->offset, entry->bytes), "01234567");
    EXPECT_EQ(entry->crc, 0x2d803af5u);
    EXPECT_TRUE(entry->stored);
    EXPECT_EQ(directory.find("weight_0"), nullptr);
    EXPECT_EQ(directory.readStored("version"), "3\n");
  }
}

TEST_F(ZipDirectoryTest, FindsEntriesOfANestedArchive) {
  std::string inner = sample().finish(false);
  ZipWriter writer;
  writer.add("outer/inner.pt", inner, checksum(inner));
  std::string bytes = writer.finish(false);
  write(bytes);
  const ZipEntry outer = ZipDirectory::read(path).stored("inner.pt");
  ZipDirectory directory = ZipDirectory::read(path, outer.offset, outer.bytes);
  EXPECT_EQ(bytes.substr(directory.find("data/weight_0")->offset, 8),
            "01234567");
  EXPECT_EQ(directory.readStored("data/weight_0"), "01234567");
  EXPECT_EQ(directory.fileBytes(), inner.size());
}

TEST_F(ZipDirectoryTest, HashSeesNamesSizesAndCrcs) {
  auto hashOf = [&](const char *name, const char *data, uint32_t crc) {
    ZipWriter writer;
    writer.add(name, data, crc);
    write(writer.finish(false));
    return ZipDirectory::read(path).directoryHash();
  };
  std::string hash = hashOf("a/b", "x", 1);
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, hashOf("a/b", "y", 1));
  EXPECT_NE(hash, hashOf("a/c", "x", 1));
  EXPECT_NE(hash, hashOf("a/b", "xx", 1));
  EXPECT_NE(hash, hashOf("a/b", "x", 2));
}

TEST_F(ZipDirectoryTest, KeepsNamesWithoutACommonFolder) {
  ZipWriter writer;
  writer.add("a/x", "1", 1);
  writer.add("b/x", "2", 2);
  write(writer.finish(false));
  ZipDirectory directory = ZipDirectory::read(path);
  EXPECT_EQ(directory.rootFolder(), "");
  EXPECT_NE(directory.find("b/x"), nullptr);
}

TEST_F(ZipDirectoryTest, RefusesOtherFiles) {
  EXPECT_EQ(refusal(), ErrorId::FileNotReadable);
  write("");
  EXPECT_EQ(refusal(), ErrorId::NotAnArchive);
  write(std::string(100000, 'x'));
  EXPECT_EQ(refusal(), ErrorId::NotAnArchive);
}

TEST_F(ZipDirectoryTest, RefusesEveryTruncation) {
  std::string bytes = sample().finish(true);
  for (size_t length = 0; length < bytes.size(); ++length) {
    write(bytes.substr(0, length));
    EXPECT_EQ(refusal(),
              length < 4 ? ErrorId::NotAnArchive : ErrorId::ArchiveDamaged)
        << "at " << length;
  }
}

TEST_F(ZipDirectoryTest, SurvivesEveryFlippedByte) {
  std::string bytes = sample().finish(true);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    write(damaged);
    try {
      ZipDirectory directory = ZipDirectory::read(path);
      for (const ZipEntry &entry : directory.entries())
        EXPECT_LE(entry.offset + (entry.stored ? entry.bytes : 0),
                  bytes.size());
    } catch (const Error &error) {
      EXPECT_EQ(error.exitStatus(), 1);
    }
  }
}

TEST_F(ZipDirectoryTest, EntriesThatShareBytesAreRefused) {
  std::string bytes = sample().finish(false);
  // The second row of the directory names the first entry's place.
  size_t row = bytes.rfind("PK\1\2");
  for (int i = 42; i < 46; ++i)
    bytes[row + static_cast<size_t>(i)] = 0;
  write(bytes);
  EXPECT_EQ(refusal(), ErrorId::ArchiveDamaged);
}

TEST_F(ZipDirectoryTest, TwoEntriesOfANameAreRefused) {
  ZipWriter writer;
  writer.add("m/a", "1", checksum("1"));
  writer.add("m/a", "2", checksum("2"));
  write(writer.finish(false));
  EXPECT_EQ(refusal(), ErrorId::ArchiveDamaged);
}

TEST_F(ZipDirectoryTest, SizesBeyondWhatIsPackedAreRefused) {
  ZipWriter writer;
  writer.add("m/a", "0123456789", 1, 8, 1 << 30);
  write(writer.finish(false));
  EXPECT_EQ(refusal(), ErrorId::ArchiveDamaged);
}

TEST_F(ZipDirectoryTest, AFolderIsNoArchive) {
  std::filesystem::create_directory(path);
  EXPECT_EQ(refusal(), ErrorId::NotARegularFile);
}

TEST_F(ZipDirectoryTest, CompressedEntriesAreRefusedWhenNeeded) {
  ZipWriter writer;
  writer.add("m/a", "x", 1, 8);
  write(writer.finish(false));
  ZipDirectory directory = ZipDirectory::read(path);
  EXPECT_FALSE(directory.find("a")->stored);
  try {
    directory.stored("a");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArchiveCompressed);
  }
  try {
    directory.stored("b");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArchiveDamaged);
    EXPECT_THAT(error.what(), testing::HasSubstr("has no entry 'b'"));
  }
}

TEST_F(ZipDirectoryTest, DamagedContentIsNotRead) {
  ZipWriter writer;
  writer.add("m/a", "wrong", checksum("right"));
  write(writer.finish(false));
  ZipDirectory directory = ZipDirectory::read(path);
  try {
    directory.readStored("a");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArchiveDamaged);
    EXPECT_THAT(error.what(), testing::HasSubstr("entry 'a'"));
  }
}

TEST_F(ZipDirectoryTest, ChecksDeflatedContent) {
  std::string text;
  for (int i = 0; i < 40000; ++i)
    text += std::to_string(i);
  std::string packed = deflated(text);
  auto isWhole = [&](const std::string &data, uint32_t crc, size_t size) {
    ZipWriter writer;
    writer.add("m/a", data, crc, 8, size);
    write(writer.finish(false));
    ZipDirectory directory = ZipDirectory::read(path);
    try {
      directory.checkContent(*directory.find("a"));
      return true;
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), ErrorId::ArchiveDamaged);
      return false;
    }
  };
  EXPECT_TRUE(isWhole(packed, checksum(text), text.size()));
  EXPECT_FALSE(isWhole(packed, checksum(text) + 1, text.size()));
  EXPECT_FALSE(isWhole(packed, checksum(text), text.size() - 1));
  EXPECT_FALSE(isWhole(packed, checksum(text), text.size() + 1));
  EXPECT_FALSE(isWhole(packed.substr(0, packed.size() / 2), checksum(text),
                       text.size()));
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_FALSE(isWhole(packed, checksum(text), text.size()));
}

} // namespace
