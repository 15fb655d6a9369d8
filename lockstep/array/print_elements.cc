// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/print_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/cpp_type.h"

namespace lockstep {
namespace {

constexpr std::int64_t kThreshold = 1000, kEdge = 3;
constexpr std::size_t kLineWidth = 75;
constexpr int kPrecision = 8;

/// Elements that are printed, as real parts (and imaginary ones).
struct Elements {
  DType dtype;
  std::vector<double> real, imag;
  std::vector<std::string> whole;  ///< of integers, as text
};

void read(Elements& out, const char* bytes, std::size_t i) {
  with_element(out.dtype, bytes + i * size_of(out.dtype), [&]<class T>(T element) {
    if constexpr (std::is_same_v<T, bool>) {
      out.whole.push_back(element ? "True" : "False");
    } else if constexpr (std::is_integral_v<T>) {
      out.whole.push_back(std::to_string(element));
    } else if constexpr (std::is_floating_point_v<T>) {
      out.real.push_back(element);
    } else {
      out.real.push_back(element.real());
      out.imag.push_back(element.imag());
    }
  });
}

/// The fewest digits that distinguish x from its neighbours.
std::string shortest(double x, bool single, std::chars_format format) {
  char text[400];
  auto end = single ? std::to_chars(text, text + sizeof(text), static_cast<float>(x), format).ptr
                    : std::to_chars(text, text + sizeof(text), x, format).ptr;
  return {text, end};
}

struct Parts {
  std::string whole, fraction, exponent;
};

/// Split at the point, without trailing zeros.
Parts parts_of(const std::string& text) {
  const std::size_t e = text.find('e');
  Parts parts{text.substr(0, e), "", e == std::string::npos ? "" : text.substr(e)};
  if (const std::size_t point = parts.whole.find('.'); point != std::string::npos) {
    parts.fraction = parts.whole.substr(point + 1);
    parts.whole.resize(point);
    while (!parts.fraction.empty() && parts.fraction.back() == '0') parts.fraction.pop_back();
  }
  return parts;
}

Parts digits(double x, bool single, bool scientific) {
  Parts parts =
      parts_of(shortest(x, single, scientific ? std::chars_format::scientific : std::chars_format::fixed));
  if (parts.fraction.size() > kPrecision) {
    char text[400];
    std::snprintf(text, sizeof(text), scientific ? "%.*e" : "%.*f", kPrecision, x);
    parts = parts_of(text);
  }
  return parts;
}

std::string padded(const std::string& text, std::size_t left, char fill = ' ') {
  return text.size() < left ? std::string(left - text.size(), fill) + text : text;
}

/// The numbers as a column: of one width, aligned at the point.
std::vector<std::string> column(const std::vector<double>& values, bool single, bool with_sign) {
  double most = 0, least = HUGE_VAL;
  for (double x : values) {
    if (x == 0 || !std::isfinite(x)) continue;
    most = std::max(most, std::abs(x));
    least = std::min(least, std::abs(x));
  }
  const bool scientific = most > 0 && (most >= 1e8 || least < 1e-4 || most / least > 1000);
  std::vector<Parts> parts(values.size());
  std::size_t left = 0, right = 0, exponent = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    parts[i] = digits(values[i], single, scientific);
    if (with_sign && parts[i].whole.front() != '-') parts[i].whole.insert(0, 1, '+');
    left = std::max(left, parts[i].whole.size());
    right = std::max(right, parts[i].fraction.size());
    exponent = std::max(exponent, parts[i].exponent.size());
  }
  const std::size_t width = left + 1 + right + exponent;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      std::string name = std::isnan(values[i]) ? "nan" : values[i] > 0 ? "inf" : "-inf";
      if (with_sign && name.front() != '-') name.insert(0, 1, '+');
      out.push_back(padded(name, width));
      continue;
    }
    std::string fraction = parts[i].fraction;
    fraction.resize(right, scientific ? '0' : ' ');
    out.push_back(padded(parts[i].whole, left) + "." + fraction + parts[i].exponent);
  }
  // The names of values that are not finite may be wider than the numbers.
  std::size_t widest = 0;
  for (const std::string& text : out) widest = std::max(widest, text.size());
  for (std::string& text : out) text = padded(text, widest);
  return out;
}

