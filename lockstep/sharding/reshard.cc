#include "lockstep/sharding/reshard.h"

#include <algorithm>
#include <optional>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::sharding {
namespace {

using Kind = ReshardStep::Kind;

/// What a collective costs besides its bytes, in bytes: it settles small cases.
constexpr double kPerCollective = 1024;

bool splits(const Split& split, int axis) {
  return std::ranges::any_of(split, [&](const Axes& axes) { return contains(axes, axis); });
}

std::size_t common_prefix(const Axes& a, const Axes& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

/// Axes that the target wants next on a dimension and that nothing holds.
std::optional<ReshardStep> next_slice(const Split& now, const Split& to) {
  for (std::size_t d = 0; d < now.size(); ++d) {
    if (!is_prefix(now[d], to[d])) continue;
    Axes axes;
    for (std::size_t i = now[d].size(); i < to[d].size() && !splits(now, to[d][i]); ++i)
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

/// Axes at the end of a dimension's that must go; those that the target has nowhere go first, as the others
/// may move after that.
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

}  // namespace

Split ReshardStep::apply(Split split) const {
  if (kind != Kind::kSlice) {
    Axes& source = split[kind == Kind::kAllToAll ? from_dimension : dimension];
    source.resize(source.size() - axes.size());
  }
  if (kind != Kind::kAllGather) {
    split[dimension].insert(split[dimension].end(), axes.begin(), axes.end());
  }
  return split;
}

std::vector<ReshardStep> plan_reshard(const Split& from, const Split& to) {
  std::vector<ReshardStep> steps;
  Split now = from;
  while (now != to) {
    std::optional<ReshardStep> step = next_slice(now, to);
    if (!step) step = next_move(now, to);
    if (!step) step = next_gather(now, to);
    now = step->apply(std::move(now));
    steps.push_back(std::move(*step));
  }
  return steps;
}

double received_bytes(const std::vector<ReshardStep>& steps, const Aval& global, const Split& from,
                      const Grid& grid) {
  double sum = 0;
  Split now = from;
  for (const ReshardStep& step : steps) {
    const double bytes = static_cast<double>(grid.local_bytes(global, now));
    const double n = static_cast<double>(grid.size(step.axes));
    if (step.kind == Kind::kAllToAll) sum += bytes * (n - 1) / n;
    if (step.kind == Kind::kAllGather) sum += bytes * (n - 1);
    now = step.apply(std::move(now));
  }
  return sum;
}

double cost(const std::vector<ReshardStep>& steps, const Aval& global, const Split& from, const Grid& grid) {
  const auto collectives =
      std::ranges::count_if(steps, [](const ReshardStep& step) { return step.kind != Kind::kSlice; });
  return received_bytes(steps, global, from, grid) + kPerCollective * static_cast<double>(collectives);
}

double all_reduce_cost(double bytes, std::int64_t devices) { return 2 * reduce_scatter_cost(bytes, devices); }

double reduce_scatter_cost(double bytes, std::int64_t devices) {
  return kPerCollective + bytes * static_cast<double>(devices - 1) / static_cast<double>(devices);
}

Value Resharder::constant(std::int64_t value, DType dtype) {
  const std::pair key(value, dtype);
  auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  OpParams params = OpParams::of(FullParams{Scalar::of(value), dtype, {}, false});
  Value made = builder_.emit(full_p(), std::move(params), {}).front();
  constants_.emplace(key, made);
  return made;
}

Value Resharder::start(const Axes& axes, std::int64_t part_size, DType dtype) {
  const std::tuple key(axes, part_size, dtype);
  auto found = starts_.find(key);
  if (found != starts_.end()) return found->second;
  auto place = places_.find(axes);
  if (place == places_.end()) {
    Value index = builder_.emit(axis_index_p(), OpParams::of(AxesParams{grid_.names(axes)}), {}).front();
    place = places_.emplace(axes, index).first;
  }
  Value made = lax::convert_element_type(place->second, dtype);
  if (part_size != 1) made = lax::mul(made, constant(part_size, dtype));
  starts_.emplace(key, made);
  return made;
}

Value Resharder::slice(const Value& value, const std::vector<ReshardStep>& slices) {
  Shape shape = value.aval().shape;
  const DType places = place_dtype(shape.empty() ? 0 : *std::ranges::max_element(shape));
  std::vector<Axes> axes(shape.size());
  for (const ReshardStep& step : slices) {
    shape[step.dimension] /= grid_.size(step.axes);
    axes[step.dimension].insert(axes[step.dimension].end(), step.axes.begin(), step.axes.end());
  }
  std::vector<Value> starts;
  for (std::size_t d = 0; d < shape.size(); ++d)
    starts.push_back(axes[d].empty() ? constant(0, places) : start(axes[d], shape[d], places));
  return lax::dynamic_slice(value, std::span<const Value>(starts), shape);
}

Value Resharder::exchange(const Value& value, const ReshardStep& step) {
  const auto dimension = static_cast<std::int64_t>(step.dimension);
  if (step.kind == Kind::kAllGather) return lax::all_gather(value, grid_.names(step.axes), dimension);
  return lax::all_to_all(value, grid_.names(step.axes), dimension,
                         static_cast<std::int64_t>(step.from_dimension));
}

}  // namespace lockstep::sharding
