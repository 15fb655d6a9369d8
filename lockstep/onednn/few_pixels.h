// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "lockstep/onednn/computations.h"

namespace lockstep::onednn {

/// Whether the elements of lhs do not stand side by side, as in the derivative by the images of a convolution
/// with strides.
inline bool is_dilated(const Convolution& c) {
  return std::ranges::any_of(c.lhs_dilation, [](std::int64_t n) { return n != 1; });
}

/// Whether a convolution without groups has kernels of more pixels than its result, and matrices stand where
/// convolve_few_pixels() needs them: features are innermost in the images and the result, and features and
/// output features in the kernels.
bool has_few_pixels(const Convolution& convolution);

/// Such a convolution as products of matrices, by sgemm: each pixel of the result is the sum of a product for
/// each pixel of the kernels that lies on one of the image. oneDNN's own code multiplies the padding too, and
/// copies all kernels into its order first.
void convolve_few_pixels(const Convolution& convolution, const float* lhs, const float* rhs, float* result,
                         const ForEach& for_each);

}  // namespace lockstep::onednn
