// SPDX-License-Identifier: Apache-2.0
#include "lockstep/onednn/onednn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "lockstep/collectives/test_for_each.h"
#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/few_pixels.h"
#include "lockstep/onednn/library.h"
#include "lockstep/onednn/test_attention.h"

namespace lockstep::onednn {
namespace {

using Integers = std::vector<std::int64_t>;

using test::in_turn;
using test::on_threads;

std::size_t elements(const Integers& shape) {
  std::size_t count = 1;
  for (std::int64_t n : shape) count *= static_cast<std::size_t>(n);
  return count;
}

std::vector<float> random(const Integers& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> values(elements(shape));
  for (float& value : values) value = any(engine);
  return values;
}

/// Where batch or output features, features and rows and columns are.
const Integers kChannelsLast = {0, 3, 1, 2}, kChannelsFirst = {0, 1, 2, 3}, kKernelsLast = {3, 2, 0, 1},
               kBatchLast = {3, 0, 1, 2};

Integers shape_of(const Integers& spec, const Integers& sizes) {
  Integers shape(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i) shape[static_cast<std::size_t>(spec[i])] = sizes[i];
  return shape;
}

/// The sizes and strides of an array's dimensions, in the order of the spec.
struct View {
  std::int64_t size[4], stride[4];
  View(const Integers& shape, const Integers& spec) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto d = static_cast<std::size_t>(spec[i]);
      size[i] = shape[d];
      stride[i] = 1;
      for (std::size_t after = d + 1; after < 4; ++after) stride[i] *= shape[after];
    }
  }
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t y, std::int64_t x) const {
    return a * stride[0] + b * stride[1] + y * stride[2] + x * stride[3];
  }
};

/// The sums of XLA's definition of a convolution, in f64.
std::vector<float> expected(const Convolution& c, const std::vector<float>& lhs,
                            const std::vector<float>& rhs) {
  const View images(c.lhs, c.lhs_spec), kernels(c.rhs, c.rhs_spec), results(c.result, c.out_spec);
  std::vector<double> sums(elements(c.result));
  /// The element of lhs in spatial dimension `d`; none in the padding and between elements.
  const auto read = [&](std::size_t d, std::int64_t result, std::int64_t kernel) -> std::int64_t {
    const std::int64_t at = result * c.strides[d] + kernel * c.rhs_dilation[d] - c.low[d];
    if (at < 0 || at % c.lhs_dilation[d] != 0 || at / c.lhs_dilation[d] >= images.size[d + 2]) return -1;
    return at / c.lhs_dilation[d];
  };
  const auto add = [&](std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t i, std::int64_t j) {
    const std::int64_t row = read(0, y, i), column = read(1, x, j);
    if (row < 0 || column < 0) return;
    for (std::int64_t o = 0; o < results.size[1]; ++o) {
      const std::int64_t batch = n + o / (results.size[1] / c.batch_groups) * results.size[0],
                         first = o / (results.size[1] / c.feature_groups) * kernels.size[1];
      double* sum = sums.data() + results.at(n, o, y, x);
      const float *image = lhs.data() + images.at(batch, first, row, column),
                  *kernel = rhs.data() + kernels.at(o, 0, i, j);
      for (std::int64_t f = 0; f < kernels.size[1]; ++f)
        *sum += static_cast<double>(image[f * images.stride[1]]) *
                static_cast<double>(kernel[f * kernels.stride[1]]);
    }
  };
  for (std::int64_t n = 0; n < results.size[0]; ++n)
    for (std::int64_t y = 0; y < results.size[2]; ++y)
      for (std::int64_t x = 0; x < results.size[3]; ++x)
        for (std::int64_t i = 0; i < kernels.size[2]; ++i)
          for (std::int64_t j = 0; j < kernels.size[3]; ++j) add(n, y, x, i, j);
  return {sums.begin(), sums.end()};
}

