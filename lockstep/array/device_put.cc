// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/device_put.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/array/regions.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

/// Whether the ranges are contiguous in memory in an array of this shape.
bool is_contiguous(const Shape& shape, const std::vector<IndexRange>& ranges) {
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (ranges[d].start != 0 || ranges[d].limit != shape[d]) return false;
  }
  return true;
}

/// From this many bytes on, a part is gathered into memory that becomes the array's, and not copied again.
constexpr std::size_t kWorthKeeping = 64 << 10;

/// For each dimension, the parts of it that the host data has, ascending; none: it has the whole dimension.
using HeldParts = std::vector<std::vector<std::int64_t>>;

/// A concrete array over the sharding from host data of shape `held`, which has the parts of this process's
/// devices one after the other. The data is copied if `owner` is null; otherwise contiguous parts may use it
/// in place and hold the owner. With `must_not_copy`, throws Error if a part is not in place.
Array spread(const char* data, const Shape& held, const HeldParts& held_parts, const Sharding& sharding,
             const Aval& aval, const std::shared_ptr<const void>& owner = nullptr,
             bool must_not_copy = false) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  if (runtime.described()) return internal::without_elements(aval, sharding, true);
  auto indices = sharding.device_indices(aval.shape);
  Shape part_shape = sharding.shard_shape(aval.shape);
  std::size_t element = size_of(aval.dtype);
  const std::size_t part_bytes = static_cast<std::size_t>(num_elements(part_shape)) * element;
  std::vector<pjrt::Buffer> shards;
  std::vector<char> scratch;
  for (int position : sharding.addressable_positions(runtime.process_index())) {
    std::vector<IndexRange> ranges = indices[static_cast<std::size_t>(position)];
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      const std::vector<std::int64_t>& parts = held_parts[d];
      if (parts.empty() || part_shape[d] == 0) continue;
      const auto at = std::ranges::lower_bound(parts, ranges[d].start / part_shape[d]) - parts.begin();
      ranges[d] = {at * part_shape[d], (at + 1) * part_shape[d]};
    }
    const char* source = data;
    auto use = pjrt::HostUse::kCopied;
    std::shared_ptr<void> keeper;
    if (is_contiguous(held, ranges)) {
      std::size_t row = element;
      for (std::size_t d = 1; d < held.size(); ++d) row *= static_cast<std::size_t>(held[d]);
      if (!ranges.empty()) source += static_cast<std::size_t>(ranges[0].start) * row;
      if (owner != nullptr) {
        use = pjrt::HostUse::kZeroCopy;
        keeper = std::const_pointer_cast<void>(owner);
      }
    } else {
      if (must_not_copy && part_bytes != 0) {
        fail(
            "[device_put] the elements would be copied: the part for {}, of shape {}, is not contiguous in "
            "elements of shape {} (at {}); split only the first dimension, or allow the copy with "
            "HostCopy::kIfNeeded",
            sharding.devices()[static_cast<std::size_t>(position)].to_string(), to_string(part_shape),
            to_string(held), CallSiteScope::current().to_string());
      }
      char* part;
      if (part_bytes >= kWorthKeeping) {
        keeper = internal::aligned_memory(part_bytes);
        part = static_cast<char*>(keeper.get());
        use = pjrt::HostUse::kMutableZeroCopy;
      } else {
        scratch.resize(part_bytes);
        part = scratch.data();
      }
      internal::for_each_run(held, ranges, element, [&](std::size_t whole, std::size_t at, std::size_t size) {
        std::memcpy(part + at, data + whole, size);
      });
      source = part;
    }
    Device device = sharding.devices()[static_cast<std::size_t>(position)];
    shards.push_back(runtime.put(source, aval.dtype, part_shape, device, use, std::move(keeper)));
    if (must_not_copy) internal::check_in_place("[device_put]", shards.back(), source, device);
  }
  return internal::make_array(internal::intern(aval, sharding, true), std::move(shards));
}

/// The array over another sharding of the same mesh: a computation that exchanges the parts.
Array resharded(const Array& x, const internal::ArrayType* type, const Sharding& sharding) {
  Trace trace("device_put");
  Array tracer = trace.input(x.aval());
  const Array* argument = &x;
  auto computation = internal::Computation::compile(trace.finish(std::span(&tracer, 1)), std::span(&type, 1),
                                                    {.out_shardings = {sharding}, .is_operation = true});
  return computation->run(std::span(&argument, 1)).front();
}

