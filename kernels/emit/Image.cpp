//===- Image.cpp - Code that runs wherever it is mapped -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Image.h"

#include "kernels/Failure.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/Endian.h>
#include <llvm/Support/MathExtras.h>

#include <map>

using namespace fsdp;
using namespace llvm::object;

namespace {

class Image {
public:
  explicit Image(const ObjectFile &object) : object(object) {}
  std::string make();

private:
  void lay(bool isText);
  void resolve(const SectionRef &section);
  void resolve(const RelocationRef &relocation, uint64_t at);
  void patch(uint64_t at, unsigned bits, unsigned low, int64_t value);

  const ObjectFile &object;
  std::string bytes;
  std::map<uint64_t, uint64_t> places; ///< of sections, by their numbers
};

} // namespace

[[noreturn]] static void refuse(const std::string &what) {
  throw EmitFailure("has code that " + what);
}

template <typename T>
static T valueOf(llvm::Expected<T> value) {
  if (!value)
    refuse("cannot be read: " + llvm::toString(value.takeError()));
  return *value;
}

void Image::lay(bool isText) {
  for (const SectionRef &section : object.sections()) {
    bool isThere = ELFSectionRef(section).getFlags() & llvm::ELF::SHF_ALLOC;
    llvm::StringRef name = valueOf(section.getName());
    if (section.isText() != isText || !isThere || section.getSize() == 0 ||
        name.starts_with(".eh_frame"))
      continue;
    if (ELFSectionRef(section).getFlags() & llvm::ELF::SHF_WRITE)
      refuse("has variables, in " + name.str());
    uint64_t alignment = section.getAlignment().value();
    if (alignment > 64)
      refuse("is aligned to more than 64 bytes");
    bytes.resize(
        llvm::alignTo(bytes.size(), std::max<uint64_t>(alignment, 16)));
    places[section.getIndex()] = bytes.size();
    bytes += valueOf(section.getContents()).str();
  }
}

/// Puts `value` into `bits` bits from bit `low` on of the word at `at`.
void Image::patch(uint64_t at, unsigned bits, unsigned low, int64_t value) {
  if (at + 4 > bytes.size() || (bits < 64 && !llvm::isIntN(bits, value)))
    refuse("is too far from its constants");
  uint32_t word = llvm::support::endian::read32le(&bytes[at]);
  auto mask = uint32_t(((uint64_t{1} << bits) - 1) << low);
  word = (word & ~mask) | (uint32_t(uint64_t(value) << low) & mask);
  llvm::support::endian::write32le(&bytes[at], word);
}

void Image::resolve(const RelocationRef &relocation, uint64_t at) {
  using namespace llvm::ELF;
  auto symbol = relocation.getSymbol();
  if (symbol == object.symbol_end())
    refuse("refers to nothing");
  auto section = valueOf(symbol->getSection());
  auto place = section == object.section_end()
                   ? places.end()
                   : places.find(section->getIndex());
  if (place == places.end())
    refuse("refers to '" + valueOf(symbol->getName()).str() +
           "', which it does not have");
  int64_t addend = valueOf(ELFRelocationRef(relocation).getAddend());
  auto value = int64_t(place->second + valueOf(symbol->getValue())) + addend -
               int64_t(at);
  bool isArm = object.getArch() == llvm::Triple::aarch64;
  uint64_t type = relocation.getType();
  if (!isArm && (type == R_X86_64_PC32 || type == R_X86_64_PLT32))
    return patch(at, 32, 0, value);
  if (isArm && type == R_AARCH64_LD_PREL_LO19)
    return patch(at, 19, 5, value / 4);
  if (isArm && type == R_AARCH64_ADR_PREL_LO21) {
    if (!llvm::isIntN(21, value))
      refuse("is too far from its constants");
    patch(at, 19, 5, value >> 2);
    // Two bits without a sign.
    uint32_t word = llvm::support::endian::read32le(&bytes[at]);
    word = (word & ~(3u << 29)) | uint32_t(value & 3) << 29;
    return llvm::support::endian::write32le(&bytes[at], word);
  }
  refuse("refers to '" + valueOf(symbol->getName()).str() +
         "' in another way than by its distance: " + std::to_string(type));
}

void Image::resolve(const SectionRef &section) {
  auto target = valueOf(section.getRelocatedSection());
  if (target == object.section_end() || !places.contains(target->getIndex()))
    return;
  for (const RelocationRef &relocation : section.relocations())
    resolve(relocation, places[target->getIndex()] + relocation.getOffset());
}

std::string Image::make() {
  lay(true);
  lay(false);
  for (const SectionRef &section : object.sections())
    resolve(section);
  // A call begins at the first byte.
  for (const SymbolRef &symbol : object.symbols())
    if (valueOf(symbol.getType()) == SymbolRef::ST_Function) {
      auto section = valueOf(symbol.getSection());
      if (section == object.section_end() ||
          places.at(section->getIndex()) + valueOf(symbol.getValue()) != 0)
        refuse("does not begin with its function");
    }
  return std::move(bytes);
}

std::string fsdp::makeImage(llvm::MemoryBufferRef object) {
  auto file = ObjectFile::createELFObjectFile(object);
  if (!file)
    refuse("cannot be read: " + llvm::toString(file.takeError()));
  return Image(**file).make();
}
