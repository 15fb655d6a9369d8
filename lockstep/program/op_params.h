// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/fields.h"
#include "lockstep/program/aval.h"

namespace lockstep::ir {

struct Program;

/// A number in a program.
struct Scalar {
  enum class Kind : std::uint8_t { kInteger, kFloat } kind = Kind::kInteger;
  std::int64_t integer = 0;
  double real = 0;

  static Scalar of(std::int64_t value) { return {Kind::kInteger, value, static_cast<double>(value)}; }
  static Scalar of(int value) { return of(static_cast<std::int64_t>(value)); }
  static Scalar of(bool value) { return of(static_cast<std::int64_t>(value)); }
  static Scalar of(double value) { return {Kind::kFloat, static_cast<std::int64_t>(value), value}; }
};

/// The text of one field of a primitive's parameters. Two fields are equal if and only if their texts are.
namespace field_text {
void append(std::string& out, bool value);
void append(std::string& out, std::int64_t value);
void append(std::string& out, int value);
void append(std::string& out, const Scalar& value);
void append(std::string& out, DType value);
void append(std::string& out, const std::string& value);
void append(std::string& out, const std::vector<std::int64_t>& value);
void append(std::string& out, const std::vector<std::string>& value);
void append(std::string& out, const std::vector<std::vector<std::string>>& value);
void append(std::string& out, const std::vector<std::pair<int, int>>& value);
void append(std::string& out, const std::vector<std::vector<int>>& value);
void append(std::string& out, const std::shared_ptr<const Program>& value);
void append(std::string& out, const std::vector<std::shared_ptr<const Program>>& value);

/// Whether a field is not set; then it has no text.
template <class T>
bool is_absent(const T&) {
  return false;
}
template <class T>
bool is_absent(const std::optional<T>& value) {
  return !value;
}
template <class T>
void append(std::string& out, const std::optional<T>& value) {
  append(out, *value);
}
}  // namespace field_text

/// The parameters of one use of a primitive: an aggregate `T` whose fields' names, in order, are
/// `T::kFields`. Equality, hash and printing are derived from the texts of these fields.
class OpParams {
 public:
  /// No parameters.
  OpParams() = default;

  template <class T>
  static OpParams of(T values) {
    static_assert(lockstep::fields::count<T> == std::tuple_size_v<std::remove_cvref_t<decltype(T::kFields)>>,
                  "name every field in kFields");
    std::string text;
    std::size_t i = 0;
    auto add = [&](const auto& field) {
      const std::size_t place = i++;
      if (field_text::is_absent(field)) return;
      if (place != 0) text += ' ';
      text += T::kFields[place];
      text += '=';
      field_text::append(text, field);
    };
    lockstep::fields::apply(values, [&](const auto&... field) { (add(field), ...); });
    OpParams params;
    params.box_ = std::make_shared<const Box<T>>(std::move(text), std::move(values));
    return params;
  }

  /// The parameters; T must be the type of which they were made.
  template <class T>
  const T& as() const {
    return static_cast<const Box<T>&>(*box_).fields;
  }

  /// "axes=[0] keepdims=false"; empty if there are none.
  const std::string& text() const;

  bool operator==(const OpParams& other) const { return text() == other.text(); }

 private:
  struct BoxBase {
    explicit BoxBase(std::string text) : text(std::move(text)) {}
    virtual ~BoxBase() = default;
    std::string text;
  };
  template <class T>
  struct Box : BoxBase {
    Box(std::string text, T fields) : BoxBase(std::move(text)), fields(std::move(fields)) {}
    T fields;
  };
  std::shared_ptr<const BoxBase> box_;
};

}  // namespace lockstep::ir
