// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/reshard.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::sharding {
namespace {

using Kind = ReshardStep::Kind;
using Combine = Partial::Combine;

bool splits(const Split& split, int axis) {
  return std::ranges::any_of(split, [&](const Axes& axes) { return contains(axes, axis); });
}

std::size_t common_prefix(const Axes& a, const Axes& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

/// The first of the axes that the target wants next on a dimension, as far as they are to be summed over.
Axes next_scattered(const Layout& now, const Split& to, std::size_t d, const Axes& reduced) {
  Axes axes;
  if (now.partial.combine != Combine::kSum || !is_prefix(now.split[d], to[d])) return axes;
  for (std::size_t i = now.split[d].size(); i < to[d].size() && contains(reduced, to[d][i]); ++i)
    axes.push_back(to[d][i]);
  return axes;
}

std::optional<ReshardStep> next_reduce_scatter(const Layout& now, const Split& to, const Axes& reduced) {
  for (std::size_t d = 0; d < now.split.size(); ++d) {
    Axes axes = next_scattered(now, to, d, reduced);
    if (!axes.empty()) return ReshardStep{Kind::kReduceScatter, std::move(axes), d};
  }
  return std::nullopt;
}

/// Axes that the target wants next on a dimension and that nothing holds.
std::optional<ReshardStep> next_slice(const Layout& layout, const Split& to) {
  const Split& now = layout.split;
  for (std::size_t d = 0; d < now.size(); ++d) {
    if (!is_prefix(now[d], to[d])) continue;
    Axes axes;
    for (std::size_t i = now[d].size();
         i < to[d].size() && !splits(now, to[d][i]) && !contains(layout.partial.axes, to[d][i]); ++i)
      axes.push_back(to[d][i]);
    if (!axes.empty()) return ReshardStep{Kind::kSlice, std::move(axes), d};
  }
  return std::nullopt;
}

/// The most axes at the end of one dimension's that the target wants next on another.
std::optional<ReshardStep> next_move(const Split& now, const Split& to) {
  for (std::size_t d = 0; d < now.size(); ++d) {
    if (!is_prefix(now[d], to[d])) continue;
    const Axes wanted = suffix(to[d], now[d].size());
    for (std::size_t e = 0; e < now.size(); ++e) {
      if (e == d) continue;
      const std::size_t kept = common_prefix(now[e], to[e]);
      for (std::size_t n = std::min(wanted.size(), now[e].size() - kept); n > 0; --n) {
        Axes tail = suffix(now[e], now[e].size() - n);
        if (is_prefix(tail, wanted)) return ReshardStep{Kind::kAllToAll, std::move(tail), d, e};
      }
    }
  }
  return std::nullopt;
}

/// Gathers axes at the end of a dimension's split that must be removed; first those that the target does not
/// use, because the others may be movable after that.
std::optional<ReshardStep> next_gather(const Split& now, const Split& to) {
  std::optional<ReshardStep> any;
  for (std::size_t d = 0; d < now.size(); ++d) {
    const std::size_t kept = common_prefix(now[d], to[d]);
    if (kept == now[d].size()) continue;
    std::size_t first = now[d].size();
    while (first > kept && !splits(to, now[d][first - 1])) --first;
    if (first < now[d].size()) return ReshardStep{Kind::kAllGather, suffix(now[d], first), d};
    if (!any) any = ReshardStep{Kind::kAllGather, suffix(now[d], kept), d};
  }
  return any;
}

/// How a value is after the step, both by the axes that the step names.
Layout after_step(const ReshardStep& step, Layout layout) {
  Split& split = layout.split;
  auto& partial = layout.partial;
  switch (step.kind) {
    case Kind::kAllToAll:
      split[step.from_dimension].resize(split[step.from_dimension].size() - step.axes.size());
      break;
    case Kind::kAllGather:
      split[step.dimension].resize(split[step.dimension].size() - step.axes.size());
      return layout;
    case Kind::kReduceScatter:
    case Kind::kAllReduce:
      std::erase_if(partial.axes, [&](int axis) { return contains(step.axes, axis); });
      if (partial.axes.empty()) partial = {};
      break;
    case Kind::kOnce:
      partial.combine = step.combine;
      partial.axes.insert(partial.axes.end(), step.axes.begin(), step.axes.end());
      std::ranges::sort(partial.axes);
      return layout;
    case Kind::kPermute:
      split = step.after;
      return layout;
    case Kind::kSlice:
      break;
  }
  if (step.kind != Kind::kAllReduce)
    split[step.dimension].insert(split[step.dimension].end(), step.axes.begin(), step.axes.end());
  return layout;
}

std::vector<ReshardStep> plan_without_permutes(const Layout& from, const Layout& to) {
  std::vector<ReshardStep> steps;
  Layout now = from;
  while (now != to) {
    Axes reduced = now.partial.axes, once = to.partial.axes;
    std::erase_if(reduced, [&](int axis) { return contains(to.partial.axes, axis); });
    std::erase_if(once, [&](int axis) { return contains(now.partial.axes, axis); });
    std::optional<ReshardStep> step = next_reduce_scatter(now, to.split, reduced);
    if (!step) step = next_slice(now, to.split);
    if (!step && !reduced.empty()) step = {Kind::kAllReduce, std::move(reduced), 0, 0, now.partial.combine};
    if (!step) step = next_move(now.split, to.split);
    if (!step) step = next_gather(now.split, to.split);
    if (!step) step = {Kind::kOnce, std::move(once), 0, 0, to.partial.combine};
    now = after_step(*step, std::move(now));
    steps.push_back(std::move(*step));
  }
  return steps;
}

ReshardStep permute(const Split& before, Split after) {
  ReshardStep step{Kind::kPermute, {}};
  for (const Split* split : {&before, &std::as_const(after)}) {
    for (const Axes& axes : *split)
      for (int axis : axes)
        if (!contains(step.axes, axis)) step.axes.push_back(axis);
  }
  std::ranges::sort(step.axes);
  step.before = before;
  step.after = std::move(after);
  return step;
}

/// The axes of each dimension in the order in which the target can continue with them: those that it has
/// there, those that it has elsewhere, those that it does not have.
Split reordered(const Split& now, const Split& to) {
  Split after;
  for (std::size_t d = 0; d < now.size(); ++d) {
    Axes& axes = after.emplace_back();
    for (int axis : to[d]) {
      if (!contains(now[d], axis)) break;
      axes.push_back(axis);
    }
    for (bool elsewhere : {true, false})
      for (int axis : now[d])
        if (!contains(axes, axis) && splits(to, axis) == elsewhere) axes.push_back(axis);
  }
  return after;
}

/// The size of what a device receives, as a part of the whole.
double received(const std::vector<ReshardStep>& steps, const Layout& from, const Grid& grid) {
  double sum = 0;
  Layout now = from;
  for (const ReshardStep& step : steps) {
    double part = 1;
    for (const Axes& axes : now.split) part /= static_cast<double>(grid.size(axes));
    const double n = static_cast<double>(grid.size(step.axes));
    if (step.kind == Kind::kAllToAll || step.kind == Kind::kReduceScatter) sum += part * (n - 1) / n;
    if (step.kind == Kind::kAllGather) sum += part * (n - 1);
    if (step.kind == Kind::kAllReduce) sum += 2 * part * (n - 1) / n;
    if (step.kind == Kind::kPermute) sum += part;
    now = step.apply(std::move(now), grid);
  }
  return sum;
}

/// Without partial sums: a sequence in which moves give each dimension parts of the target's size, one
/// permute brings these to the right devices, and axes that the target does not have are gathered. All in
/// terms of prime axes.
std::optional<std::vector<ReshardStep>> plan_by_sizes(const Split& from, const Split& to, const Grid& grid) {
  std::vector<ReshardStep> steps;
  Layout now{from};
  auto take = [&](ReshardStep step) {
    now = after_step(step, std::move(now));
    steps.push_back(std::move(step));
  };
  // How many times more parts a dimension has than the target, or less.
  auto missing = [&](std::size_t d) {
    return grid.size(to[d]) / std::gcd(grid.size(to[d]), grid.size(now.split[d]));
  };
  auto excess = [&](std::size_t d) {
    return grid.size(now.split[d]) / std::gcd(grid.size(to[d]), grid.size(now.split[d]));
  };
  for (std::size_t d = 0; d < to.size(); ++d) {
    for (const Axes& axes : to) {
      for (int axis : axes) {
        if (!splits(now.split, axis) && missing(d) % grid.size({axis}) == 0) take({Kind::kSlice, {axis}, d});
      }
    }
  }
  for (std::size_t d = 0; d < to.size(); ++d) {
    for (std::size_t e = 0; e < to.size() && excess(d) > 1; ++e) {
      // The axes that move have to be at the end.
      Axes stays, moves;
      for (std::size_t i = now.split[d].size(); i-- > 0;) {
        const int axis = now.split[d][i];
        const std::int64_t all = grid.size(moves) * grid.size({axis});
        Axes& side = excess(d) % all == 0 && missing(e) % all == 0 ? moves : stays;
        side.insert(side.begin(), axis);
      }
      if (moves.empty()) continue;
      Split ordered = now.split;
      ordered[d] = stays;
      ordered[d].insert(ordered[d].end(), moves.begin(), moves.end());
      if (ordered != now.split) take(permute(now.split, ordered));
      take({Kind::kAllToAll, moves, e, d});
    }
  }
  Split after = to;
  std::vector<Axes> rest(to.size());
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (missing(d) != 1) return std::nullopt;
    std::int64_t more = excess(d);
    auto lend = [&](const Axes& axes) {
      for (int axis : axes) {
        if (more % grid.size({axis}) != 0 || splits(after, axis)) continue;
        more /= grid.size({axis});
        after[d].push_back(axis);
        rest[d].push_back(axis);
      }
    };
    lend(now.split[d]);
    for (const Axes& axes : now.split) lend(axes);
    if (more != 1) return std::nullopt;
  }
  if (now.split != after) take(permute(now.split, after));
  for (std::size_t d = 0; d < to.size(); ++d)
    if (!rest[d].empty()) take({Kind::kAllGather, rest[d], d});
  return steps;
}

}  // namespace

