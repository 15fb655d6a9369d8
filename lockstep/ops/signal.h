// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "lockstep/ops/operand.h"

/// Convolutions, interpolation and counts, as in jax.numpy.
namespace lockstep {

/// convolve: the sums of x[i] y[k - i] for each k, for two nonempty vectors (ShapeError otherwise).
/// correlate: the sums of x[i + k] y[i]. mode "full": all, size x + size y - 1; "same": the middle ones, as
/// many as the longer vector has; "valid": those for which the shorter vector is completely within the longer
/// one. Integers become f32.
Array convolve(const Operand& x, const Operand& y, const std::string& mode = "full");
Array correlate(const Operand& x, const Operand& y, const std::string& mode = "valid");

struct InterpOptions {
  std::optional<double> left = {}, right = {};  ///< values before the first and after the last point: by
                                                ///< default fp's there
  std::optional<double> period = {};  ///< of x and xp, which then may be unsorted; excludes left and right
};

/// Linear interpolation at each x between the points (xp, fp), which are two vectors of one size
/// (ShapeError), with xp ascending. x may have any shape; the result has it, too.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, InterpOptions options = {});

/// x with multiples of the period added along the axis, so that neighbours differ by at most `discont` (by
/// default half of the period).
struct UnwrapOptions {
  std::optional<double> discont = {};
  std::int64_t axis = -1;
  double period = 2 * std::numbers::pi;
};
Array unwrap(const Operand& x, UnwrapOptions options = {});

/// For each x the number i of its bin: bins[i - 1] <= x < bins[i], or with `right`, bins[i - 1] < x <=
/// bins[i]. bins is an ascending or descending vector (ShapeError otherwise); the result is i32 with x's
/// shape.
Array digitize(const Operand& x, const Operand& bins, bool right = false);

/// The number of bins of equal width in a range, or the bins' edges, an ascending vector.
using Bins = std::variant<std::int64_t, Array>;
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< by default from x's minimum to its maximum
  std::optional<Array> weights = {};  ///< the weight of each x; has x's shape (ShapeError otherwise)
  bool density = false;               ///< divide by the total and by the widths of the bins
};

/// histogram: the number of x in each bin, and the edges. The last bin includes both its edges; x outside of
/// all bins are not counted. histogram_bin_edges: the edges only.
std::pair<Array, Array> histogram(const Operand& x, const Bins& bins = std::int64_t{10},
                                  HistogramOptions options = {});
Array histogram_bin_edges(const Operand& x, const Bins& bins = std::int64_t{10},
                          HistogramOptions options = {});

/// For each x, whether it is one of the values; with `invert`, whether it is not.
Array isin(const Operand& x, const Operand& values, bool invert = false);

}  // namespace lockstep
