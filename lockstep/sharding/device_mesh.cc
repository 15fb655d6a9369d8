// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/device_mesh.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

using Devices = std::vector<Device>;
using Indices = std::vector<std::size_t>;

std::int64_t product(const Shape& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// An array of devices.
struct Grid {
  Shape shape;
  Devices devices;  ///< row-major
};

/// The grid with its axes in another order: axis i of the result is axis order[i] of this one.
Grid transposed(const Grid& grid, const Indices& order) {
  Shape strides(grid.shape.size(), 1), shape;
  for (std::size_t axis = grid.shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * grid.shape[axis];
  for (const std::size_t axis : order) shape.push_back(grid.shape[axis]);
  Grid result{shape, {}};
  Shape place(order.size(), 0);
  for (std::size_t n = 0; n < grid.devices.size(); ++n) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < order.size(); ++i) at += place[i] * strides[order[i]];
    result.devices.push_back(grid.devices[static_cast<std::size_t>(at)]);
    for (std::size_t i = order.size(); i-- > 0;) {
      if (++place[i] < shape[i]) break;
      place[i] = 0;
    }
  }
  return result;
}

Devices in_order(const Devices& devices, std::initializer_list<std::size_t> order) {
  Devices ordered;
  for (const std::size_t i : order) ordered.push_back(devices[i]);
  return ordered;
}

/// By z, then y, then x.
Devices by_coords(Devices devices) {
  std::ranges::stable_sort(devices, [](const Device& a, const Device& b) {
    return std::ranges::lexicographical_compare(a.coords().rbegin(), a.coords().rend(), b.coords().rbegin(),
                                                b.coords().rend());
  });
  return devices;
}

/// The least box that has all the chips: its first corner and its sizes.
struct Box {
  std::vector<std::int64_t> first, sizes;
  std::int64_t first_core = 0, cores = 1;
};

Box box_of(const Devices& devices) {
  Box box{devices.front().coords(), devices.front().coords()};
  int least = devices.front().core_on_chip(), most = least;
  for (const Device& device : devices) {
    for (std::size_t i = 0; i < box.first.size(); ++i) {
      box.first[i] = std::min(box.first[i], device.coords()[i]);
      box.sizes[i] = std::max(box.sizes[i], device.coords()[i]);
    }
    least = std::min(least, device.core_on_chip());
    most = std::max(most, device.core_on_chip());
  }
  for (std::size_t i = 0; i < box.first.size(); ++i) box.sizes[i] += 1 - box.first[i];
  box.first_core = least;
  box.cores = most - least + 1;
  return box;
}

/// The torus of the chips, and of their cores if each is a device: x, y, z and core.
Grid torus_of(const Devices& devices) {
  const Box box = box_of(devices);
  const std::string_view kind = devices.front().device_kind();
  Grid grid{box.sizes, devices};
  const bool flat = kind == "TPU v2" || kind == "TPU v3";
  if (flat) grid.shape = {box.sizes[0], box.sizes[1], box.cores};
  const bool has_cores = !flat && (box.cores > 1 || kind == "TPU7x" || kind == "TPU7");
  if (has_cores) grid.shape.push_back(box.cores);
  std::set<std::int64_t> taken;
  for (const Device& device : devices) {
    std::vector<std::int64_t> place;
    for (std::size_t i = 0; i < box.first.size(); ++i) place.push_back(device.coords()[i] - box.first[i]);
    const std::int64_t core = device.core_on_chip() - box.first_core;
    if (flat) place[2] = core;
    if (has_cores) place.push_back(core);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < place.size(); ++i) at = at * grid.shape[i] + place[i];
    if (taken.insert(at).second && at < std::ssize(grid.devices))
      grid.devices[static_cast<std::size_t>(at)] = device;
  }
  if (product(grid.shape) != std::ssize(devices) || std::ssize(taken) != std::ssize(devices)) {
    fail<ShardingError>(
        "[create_device_mesh] the {} devices are not a whole box of a torus: their chips span {}, which has "
        "{} (at {}); take all devices of a slice, or give Mesh their order",
        devices.size(), to_string(grid.shape), product(grid.shape), CallSiteScope::current().to_string());
  }
  return grid;
}

