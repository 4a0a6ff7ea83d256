//===- Tokens.cpp - Windows of token files --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Tokens.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "runtime/data/Files.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;
using plan::DType;

namespace {

using Files = std::vector<std::unique_ptr<TokenFile>>;

class WindowReader final : public RowReader {
public:
  /// Windows of `length` tokens, `shift` tokens later; each window needs
  /// `needed` tokens behind its beginning.
  WindowReader(const Files &files, uint64_t length, uint64_t shift,
               uint64_t needed, DType as)
      : files(files), length(length), shift(shift), as(as) {
    uint64_t sum = 0;
    for (const auto &file : files) {
      uint64_t beyond = needed - length; // of the last window's
      if (file->size() > beyond)
        sum += (file->size() - beyond) / length;
      ends.push_back(sum);
    }
  }

  uint64_t rows() const override { return ends.back(); }

  void read(uint64_t first, uint64_t count, std::byte *to) const override {
    auto end = std::upper_bound(ends.begin(), ends.end(), first);
    while (count != 0) {
      auto file = static_cast<size_t>(end - ends.begin());
      uint64_t number = std::min(count, *end - first);
      uint64_t begin = first - (file == 0 ? 0 : ends[file - 1]);
      // Windows lie one behind the other, so one read is enough.
      files[file]->read(begin * length + shift, number * length, as, to);
      to += number * length * dtypeBytes(as);
      first += number;
      count -= number;
      ++end;
    }
  }

private:
  const Files &files;
  uint64_t length, shift;
  DType as;
  std::vector<uint64_t> ends; ///< by file: windows up to its end
};

} // namespace

Tokens::Tokens(const plan::DataT &data)
    : inputs(data.inputs), targets(data.targets) {
  for (const std::string &path : findFiles(data.files))
    files.push_back(std::make_unique<TokenFile>(path, data.format, data.dtype));
}

std::string Tokens::describe() const {
  std::string text = "'" + files.front()->path() + "'";
  if (files.size() > 1)
    text += " and " + std::to_string(files.size() - 1) + " more";
  return text;
}

std::vector<std::string> Tokens::paths() const {
  std::vector<std::string> all;
  for (const auto &file : files)
    all.push_back(file->path());
  return all;
}

std::vector<std::string> Tokens::names() const {
  std::vector<std::string> all = inputs;
  all.insert(all.end(), targets.begin(), targets.end());
  return all;
}

std::unique_ptr<RowReader> Tokens::open(const plan::InputT &input) const {
  bool isTarget = std::ranges::count(targets, input.name);
  if (!isTarget && !std::ranges::count(inputs, input.name))
    return nullptr;
  std::string where = "input '" + input.name + "' is to take tokens";
  if (input.dtype != DType::i64 && input.dtype != DType::i32)
    throw Error(ErrorId::DataType, where + " and has element type " +
                                       std::string(dtypeName(input.dtype)) +
                                       "; expected i64 or i32");
  if (input.shape.size() != 2 || input.shape[1] == 0)
    throw Error(ErrorId::DataShape, where + " and has shape " +
                                        toString(input.shape) +
                                        "; expected rows of tokens");
  auto length = static_cast<uint64_t>(input.shape[1]);
  uint64_t needed = length + !targets.empty();
  auto reader = std::make_unique<WindowReader>(files, length, isTarget, needed,
                                               input.dtype);
  if (reader->rows() == 0) {
    uint64_t longest = 0;
    for (const auto &file : files)
      longest = std::max(longest, file->size());
    throw Error(ErrorId::DataShape,
                describe() + ": no file holds the " + std::to_string(needed) +
                    " tokens that a row of '" + input.name + "' takes" +
                    (targets.empty() ? "" : " with its targets") +
                    "; the longest holds " + std::to_string(longest));
  }
  return reader;
}