/// Of images of size x size with 3 x 3 kernels, or the gradient of such a one by its kernels.
Convolution of_images(const Integers& images, const Integers& kernels, const Integers& results,
                      std::int64_t batch, std::int64_t size, std::int64_t features, std::int64_t out_features,
                      std::int64_t stride, std::int64_t dilation, bool by_kernels) {
  const std::int64_t window = 2 * dilation + 1, count = (size + 2 - window) / stride + 1;
  if (!by_kernels) {
    return {.lhs = shape_of(images, {batch, features, size, size}),
            .rhs = shape_of(kernels, {out_features, features, 3, 3}),
            .result = shape_of(results, {batch, out_features, count, count}),
            .lhs_spec = images,
            .rhs_spec = kernels,
            .out_spec = results,
            .strides = {stride, stride},
            .low = {1, 1},
            .high = {1, 1},
            .lhs_dilation = {1, 1},
            .rhs_dilation = {dilation, dilation}};
  }
  const auto swapped = [](Integers spec) {
    std::swap(spec[0], spec[1]);
    return spec;
  };
  const std::int64_t read = (count - 1) * stride + 2 * dilation + 1;
  return {.lhs = shape_of(images, {batch, features, size, size}),
          .rhs = shape_of(results, {batch, out_features, count, count}),
          .result = shape_of(kernels, {out_features, features, 3, 3}),
          .lhs_spec = swapped(images),
          .rhs_spec = swapped(results),
          .out_spec = swapped(kernels),
          .strides = {dilation, dilation},
          .low = {1, 1},
          .high = {read - size - 1, read - size - 1},
          .lhs_dilation = {1, 1},
          .rhs_dilation = {stride, stride}};
}

std::vector<float> convolved(const Convolution& c, const std::vector<float>& lhs,
                             const std::vector<float>& rhs, const ForEach& for_each) {
  std::vector<float> result(elements(c.result), NAN);
  convolve(c, lhs.data(), rhs.data(), result.data(), for_each);
  return result;
}

TEST(OneDnn, IsFoundInTheBuildTree) { EXPECT_TRUE(is_available()) << description(); }

/// Batches of 17, so that the last piece is smaller; strides that leave pixels unread.
TEST(OneDnn, Convolutions_EqualTheDefinition_OnAnyNumberOfThreads) {
  int count = 0;
  for (const auto& [images, kernels] :
       {std::pair(kChannelsLast, kKernelsLast), std::pair(kChannelsFirst, kChannelsFirst),
        std::pair(kBatchLast, kKernelsLast)}) {
    for (bool by_kernels : {false, true}) {
      for (const auto& [stride, dilation] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
        const Convolution c =
            of_images(images, kernels, images, 17, 14, 16, 24, stride, dilation, by_kernels);
        SCOPED_TRACE(testing::Message() << "order " << images[1] << images[0] << ", stride " << stride
                                        << ", dilation " << dilation << ", by kernels " << by_kernels);
        if (!computes(c)) continue;
        ++count;
        const std::vector<float> lhs = random(c.lhs, 1), rhs = random(c.rhs, 2), sums = expected(c, lhs, rhs);
        const std::vector<float> result = convolved(c, lhs, rhs, in_turn);
        for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(result[i], sums[i], 2e-4) << i;
        EXPECT_EQ(convolved(c, lhs, rhs, on_threads), result);
      }
    }
  }
  EXPECT_GE(count, 15) << "oneDNN has no fast code for most of them";
}