/// A sharding over `mesh` with the same placement, for arrays of this rank, as `from`, which is over another
/// mesh of the same devices; nullopt if no spec has it.
std::optional<NamedSharding> over_mesh(const Sharding& from, const Mesh& mesh, std::int64_t rank) {
  std::vector<std::vector<std::string>> entries(static_cast<std::size_t>(rank));
  std::vector<std::string> unused = mesh.axis_names();
  std::optional<NamedSharding> found;
  std::function<void(std::size_t, std::int64_t)> search = [&](std::size_t dimension, std::int64_t left) {
    if (found) return;
    if (dimension == entries.size()) {
      NamedSharding candidate(mesh, PartitionSpec::from_entries(entries));
      if (candidate.is_equivalent_to(from, rank)) found = candidate;
      return;
    }
    if (left == 1) {
      const std::size_t next = dimension + 1;
      search(next, next < entries.size() ? from.mesh().axis_env().size(from.spec().axes(next)) : 1);
      if (found) return;
    }
    for (std::size_t i = 0; i < unused.size() && !found; ++i) {
      const std::string axis = unused[i];
      const std::int64_t size = mesh.axis_size(axis);
      if (size == 1 || left % size != 0) continue;
      unused.erase(unused.begin() + static_cast<std::ptrdiff_t>(i));
      entries[dimension].push_back(axis);
      search(dimension, left / size);
      entries[dimension].pop_back();
      unused.insert(unused.begin() + static_cast<std::ptrdiff_t>(i), axis);
    }
  };
  search(0, entries.empty() ? 1 : from.mesh().axis_env().size(from.spec().axes(0)));
  return found;
}

/// The same parts on the same devices, under another name.
Array relabelled(const Array& x, const NamedSharding& sharding) {
  if (internal::data_of(x)->no_elements) return internal::without_elements(x.aval(), sharding, true);
  runtime::Runtime& runtime = runtime::Runtime::get();
  const internal::ArrayData& data = *internal::data_of(x);
  std::vector<pjrt::Buffer> shards;
  for (int position : sharding.addressable_positions(runtime.process_index())) {
    const Device device = sharding.devices()[static_cast<std::size_t>(position)];
    const auto& positions = data.type->sharding.addressable_positions(runtime.process_index());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (!(data.type->sharding.devices()[static_cast<std::size_t>(positions[i])] == device)) continue;
      shards.push_back(data.shards[i].share());
    }
  }
  return internal::make_array(internal::intern(x.aval(), sharding, true), std::move(shards));
}

}  // namespace

Array device_put(const Array& x, const Sharding& sharding, std::source_location where) {
  CallSiteScope site(CallSite::from(where));
  const internal::ArrayData& data = internal::concrete(x, "[device_put]");
  const Sharding& from = data.type->sharding;
  if (from == sharding && data.type->committed) return x;
  sharding::check_divisible(x.aval(), sharding.spec(), sharding.mesh(), "device_put");
  if (!runtime::Runtime::get().described()) internal::check_has_elements(data, "[device_put]");
  const bool spread_out = !from.is_single_device() && !from.is_fully_replicated();
  if (spread_out && from.mesh() == sharding.mesh()) return resharded(x, data.type, sharding);
  if (spread_out && !x.is_fully_addressable()) {
    // Other processes have some of the parts. Either the axes of the new mesh can describe the present
    // sharding, or all processes get the whole.
    if (auto same = over_mesh(from, sharding.mesh(), x.ndim())) {
      Array named = relabelled(x, *same);
      return *same == sharding ? named : resharded(named, internal::data_of(named)->type, sharding);
    }
    return device_put(resharded(x, data.type, NamedSharding(from.mesh(), PartitionSpec())), sharding);
  }
  if (data.no_elements) return internal::without_elements(x.aval(), sharding, true);
  std::vector<char> whole;
  const char* source = nullptr;
  if (from.is_fully_replicated() && !data.shards.empty())
    source = static_cast<const char*>(data.shards.front().host_pointer());
  if (source == nullptr) {
    whole.resize(static_cast<std::size_t>(x.aval().bytes()));
    x.copy_to_host(whole.data(), x.dtype() == DType::kBool ? DType::kU8 : x.dtype());
    source = whole.data();
  }
  return spread(source, x.shape(), HeldParts(x.shape().size()), sharding, x.aval());
}

