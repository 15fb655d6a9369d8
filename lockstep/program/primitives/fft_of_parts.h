// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/sharding_rule.h"

/// Fourier transforms along dimensions that are split over devices.
///
/// Of a transform over two or three dimensions, each device transforms those that it has whole. Then an
/// all-to-all splits one of them in place of one that was split, which is transformed next: the pencil
/// decomposition. Where the sizes allow it, the result stays as the last all-to-all leaves it: the axes that
/// split a dimension split the next one, and those of the inverse transform the previous one, so that a
/// transform and its inverse need one all-to-all for each split dimension.
///
/// A transform over the only dimension is done in six steps (D. H. Bailey, FFTs in external or hierarchical
/// memory, 1990): the dimension as a matrix with a row for each device, transforms of its columns and rows,
/// and three all-to-alls. If the square of the number of devices does not divide the length, it is gathered.
///
/// The last dimension of a real transform is never split, because the number of its elements changes; nor is
/// that of a transform over one dimension of several, which moves to another one by one all-to-all.
namespace lockstep::ir {

ShardingRule fft_rule(std::span<const Aval> inputs, std::span<const Aval> outputs, const FftParams& params);

}  // namespace lockstep::ir