/// The three convolutions of a layer with groups and strides, as their derivatives call them: of the images
/// with the kernels, and the gradients by the kernels and by the images.
std::vector<Convolution> of_groups(const Integers& images, const Integers& kernels, std::int64_t groups,
                                   std::int64_t features, std::int64_t out_features, std::int64_t size,
                                   std::int64_t stride, std::int64_t dilation, std::int64_t low) {
  Convolution c =
      of_images(images, kernels, images, 6, size, features, out_features, stride, dilation, false);
  const std::int64_t window = 2 * dilation + 1, count = (size + low + 1 - window) / stride + 1;
  c.rhs = shape_of(kernels, {out_features, features / groups, 3, 3});
  c.result = shape_of(images, {6, out_features, count, count});
  c.low = {low, low};
  c.feature_groups = groups;
  const auto swapped = [](Integers spec) {
    std::swap(spec[0], spec[1]);
    return spec;
  };
  Convolution by_kernels = c;
  const std::int64_t read = (count - 1) * stride + window, high = read - size - low;
  by_kernels.rhs = c.result, by_kernels.result = c.rhs;
  by_kernels.lhs_spec = swapped(images), by_kernels.rhs_spec = swapped(images),
  by_kernels.out_spec = swapped(kernels);
  by_kernels.high = {high, high};
  by_kernels.strides = {dilation, dilation}, by_kernels.rhs_dilation = {stride, stride};
  by_kernels.feature_groups = 1, by_kernels.batch_groups = groups;
  Convolution by_images = c;
  const std::int64_t before = window - 1 - low;
  by_images.lhs = c.result, by_images.result = c.lhs;
  by_images.rhs = shape_of(kernels, {features, out_features / groups, 3, 3});
  by_images.low = {before, before};
  by_images.high = {size + window - 1 - ((count - 1) * stride + 1) - before,
                    size + window - 1 - ((count - 1) * stride + 1) - before};
  by_images.strides = {1, 1}, by_images.lhs_dilation = {stride, stride};
  return {c, by_kernels, by_images};
}

TEST(OneDnn, ConvolutionsWithGroupsAndStrides_AndTheirGradients_EqualTheDefinition_OnAnyNumberOfThreads) {
  int count = 0, all = 0;
  for (const auto& [images, kernels] :
       {std::pair(kChannelsLast, kKernelsLast), std::pair(kChannelsFirst, kChannelsFirst)}) {
    for (const auto& [groups, features, out_features] :
         {std::tuple(1, 16, 24), std::tuple(2, 16, 8), std::tuple(8, 16, 24), std::tuple(16, 16, 16),
          std::tuple(16, 16, 32), std::tuple(5, 15, 10)}) {
      for (const auto& [size, stride, dilation, low] :
           {std::tuple(14, 1, 1, 1), std::tuple(14, 2, 1, 1), std::tuple(9, 3, 1, 0), std::tuple(13, 2, 2, 1),
            std::tuple(11, 2, 1, 2)}) {
        for (const Convolution& c :
             of_groups(images, kernels, groups, features, out_features, size, stride, dilation, low)) {
          SCOPED_TRACE(testing::Message()
                       << "order " << images[1] << ", " << groups << " groups, " << features << " to "
                       << out_features << ", size " << size << ", stride " << stride << ", dilation "
                       << dilation << ", dilation of lhs " << c.lhs_dilation[0] << ", batch groups "
                       << c.batch_groups);
          ++all;
          if (!computes(c)) continue;
          ++count;
          const std::vector<float> lhs = random(c.lhs, 1), rhs = random(c.rhs, 2),
                                   sums = expected(c, lhs, rhs), result = convolved(c, lhs, rhs, in_turn);
          for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(result[i], sums[i], 2e-4) << i;
          EXPECT_EQ(convolved(c, lhs, rhs, on_threads), result);
        }
      }
    }
  }
  EXPECT_GE(count, all * 3 / 4) << "of " << all << ": oneDNN has no fast code for most of them";
}