std::vector<std::string> texts(const Elements& elements) {
  std::vector<std::string> out;
  if (!elements.whole.empty()) {
    std::size_t width = elements.dtype == DType::kBool ? 5 : 0;
    for (const std::string& text : elements.whole) width = std::max(width, text.size());
    for (const std::string& text : elements.whole) out.push_back(padded(text, width));
    return out;
  }
  const bool single = real_dtype(elements.dtype) != DType::kF64;
  out = column(elements.real, single, false);
  if (elements.imag.empty()) return out;
  const std::vector<std::string> imag = column(elements.imag, single, true);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string part = imag[i];
    const std::size_t end = part.find_last_not_of(' ') + 1;
    part.insert(end, "j");
    out[i] += part;
  }
  return out;
}

std::string scalar_text(const Elements& elements) {
  if (!elements.whole.empty()) return elements.whole[0];
  const bool single = real_dtype(elements.dtype) != DType::kF64;
  auto text = [&](double x) {
    if (std::isnan(x)) return std::string("nan");
    if (std::isinf(x)) return std::string(x > 0 ? "inf" : "-inf");
    const double size = std::abs(x);
    if (x != 0 && (size < 1e-4 || size >= 1e16)) return shortest(x, single, std::chars_format::scientific);
    std::string digits = shortest(x, single, std::chars_format::fixed);
    return digits.find('.') == std::string::npos ? digits + ".0" : digits;
  };
  if (elements.imag.empty()) return text(elements.real[0]);
  const std::string imag = text(elements.imag[0]);
  return fmt::format("({}{}{}j)", text(elements.real[0]), imag.front() == '-' ? "" : "+", imag);
}

/// Brackets, lines and summaries, as NumPy sets them.
class Layout {
 public:
  Layout(const Shape& shape, const char* bytes, DType dtype)
      : shape_(shape), summarised_(num_elements(shape) > kThreshold) {
    Elements elements{dtype, {}, {}, {}};
    collect(0, 0, bytes, elements);
    texts_ = texts(elements);
  }

  std::string text() { return block(0, " ", kLineWidth); }

 private:
  /// The indices along a dimension that are printed.
  std::vector<std::int64_t> shown(std::size_t dimension) const {
    std::vector<std::int64_t> indices;
    const std::int64_t n = shape_[dimension];
    const bool cut = summarised_ && n > 2 * kEdge;
    for (std::int64_t i = 0; i < n; ++i) {
      if (!cut || i < kEdge || i >= n - kEdge) indices.push_back(i);
    }
    return indices;
  }

  void collect(std::size_t dimension, std::int64_t place, const char* bytes, Elements& out) const {
    if (dimension == shape_.size()) return read(out, bytes, static_cast<std::size_t>(place));
    for (std::int64_t i : shown(dimension)) collect(dimension + 1, place * shape_[dimension] + i, bytes, out);
  }

  std::string block(std::size_t dimension, const std::string& indent, std::size_t width) {
    if (dimension == shape_.size()) return texts_[next_++];
    const std::vector<std::int64_t> indices = shown(dimension);
    const bool cut = static_cast<std::int64_t>(indices.size()) < shape_[dimension];
    const std::size_t left = shape_.size() - dimension;
    std::string out, line = indent;
    auto add_word = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        while (!line.empty() && line.back() == ' ') line.pop_back();
        out += line + "\n";
        line = indent;
      }
      line += word;
    };
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const bool last = i + 1 == indices.size();
      const bool gap = cut && i == kEdge;
      if (left == 1) {
        if (gap) {
          add_word("...");
          line += ' ';
        }
        add_word(block(dimension + 1, indent, width));
        if (!last) line += ' ';
      } else {
        const std::string separator(left - 1, '\n');
        if (gap) out += indent + "..." + separator;
        out += indent + block(dimension + 1, indent + " ", width - 1) + (last ? "" : separator);
      }
    }
    if (left == 1) out += line;
    return fmt::format("[{}]", std::string_view(out).substr(indent.size()));
  }

  const Shape& shape_;
  bool summarised_;
  std::vector<std::string> texts_;
  std::size_t next_ = 0;
};

}  // namespace

std::string elements_str(const void* data, DType dtype, const Shape& shape) {
  const auto* bytes = static_cast<const char*>(data);
  if (num_elements(shape) == 0) return "[]";
  if (!shape.empty()) return Layout(shape, bytes, dtype).text();
  Elements element{dtype, {}, {}, {}};
  read(element, bytes, 0);
  return scalar_text(element);
}

}  // namespace lockstep
