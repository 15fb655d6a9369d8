// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/npy_header.h"

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::data::internal {
namespace {

/// The dictionary in a .npy's header, such as
///   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Dictionary {
 public:
  Dictionary(const File& file, std::string text) : file_(file), text_(std::move(text)) {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        if (peek() != '\'' && peek() != '"') wrong("values of several fields are not supported");
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran_order = word() == "True";
      } else if (key == "shape") {
        shape = numbers();
      } else {
        wrong("there is an unknown key '" + key + "'");
      }
      if (!accept(',') && peek() != '}') wrong("a comma or brace is missing");
    }
    if (!descr || !fortran_order || !shape) wrong("'descr', 'fortran_order' or 'shape' is missing");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    file_.damaged(10 + at_, fmt::format("the header cannot be read: {}", what));
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) wrong(fmt::format("expected '{}'", c));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') wrong("expected a text between quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) wrong("a text does not end");
    std::string found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return found;
  }
  std::string word() {
    peek();
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string found = text_.substr(begin, at_ - begin);
    if (found != "True" && found != "False") wrong("expected True or False");
    return found;
  }
  Shape numbers() {
    Shape found;
    expect('(');
    while (!accept(')')) {
      std::int64_t number = 0;
      if (!std::isdigit(static_cast<unsigned char>(peek()))) wrong("expected a size");
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text_[at_] - '0', &number))
          wrong("a size is too large");
      }
      accept('L');
      found.push_back(number);
      if (!accept(',') && peek() != ')') wrong("a comma or parenthesis is missing");
    }
    return found;
  }

  const File& file_;
  std::string text_;
  std::size_t at_ = 0;
};

DType dtype_of_descr(const File& file, const std::string& descr) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"b1", DType::kBool}, {"i1", DType::kI8},   {"i2", DType::kI16}, {"i4", DType::kI32},
      {"i8", DType::kI64},  {"u1", DType::kU8},   {"u2", DType::kU16}, {"u4", DType::kU32},
      {"u8", DType::kU64},  {"f2", DType::kF16},  {"f4", DType::kF32}, {"f8", DType::kF64},
      {"c8", DType::kC64},  {"c16", DType::kC128}};
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=')) {
    for (auto [code, dtype] : kTypes) {
      if (descr.substr(1) == code) return dtype;
    }
  }
  file.damaged(10, fmt::format("values of type '{}' are not supported; expected little-endian numbers that "
                               "Lockstep has, such as '<f4'",
                               descr));
}

}  // namespace

NpyHeader read_npy_header(const File& file) {
  if (file.text(0, 6) != "\x93NUMPY")
    file.damaged(0, "expected the magic \\x93NUMPY: this is not a .npy file");
  const auto major = file.number<std::uint8_t>(6);
  if (major < 1 || major > 3) file.damaged(6, fmt::format("expected version 1 to 3, got {}", major));
  const std::uint64_t begin = major == 1 ? 10 : 12;
  const std::uint64_t length = major == 1 ? file.number<std::uint16_t>(8) : file.number<std::uint32_t>(8);
  const Dictionary dictionary(file, file.text(begin, length));
  NpyHeader header{dtype_of_descr(file, *dictionary.descr), *dictionary.shape, *dictionary.fortran_order,
                   begin + length};
  std::uint64_t all = size_of(header.dtype);
  for (std::int64_t size : header.shape) {
    if (!multiply(all, static_cast<std::uint64_t>(size), &all)) file.damaged(begin, "the shape is too large");
  }
  if (all != file.size() - header.bytes) {
    file.damaged(begin, fmt::format("{} of shape {} do not fit the {} bytes after the header; the file is "
                                    "damaged or cut off",
                                    name(header.dtype), lockstep::to_string(header.shape),
                                    file.size() - header.bytes));
  }
  return header;
}

}  // namespace lockstep::data::internal
