// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/windows.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::sharding {
namespace {

class Windowing {
 public:
  Windowing(Resharder& resharder, const Grid& grid, const ir::Value& part, std::size_t dimension,
            const Axes& axes, const ir::PartWindows& windows)
      : resharder_(resharder),
        grid_(grid),
        part_(part),
        dimension_(dimension),
        axes_(axes),
        windows_(windows),
        n_(grid.size(axes)),
        m_(part.aval().shape[dimension]),
        dtype_(place_dtype(n_ * m_ + 4 * (windows.count + m_))) {}

  ir::Value run(const std::optional<ir::Value>& fill) {
    const ir::WindowPlan plan = ir::plan_windows(windows_, n_, m_);
    const ir::Value value = plan.gathers ? of_whole() : of_pieces(plan.rounds);
    return fill && leaves() ? filled(value, *fill) : value;
  }

 private:
  /// A piece of the window, which is written at its position `at`.
  struct Piece {
    ir::Value value;
    std::vector<std::int64_t> at;  // by device

    /// Its distance from the begin of the device's own part, if that is the same on all devices that get it.
    std::optional<std::int64_t> distance;
  };

  std::int64_t begin(std::int64_t device) const { return windows_.begin(device); }

  bool leaves() const {
    const std::int64_t a = begin(0), b = begin(n_ - 1);
    return !windows_.wraps && (std::min(a, b) < 0 || std::max(a, b) + windows_.count > n_ * m_);
  }

  /// A number of each device's own.
  ir::Value of_device(const std::vector<std::int64_t>& numbers) {
    auto constant = [&](std::int64_t number) {
      return ir::lax::full(part_, ir::Scalar::of(number), dtype_, {});
    };
    const std::int64_t slope = numbers.size() > 1 ? numbers[1] - numbers[0] : 0;
    bool is_affine = true;
    for (std::size_t p = 0; p < numbers.size(); ++p)
      is_affine = is_affine && numbers[p] == numbers[0] + static_cast<std::int64_t>(p) * slope;
    if (is_affine && slope == 0) return constant(numbers[0]);
    if (is_affine) return ir::lax::add(resharder_.start(axes_, slope, dtype_), constant(numbers[0]));
    std::vector<ir::Value> all;
    for (std::int64_t number : numbers)
      all.push_back(ir::lax::full(part_, ir::Scalar::of(number), dtype_, {1}));
    const ir::Value start[] = {resharder_.start(axes_, 1, dtype_)};
    const ir::Value table = ir::lax::concatenate(std::span<const ir::Value>(all), 0);
    return ir::lax::reshape(ir::lax::dynamic_slice(table, std::span<const ir::Value>(start), {1}), {});
  }

  static bool are_same(const std::vector<std::int64_t>& numbers) {
    return std::ranges::all_of(numbers, [&](std::int64_t number) { return number == numbers[0]; });
  }

  /// `count` elements of x along the dimension, from a place of each device's own on.
  ir::Value taken(const ir::Value& x, const std::vector<std::int64_t>& from, std::int64_t count) {
    Shape shape = x.aval().shape;
    if (are_same(from))
      return sliced(x, std::clamp<std::int64_t>(from[0], 0, shape[dimension_] - count), count);
    std::vector<ir::Value> starts(shape.size(), ir::lax::full(part_, ir::Scalar::of(0), dtype_, {}));
    starts[dimension_] = of_device(from);
    shape[dimension_] = count;
    return ir::lax::dynamic_slice(x, std::span<const ir::Value>(starts), shape);
  }

  ir::Value sliced(const ir::Value& x, std::int64_t from, std::int64_t count) {
    Shape limit = x.aval().shape;
    if (from == 0 && count == limit[dimension_]) return x;
    std::vector<std::int64_t> start(limit.size()), strides(limit.size(), 1);
    start[dimension_] = from;
    limit[dimension_] = from + count;
    return ir::lax::slice(x, start, limit, strides);
  }

  ir::Value zeros(std::int64_t count) {
    Shape shape = part_.aval().shape;
    shape[dimension_] = count;
    const bool inexact = is_inexact(part_.aval().dtype);
    return ir::lax::full(part_, inexact ? ir::Scalar::of(0.0) : ir::Scalar::of(std::int64_t{0}),
                         part_.aval().dtype, shape, part_.aval().weak_type);
  }

