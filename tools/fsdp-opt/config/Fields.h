//===- Fields.h - Keys of the config, as tables -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row of a table is a key: its name, the member that it fills, the format of
// its value where the member's type does not say it, and a line of text, from
// which docs/Config.md is made. A table holds the keys of one section and fills
// one struct; a row may have a table below it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FIELDS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FIELDS_H

#include "tools/fsdp-opt/config/Formats.h"
#include "tools/fsdp-opt/config/Reference.h"

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fsdp {

template <typename T>
concept IsFormat = requires(T format) { format.describe(); };

/// What few rows have.
struct Extra {
  /// The default in words, where the member's first value does not say it.
  std::string_view absent = {};
  /// What may be written, where the format does not say it.
  std::string_view type = {};
  /// A key without a value is as an absent one.
  bool mayBeEmpty = false;
};

template <typename Owner>
struct Table;

/// A key of a section whose values are in an `Owner`.
template <typename Owner>
struct Field {
  std::string_view key, text;
  std::string type, initial;
  std::function<void(const Value &, Owner &)> read;
  /// Of a section: a value of the key at a path in it, "lr" of "optimizer.lr".
  std::function<void(std::string_view path, const Value &, Owner &)> readBelow;
  /// Of a section or list: the keys in it, if they are this one's own.
  std::function<void(std::string_view path, std::vector<ConfigKey> &)> list;

  /// `member` is a pointer to the member, or a function that gives it.
  template <typename Member, IsFormat Format>
    requires std::invocable<Member, Owner &>
  Field(std::string_view key, Member member, Format format,
        std::string_view text, Extra extra = {})
      : Field(key, extra.type.empty() ? format.describe() : "", "", text,
              extra) {
    Owner owner{};
    if (extra.absent.empty())
      initial = print(format, std::invoke(member, owner));
    read = [=](const Value &value, Owner &owner) {
      if (extra.mayBeEmpty && value.node.IsNull())
        return;
      auto &to = std::invoke(member, owner);
      using T = std::remove_reference_t<decltype(to)>;
      if constexpr (std::is_arithmetic_v<T>)
        to = static_cast<T>(format.read(value));
      else
        to = format.read(value);
    };
  }

  /// The member's type is its format.
  template <typename Member>
    requires std::invocable<Member, Owner &>
  Field(std::string_view key, Member member, std::string_view text,
        Extra extra = {})
      : Field(key, member, getFormat<TypeOf<Member>>(), text, extra) {}

  /// A value that no format has.
  template <typename Read>
    requires std::invocable<Read, const Value &, Owner &>
  Field(std::string_view key, Read read, std::string_view type,
        std::string_view initial, std::string_view text, Extra extra = {})
      : Field(key, std::string(type), std::string(initial), text, extra) {
    this->read = [=](const Value &value, Owner &owner) {
      if (!extra.mayBeEmpty || !value.node.IsNull())
        read(value, owner);
    };
  }

  /// For those who fill in `read`.
  Field(std::string_view key, std::string type, std::string initial,
        std::string_view text, Extra extra)
      : key(key), text(text), type(std::move(type)),
        initial(std::move(initial)) {
    if (!extra.type.empty())
      this->type = extra.type;
    if (!extra.absent.empty())
      this->initial = extra.absent;
  }

private:
  template <typename T>
  struct Bare {
    using Type = T;
  };
  template <typename T>
  struct Bare<std::optional<T>> {
    using Type = T;
  };
  template <typename Member>
  using TypeOf = typename Bare<
      std::remove_cvref_t<std::invoke_result_t<Member, Owner &>>>::Type;

  template <typename Format, typename T>
  static std::string print(const Format &format, const T &value) {
    return format.print(value);
  }
  template <typename Format, typename T>
  static std::string print(const Format &format,
                           const std::optional<T> &value) {
    return value ? format.print(*value) : "";
  }
};

/// The keys of one section.
template <typename Owner>
struct Table {
  std::string_view section; ///< "optimizer.groups"; "" for the top level
  std::vector<Field<Owner>> fields;

  const Field<Owner> *find(std::string_view key) const {
    for (const Field<Owner> &field : fields)
      if (field.key == key)
        return &field;
    return nullptr;
  }

  /// The keys of the map `value`.
  void read(const Value &value, Owner &owner) const {
    value.reading.readSection(section, value.path, value.node,
                              [&](std::string_view key) -> ReadValue {
                                const Field<Owner> *field = find(key);
                                if (!field)
                                  return {};
                                return [field, &owner](const Value &each) {
                                  field->read(each, owner);
                                };
                              });
  }

  /// `value` as that of the key at `path`, which starts here.
  void readAt(std::string_view path, const Value &value, Owner &owner) const {
    size_t dot = std::min(path.find('.'), path.size());
    const Field<Owner> *field = find(path.substr(0, dot));
    if (dot == path.size())
      field->read(value, owner);
    else
      field->readBelow(path.substr(dot + 1), value, owner);
  }

  void list(std::vector<ConfigKey> &all) const {
    for (const Field<Owner> &field : fields) {
      std::string path = joinPath(section, field.key);
      all.push_back({path, field.type, field.initial, std::string(field.text)});
      if (field.list)
        field.list(path, all);
    }
  }
};

/// The struct that a section fills, made if there is none yet.
template <typename T>
T &open(T &member) {
  return member;
}
template <typename T>
T &open(std::optional<T> &member) {
  return member ? *member : member.emplace();
}

/// A map of the keys of `table`. What is no map or list, `readWord` reads.
template <typename Owner, typename Sub, typename Member>
Field<Owner> section(std::string_view key, Member member,
                     const Table<Sub> &table, std::string_view text,
                     Extra extra = {},
                     std::function<void(const Value &, Sub &)> readWord = {}) {
  Field<Owner> field(key, "map", "", text, extra);
  field.read = [=, &table](const Value &value, Owner &owner) {
    if (extra.mayBeEmpty && value.node.IsNull())
      return;
    Sub &sub = open(std::invoke(member, owner));
    if (readWord && value.node.IsScalar())
      readWord(value, sub);
    else
      table.read(value, sub);
  };
  field.readBelow = [=, &table](std::string_view path, const Value &value,
                                Owner &owner) {
    table.readAt(path, value, open(std::invoke(member, owner)));
  };
  field.list = [&table](std::string_view path, std::vector<ConfigKey> &all) {
    if (table.section == path)
      table.list(all);
  };
  return field;
}

/// A list of maps of the keys of `table`.
template <typename Owner, typename Sub>
Field<Owner> list(std::string_view key, std::vector<Sub> Owner::*member,
                  const Table<Sub> &table, std::string_view expected,
                  std::string_view text) {
  Field<Owner> field(key, "list of maps", "", text, {});
  field.read = [=, &table](const Value &value, Owner &owner) {
    if (value.node.IsNull())
      return;
    if (!value.node.IsSequence())
      value.failType(expected);
    for (const auto &item : value.node) {
      std::string path =
          value.path + "[" + std::to_string((owner.*member).size()) + "]";
      value.reading.take(path, {item, item});
      table.read({value.reading, path, value.key, item},
                 (owner.*member).emplace_back());
    }
  };
  field.list = [&table](std::string_view path, std::vector<ConfigKey> &all) {
    if (table.section == path)
      table.list(all);
  };
  return field;
}

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FIELDS_H