Layout ReshardStep::apply(Layout layout, const Grid& grid) const {
  if (!in_parts) return after_step(*this, std::move(layout));
  layout.split = grid.in_parts(layout.split);
  layout = after_step(*this, std::move(layout));
  layout.split = grid.of_parts(layout.split);
  return layout;
}

std::vector<ReshardStep> plan_reshard(const Layout& from, const Layout& to, const Grid& grid) {
  std::vector<ReshardStep> best = plan_without_permutes(from, to);
  const auto first = std::ranges::find_if(best, [](const ReshardStep& step) {
    return step.kind == Kind::kAllToAll || step.kind == Kind::kAllGather;
  });
  const auto has = [&](Kind kind) {
    return std::any_of(first, best.end(), [&](const ReshardStep& step) { return step.kind == kind; });
  };
  const bool gathers = has(Kind::kAllGather);
  if (!gathers && !has(Kind::kSlice)) return best;
  // Alternatives that begin with other steps, if parts would be gathered, or moved before they are sliced.
  const std::vector<ReshardStep> before(best.begin(), first);
  Layout now = from;
  for (const ReshardStep& step : before) now = after_step(step, std::move(now));
  double least = received(best, from, grid);
  auto consider = [&](std::vector<ReshardStep> way) {
    way.insert(way.begin(), before.begin(), before.end());
    const double cost = received(way, from, grid);
    // One more collective pays off if it saves a considerable part of the bytes.
    constexpr double kGoodPart = 0.75;
    const double most = gathers || way.size() <= best.size() ? least : kGoodPart * least;
    if (cost < most || (cost == least && way.size() < best.size())) {
      least = cost;
      best = std::move(way);
    }
  };
  auto consider_permute = [&](Split after) {
    if (after == now.split) return;
    std::vector<ReshardStep> way = {permute(now.split, std::move(after))};
    const Layout then = after_step(way.back(), now);
    for (ReshardStep& step : plan_without_permutes(then, to)) way.push_back(std::move(step));
    consider(std::move(way));
  };
  bool of_one_size = true;
  for (std::size_t d = 0; d < now.split.size(); ++d)
    of_one_size = of_one_size && grid.size(now.split[d]) == grid.size(to.split[d]);
  if (of_one_size && gathers) consider_permute(to.split);
  if (gathers) consider_permute(reordered(now.split, to.split));
  bool only_gathers = true;
  for (std::size_t d = 0; d < now.split.size(); ++d)
    only_gathers = only_gathers && is_prefix(to.split[d], now.split[d]);
  if (!now.partial && !to.partial && !of_one_size && !only_gathers) {
    if (auto way = plan_by_sizes(grid.in_parts(now.split), grid.in_parts(to.split), grid)) {
      for (ReshardStep& step : *way) step.in_parts = grid.has_parts();
      consider(std::move(*way));
    }
  }
  return best;
}

