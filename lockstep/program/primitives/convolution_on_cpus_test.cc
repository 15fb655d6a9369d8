// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/convolution_on_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/lowering.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

using namespace test;

/// A spatial dimension, and what the convolution becomes on CPUs if both are of such kinds.
struct Dimension {
  std::int64_t size, kernel, stride, low, high, lhs_dilation, rhs_dilation;
  enum Kind { kProduct, kPadded, kPlain } kind;
};

const Dimension kDimensions[] = {
    {3, 1, 1, 0, 0, 1, 1, Dimension::kProduct},   // each element by itself,
    {5, 1, 2, 0, 0, 1, 1, Dimension::kProduct},   // with a stride,
    {4, 1, 1, 1, 2, 1, 1, Dimension::kProduct},   // with padding,
    {4, 1, 2, 1, -1, 3, 1, Dimension::kProduct},  // with all at once
    {1, 1, 1, 0, 0, 1, 1, Dimension::kProduct},
    {4, 4, 1, 0, 0, 1, 1, Dimension::kProduct},   // summed completely,
    {5, 3, 1, 0, 0, 1, 2, Dimension::kProduct},   // every second element,
    {5, 2, 3, -1, 0, 1, 1, Dimension::kProduct},  // from the second one on
    {2, 3, 1, 1, 1, 1, 1, Dimension::kPadded},    // more kernel than array
    {1, 3, 2, 1, 3, 1, 1, Dimension::kPadded},
    {2, 5, 1, 3, 2, 1, 1, Dimension::kPadded},
    {2, 3, 1, 2, 1, 2, 1, Dimension::kPlain},
    {5, 3, 1, 1, 1, 1, 1, Dimension::kPlain},
};

/// Where batch, features and the two spatial dimensions are: as in training, as torch has them, and as in the
/// derivative by the kernels.
struct Specs {
  std::vector<std::int64_t> lhs, rhs, out;
};
const Specs kSpecs[] = {{{0, 3, 1, 2}, {3, 2, 0, 1}, {0, 3, 1, 2}},
                        {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},
                        {{3, 0, 1, 2}, {3, 0, 1, 2}, {2, 3, 0, 1}}};

Shape shape_of(const std::vector<std::int64_t>& spec, const std::vector<std::int64_t>& sizes) {
  Shape shape(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i) shape[static_cast<std::size_t>(spec[i])] = sizes[i];
  return shape;
}

/// The position of an element in row-major order, by its indices in the order of the spec.
std::size_t place(const Shape& shape, const std::vector<std::int64_t>& spec,
                  const std::vector<std::int64_t>& indices) {
  const Shape at = shape_of(spec, indices);
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + at[d];
  return static_cast<std::size_t>(flat);
}

struct Case {
  const Dimension& rows;
  const Dimension& columns;
  const Specs& specs;
  HostArray lhs, rhs;

  ConvParams params() const {
    return {{rows.stride, columns.stride},
            {rows.low, columns.low},
            {rows.high, columns.high},
            {rows.lhs_dilation, columns.lhs_dilation},
            {rows.rhs_dilation, columns.rhs_dilation},
            specs.lhs,
            specs.rhs,
            specs.out};
  }

  /// Element `tap` of a window at `at`, in lhs; none in its padding or between its elements.
  static std::optional<std::int64_t> read(const Dimension& d, std::int64_t at, std::int64_t tap) {
    const std::int64_t dilated = at * d.stride + tap * d.rhs_dilation - d.low;
    if (dilated < 0 || dilated % d.lhs_dilation != 0 || dilated / d.lhs_dilation >= d.size)
      return std::nullopt;
    return dilated / d.lhs_dilation;
  }

  double expected(std::int64_t batch, std::int64_t feature, std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t i = 0; i < rows.kernel; ++i) {
      for (std::int64_t j = 0; j < columns.kernel; ++j) {
        const auto y = read(rows, row, i), x = read(columns, column, j);
        for (std::int64_t f = 0; y && x && f < 3; ++f)
          sum += lhs.values[place(lhs.shape, specs.lhs, {batch, f, *y, *x})] *
                 rhs.values[place(rhs.shape, specs.rhs, {feature, f, i, j})];
      }
    }
    return sum;
  }
};

/// Whole numbers, so that sums are exact.
HostArray numbers(const Shape& shape, int seed) {
  HostArray array = random(shape, -9, 9, seed, DType::kF32);
  for (double& value : array.values) value = std::round(value);
  return array;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Dimension& rows : kDimensions) {
    for (const Dimension& columns : kDimensions) {
      const Specs& specs = kSpecs[all.size() % std::size(kSpecs)];
      const int seed = static_cast<int>(all.size());
      all.push_back({rows, columns, specs,
                     numbers(shape_of(specs.lhs, {2, 3, rows.size, columns.size}), seed),
                     numbers(shape_of(specs.rhs, {4, 3, rows.kernel, columns.kernel}), seed + 1000)});
    }
  }
  return all;
}