  /// Where a piece of a round is written; for devices that get none, a position where it does no harm.
  Piece received(const ir::WindowRound& round) {
    std::vector<std::int64_t> from(static_cast<std::size_t>(n_)), at(from.size());
    std::vector<bool> sends(from.size()), gets(from.size());
    std::vector<std::pair<int, int>> pairs;
    std::vector<std::int64_t> distances;
    for (const ir::WindowSegment& s : round.segments) {
      const auto source = static_cast<std::size_t>(s.from), target = static_cast<std::size_t>(s.to);
      from[source] = std::min(s.begin - s.start, m_ - round.length);
      at[target] = s.start + from[source] - begin(s.to);
      sends[source] = gets[target] = true;
      distances.push_back(s.start + from[source] - s.to * m_);
      pairs.emplace_back(static_cast<int>(s.from), static_cast<int>(s.to));
    }
    fit(
        from, sends, [](std::size_t, std::int64_t) { return true; }, 0);
    fit(
        at, gets,
        [&](std::size_t device, std::int64_t place) {
          const std::int64_t first = begin(static_cast<std::int64_t>(device));
          if (windows_.wraps) return place >= windows_.count || place + round.length <= 0;
          const std::int64_t low = std::max({first + place, first, std::int64_t{0}});
          return low >= std::min({first + place + round.length, first + windows_.count, n_ * m_});
        },
        windows_.count + std::max(m_, round.length));
    const ir::Value value =
        ir::lax::ppermute(taken(part_, from, round.length), grid_.names(axes_), std::move(pairs));
    return {value, at, are_same(distances) ? std::optional(distances[0]) : std::nullopt};
  }

  /// Assigns numbers to devices that do not take part such that all numbers are a simple function, if that
  /// `does_no_harm`; else `otherwise`.
  template <class DoesNoHarm>
  void fit(std::vector<std::int64_t>& numbers, const std::vector<bool>& takes_part,
           const DoesNoHarm& does_no_harm, std::int64_t otherwise) {
    const auto first = static_cast<std::size_t>(std::ranges::find(takes_part, true) - takes_part.begin());
    const auto second = static_cast<std::size_t>(
        std::find(takes_part.begin() + static_cast<std::ptrdiff_t>(first) + 1, takes_part.end(), true) -
        takes_part.begin());
    const std::int64_t distance = static_cast<std::int64_t>(second - first);
    const std::int64_t rise = second < numbers.size() ? numbers[second] - numbers[first] : 0;
    bool fits = rise % distance == 0;
    std::vector<std::int64_t> line(numbers.size());
    for (std::size_t p = 0; p < numbers.size() && fits; ++p) {
      line[p] = numbers[first] +
                (static_cast<std::int64_t>(p) - static_cast<std::int64_t>(first)) * (rise / distance);
      fits = takes_part[p] ? line[p] == numbers[p] : does_no_harm(p, line[p]);
    }
    if (fits) {
      numbers = std::move(line);
      return;
    }
    for (std::size_t p = 0; p < numbers.size(); ++p)
      if (!takes_part[p]) numbers[p] = otherwise;
  }

  ir::Value of_pieces(const std::vector<ir::WindowRound>& rounds) {
    std::vector<std::int64_t> own;
    for (std::int64_t p = 0; p < n_; ++p) own.push_back(p * m_ - begin(p));
    std::vector<Piece> pieces = {{part_, own, 0}};
    for (const ir::WindowRound& round : rounds) pieces.push_back(received(round));
    if (const std::optional<ir::Value> window = around_own_part(pieces)) return *window;
    // Into a window with room on both sides, as some pieces are partly or wholly outside.
    std::int64_t room = 0;
    for (const Piece& piece : pieces) room = std::max(room, piece.value.aval().shape[dimension_]);
    ir::Value all = zeros(windows_.count + 2 * room);
    for (const Piece& piece : pieces) {
      // A piece that begins further out is put at the edge, as XLA does it: outside of the window too.
      std::vector<std::int64_t> at = piece.at;
      for (std::int64_t& place : at) place += room;
      std::vector<ir::Value> starts(all.aval().shape.size(),
                                    ir::lax::full(part_, ir::Scalar::of(0), dtype_, {}));
      starts[dimension_] = of_device(at);
      all = ir::lax::dynamic_update_slice(all, piece.value, std::span<const ir::Value>(starts));
    }
    return sliced(all, room, windows_.count);
  }