/// Small slices have a ring of neighbours, which no order by axes has. nullopt if this kind or number has
/// none.
std::optional<Devices> ring_of(const Shape& mesh_shape, const Devices& devices) {
  const std::string_view kind = devices.front().device_kind();
  const std::size_t count = devices.size();
  if (kind == "TPU v2" || kind == "TPU v3") {
    const auto tray = {0, 1, 2, 3, 6, 7, 4, 5};
    if (count != 8 && mesh_shape.back() != 8) return devices;
    Devices ordered;
    for (std::size_t first = 0; first < count; first += 8)
      for (const int i : tray) ordered.push_back(devices[first + static_cast<std::size_t>(i)]);
    return ordered;
  }
  if (kind == "TPU v4 lite") {
    if (count == 4) return in_order(devices, {0, 1, 3, 2});
    return std::nullopt;
  }
  const Box box = box_of(devices);
  const auto reaches = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
    return box.first[0] + box.sizes[0] == x && box.first[1] + box.sizes[1] == y &&
           box.first[2] + box.sizes[2] == z;
  };
  if (kind == "TPU v5 lite" || kind == "TPU v6 lite") {
    const Devices sorted = by_coords(devices);
    if (count == 4 && reaches(2, 2, 1)) return in_order(sorted, {0, 1, 3, 2});
    if (count == 8 && reaches(2, 2, 2)) return in_order(sorted, {0, 4, 2, 6, 1, 5, 3, 7});
    if (count == 8) return in_order(sorted, {0, 1, 2, 3, 7, 6, 5, 4});
    if (count == 16 && reaches(4, 4, 1) && std::ranges::max(mesh_shape) == 16)
      return in_order(sorted, {0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4});
    return std::nullopt;
  }
  if (kind == "TPU v5p") {
    if (count == 8 && reaches(2, 2, 2)) return in_order(by_coords(devices), {0, 1, 3, 2, 6, 7, 5, 4});
    return std::nullopt;
  }
  if (kind == "TPU7x" || kind == "TPU7") {
    if (count % 8 != 0 || count > 32 || box.sizes[0] > 2 || box.sizes[1] > 2) return std::nullopt;
    Devices ordered;
    for (std::size_t first = 0; first < count; first += 8)
      for (const int i : {0, 1, 2, 3, 6, 7, 4, 5})
        ordered.push_back(devices[first + static_cast<std::size_t>(i)]);
    return ordered;
  }
  return std::nullopt;
}

/// Calls `visit` with each choice of `count` of the numbers below `of`, in lexicographic order, until it
/// returns true; returns whether it did.
bool any_choice(std::size_t of, std::size_t count, const std::function<bool(const Indices&)>& visit) {
  Indices chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  while (true) {
    if (visit(chosen)) return true;
    std::size_t i = count;
    while (i > 0 && chosen[i - 1] == of - count + i - 1) --i;
    if (i == 0) return false;
    ++chosen[i - 1];
    for (; i < count; ++i) chosen[i] = chosen[i - 1] + 1;
  }
}

/// For each axis of the mesh, the whole axes of the torus that it uses; nullopt if there are none for one of
/// them.
std::optional<std::vector<Indices>> whole_axes(const Shape& torus, const Shape& mesh) {
  std::vector<Indices> taken(mesh.size());
  Shape left = torus;  // 0: taken
  for (std::size_t axis = mesh.size(); axis-- > 0;) {
    bool found = false;
    for (std::size_t count = torus.size(); count > 0 && !found; --count) {
      found = any_choice(torus.size(), count, [&](const Indices& choice) {
        std::int64_t size = 1;
        for (const std::size_t i : choice) size *= left[i];
        if (size != mesh[axis]) return false;
        taken[axis] = choice;
        return true;
      });
    }
    if (!found && mesh[axis] > 1) return std::nullopt;
    for (const std::size_t i : taken[axis]) left[i] = 0;
  }
  return taken;
}

/// The prime factors of a size, and how often each is in it.
std::map<std::int64_t, int> factors_of(std::int64_t size) {
  std::map<std::int64_t, int> factors;
  for (std::int64_t p = 2; p * p <= size; ++p)
    for (; size % p == 0; size /= p) ++factors[p];
  if (size > 1) ++factors[size];
  return factors;
}

/// All ways to take a size from the rest of the axes of the torus: how much of each axis.
std::vector<Shape> ways_to_take(std::int64_t size, const Shape& left) {
  std::vector<Shape> ways = {Shape(left.size(), 1)};
  for (const auto& [factor, times] : factors_of(size)) {
    for (int n = 0; n < times; ++n) {
      std::set<Shape> more;
      for (const Shape& way : ways) {
        for (std::size_t i = 0; i < left.size(); ++i) {
          Shape next = way;
          next[i] *= factor;
          if (left[i] % next[i] == 0) more.insert(std::move(next));
        }
      }
      ways.assign(more.begin(), more.end());
    }
  }
  return ways;
}

/// The preference among these ways, larger is better: many whole axes of the torus first; then axes of which
/// a part is already used.
std::tuple<std::int64_t, std::int64_t, std::int64_t, Shape> merit(const Shape& way, const Shape& torus,
                                                                  const Shape& assigned) {
  std::int64_t whole = 1, wholes = 0, shared = 1;
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (way[i] == torus[i]) whole *= way[i];
    if (way[i] == torus[i] && way[i] > 1) ++wholes;
    if (assigned[i] > 1) shared *= way[i];
  }
  return {whole, wholes, shared, way};
}