Split reduced_split(const Layout& from, const Split& wanted) {
  Split split = from.split;
  for (std::size_t d = 0; d < split.size(); ++d) {
    const Axes axes = next_scattered(from, wanted, d, from.partial.axes);
    split[d].insert(split[d].end(), axes.begin(), axes.end());
  }
  return split;
}

double received_bytes(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from,
                      const Grid& grid) {
  return received(steps, from, grid) * static_cast<double>(global.bytes());
}

double cost(const std::vector<ReshardStep>& steps, const Aval& global, const Layout& from, const Grid& grid) {
  double collectives = 0;
  for (const ReshardStep& step : steps) {
    // An all-reduce is a reduce-scatter and an all-gather.
    if (step.is_collective()) collectives += step.kind == Kind::kAllReduce ? 2 : 1;
  }
  return received_bytes(steps, global, from, grid) + kPerCollective * collectives;
}

ir::Value Resharder::constant(std::int64_t value, DType dtype) {
  const std::pair key(value, dtype);
  auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  ir::OpParams params = ir::OpParams::of(ir::FullParams{ir::Scalar::of(value), dtype, {}, false});
  ir::Value made = builder_.emit(ir::full_p(), std::move(params), {}).front();
  constants_.emplace(key, made);
  return made;
}

ir::Value Resharder::place(const Axes& axes) {
  auto place = places_.find(axes);
  if (place == places_.end()) {
    ir::Value index =
        builder_.emit(ir::axis_index_p(), ir::OpParams::of(ir::AxesParams{grid_.names(axes)}), {}).front();
    place = places_.emplace(axes, index).first;
  }
  return place->second;
}