/// Of images of `size` x `size` with kernels of 3 x 3, whose features and output features stand in either
/// order.
TEST(OneDnn, ConvolutionsOfFewPixels_EqualTheDefinition_OnAnyNumberOfThreads) {
  for (const Integers& kernels : {kKernelsLast, Integers{2, 3, 0, 1}, Integers{3, 2, 1, 0}}) {
    for (std::int64_t batch : {5, 70}) {
      for (std::int64_t size : {1, 2, 3, 4}) {
        for (const auto& [stride, dilation] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
          if (size + 2 < 2 * dilation + 1) continue;
          SCOPED_TRACE(testing::Message() << "kernels " << kernels[0] << kernels[1] << ", size " << size
                                          << ", stride " << stride << ", dilation " << dilation);
          const Convolution c = of_images(kChannelsLast, kernels, kChannelsLast, batch, size, 136, 104,
                                          stride, dilation, false);
          const bool few = elements(c.result) < static_cast<std::size_t>(9 * 104 * batch);
          EXPECT_EQ(has_few_pixels(c), few);
          if (!few || !computes(c)) continue;
          const std::vector<float> lhs = random(c.lhs, 1), rhs = random(c.rhs, 2),
                                   sums = expected(c, lhs, rhs), result = convolved(c, lhs, rhs, in_turn);
          for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(result[i], sums[i], 2e-4) << i;
          EXPECT_EQ(convolved(c, lhs, rhs, on_threads), result);
        }
      }
    }
  }
  const auto of = [](const Integers& images, std::int64_t features) {
    return of_images(images, kKernelsLast, images, 32, 2, features, 64, 1, 1, false);
  };
  EXPECT_TRUE(has_few_pixels(of(kChannelsLast, 64)));
  EXPECT_FALSE(has_few_pixels(of(kChannelsLast, 16))) << "too few multiplications";
  EXPECT_FALSE(has_few_pixels(of(kChannelsFirst, 64))) << "the features are not innermost";
}

TEST(OneDnn, SmallConvolutions_AndFewImages_AreLeftToXla) {
  const auto of = [](std::int64_t batch, std::int64_t size) {
    return of_images(kChannelsLast, kKernelsLast, kChannelsLast, batch, size, 16, 16, 1, 1, false);
  };
  EXPECT_TRUE(computes(of(8, 16)));
  EXPECT_FALSE(computes(of(8, 4)));
  EXPECT_FALSE(computes(of(1, 64)));
  Convolution cropped = of(8, 16);
  cropped.low = {-1, -1};
  EXPECT_FALSE(computes(cropped));
}

TEST(OneDnn, AProductOfATransposedMatrix_EqualsTheDefinition_InEachForm_OnAnyNumberOfThreads) {
  for (const auto& [m, n, k] : {std::tuple(1100, 65, 33), std::tuple(64, 700, 128), std::tuple(512, 64, 16),
                                std::tuple(1030, 768, 24), std::tuple(20, 70, 1090)}) {
    ASSERT_TRUE(computes_product(m, n, k));
    const std::vector<float> x = random({n, m}, 3), y = random({n, k}, 4);
    const std::size_t elements = static_cast<std::size_t>(m) * static_cast<std::size_t>(k);
    std::vector<double> sums(elements, 0);
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < k; ++j)
          sums[static_cast<std::size_t>(i * k + j)] +=
              static_cast<double>(x[static_cast<std::size_t>(r * m + i)]) *
              static_cast<double>(y[static_cast<std::size_t>(r * k + j)]);
    for (ProductForm form : {ProductForm::kRows, ProductForm::kColumns, ProductForm::kTransposed}) {
      std::vector<float> result(elements, NAN), again = result;
      multiply(m, n, k, x.data(), y.data(), result.data(), in_turn, form);
      multiply(m, n, k, x.data(), y.data(), again.data(), on_threads, form);
      EXPECT_EQ(again, result);
      for (std::size_t i = 0; i < elements; ++i) ASSERT_NEAR(result[i], sums[i], 1e-4);
    }
  }
}