Devices split_axes(const Grid& torus, const Shape& mesh) {
  const std::size_t rank = torus.shape.size();
  std::vector<Shape> parts(mesh.size());  // Of each axis of the mesh, how much of each of the torus.
  Shape assigned(rank, 1);
  for (std::size_t axis = mesh.size(); axis-- > 0;) {
    Shape left;
    for (std::size_t i = 0; i < rank; ++i) left.push_back(torus.shape[i] / assigned[i]);
    const std::vector<Shape> ways = ways_to_take(mesh[axis], left);
    if (ways.empty()) {
      fail<ShardingError>(
          "[create_device_mesh] no order of a torus {} gives a mesh {}: no devices are left for axis {} of "
          "size {} (at {})",
          to_string(torus.shape), to_string(mesh), axis, mesh[axis], CallSiteScope::current().to_string());
    }
    parts[axis] = *std::ranges::max_element(
        ways, {}, [&](const Shape& way) { return merit(way, torus.shape, assigned); });
    for (std::size_t i = 0; i < rank; ++i) assigned[i] *= parts[axis][i];
  }
  // Each axis of the torus in as many as there are of the mesh, of which the last runs fastest.
  Grid divided{{}, torus.devices};
  Indices order;
  for (std::size_t i = 0; i < rank; ++i)
    for (const Shape& part : parts) divided.shape.push_back(part[i]);
  for (std::size_t axis = 0; axis < mesh.size(); ++axis)
    for (std::size_t i = 0; i < rank; ++i) order.push_back(i * mesh.size() + axis);
  return transposed(divided, order).devices;
}

}  // namespace

Devices create_device_mesh(const Shape& mesh_shape, Devices devices, const DeviceMeshOptions& options) {
  if (mesh_shape.empty() || devices.empty() || product(mesh_shape) != std::ssize(devices)) {
    fail<ShardingError>(
        "[create_device_mesh] the sizes {} do not multiply to the number of devices, {} (at {})",
        to_string(mesh_shape), devices.size(), CallSiteScope::current().to_string());
  }
  const bool placed = std::ranges::all_of(devices, [&](const Device& device) {
    return device.coords().size() == 3 && device.slice_index() == devices.front().slice_index();
  });
  if (!placed) return devices;
  if (std::optional<Devices> ring = ring_of(mesh_shape, devices)) return *ring;
  const Grid torus = torus_of(devices);
  const auto taken = whole_axes(torus.shape, mesh_shape);
  if (!taken) {
    if (options.allow_split_physical_axes) return split_axes(torus, mesh_shape);
    fail<ShardingError>(
        "[create_device_mesh] an axis of the mesh {} is not a product of axes of the torus {} (at {}); "
        "choose other sizes, or set allow_split_physical_axes",
        to_string(mesh_shape), to_string(torus.shape), CallSiteScope::current().to_string());
  }
  Indices order;
  for (const Indices& axes : *taken) order.insert(order.end(), axes.begin(), axes.end());
  for (std::size_t i = 0; i < torus.shape.size(); ++i)
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);  // Of size 1.
  return transposed(torus, order).devices;
}

Devices create_hybrid_device_mesh(const Shape& mesh_shape, const Shape& dcn_mesh_shape,
                                  const Devices& devices, const HybridMeshOptions& options) {
  const std::string at = CallSiteScope::current().to_string();
  if (mesh_shape.size() != dcn_mesh_shape.size()) {
    fail<ShardingError>(
        "[create_hybrid_device_mesh] mesh_shape {} and dcn_mesh_shape {} have different lengths "
        "(at {}); give an axis that is not in one of them the size 1 there",
        to_string(mesh_shape), to_string(dcn_mesh_shape), at);
  }
  std::map<int, Devices> parts;
  for (const Device& device : devices)
    parts[options.process_is_granule ? device.process_index() : device.slice_index()].push_back(device);
  if (product(dcn_mesh_shape) != std::ssize(parts)) {
    fail<ShardingError>(
        "[create_hybrid_device_mesh] dcn_mesh_shape {} does not multiply to the number of {}, {} (at {})",
        to_string(dcn_mesh_shape), options.process_is_granule ? "processes" : "slices", parts.size(), at);
  }
  // All granules, concatenated; then the axes of both shapes are merged.
  Grid all;
  for (const auto& [number, part] : parts) {
    const Devices ordered = create_device_mesh(
        mesh_shape, part, {.allow_split_physical_axes = options.allow_split_physical_axes});
    all.devices.insert(all.devices.end(), ordered.begin(), ordered.end());
  }
  all.shape = dcn_mesh_shape;
  all.shape.insert(all.shape.end(), mesh_shape.begin(), mesh_shape.end());
  Indices order;
  for (std::size_t axis = 0; axis < mesh_shape.size(); ++axis) {
    order.push_back(axis);
    order.push_back(mesh_shape.size() + axis);
  }
  return transposed(all, order).devices;
}

}  // namespace lockstep
