// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/settings.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

/// A value as messages show it.
std::string excerpt(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return shown(json_text(value), 80);
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return list;
}

}  // namespace

Settings::Settings(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object())
    fail<DataError>("[tokenizers] {}: expected an object, got {}", where_, excerpt(object));
}

bool Settings::has(std::string_view name) {
  const auto found = object_.find(name);
  if (found == object_.end()) return false;
  if (!found->is_null()) return true;
  taken_.emplace(name);
  return false;
}

const nlohmann::json& Settings::value(std::string_view name) {
  const auto found = object_.find(name);
  if (found == object_.end()) fail<DataError>("[tokenizers] {}: \"{}\" is missing", where_, name);
  taken_.emplace(name);
  return *found;
}

std::string Settings::text(std::string_view name) {
  const nlohmann::json& found = value(name);
  if (!found.is_string()) refuse(name, "a string", found);
  return found.get<std::string>();
}

std::string Settings::text(std::string_view name, std::string otherwise) {
  return has(name) ? text(name) : otherwise;
}

bool Settings::flag(std::string_view name, bool otherwise) {
  if (!has(name)) return otherwise;
  const nlohmann::json& found = value(name);
  if (!found.is_boolean()) refuse(name, "true or false", found);
  return found.get<bool>();
}

std::int64_t Settings::number(std::string_view name, std::int64_t least, std::int64_t most) {
  const nlohmann::json& found = value(name);
  const bool fits = found.is_number_unsigned()
                        ? found.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                        : found.is_number_integer();
  if (!fits || found.get<std::int64_t>() < least || found.get<std::int64_t>() > most)
    refuse(name, fmt::format("an integer from {} to {}", least, most), found);
  return found.get<std::int64_t>();
}

char32_t Settings::character(std::string_view name) {
  const std::string found = text(name);
  std::size_t at = 0;
  const char32_t c = found.empty() ? U' ' : next_character(found, at);
  if (found.empty() || at != found.size()) refuse(name, "one character", found);
  return c;
}

Settings Settings::object(std::string_view name) {
  return Settings(value(name), fmt::format("{}.{}", where_, name));
}

std::vector<Settings> Settings::objects(std::string_view name) {
  const nlohmann::json& list = value(name);
  if (!list.is_array()) refuse(name, "a list", list);
  std::vector<Settings> found;
  for (std::size_t i = 0; i < list.size(); ++i)
    found.emplace_back(list[i], fmt::format("{}.{}[{}]", where_, name, i));
  return found;
}

std::size_t Settings::choice(std::string_view name, std::initializer_list<std::string_view> choices,
                             std::optional<std::size_t> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  const std::string found = text(name);
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices.begin()[i] == found) return i;
  refuse(name, "one of " + listed(choices), found);
}

void Settings::end() const {
  for (const auto& [name, value] : object_.items())
    if (!taken_.contains(name))
      fail<DataError>("[tokenizers] {}: \"{}\" is not supported (its value is {})", where_, shown(name, 80),
                      excerpt(value));
}

void Settings::refuse(std::string_view name, std::string_view expected, const nlohmann::json& got) const {
  fail<DataError>("[tokenizers] {}: \"{}\" is expected to be {}, got {}", where_, name, expected,
                  excerpt(got));
}

std::int32_t id_of(const nlohmann::json& value, const Settings& settings, std::string_view name) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost)
    settings.refuse(name, fmt::format("ids from 0 to {}", kMost), value);
  return value.get<std::int32_t>();
}

void refuse_kind(const Settings& settings, std::string_view name,
                 const std::vector<std::string_view>& supported) {
  fail<DataError>("[tokenizers] {} has the type \"{}\", which is not supported; supported are {}",
                  settings.where(), shown(name, 80), listed(supported));
}

}  // namespace lockstep::tokenizers