void expect_products_of_groups(const std::vector<std::int32_t>& group) {
  constexpr std::int64_t k = 130, n = 20, groups = 5;
  const auto rows = static_cast<std::int64_t>(group.size());
  const std::vector<float> x = random({rows, k}, 5), y = random({groups, k, n}, 6), z = random({rows, n}, 7);
  const auto at = [](const std::vector<float>& array, std::int64_t row, std::int64_t column,
                     std::int64_t columns) {
    return static_cast<double>(array[static_cast<std::size_t>(row * columns + column)]);
  };
  const auto is_known = [](std::int32_t g) { return g >= 0 && g < groups; };

  for (const bool transposed : {false, true}) {
    std::vector<float> result(static_cast<std::size_t>(rows * n), NAN), again = result;
    const Ragged operands{rows, k, n, groups, x.data(), y.data(), group.data()};
    ragged_dot(operands, transposed, result.data(), in_turn);
    ragged_dot(operands, transposed, again.data(), on_threads);
    EXPECT_EQ(again, result);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int32_t g = group[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k && is_known(g); ++l)
          sum += at(x, i, l, k) * (transposed ? at(y, g * n + j, l, k) : at(y, g * k + l, j, n));
        ASSERT_NEAR(result[static_cast<std::size_t>(i * n + j)], sum, 1e-4) << i;
      }
    }
  }

  std::vector<float> result(static_cast<std::size_t>(groups * k * n), NAN), again = result;
  const Ragged operands{rows, k, n, groups, x.data(), z.data(), group.data()};
  ragged_contracting_dot(operands, result.data(), in_turn);
  ragged_contracting_dot(operands, again.data(), on_threads);
  EXPECT_EQ(again, result);
  std::vector<double> sums(result.size(), 0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int32_t g = group[static_cast<std::size_t>(i)];
    for (std::int64_t l = 0; l < k && is_known(g); ++l)
      for (std::int64_t j = 0; j < n; ++j)
        sums[static_cast<std::size_t>((g * k + l) * n + j)] += at(x, i, l, k) * at(z, i, j, n);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(result[i], sums[i], 1e-4) << i;
}

/// Groups of one row, of many, without rows, and rows without a group, also in the middle; and groups in two
/// runs.
TEST(OneDnn, ProductsOfGroupsOfRows_EqualTheDefinition_OnAnyNumberOfThreads) {
  std::vector<std::int32_t> group = {0};
  for (const auto& [number, rows] :
       {std::pair(3, 300), std::pair(-1, 2), std::pair(1, 7), std::pair(3, 4), std::pair(5, 9)})
    group.insert(group.end(), static_cast<std::size_t>(rows), number);
  expect_products_of_groups(group);
}

TEST(OneDnn, ProductsOfGroupsOfRowsInAnyOrder_EqualTheDefinition_OnAnyNumberOfThreads) {
  std::vector<std::int32_t> group;
  for (int i = 0; i < 700; ++i) group.push_back((i * i + i / 3) % 7 - 1);
  expect_products_of_groups(group);
}

/// OpenMP's number of threads belongs to the user's program.
TEST(OneDnn, ACall_DoesNotChangeTheCallersOpenMpThreads) {
  const Convolution c = of_images(kChannelsLast, kKernelsLast, kChannelsLast, 8, 16, 16, 16, 1, 1, false);
  ASSERT_TRUE(computes(c));
  const Library& library = *find_library();
  library.omp_set_num_threads(3);
  convolved(c, random(c.lhs, 1), random(c.rhs, 2), in_turn);
  EXPECT_EQ(library.omp_get_max_threads(), 3);
}

struct Attended {
  std::vector<float> result, logs, of_query, of_key, of_value, of_bias;
};
Attended attended(const Attention& a, const std::vector<std::vector<float>>& x,
                  const std::vector<std::int32_t>& lengths, const test::MaskAndBias& terms,
                  const ForEach& for_each) {
  Attended y{x[0], std::vector<float>(static_cast<std::size_t>(a.batch * a.heads * a.queries)),
             x[0], x[1],
             x[2], {}};
  AttentionOperands operands = {x[0].data(), x[1].data(), x[2].data(),
                                lengths.empty() ? nullptr : lengths.data()};
  std::unique_ptr<bool[]> mask;
  std::vector<float> bias;
  Terms<float> of_bias;
  if (terms.mask) {
    mask = std::make_unique<bool[]>(terms.mask->values.size());
    std::ranges::transform(terms.mask->values, mask.get(), [](double value) { return value != 0; });
    operands.mask = {mask.get(), terms.mask->sizes.data()};
  }
  if (terms.bias) {
    bias.assign(terms.bias->values.begin(), terms.bias->values.end());
    operands.bias = {bias.data(), terms.bias->sizes.data()};
    y.of_bias.assign(bias.size(), NAN);
    of_bias = {y.of_bias.data(), terms.bias->sizes.data()};
  }
  attend(a, operands, y.result.data(), y.logs.data(), for_each);
  attend_backward(a, {operands, y.result.data(), y.logs.data()}, x[3].data(), y.of_query.data(),
                  y.of_key.data(), y.of_value.data(), of_bias, for_each);
  return y;
}

