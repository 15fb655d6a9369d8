// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sorting/sorting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "lockstep/base/cpp_type.h"
#include "lockstep/collectives/test_for_each.h"

namespace lockstep::sorting {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr DType kKeys[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,      DType::kI64,
                           DType::kU8,   DType::kU16, DType::kU32, DType::kU64,      DType::kF16,
                           DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3FN, DType::kF8E5M2};

using test::in_turn;
using test::on_threads;

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Any bits, so that floats have NaNs of each kind; many elements are equal, and floats have zeros of both
/// signs and infinities.
Bytes any_bits(DType dtype, std::int64_t count, unsigned seed) {
  const std::size_t bytes = size_of(dtype);
  std::mt19937_64 engine(seed);
  Bytes all(static_cast<std::size_t>(count) * bytes), few(8 * bytes);
  for (unsigned char& byte : few) byte = static_cast<unsigned char>(engine());
  std::fill_n(few.begin(), 2 * bytes, static_cast<unsigned char>(0));
  few[2 * bytes - 1] = 0x80;  // of floats, -0
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::uint64_t value = engine();
    const void* from = value % 2 == 0 ? static_cast<const void*>(few.data() + value / 2 % 8 * bytes) : &value;
    std::memcpy(all.data() + i * bytes, from, bytes);
    if (dtype == DType::kBool) all[i] &= 1;
  }
  return all;
}

/// Whether x comes before y: by value, NaN last.
bool is_less(DType dtype, const void* x, const void* y) {
  const auto value = [dtype](const void* element) {
    return with_element(dtype, element, []<class T>(T number) {
      if constexpr (std::is_arithmetic_v<T>)
        return static_cast<long double>(number);  // exact for all of 64 bits
      return std::numeric_limits<long double>::quiet_NaN();
    });
  };
  const long double a = value(x), b = value(y);
  return a < b || (!std::isnan(a) && std::isnan(b));
}

/// The results by std::stable_sort.
std::vector<Bytes> expected(const Sort& s) {
  const auto size = s.shape[static_cast<std::size_t>(s.dimension)];
  std::int64_t stride = 1;
  for (auto d = static_cast<std::size_t>(s.dimension) + 1; d < s.shape.size(); ++d) stride *= s.shape[d];
  const std::int64_t rows = elements(s.shape) / size;
  std::vector<Bytes> results;
  for (DType dtype : s.dtypes)
    results.emplace_back(static_cast<std::size_t>(rows * s.count) * size_of(dtype));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = [&](std::int64_t of, std::int64_t i) {
      return static_cast<std::size_t>(r / stride * stride * of + r % stride + i * stride);
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      for (std::size_t k = 0; k < static_cast<std::size_t>(s.num_keys); ++k) {
        const auto element = [&](std::int64_t i) {
          return static_cast<const char*>(s.operands[k]) + at(size, i) * size_of(s.dtypes[k]);
        };
        const void *x = element(s.descending ? b : a), *y = element(s.descending ? a : b);
        if (is_less(s.dtypes[k], x, y)) return true;
        if (is_less(s.dtypes[k], y, x)) return false;
      }
      return false;
    });
    for (std::size_t k = 0; k < s.dtypes.size(); ++k) {
      const std::size_t bytes = size_of(s.dtypes[k]);
      for (std::int64_t i = 0; i < s.count; ++i)
        std::memcpy(
            results[k].data() + at(s.count, i) * bytes,
            static_cast<const char*>(s.operands[k]) + at(size, order[static_cast<std::size_t>(i)]) * bytes,
            bytes);
    }
  }
  return results;
}

void expect_sorted(std::vector<DType> dtypes, std::int64_t num_keys, const std::vector<std::int64_t>& shape,
                   std::int64_t dimension, std::int64_t count, bool descending) {
  Sort s{.shape = shape,
         .dimension = dimension,
         .num_keys = num_keys,
         .count = count,
         .descending = descending,
         .dtypes = std::move(dtypes)};
  std::string names;
  for (DType dtype : s.dtypes) names += std::string(name(dtype)) + " ";
  SCOPED_TRACE(testing::Message() << names << "by " << num_keys << ", dimension " << dimension << ", first "
                                  << count << (descending ? ", descending" : ""));
  ASSERT_TRUE(sorts(std::span(s.dtypes).first(static_cast<std::size_t>(num_keys)),
                    shape[static_cast<std::size_t>(dimension)]));
  std::vector<Bytes> operands;
  for (std::size_t k = 0; k < s.dtypes.size(); ++k) {
    operands.push_back(any_bits(s.dtypes[k], elements(shape), static_cast<unsigned>(k) + 1));
    s.operands.push_back(operands.back().data());
  }
  const std::vector<Bytes> wanted = expected(s);
  for (const ForEach& for_each : {ForEach(in_turn), ForEach(on_threads)}) {
    std::vector<Bytes> results = wanted;
    s.results.clear();
    for (Bytes& result : results) {
      std::ranges::fill(result, 0xaa);
      s.results.push_back(result.data());
    }
    sort(s, for_each);
    EXPECT_EQ(results, wanted);
  }
}

TEST(Sorting, ByKeysOfEachDType_EqualsAStableSort) {
  for (DType key : kKeys) {
    for (bool descending : {false, true}) {
      expect_sorted({key}, 1, {3000}, 0, 3000, descending);
      expect_sorted({key, DType::kC128, DType::kU8}, 1, {3, 40, 7}, 1, 40, descending);
      expect_sorted({key, DType::kI32}, 1, {300, 130}, 1, 5, descending);
      expect_sorted({key, DType::kC64}, 1, {40, 30}, 0, 11, descending);
    }
  }
}

TEST(Sorting, BySeveralKeys_EqualsAStableSort) {
  for (const auto& [first, second] : {std::pair(DType::kF32, DType::kI32),
                                      {DType::kI8, DType::kU8},
                                      {DType::kF16, DType::kF32},
                                      {DType::kU32, DType::kF32},
                                      {DType::kBool, DType::kI16}}) {
    for (bool descending : {false, true})
      expect_sorted({first, second, DType::kU16}, 2, {5, 400}, 1, 400, descending);
  }
}

TEST(Sorting, OfLargeKeysComplexNumbersAndVeryLongDimensions_IsLeftToXla) {
  const DType keys[] = {DType::kF64, DType::kI8}, complex[] = {DType::kC64}, one[] = {DType::kF64};
  EXPECT_FALSE(sorts(keys, 10));
  EXPECT_FALSE(sorts(complex, 10));
  EXPECT_TRUE(sorts(one, 10));
  EXPECT_FALSE(sorts(one, std::int64_t{1} << 32));
}

TEST(Sorting, OfNoElements_DoesNothing) {
  Sort s{.shape = {0, 3},
         .dimension = 1,
         .count = 3,
         .dtypes = {DType::kF32},
         .operands = {nullptr},
         .results = {nullptr}};
  sort(s, in_turn);
  s.shape = {3, 0}, s.count = 0;
  sort(s, in_turn);
}

}  // namespace
}  // namespace lockstep::sorting
