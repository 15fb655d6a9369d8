#include "lockstep/sharding/split.h"

#include <algorithm>

#include "lockstep/program/primitives/placement.h"

namespace lockstep::sharding {

Grid::Grid(AxisEnv env) : env_(std::move(env)) {
  for (const auto& [name, size] : env_.axes()) {
    if (size == 1) continue;
    names_.push_back(name);
    sizes_.push_back(size);
  }
}

std::int64_t Grid::size(const Axes& axes) const {
  std::int64_t n = 1;
  for (int axis : axes) n *= sizes_[static_cast<std::size_t>(axis)];
  return n;
}

std::vector<std::string> Grid::names(const Axes& axes) const {
  std::vector<std::string> names;
  for (int axis : axes) names.push_back(names_[static_cast<std::size_t>(axis)]);
  return names;
}

Axes Grid::axes(const std::vector<std::string>& names) const {
  Axes axes;
  for (const std::string& name : names) {
    auto found = std::ranges::find(names_, name);
    if (found != names_.end()) axes.push_back(static_cast<int>(found - names_.begin()));
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

Split placed_split(const Equation& placement, const Grid& grid, const Shape& shape) {
  Split split =
      grid.split(PartitionSpec::from_entries(placement.params.as<PlacementParams>().spec), shape.size());
  if (placement.primitive != &sharding_constraint_p()) return split;
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