/// Operands of any numbers: query, key, value and the result's cotangent.
std::vector<std::vector<float>> operands_of(const Attention& a) {
  const Integers query = {a.batch, a.queries, a.heads, a.features},
                 key = {a.batch, a.keys, a.key_heads, a.features};
  return {random(query, 1), random(key, 2), random(key, 3), random(query, 4)};
}

void expect_equal_to_the_definition(const Attention& a, const std::vector<std::int32_t>& lengths,
                                    const test::MaskAndBias& terms = {}) {
  const std::vector<std::vector<float>> x = operands_of(a);
  const Attended y = attended(a, x, lengths, terms, in_turn);
  std::array<std::vector<double>, 4> operands;
  for (std::size_t i = 0; i < 4; ++i) operands[i].assign(x[i].begin(), x[i].end());
  const auto wanted = test::attention_by_definition(a, operands, lengths, terms);
  const std::vector<float>* const found[] = {&y.result, &y.of_query, &y.of_key, &y.of_value, &y.of_bias};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t e = 0; e < wanted[i].size(); ++e)
      ASSERT_NEAR((*found[i])[e], wanted[i][e], 5e-6 * std::max(1.0, std::abs(wanted[i][e])))
          << a.queries << " queries, " << a.keys << " keys, " << a.key_heads << " key heads, window "
          << a.left << ", " << a.right << ", array " << i << ", element " << e;
  const Attended again = attended(a, x, lengths, terms, on_threads);
  EXPECT_EQ(again.result, y.result);
  EXPECT_EQ(again.of_key, y.of_key);
  EXPECT_EQ(again.of_bias, y.of_bias);
}

TEST(Attention, OfAnySizes_EqualsTheDefinition) {
  if (!is_available()) GTEST_SKIP() << description();
  for (const Attention& a :
       {Attention{1, 1, 1, 1, 1, 1, 1}, Attention{2, 37, 37, 4, 2, 5, -0.4F, -1, 0},
        Attention{1, 129, 129, 3, 3, 16, 2, -1, 0}, Attention{1, 300, 300, 4, 1, 8, 0.7F, -1, 0},
        Attention{1, 300, 600, 2, 2, 4, 0.7F, 20, 290}, Attention{1, 2, 1, 200, 1, 3, 1, -1, 0}})
    expect_equal_to_the_definition(a, {});
}

TEST(Attention, WithWindowsAndLengths_EqualsTheDefinition) {
  if (!is_available()) GTEST_SKIP() << description();
  for (const Attention& a : test::kinds_of_attention(40))
    for (const std::vector<std::int32_t>& lengths : test::lengths_of_keys(a))
      expect_equal_to_the_definition(a, lengths);
}

TEST(Attention, WithMaskAndBias_EqualsTheDefinition) {
  if (!is_available()) GTEST_SKIP() << description();
  const std::vector<Attention> kinds = test::kinds_of_attention(40);
  for (std::size_t i = 0; i < kinds.size(); i += 5)
    for (const std::vector<std::int32_t>& lengths : test::lengths_of_keys(kinds[i]))
      for (const test::MaskAndBias& terms : test::kinds_of_mask_and_bias(kinds[i]))
        expect_equal_to_the_definition(kinds[i], lengths, terms);
}