TEST(ConvolutionOnCpus, InEveryForm_EqualsTheDefinition) {
  const std::vector<Case> all = cases();
  Builder b("convolutions");
  std::vector<HostArray> inputs;
  std::vector<Value> outputs;
  std::size_t products = 0, padded = 0;
  for (const Case& each : all) {
    const Value lhs = b.input(each.lhs.aval()), rhs = b.input(each.rhs.aval());
    inputs.push_back(each.lhs), inputs.push_back(each.rhs);
    outputs.push_back(lax::conv_general_dilated(lhs, rhs, each.params()));
    const bool product = each.rows.kind == Dimension::kProduct && each.columns.kind == Dimension::kProduct;
    products += product;
    padded += !product && (each.rows.kind == Dimension::kPadded || each.columns.kind == Dimension::kPadded);
  }
  const Program program = b.finish(outputs);
  const std::string text = lower(program, {.for_cpu = true}).stablehlo;
  EXPECT_EQ(count_of("\"stablehlo.dot_general\"", text), products);
  EXPECT_EQ(count_of("\"stablehlo.convolution\"", text), all.size() - products);
  EXPECT_EQ(count_of("optimization_barrier", text), padded);

  const std::vector<HostArray> results = evaluate(program, inputs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Case& c = all[i];
    const Shape& shape = results[i].shape;
    const auto size = [&](std::size_t j) { return shape[static_cast<std::size_t>(c.specs.out[j])]; };
    for (std::int64_t n = 0; n < size(0); ++n)
      for (std::int64_t f = 0; f < size(1); ++f)
        for (std::int64_t y = 0; y < size(2); ++y)
          for (std::int64_t x = 0; x < size(3); ++x)
            ASSERT_EQ(results[i].values[place(shape, c.specs.out, {n, f, y, x})], c.expected(n, f, y, x))
                << "case " << i << " at " << n << ", " << f << ", " << y << ", " << x;
  }
}

/// Multiples of 1/64, which each floating dtype of 16 bits holds.
HostArray fractions(const Shape& shape, int seed) {
  HostArray array = random(shape, -1, 1, seed, DType::kF32);
  for (double& value : array.values) value = std::round(64 * value) / 64;
  return array;
}

/// A convolution in this dtype of 8 images with so many multiplications that oneDNN repays its call. The
/// inputs and the result are of f32.
struct Large {
  HostArray lhs = fractions({8, 12, 12, 16}, 1), rhs;
  Program program;

  explicit Large(DType dtype, std::int64_t groups = 1) : rhs(fractions({3, 3, 16 / groups, 16}, 2)) {
    Builder b("large");
    ConvParams p{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, kSpecs[0].lhs, kSpecs[0].rhs, kSpecs[0].out};
    p.feature_group_count = groups;
    const auto converted = [](const Value& x, DType to) {
      return x.aval().dtype == to ? x : lax::convert_element_type(x, to);
    };
    const Value x = converted(b.input(lhs.aval()), dtype), w = converted(b.input(rhs.aval()), dtype);
    program = b.finish(std::vector<Value>{converted(lax::conv_general_dilated(x, w, p), DType::kF32)});
  }
};

TEST(ConvolutionOnCpus, OfFloats_CallsOneDnn_WhereItIsInstalled) {
  const auto calls = [](const Large& large, const LowerOptions& options) {
    return lower(large.program, options).stablehlo.find(onednn::kOneDnnTarget) != std::string::npos;
  };
  EXPECT_EQ(calls(Large(DType::kF32), {}), onednn::is_available());
  EXPECT_FALSE(calls(Large(DType::kF32), {.onednn = false}));
  EXPECT_FALSE(calls(Large(DType::kF32), {.for_cpu = false}));
  EXPECT_FALSE(calls(Large(DType::kF64), {}));
  EXPECT_EQ(calls(Large(DType::kBF16), {}), onednn::is_available());
  EXPECT_EQ(calls(Large(DType::kF16), {}), onednn::is_available());
  EXPECT_FALSE(calls(Large(DType::kI32), {}));
  EXPECT_EQ(calls(Large(DType::kF32, 2), {}), onednn::is_available());
}

/// Those of f16 and bf16 are sums in f32, rounded once.
TEST(ConvolutionOnCpus, ByOneDnn_EqualsF64WithinThePrecisionOfItsDType) {
  const Large exact(DType::kF64);
  const std::vector<double> expected = evaluate(exact.program, {exact.lhs, exact.rhs})[0].values;
  for (const auto& [dtype, precision] :
       {std::pair(DType::kF32, 5e-6), std::pair(DType::kF16, 0x1p-11), std::pair(DType::kBF16, 0x1p-8)}) {
    const std::vector<double> result = evaluate(Large(dtype).program, {exact.lhs, exact.rhs})[0].values;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(result[i], expected[i], precision * std::max(1.0, std::abs(expected[i]))) << name(dtype);
  }
}

TEST(ConvolutionOnCpus, WithGroups_IsNotAProduct) {
  ConvParams p{{1}, {0}, {0}, {1}, {1}, {0, 2, 1}, {2, 1, 0}, {0, 2, 1}};
  EXPECT_TRUE(is_product({2, 5, 4}, {1, 4, 6}, {2, 5, 6}, p));
  p.feature_group_count = 2;
  EXPECT_FALSE(is_product({2, 5, 4}, {1, 2, 6}, {2, 5, 6}, p));
  p.feature_group_count = 1, p.batch_group_count = 2;
  EXPECT_FALSE(is_product({2, 5, 4}, {1, 4, 6}, {1, 5, 6}, p));
}

}  // namespace
}  // namespace lockstep::ir