namespace {

/// The part of a global array that is a process's local data.
struct LocalPart {
  Shape global;
  HeldParts parts;
};

LocalPart local_part(std::string_view what, const Sharding& sharding, DType dtype, const Shape& shape,
                     const std::optional<Shape>& global_shape) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  const int process = runtime.process_index();
  const auto& positions = sharding.addressable_positions(process);
  auto where = [&] {
    return fmt::format("process {} of {}, at {}", process, runtime.process_count(),
                       CallSiteScope::current().to_string());
  };
  if (positions.empty()) {
    fail<ShardingError>("{} {} has no device of this process ({})", what, sharding.to_string(), where());
  }
  if (sharding.spec().entries().size() > shape.size()) {
    fail<ShardingError>("{} {} has {} entries, but the local data of shape {} has {} dimensions ({})", what,
                        sharding.spec().to_string(), sharding.spec().entries().size(), to_string(shape),
                        shape.size(), where());
  }
  if (global_shape) {
    sharding::check_divisible({dtype, *global_shape}, sharding.spec(), sharding.mesh(),
                              "make_array_from_process_local_data");
    if (global_shape->size() != shape.size()) {
      fail<ShardingError>(
          "{} the local data of shape {} and the global shape {} have different numbers of dimensions ({})",
          what, to_string(shape), to_string(*global_shape), where());
    }
  }
  // The number of parts of each dimension, and which of them are this process's, from the sharding of an
  // array with one element in each part.
  Shape parts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    parts.push_back(sharding.mesh().axis_env().size(sharding.spec().axes(d)));
  }
  auto part_indices = sharding.device_indices(parts);
  Shape global = shape;
  HeldParts held(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::set<std::int64_t> mine;
    for (int position : positions) mine.insert(part_indices[static_cast<std::size_t>(position)][d].start);
    auto count = static_cast<std::int64_t>(mine.size());
    if (global_shape && (*global_shape)[d] == shape[d]) {
      continue;  // the caller has the whole dimension
    }
    global[d] = shape[d] / count * parts[d];
    if (shape[d] % count != 0) {
      std::int64_t below = shape[d] - shape[d] % count;
      fail<ShardingError>(
          "{} dimension {} of the local data of shape {} has {} elements, which this process's {} parts of "
          "it do not divide (axis {} of {} devices; remainder {}); the nearest sizes that fit are {} and {} "
          "({})",
          what, d, to_string(shape), shape[d], count, sharding.spec().to_string(), parts[d], shape[d] % count,
          below, below + count, where());
    }
    held[d].assign(mine.begin(), mine.end());
    if (global_shape && (*global_shape)[d] != global[d]) {
      fail<ShardingError>(
          "{} dimension {} of the local data of shape {} has {} elements, but with the global shape {} this "
          "process holds {} ({})",
          what, d, to_string(shape), shape[d], to_string(*global_shape),
          (*global_shape)[d] / parts[d] * count, where());
    }
  }
  return {std::move(global), std::move(held)};
}

}  // namespace

Shape local_to_global_shape(const Sharding& sharding, const Shape& local_shape, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  return local_part("[local_to_global_shape]", sharding, DType::kF32, local_shape, std::nullopt).global;
}

namespace internal {

Array from_process_local_data(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
                              const std::optional<Shape>& global_shape, const CallSite& site,
                              std::shared_ptr<const void> owner, bool must_not_copy) {
  CallSiteScope scope(site);
  LocalPart part = local_part("[make_array_from_process_local_data]", sharding, dtype, shape, global_shape);
  return spread(static_cast<const char*>(data), shape, part.parts, sharding,
                Aval{dtype, std::move(part.global), false, {}}, owner, must_not_copy);
}

Array put_host(const Sharding& sharding, const void* data, DType dtype, const Shape& shape,
               std::shared_ptr<const void> owner, bool must_not_copy) {
  const Aval aval{dtype, shape, false, {}};
  sharding::check_divisible(aval, sharding.spec(), sharding.mesh(), "device_put");
  return spread(static_cast<const char*>(data), shape, HeldParts(shape.size()), sharding, aval, owner,
                must_not_copy);
}

}  // namespace internal
}  // namespace lockstep