/// A mask may hide a block, and all keys of the queries before it.
TEST(Attention, WhereAMaskHidesBlocks_EqualsTheDefinition) {
  if (!is_available()) GTEST_SKIP() << description();
  const Attention a{2, 140, 600, 4, 2, 4, 1};
  for (const auto& [first, end] : {std::pair{0, 300}, {250, 520}, {300, 600}, {0, 600}}) {
    test::MaskAndBias terms;
    terms.mask = test::ScoreTerms{{2, 1, 1, 600}, std::vector<double>(1200, 1)};
    std::fill(terms.mask->values.begin() + first, terms.mask->values.begin() + end, 0);
    expect_equal_to_the_definition(a, {}, terms);
  }
}

/// By such a bias programs hide all keys of a query. It leaves nothing of the scores, so their weights are
/// equal, also in the derivative.
TEST(Attention, WithALowBiasForAllKeys_GivesTheMean) {
  if (!is_available()) GTEST_SKIP() << description();
  const Attention a{1, 3, 300, 1, 1, 4, 1};
  const std::vector<std::vector<float>> x = operands_of(a);
  for (const double low : {-1e12, -3.4e38}) {
    test::MaskAndBias terms;
    terms.bias = test::ScoreTerms{{1, 1, 1, 1}, {low}};
    const Attended y = attended(a, x, {}, terms, in_turn);
    for (std::size_t f = 0; f < 4; ++f) {
      double mean = 0, cotangents = 0;
      for (std::size_t j = 0; j < 300; ++j) mean += x[2][j * 4 + f] / 300.0;
      for (std::size_t i = 0; i < 3; ++i) cotangents += x[3][i * 4 + f];
      EXPECT_NEAR(y.result[f], mean, 1e-5);
      EXPECT_NEAR(y.of_value[f], cotangents / 300, 1e-5);
    }
  }
}

/// A query from 280 on sees no key of the first block.
TEST(Attention, WhereWholeBlocksAreHidden_EqualsTheDefinition) {
  if (!is_available()) GTEST_SKIP() << description();
  expect_equal_to_the_definition({2, 600, 600, 2, 1, 4, 1, 20, 20}, {});
  expect_equal_to_the_definition({2, 600, 600, 2, 1, 4, 1, 20, -1}, {310, 600});
}

TEST(Attention, WithANanInAKey_IsNanForTheQueriesThatSeeIt) {
  if (!is_available()) GTEST_SKIP() << description();
  const Attention a{1, 300, 300, 1, 1, 4, 1, -1, 0};
  std::vector<std::vector<float>> x = operands_of(a);
  x[1][4 * 140] = std::numeric_limits<float>::quiet_NaN();
  const Attended y = attended(a, x, {}, {}, in_turn);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(std::isnan(y.result[4 * i]), i >= 140) << i;
    EXPECT_EQ(std::isnan(y.of_query[4 * i + 1]), i >= 140) << i;
  }
}

/// Scores of -infinity have no weight, also where a block has no others.
TEST(Attention, WithScoresOfMinusInfinity_IgnoresTheirKeys) {
  if (!is_available()) GTEST_SKIP() << description();
  const Attention all{1, 300, 300, 1, 1, 1, 1}, some{1, 300, 40, 1, 1, 1, 1};
  std::vector<std::vector<float>> x = operands_of(all);
  for (float& q : x[0]) q = std::abs(q) + 0.1F;
  std::vector<std::vector<float>> y = x;
  y[1].assign(x[1].begin() + 260, x[1].end());
  y[2].assign(x[2].begin() + 260, x[2].end());
  std::fill_n(x[1].begin(), 260, -std::numeric_limits<float>::infinity());
  const std::vector<float> found = attended(all, x, {}, {}, in_turn).result,
                           wanted = attended(some, y, {}, {}, in_turn).result;
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
}

}  // namespace
}  // namespace lockstep::onednn
