// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Loops over rows of scores, for attention.cc. The number of elements is a multiple of kRowMultiple.
namespace lockstep::onednn {

inline constexpr std::size_t kRowMultiple = 16;

/// The largest number; NaN is none.
float highest_of_row(const float* x, std::size_t count);

/// Replaces each x by exp(x - highest); returns their sum.
float exp_row(float* x, std::size_t count, float highest);

/// Of scores and the cotangents of weights, in their places: the weights, exp(score - log), and the
/// cotangents of the scores, weight * (cotangent - mean).
void weights_of_row(float* scores, float* cotangents, std::size_t count, float log, float mean);

}  // namespace lockstep::onednn