ir::Value Resharder::start(const Axes& axes, std::int64_t part_size, DType dtype) {
  const std::tuple key(axes, part_size, dtype);
  auto found = starts_.find(key);
  if (found != starts_.end()) return found->second;
  ir::Value made = ir::lax::convert_element_type(place(axes), dtype);
  if (part_size != 1) made = ir::lax::mul(made, constant(part_size, dtype));
  starts_.emplace(key, made);
  return made;
}

ir::Value Resharder::slice(const ir::Value& value, const std::vector<ReshardStep>& slices) {
  Shape shape = value.aval().shape;
  const DType places = place_dtype(shape.empty() ? 0 : *std::ranges::max_element(shape));
  std::vector<Axes> axes(shape.size());
  for (const ReshardStep& step : slices) {
    shape[step.dimension] /= grid_.size(step.axes);
    axes[step.dimension].insert(axes[step.dimension].end(), step.axes.begin(), step.axes.end());
  }
  std::vector<ir::Value> starts;
  for (std::size_t d = 0; d < shape.size(); ++d)
    starts.push_back(axes[d].empty() ? constant(0, places) : start(axes[d], shape[d], places));
  return ir::lax::dynamic_slice(value, std::span<const ir::Value>(starts), shape);
}

ir::Value Resharder::put_together(const ir::Value& value, const std::vector<std::string>& axes,
                                  Combine combine) {
  const Aval aval = value.aval();
  switch (combine) {
    case Combine::kSum:
      return ir::lax::psum(value, axes);
    case Combine::kProduct: {
      // There is no such collective: the parts are gathered and reduced, because they are few and small.
      Shape stacked = aval.shape;
      stacked.insert(stacked.begin(), 1);
      return ir::lax::reduce_prod(ir::lax::all_gather(ir::lax::reshape(value, stacked), axes, 0), {0});
    }
    default: {
      const bool of_bools = aval.dtype == DType::kBool;
      const ir::Value numbers = of_bools ? ir::lax::convert_element_type(value, DType::kU8) : value;
      const ir::Value whole =
          combine == Combine::kMax ? ir::lax::pmax(numbers, axes) : ir::lax::pmin(numbers, axes);
      return of_bools ? ir::lax::convert_element_type(whole, DType::kBool) : whole;
    }
  }
}

