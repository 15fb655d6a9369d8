// SPDX-License-Identifier: Apache-2.0
#include "lockstep/onednn/few_pixels.h"

#include <algorithm>
#include <optional>

#include "lockstep/onednn/layout.h"
#include "lockstep/onednn/library.h"

namespace lockstep::onednn {
namespace {

/// The images that a thread computes at once. The pieces depend on the shapes only, and so does the result.
constexpr std::int64_t kImages = 64;
/// The multiplications of a product, at least: with fewer, oneDNN's convolutions are faster (measured with
/// images of 2 to 10 pixels a side on one core of a Xeon with AVX-512).
constexpr std::int64_t kFewest = 1 << 16;

struct Operands {
  Layout images, kernels,
      results;  ///< the first dimensions are (batch, features) or (output features, features)

  explicit Operands(const Convolution& c)
      : images(layout_of(c.lhs, c.lhs_spec)),
        kernels(layout_of(c.rhs, c.rhs_spec)),
        results(layout_of(c.result, c.out_spec)) {}

  /// Whether a pixel of the kernels is a matrix [features, output features], or its transpose.
  bool is_straight() const { return kernels.strides[0] == 1 && kernels.strides[1] == kernels.sizes[0]; }
  bool is_transposed() const { return kernels.strides[1] == 1 && kernels.strides[0] == kernels.sizes[1]; }
};

/// The spatial coordinates of a pixel, counted in row-major order.
Integers coordinates(const Layout& layout, std::int64_t pixel) {
  Integers at(layout.sizes.size() - 2);
  for (std::size_t d = at.size(); d-- > 0;) {
    at[d] = pixel % layout.sizes[d + 2];
    pixel /= layout.sizes[d + 2];
  }
  return at;
}

std::int64_t offset(const Layout& layout, const Integers& at) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < at.size(); ++d) sum += at[d] * layout.strides[d + 2];
  return sum;
}

/// The pixel of the images that one of the kernels lies on; none in the padding.
std::optional<Integers> read_pixel(const Convolution& c, const Layout& images, const Integers& result,
                                   const Integers& kernel) {
  Integers at(result.size());
  for (std::size_t d = 0; d < at.size(); ++d) {
    at[d] = result[d] * c.strides[d] + kernel[d] * c.rhs_dilation[d] - c.low[d];
    if (at[d] < 0 || at[d] >= images.sizes[d + 2]) return std::nullopt;
  }
  return at;
}

}  // namespace

bool has_few_pixels(const Convolution& c) {
  if (c.feature_groups > 1 || c.batch_groups > 1 || is_dilated(c)) return false;
  const Operands o(c);
  const std::int64_t images = std::min(kImages, o.images.sizes[0]);
  return product(o.kernels.sizes, 2) > product(o.results.sizes, 2) &&
         images * o.kernels.sizes[0] * o.kernels.sizes[1] >= kFewest && o.images.strides[1] == 1 &&
         o.results.strides[1] == 1 && (o.is_straight() || o.is_transposed());
}

void convolve_few_pixels(const Convolution& c, const float* lhs, const float* rhs, float* result,
                         const ForEach& for_each) {
  const Library& library = *find_library();
  const Operands o(c);
  const std::int64_t batch = o.images.sizes[0], features = o.images.sizes[1], outputs = o.results.sizes[1],
                     pieces = (batch + kImages - 1) / kImages;
  for_each(product(o.results.sizes, 2) * pieces, [&](std::int64_t i) {
    const OneThread one(library);
    const std::int64_t first = i % pieces * kImages, images = std::min(kImages, batch - first);
    const Integers at = coordinates(o.results, i / pieces);
    float* out = result + first * o.results.strides[0] + offset(o.results, at);
    float of_before = 0;
    for (std::int64_t k = 0; k < product(o.kernels.sizes, 2); ++k) {
      const Integers kernel = coordinates(o.kernels, k);
      const std::optional<Integers> read = read_pixel(c, o.images, at, kernel);
      if (!read) continue;
      sgemm(library, 'N', o.is_straight() ? 'N' : 'T', images, outputs, features,
            lhs + first * o.images.strides[0] + offset(o.images, *read), o.images.strides[0],
            rhs + offset(o.kernels, kernel), o.is_straight() ? outputs : features, of_before, out,
            o.results.strides[0]);
      of_before = 1;
    }
    for (std::int64_t row = 0; row < images && of_before == 0; ++row)
      std::fill_n(out + row * o.results.strides[0], outputs, 0.0F);
  });
}

}  // namespace lockstep::onednn
