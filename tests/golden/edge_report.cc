// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "lockstep/base/half.h"
#include "tests/golden/edges.h"
#include "tests/golden/stored.h"

namespace lockstep::golden {
namespace {

/// How far values may be from JAX's, in steps from one number of the dtype to the next: both call XLA's code,
/// but compose it differently. Derivatives add up more terms.
constexpr std::int64_t kSteps = 16, kStepsOfDerivatives = 256;

bool is_nan(DType dtype, std::uint64_t bits) {
  if (!is_floating(dtype)) return false;
  if (bits == ~std::uint64_t{0}) return true;
  switch (dtype) {
    case DType::kF16:
      return (bits & 0x7fff) > 0x7c00;
    case DType::kBF16:
      return (bits & 0x7fff) > 0x7f80;
    case DType::kF32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case DType::kF64:
      return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    case DType::kF8E5M2:
      return (bits & 0x7f) > 0x7c;
    default:
      return (bits & 0x7f) == 0x7f;
  }
}

double value(DType dtype, std::uint64_t bits) {
  if (is_nan(dtype, bits)) return std::nan("");
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  if (dtype == DType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (is_floating(dtype)) return narrow_float_value(dtype, &bits);
  if (info(dtype).kind != DTypeKind::kSigned) return static_cast<double>(bits);
  const int unused = 64 - 8 * static_cast<int>(size_of(dtype));
  return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
}

/// Steps from one number to the next, between two numbers.
std::int64_t steps(DType dtype, std::uint64_t x, std::uint64_t y) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
  auto place = [&](std::uint64_t bits) {
    const auto size = static_cast<std::int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -size : size;
  };
  const std::int64_t a = place(x), b = place(y);
  // A difference of f64 may be beyond i64.
  return (a < 0) == (b < 0) ? std::abs(a - b) : std::max(std::abs(a), std::abs(b));
}

std::vector<std::uint64_t> bits_of(const Array& x) {
  const std::size_t width = size_of(real_dtype(x.dtype())), parts = size_of(x.dtype()) / width;
  std::vector<std::byte> bytes(static_cast<std::size_t>(x.size()) * width * parts);
  x.copy_to_host(bytes.data(), x.dtype());
  std::vector<std::uint64_t> bits(bytes.size() / width);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], &bytes[i * width], width);
  return bits;
}

std::string text(DType dtype, const std::uint64_t* bits) {
  const DType part = real_dtype(dtype);
  if (is_complex(dtype)) return fmt::format("{:.9g}{:+.9g}i", value(part, bits[0]), value(part, bits[1]));
  return fmt::format("{:.9g}", value(part, bits[0]));
}

/// The elements at the same place, or the rows, that element i of n elements was computed of.
std::string operands_text(const EdgeCase& c, std::size_t i, std::size_t n) {
  std::vector<std::string> all;
  for (const EdgeArray& x : *c.inputs) {
    const std::size_t parts = is_complex(x.dtype) ? 2 : 1, size = x.bits.size() / parts;
    const auto rows = static_cast<std::size_t>(x.shape[0]);
    const std::size_t each = size / std::max<std::size_t>(rows, 1);
    if (n == 0 || n % rows != 0) return "all";
    const std::size_t row = i / (n / rows);
    for (std::size_t k = 0; k < each; ++k) all.push_back(text(x.dtype, &x.bits[(row * each + k) * parts]));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Where JAX with 64-bit dtypes enabled counts in i64, here it is i32; and a C++ number is f32.
DType narrowed(DType jaxs, DType found, const std::string& operand) {
  const bool wide =
      operand == "int64" || operand == "uint64" || operand == "float64" || operand == "complex128";
  if (wide && jaxs == int64 && found == int32) return int32;
  return jaxs;
}

/// `slack`: how many units of the dtype's precision they may differ by, where larger numbers cancel.
bool agree(DType dtype, const std::string& part, const std::uint64_t* x, const std::uint64_t* y,
           double slack) {
  const DType real = real_dtype(dtype);
  const int parts = is_complex(dtype) ? 2 : 1;
  const bool derivative = part != "v";
  const std::int64_t allowed = !is_floating(real) ? 0 : derivative ? kStepsOfDerivatives : kSteps;
  const auto finite = [&](const std::uint64_t* z) {
    return std::isfinite(value(real, z[0])) && (parts == 1 || std::isfinite(value(real, z[1])));
  };
  // A complex infinity has many forms, of which a NaN part is one: of derivatives one is as good as another.
  if (derivative && parts == 2 && !finite(x) && !finite(y)) return true;
  double size = 0;
  for (int k = 0; k < parts; ++k) size = std::max(size, std::abs(value(real, y[k])));
  for (int k = 0; k < parts; ++k) {
    if (is_nan(real, x[k]) || is_nan(real, y[k])) {
      if (is_nan(real, x[k]) != is_nan(real, y[k])) return false;
      continue;
    }
    if (x[k] == y[k]) continue;
    if (!is_floating(real)) return false;
    const double a = value(real, x[k]), b = value(real, y[k]);
    if (a == b && derivative) continue;
    if (std::signbit(a) != std::signbit(b) && a == 0 && b == 0) return false;
    if (std::isinf(a) || std::isinf(b)) return false;
    if (std::abs(a - b) <= slack * finfo(real).eps) continue;
    if (steps(real, x[k], y[k]) <= allowed) continue;
    if (parts == 2 && std::isfinite(size) &&
        std::abs(a - b) <= static_cast<double>(allowed) * finfo(real).eps * size)
      continue;
    return false;
  }
  return true;
}

bool is_match(const std::string& whole, const char* pattern) {
  return std::regex_match(whole, std::regex(pattern));
}

}  // namespace

EdgeReport::EdgeReport(std::string how) : how_(std::move(how)), known_(known_differences().size()) {}

EdgeReport::~EdgeReport() {
  if (const char* path = std::getenv("LOCKSTEP_EDGES_REPORT")) {
    std::ofstream out(std::string(path) + "." + how_);
    for (const std::string& line : others_) out << line << "\n";
    std::ofstream listed(std::string(path) + "." + how_ + ".listed");
    for (const auto& [entry, line] : listed_) listed << entry << ": " << line << "\n";
  }
}

void EdgeReport::differs(const EdgeCase& c, const std::string& part, const std::string& operands,
                         const std::string& how, std::size_t cells) {
  const std::vector<KnownDifference>& all = known_differences();
  const std::string line = fmt::format("{}@{} {} {}({}) {}", c.name, c.kind, c.dtype, part, operands, how);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].where == KnownDifference::kWithoutJit && how_ != "eager") continue;
    if (!is_match(c.name, all[i].functions) || !is_match(c.dtype, all[i].dtypes) ||
        !is_match(part, all[i].parts) || !is_match(operands, all[i].operands) || !is_match(how, all[i].how))
      continue;
    known_[i] += cells;
    listed_.emplace_back(i, line);
    return;
  }
  others_.push_back(line);
}