ir::Value Resharder::once(const ir::Value& value, const ReshardStep& step) {
  // All devices may count for the smallest and the largest.
  if (step.combine == Combine::kMax || step.combine == Combine::kMin) return value;
  const ir::Value index = place(step.axes), first = ir::lax::eq(index, ir::lax::full_like(index, 0));
  const ir::Value nothing = ir::lax::full_like(value, step.combine == Combine::kProduct ? 1 : 0);
  return ir::lax::select(ir::lax::broadcast_in_dim(first, value.aval().shape, {}), value, nothing);
}

std::vector<std::pair<int, int>> Resharder::new_owners(const ReshardStep& step) const {
  const auto n = static_cast<std::size_t>(grid_.size(step.axes));
  // Which part the device at a place along the axes has.
  auto part = [&](std::size_t place, const Split& split) {
    std::map<int, std::size_t> coordinates;
    for (std::size_t a = step.axes.size(); a-- > 0;) {
      const auto size = static_cast<std::size_t>(grid_.size({step.axes[a]}));
      coordinates[step.axes[a]] = place % size;
      place /= size;
    }
    std::size_t part = 0;
    for (const Axes& axes : split)
      for (int axis : axes) part = part * static_cast<std::size_t>(grid_.size({axis})) + coordinates[axis];
    return part;
  };
  // Each part has as many owners as before. Those that have it already keep it.
  std::vector<std::vector<int>> owners(n), waiting(n);
  for (std::size_t place = 0; place < n; ++place) {
    const std::size_t had = part(place, step.before), gets = part(place, step.after);
    if (had == gets) continue;
    owners[had].push_back(static_cast<int>(place));
    waiting[gets].push_back(static_cast<int>(place));
  }
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t place = 0; place < n; ++place)
    if (part(place, step.before) == part(place, step.after))
      pairs.emplace_back(static_cast<int>(place), static_cast<int>(place));
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < owners[k].size(); ++i) pairs.emplace_back(owners[k][i], waiting[k][i]);
  return pairs;
}

ir::Value Resharder::exchange(const ir::Value& value, const ReshardStep& step) {
  const auto dimension = static_cast<std::int64_t>(step.dimension);
  const std::vector<std::string> axes = grid_.names(step.axes);
  switch (step.kind) {
    case Kind::kAllGather:
      return ir::lax::all_gather(value, axes, dimension);
    case Kind::kReduceScatter:
      return ir::lax::psum_scatter(value, axes, dimension);
    case Kind::kAllReduce:
      return put_together(value, axes, step.combine);
    case Kind::kPermute:
      return ir::lax::ppermute(value, axes, new_owners(step));
    default:
      return ir::lax::all_to_all(value, axes, dimension, static_cast<std::int64_t>(step.from_dimension));
  }
}

}  // namespace lockstep::sharding
