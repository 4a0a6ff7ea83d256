//===- Toml.cpp - TOML as YAML ------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/yaml/Toml.h"

#include "support/Error.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

using namespace fsdp;

namespace {

/// Writes tokens where they stand in the file, or as soon behind that as there
/// is room on the line.
class Writer {
public:
  explicit Writer(const std::string &file) : file(file) {}

  void write(const toml::table &table) {
    std::vector<std::pair<const toml::key *, const toml::node *>> entries;
    for (const auto &[key, value] : table)
      entries.emplace_back(&key, &value);
    std::ranges::sort(entries, {}, [](const auto &entry) {
      const toml::source_position &begin = entry.first->source().begin;
      return std::pair(begin.line, begin.column);
    });
    text += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i)
        text += ',';
      moveTo(entries[i].first->source().begin, entries[i].first->str());
      writeText(entries[i].first->str());
      text += ": ";
      write(*entries[i].second);
    }
    text += '}';
  }

  std::string text;

private:
  void moveTo(const toml::source_position &to, std::string_view key) {
    if (to.line < line)
      throw Error(ErrorId::ConfigNotReadable,
                  file + ":" + std::to_string(to.line) + ":" +
                      std::to_string(to.column) + ": '" + std::string(key) +
                      "' belongs to a table that ends further down; expected "
                      "all keys of a table in one place");
    for (; line < to.line; ++line)
      text += '\n';
    size_t start = text.rfind('\n');
    size_t column = text.size() - (start == text.npos ? 0 : start + 1);
    text.append(std::max<size_t>(to.column, column + 1) - column - 1, ' ');
  }

  void writeText(std::string_view value) {
    text += '"';
    for (char letter : value)
      switch (letter) {
      case '"':
      case '\\':
        text += '\\';
        text += letter;
        break;
      case '\n':
        text += "\\n";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(letter) < 0x20) {
          static constexpr char digits[] = "0123456789abcdef";
          text += "\\x";
          text += digits[letter >> 4];
          text += digits[letter & 15];
        } else {
          text += letter;
        }
      }
    text += '"';
  }

  void write(const toml::node &node) {
    if (const toml::table *table = node.as_table())
      return write(*table);
    if (const toml::array *array = node.as_array()) {
      text += '[';
      for (size_t i = 0; i < array->size(); ++i) {
        if (i)
          text += ", ";
        write((*array)[i]);
      }
      text += ']';
      return;
    }
    if (const auto *value = node.as_string())
      return writeText(value->get());
    if (const auto *value = node.as_boolean()) {
      text += value->get() ? "true" : "false";
      return;
    }
    if (const auto *value = node.as_integer()) {
      text += std::to_string(value->get());
      return;
    }
    std::ostringstream other; // numbers with a point, and dates
    node.visit([&](const auto &value) {
      if constexpr (toml::is_floating_point<decltype(value)>) {
        double number = value.get();
        if (std::isnan(number))
          other << ".nan";
        else if (std::isinf(number))
          other << (number < 0 ? "-.inf" : ".inf");
        else
          other << value;
      } else if constexpr (toml::is_date_time<decltype(value)> ||
                           toml::is_date<decltype(value)> ||
                           toml::is_time<decltype(value)>) {
        other << '"' << value << '"';
      }
    });
    text += other.str();
  }

  const std::string &file;
  size_t line = 1;
};

} // namespace

std::string fsdp::convertToml(const std::string &text,
                              const std::string &file) {
  try {
    toml::table root = toml::parse(text, file);
    Writer writer(file);
    writer.write(root);
    return std::move(writer.text) + "\n";
  } catch (const toml::parse_error &error) {
    const toml::source_position &place = error.source().begin;
    std::string message(error.description());
    if (!message.empty() && message[0] >= 'A' && message[0] <= 'Z')
      message[0] = static_cast<char>(message[0] - 'A' + 'a');
    throw Error(ErrorId::ConfigNotReadable,
                file + ":" + std::to_string(place.line) + ":" +
                    std::to_string(place.column) + ": no TOML: " + message);
  }
}