void EdgeReport::refused(const EdgeCase& c, const std::string& part, const std::string& message) {
  std::size_t n = 0;
  for (const EdgeArray& x : c.parts.at(part)) n += x.bits.size();
  cells_ += n;
  differs(c, part, "all", "refused: " + message.substr(0, message.find('\n')), n);
}

void EdgeReport::compare(const EdgeCase& c, const std::string& part, const Arrays& found) {
  const std::vector<EdgeArray>& expected = c.parts.at(part);
  if (found.size() != expected.size()) {
    cells_ += 1;
    return differs(c, part, "all", fmt::format("{} results, not {}", found.size(), expected.size()), 1);
  }
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Array& x = found[k];
    const std::size_t parts = is_complex(x.dtype()) ? 2 : 1, n = expected[k].bits.size();
    const std::vector<std::uint64_t> bits = bits_of(x);
    const DType jaxs = narrowed(expected[k].dtype, x.dtype(), c.dtype);
    if (bits.size() != n || (part == "v" && (x.dtype() != jaxs || x.shape() != expected[k].shape))) {
      cells_ += std::max<std::size_t>(n, 1);
      differs(c, part, "all",
              fmt::format("{} {}, not {} {}", to_string(x.aval()), bits.size(), name(jaxs), n),
              std::max<std::size_t>(n, 1));
      continue;
    }
    cells_ += std::max<std::size_t>(n / parts, 1);
    if (n == 0) ++agreed_;
    for (std::size_t i = 0; i < n; i += parts) {
      const std::uint64_t low = 0xffffffff;
      const std::uint64_t jaxs_bits[] = {x.dtype() == int32 ? expected[k].bits[i] & low : expected[k].bits[i],
                                         parts == 2 ? expected[k].bits[i + 1] : 0};
      if (agree(x.dtype(), part, &bits[i], jaxs_bits, part == "v" ? 0 : 8)) {
        ++agreed_;
        continue;
      }
      differs(c, part, operands_text(c, i / parts, n / parts),
              fmt::format("{}, not {}", text(x.dtype(), &bits[i]), text(x.dtype(), &expected[k].bits[i])), 1);
    }
  }
}

void EdgeReport::expect_no_others() const {
  constexpr std::size_t kShown = 40;
  const std::vector<std::string> first(others_.begin(), others_.begin() + std::min(kShown, others_.size()));
  EXPECT_TRUE(others_.empty()) << how_ << ": " << others_.size() << " of " << cells_
                               << " cells differ from JAX's and are on no list:\n"
                               << fmt::format("{}", fmt::join(first, "\n"));
}

void EdgeReport::expect_each_known_difference() const {
  for (std::size_t i = 0; i < known_.size(); ++i)
    EXPECT_TRUE(known_[i] > 0 || known_differences()[i].where != KnownDifference::kAlways)
        << "no cell differs as entry " << i << " says: " << known_differences()[i].functions;
}

void EdgeReport::expect_page() const {
  std::ifstream in(LOCKSTEP_OPERATIONS_PAGE);
  std::stringstream page;
  page << in.rdbuf();
  std::string text = page.str();
  std::string list = "\n| differences that are meant | where | why |\n| --- | --- | --- |\n";
  std::size_t meant = 0;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const KnownDifference& each = known_differences()[i];
    meant += known_[i];
    list += fmt::format("| {} | {} | {} |\n", each.title, each.kinds, each.why);
  }
  const std::string numbers = fmt::format("| {} | {} | {} | {} |\n", cells_, agreed_, meant, others_.size());
  const std::string cells = fmt::format("| {} |", cells_);
  if (std::getenv("LOCKSTEP_WRITE_DOCS") != nullptr) {
    const std::string head = "<!-- edges_test writes this -->\n", end = "<!-- to here -->";
    const std::size_t from = text.find(head), to = text.find(end);
    ASSERT_TRUE(from != std::string::npos && to != std::string::npos);
    text.replace(from + head.size(), to - from - head.size(),
                 "| cells | agree | differences that are meant | others |\n"
                 "| ---: | ---: | ---: | ---: |\n" +
                     numbers + list);
    std::ofstream(LOCKSTEP_OPERATIONS_PAGE) << text;
    return;
  }
  // Processors differ in the last digit: how many cells differ is no part of the comparison.
  EXPECT_TRUE(text.find(cells) != std::string::npos && text.find(list) != std::string::npos)
      << "the page differs from what is compared; write it with LOCKSTEP_WRITE_DOCS=1";
}

}  // namespace lockstep::golden
