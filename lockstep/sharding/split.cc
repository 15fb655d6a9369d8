// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/split.h"

#include <algorithm>

#include "lockstep/program/primitives/placement.h"

namespace lockstep::sharding {
namespace {

/// Rising, each as often as it divides n.
std::vector<std::int64_t> primes_of(std::int64_t n) {
  std::vector<std::int64_t> primes;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) primes.push_back(p);
  }
  if (n > 1) primes.push_back(n);
  return primes;
}

}  // namespace

Grid::Grid(ir::AxisEnv env) : env_(std::move(env)) {
  for (const auto& [name, size] : env_.axes()) {
    if (size == 1) continue;
    names_.push_back(name);
    sizes_.push_back(size);
  }
  num_axes_ = static_cast<int>(names_.size());
  parts_.resize(names_.size());
  for (std::size_t axis = 0; axis < parts_.size(); ++axis) {
    std::int64_t before = 1;
    for (std::int64_t prime : primes_of(sizes_[axis])) {
      if (prime == sizes_[axis]) break;
      parts_[axis].push_back(static_cast<int>(names_.size()));
      names_.push_back(ir::AxisEnv::part_name(names_[axis], before, prime));
      sizes_.push_back(prime);
      before *= prime;
    }
  }
}

std::int64_t Grid::size(const Axes& axes) const {
  std::int64_t n = 1;
  for (int axis : axes) n *= sizes_[static_cast<std::size_t>(axis)];
  return n;
}

std::vector<std::string> Grid::names(const Axes& axes) const {
  std::vector<std::string> names;
  for (int axis : of_parts(axes)) names.push_back(names_[static_cast<std::size_t>(axis)]);
  return names;
}

Axes Grid::axes(const std::vector<std::string>& names) const {
  Axes axes;
  for (const std::string& name : names) {
    const auto found = std::find(names_.begin(), names_.begin() + num_axes_, name);
    if (found != names_.begin() + num_axes_) axes.push_back(static_cast<int>(found - names_.begin()));
  }
  return axes;
}

Split Grid::split(const PartitionSpec& spec, std::size_t rank) const {
  Split split;
  for (std::size_t d = 0; d < rank; ++d) split.push_back(axes(spec.axes(d)));
  return split;
}

PartitionSpec Grid::spec(const Split& split) const {
  std::vector<std::vector<std::string>> entries;
  for (const Axes& axes : split) entries.push_back(names(axes));
  return PartitionSpec::from_entries(std::move(entries)).normalized();
}

Axes Grid::in_parts(const Axes& axes) const {
  Axes all;
  for (int axis : axes) {
    const bool has = axis < num_axes_ && !parts_[static_cast<std::size_t>(axis)].empty();
    const Axes parts = has ? parts_[static_cast<std::size_t>(axis)] : Axes{axis};
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

Axes Grid::of_parts(const Axes& axes) const {
  Axes all;
  for (std::size_t i = 0; i < axes.size();) {
    const Axes rest = suffix(axes, i);
    const auto whole = std::ranges::find_if(
        parts_, [&](const Axes& parts) { return !parts.empty() && is_prefix(parts, rest); });
    const bool found = whole != parts_.end();
    all.push_back(found ? static_cast<int>(whole - parts_.begin()) : axes[i]);
    i += found ? whole->size() : 1;
  }
  return all;
}

Split Grid::in_parts(const Split& split) const {
  Split all;
  for (const Axes& axes : split) all.push_back(in_parts(axes));
  return all;
}

Split Grid::of_parts(const Split& split) const {
  Split all;
  for (const Axes& axes : split) all.push_back(of_parts(axes));
  return all;
}

bool Grid::names_parts(const Split& split) const {
  return std::ranges::any_of(split, [this](const Axes& axes) {
    return std::ranges::any_of(axes, [this](int axis) { return axis >= num_axes_; });
  });
}

Shape Grid::local_shape(const Shape& global, const Split& split) const {
  Shape shape = global;
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] /= size(split[d]);
  return shape;
}

std::int64_t Grid::local_bytes(const Aval& global, const Split& split) const {
  std::int64_t bytes = global.bytes();
  for (const Axes& axes : split) bytes /= size(axes);
  return bytes;
}

std::vector<std::string> Grid::varying(const Layout& layout) const {
  std::vector<std::string> all = names(layout.partial.axes);
  for (const Axes& axes : layout.split) {
    for (std::string& name : names(axes)) all.push_back(std::move(name));
  }
  std::ranges::sort(all);
  return all;
}

bool is_prefix(const Axes& prefix, const Axes& axes) {
  return prefix.size() <= axes.size() && std::equal(prefix.begin(), prefix.end(), axes.begin());
}

bool contains(const Axes& axes, int axis) { return std::ranges::find(axes, axis) != axes.end(); }

bool is_whole(const Split& split) {
  return std::ranges::all_of(split, [](const Axes& axes) { return axes.empty(); });
}

bool disjoint(const Axes& a, const Axes& b) {
  return std::ranges::none_of(a, [&](int axis) { return contains(b, axis); });
}

bool disjoint(const Split& split, const Axes& axes) {
  return std::ranges::all_of(split, [&](const Axes& each) { return disjoint(each, axes); });
}

Split placed_split(const ir::Equation& placement, const Grid& grid, const Shape& shape) {
  Split split =
      grid.split(PartitionSpec::from_entries(placement.params.as<ir::PlacementParams>().spec), shape.size());
  if (placement.primitive != &ir::sharding_constraint_p()) return split;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    while (shape[d] % grid.size(split[d]) != 0) split[d].pop_back();
  }
  return split;
}

Split behind(const Split& global, const Split& placed) {
  Split part(global.size());
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (is_prefix(placed[d], global[d])) part[d] = suffix(global[d], placed[d].size());
  }
  return part;
}

Split in_front(const Split& placed, const Split& part) {
  Split global = placed;
  for (std::size_t d = 0; d < part.size(); ++d)
    global[d].insert(global[d].end(), part[d].begin(), part[d].end());
  return global;
}

Axes suffix(const Axes& axes, std::size_t count) {
  return Axes(axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end());
}

}  // namespace lockstep::sharding
