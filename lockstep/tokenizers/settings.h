// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tokenizers {

/// A flag of components that json_of_sentencepiece makes, and no file has: where the packages
/// differ, it is as sentencepiece.
inline constexpr std::string_view kAsSentencepiece = "as_sentencepiece";

/// An object of tokenizer.json whose fields are taken one by one; `end` refuses what was not taken. Each
/// function throws a DataError that names the field, what is expected and what is there.
class Settings {
 public:
  /// `where`: how messages name the object. Throws if `object` is none. It must outlive this.
  Settings(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }

  /// Whether the field is there and not null. Takes it where it is null.
  bool has(std::string_view name);

  /// Takes a field. Throws if it is missing or of another kind; with a default, only if it is of another
  /// kind.
  const nlohmann::json& value(std::string_view name);
  std::string text(std::string_view name);
  std::string text(std::string_view name, std::string otherwise);
  bool flag(std::string_view name, bool otherwise);
  std::int64_t number(std::string_view name, std::int64_t least, std::int64_t most);
  char32_t character(std::string_view name);
  Settings object(std::string_view name);
  std::vector<Settings> objects(std::string_view name);

  /// The number of the choice that the field has.
  std::size_t choice(std::string_view name, std::initializer_list<std::string_view> choices,
                     std::optional<std::size_t> otherwise = std::nullopt);

  /// Throws if a field was not taken.
  void end() const;

  /// Throws a DataError that a field, or a part of it, is not what is expected.
  [[noreturn]] void refuse(std::string_view name, std::string_view expected, const nlohmann::json& got) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
};

/// The value as a token's id: an integer from 0 to 2^31 - 1. Throws a DataError that names the field.
std::int32_t id_of(const nlohmann::json& value, const Settings& settings, std::string_view name);

/// A kind of component, and what makes one.
template <class T>
struct Kind {
  std::string_view name;
  T (*make)(Settings&);
};

/// Throws a DataError that no kind has this name, with the names of those that are supported.
[[noreturn]] void refuse_kind(const Settings& settings, std::string_view name,
                              const std::vector<std::string_view>& supported);

/// What the kind that the field `type` names makes of the settings. `otherwise`: the kind without this field.
template <class T>
T make_kind(Settings settings, std::span<const Kind<T>> kinds, const std::string& otherwise = "") {
  const std::string name = otherwise.empty() ? settings.text("type") : settings.text("type", otherwise);
  std::vector<std::string_view> names;
  for (const Kind<T>& kind : kinds) {
    if (kind.name == name) {
      T made = kind.make(settings);
      settings.end();
      return made;
    }
    names.push_back(kind.name);
  }
  refuse_kind(settings, name, names);
}

}  // namespace lockstep::tokenizers
