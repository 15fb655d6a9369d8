#pragma once

#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "lockstep/ops/operand.h"

/// Samples, sums along them, and counts of them, as in jax.numpy.
namespace lockstep {

/// The sums of x[i] y[k - i] for each k, of two vectors that are not empty (ShapeError): "full": all, size x
/// + size y - 1; "same": as many as the longer one has, around the middle; "valid": those for which all of
/// the shorter one is within. correlate: of x[i + k] y[i]. Whole numbers become f32.
Array convolve(const Operand& x, const Operand& y, const std::string& mode = "full");
Array correlate(const Operand& x, const Operand& y, const std::string& mode = "valid");

struct InterpOptions {
  std::optional<double> left = {},
                        right = {};   ///< before the first and behind the last: by default fp's there
  std::optional<double> period = {};  ///< of x and xp, which then need no order; not with left and right
};

/// At each x the value on the straight lines between the points (xp, fp), two vectors of one size
/// (ShapeError), xp rising. x may have any shape, which is the result's.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, InterpOptions options = {});

/// x with multiples of the period added along the axis, so that neighbours differ by no more than `discont`
/// (by default half of the period).
struct UnwrapOptions {
  std::optional<double> discont = {};
  std::int64_t axis = -1;
  double period = 2 * std::numbers::pi;
};
Array unwrap(const Operand& x, UnwrapOptions options = {});

/// For each x the number of the bin it is in: i with bins[i - 1] <= x < bins[i], or with `right`, bins[i - 1]
/// < x <= bins[i]; bins is a rising or falling vector (ShapeError), and the result i32 of x's shape.
Array digitize(const Operand& x, const Operand& bins, bool right = false);

/// A number of bins of one width over a range, or their edges, a rising vector.
using Bins = std::variant<std::int64_t, Array>;
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  ///< by default from x's smallest to its largest
  std::optional<Array> weights = {};                    ///< of x's shape (ShapeError): what each x counts
  bool density = false;                                 ///< divided by the sum of all, and by the widths
};

/// How many x are in each bin, of which the last has both its edges; x outside of all count nowhere. And the
/// edges.
std::pair<Array, Array> histogram(const Operand& x, const Bins& bins = std::int64_t{10},
                                  HistogramOptions options = {});
Array histogram_bin_edges(const Operand& x, const Bins& bins = std::int64_t{10},
                          HistogramOptions options = {});

/// For each x whether it is among the values; with `invert`, whether it is not.
Array isin(const Operand& x, const Operand& values, bool invert = false);

}  // namespace lockstep