  /// The window as a slice of the device's own part joined with the pieces that it receives. nullopt if a
  /// piece would be at another distance from the own part on another device. XLA vectorizes loops over such
  /// a slice, but not over pieces that are written to a place that depends on the device.
  std::optional<ir::Value> around_own_part(const std::vector<Piece>& pieces) {
    std::vector<Placed> placed = {{part_, 0}};
    std::vector<std::pair<std::int64_t, std::int64_t>> taken_up = {{0, m_}};
    for (auto piece = pieces.begin() + 1; piece != pieces.end(); ++piece) {
      if (!piece->distance) return std::nullopt;
      // Only what is outside of the own part is used: devices that do not get the piece have zeros in it.
      const std::int64_t length = piece->value.aval().shape[dimension_];
      std::int64_t from = *piece->distance, to = from + length;
      if (from < 0) to = std::min<std::int64_t>(to, 0);
      if (from >= 0) from = std::max(from, m_);
      if (to <= from) continue;
      for (const auto& [begin, end] : taken_up)
        if (from < end && begin < to) return std::nullopt;
      taken_up.emplace_back(from, to);
      placed.push_back({sliced(piece->value, from - *piece->distance, to - from), from});
    }
    std::vector<std::int64_t> starts;
    for (std::int64_t p = 0; p < n_; ++p) starts.push_back(begin(p) - p * m_);
    std::int64_t low = std::ranges::min(starts), high = std::ranges::max(starts) + windows_.count;
    if (high - low > 2 * (m_ + windows_.count)) return std::nullopt;  // most of it would be zeros
    const ir::Value row = one_behind_the_other(std::move(placed), low, high);
    for (std::int64_t& start : starts) start -= low;
    return taken(row, starts, windows_.count);
  }

  struct Placed {
    ir::Value value;
    std::int64_t at;
  };

  /// The places from `low` to `high`, with zeros where there is no piece.
  ir::Value one_behind_the_other(std::vector<Placed> pieces, std::int64_t low, std::int64_t high) {
    std::ranges::stable_sort(pieces, {}, &Placed::at);
    std::vector<ir::Value> parts;
    std::int64_t end = low;
    for (const Placed& piece : pieces) {
      const std::int64_t from = std::max(piece.at, end),
                         to = std::min(piece.at + piece.value.aval().shape[dimension_], high);
      if (to <= from) continue;
      if (from > end) parts.push_back(zeros(from - end));
      parts.push_back(sliced(piece.value, from - piece.at, to - from));
      end = to;
    }
    if (end < high) parts.push_back(zeros(high - end));
    return parts.size() == 1 ? parts[0]
                             : ir::lax::concatenate(std::span<const ir::Value>(parts),
                                                    static_cast<std::int64_t>(dimension_));
  }

  ir::Value of_whole() {
    const auto dimension = static_cast<std::int64_t>(dimension_);
    const ir::Value whole = ir::lax::all_gather(part_, grid_.names(axes_), dimension);
    if (windows_.wraps) {
      const ir::Value turned[] = {whole, whole};
      std::vector<std::int64_t> from;
      for (std::int64_t p = 0; p < n_; ++p) from.push_back((begin(p) % (n_ * m_) + n_ * m_) % (n_ * m_));
      return taken(ir::lax::concatenate(std::span<const ir::Value>(turned), dimension), from, windows_.count);
    }
    const ir::Value parts[] = {zeros(windows_.count), whole, zeros(windows_.count)};
    const ir::Value wide = ir::lax::concatenate(std::span<const ir::Value>(parts), dimension);
    std::vector<std::int64_t> from;
    for (std::int64_t p = 0; p < n_; ++p) from.push_back(begin(p) + windows_.count);
    return taken(wide, from, windows_.count);
  }

  ir::Value filled(const ir::Value& value, const ir::Value& fill) {
    const Shape& shape = value.aval().shape;
    std::vector<std::int64_t> begins;
    for (std::int64_t p = 0; p < n_; ++p) begins.push_back(begin(p));
    const ir::Value first = of_device(begins);
    const ir::Value places = ir::lax::add(ir::lax::iota(part_, dtype_, {windows_.count}, 0),
                                          ir::lax::broadcast_in_dim(first, {windows_.count}, {}));
    const ir::Value is_there =
        ir::lax::logical_and(ir::lax::ge(places, ir::lax::full_like(places, 0)),
                             ir::lax::lt(places, ir::lax::full_like(places, static_cast<double>(n_ * m_))));
    return ir::lax::select(
        ir::lax::broadcast_in_dim(is_there, shape, {static_cast<std::int64_t>(dimension_)}), value,
        ir::lax::broadcast_in_dim(fill, shape, {}));
  }

  Resharder& resharder_;
  const Grid& grid_;
  const ir::Value part_;
  const std::size_t dimension_;
  const Axes& axes_;
  const ir::PartWindows& windows_;
  const std::int64_t n_, m_;  // parts, and the elements of one
  const DType dtype_;         // of places
};

}  // namespace

ir::Value window_of(Resharder& resharder, const Grid& grid, const ir::Value& part, std::size_t dimension,
                    const Axes& axes, const ir::PartWindows& windows, const std::optional<ir::Value>& fill) {
  return Windowing(resharder, grid, part, dimension, axes, windows).run(fill);
}

}  // namespace lockstep::sharding
