// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/base/fields.h"
#include "lockstep/tree/field_names.h"
#include "lockstep/tree/kinds.h"

namespace lockstep::checkpoint::hf {

/// What a config.json says. Copies are cheap.
///     struct Llama {
///       std::int64_t hidden_size, num_attention_heads;
///       std::optional<std::int64_t> num_key_value_heads;
///       double rms_norm_eps;
///     };
///     auto config = hf::Config::read("model").as<Llama>();
/// Functions throw CheckpointError, which names the file and the entry.
class Config {
 public:
  /// Of the file config.json in the folder `url`, or of the file, if it ends with ".json".
  static Config read(const std::string& url);

  /// Of this text.
  static Config parse(const std::string& json);

  /// Whether there is such an entry, and it is not null. A name with dots is that of an entry within others:
  /// "rope_scaling.factor".
  bool has(std::string_view name) const { return !find(name).is_null(); }

  /// The entry; throws if there is none, and names the nearest.
  template <class T>
  T get(std::string_view name) const {
    return entry(name).template as<T>();
  }

  /// The same, or `otherwise` if there is none or it is null.
  template <class T>
  T get(std::string_view name, T otherwise) const {
    const Config found = find(name);
    return found.is_null() ? std::move(otherwise) : found.template as<T>();
  }

  /// As a T: a bool, number, string, a std::vector of them, or an aggregate, whose fields have the names of
  /// the entries. A field that is a std::optional has no value if there is no such entry, or it is null; for
  /// another field that throws. Entries without a field are ignored.
  template <class T>
  T as() const;

  bool is_null() const;

  /// The whole text as it was read, for SaveOptions::config.
  const std::string& text() const;

 private:
  struct Root;
  Config(std::shared_ptr<const Root> root, const void* node, std::string name);
  Config find(std::string_view name) const;
  Config entry(std::string_view name) const;
  Config field(std::string_view key) const;
  Config element(std::size_t i) const;
  std::size_t size() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::uint64_t most) const;
  double real() const;
  std::string string() const;

  std::shared_ptr<const Root> root_;
  const void* node_;  ///< null if there is no such entry
  std::string name_;
};

template <class T>
T Config::as() const {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean();
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(integer(static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                  static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(real());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return string();
  } else if constexpr (tree::internal::is_optional<T>) {
    return is_null() ? T() : T(as<typename T::value_type>());
  } else if constexpr (tree::internal::is_vector<T>) {
    T all;
    for (std::size_t i = 0; i < size(); ++i) all.push_back(element(i).as<typename T::value_type>());
    return all;
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "expected a bool, number, string, std::optional, std::vector or an aggregate");
    T all{};
    fields::apply(all, [&](auto&... value) {
      [[maybe_unused]] const std::string_view* name = tree::internal::field_names<T>.data();
      ((value = field(*name++).as<std::remove_reference_t<decltype(value)>>()), ...);
    });
    return all;
  }
}

}  // namespace lockstep::checkpoint::hf
