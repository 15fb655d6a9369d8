// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/make_array.h"

#include <map>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace internal {

Array from_callback(const Shape& shape, const Sharding& sharding, DType dtype, const PartData& data,
                    const CallSite& site) {
  CallSiteScope scope(site);
  runtime::Runtime& runtime = runtime::Runtime::get();
  sharding::check_divisible({dtype, shape}, sharding.spec(), sharding.mesh(), "make_array_from_callback");
  if (runtime.described()) return without_elements(Aval{dtype, shape, false, {}}, sharding, true);
  const auto indices = sharding.device_indices(shape);
  const Shape part = sharding.shard_shape(shape);
  const auto& positions = sharding.addressable_positions(runtime.process_index());
  std::vector<pjrt::Buffer> shards(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (shards[i]) continue;
    const auto& index = indices[static_cast<std::size_t>(positions[i])];
    const void* source = data(index, static_cast<std::size_t>(num_elements(part)));
    for (std::size_t j = i; j < positions.size(); ++j) {
      const auto position = static_cast<std::size_t>(positions[j]);
      if (indices[position] != index) continue;
      shards[j] = runtime.put(source, dtype, part, sharding.devices()[position]);
    }
  }
  return make_array(intern(Aval{dtype, shape, false, {}}, sharding, true), std::move(shards));
}

}  // namespace internal

Array make_array_from_single_device_arrays(const Shape& shape, const Sharding& sharding,
                                           const std::vector<Array>& arrays, std::optional<DType> dtype,
                                           std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  constexpr std::string_view kWhat = "[make_array_from_single_device_arrays]";
  const std::string at = CallSiteScope::current().to_string();
  runtime::Runtime& runtime = runtime::Runtime::get();
  sharding::check_divisible({DType::kF32, shape}, sharding.spec(), sharding.mesh(),
                            "make_array_from_single_device_arrays");
  const Shape part = sharding.shard_shape(shape);
  const auto& positions = sharding.addressable_positions(runtime.process_index());
  if (arrays.size() != positions.size()) {
    fail<ShardingError>(
        "{} expected an array for each of the {} devices that process {} of {} has in {}, got {} (at {})",
        kWhat, positions.size(), runtime.process_index(), runtime.process_count(), sharding.to_string(),
        arrays.size(), at);
  }
  if (arrays.empty() && !dtype) {
    fail<DTypeError>(
        "{} expected the dtype as the fourth argument (at {}): process {} of {} has no device of {}, so it "
        "has no array to take the dtype from",
        kWhat, at, runtime.process_index(), runtime.process_count(), sharding.to_string());
  }
  const DType of_all = dtype ? *dtype : arrays.front().dtype();
  std::map<int, const Array*> on_device;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Sharding& from = internal::concrete(arrays[i], kWhat).type->sharding;
    if (from.devices().size() != 1) {
      fail<ShardingError>("{} array {} is on {} devices, expected one (at {})", kWhat, i,
                          from.devices().size(), at);
    }
    if (arrays[i].shape() != part || arrays[i].dtype() != of_all) {
      fail<ShapeError>("{} array {} is {}, expected {} as a part of {} over {} (at {})", kWhat, i,
                       to_string(arrays[i].aval()), to_string(Aval{of_all, part}),
                       to_string(Aval{of_all, shape}), sharding.to_string(), at);
    }
    const Device device = from.devices().front();
    if (!on_device.emplace(device.id(), &arrays[i]).second) {
      fail<ShardingError>("{} two arrays are on {} (at {}); put each on its device with device_put", kWhat,
                          device.to_string(), at);
    }
  }
  std::vector<pjrt::Buffer> shards;
  for (int position : positions) {
    const Device device = sharding.devices()[static_cast<std::size_t>(position)];
    auto found = on_device.find(device.id());
    if (found == on_device.end()) {
      fail<ShardingError>(
          "{} no array is on {}, which {} has (at {}); put each on its device with device_put", kWhat,
          device.to_string(), sharding.to_string(), at);
    }
    shards.push_back(internal::data_of(*found->second)->shards.front().share());
  }
  return internal::make_array(internal::intern(Aval{of_all, shape, false, {}}, sharding, true),
                              std::move(shards));
}

Array shape_of(const Shape& shape, DType dtype, const Sharding& sharding, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  const Aval aval{dtype, shape, false, {}};
  sharding::check_divisible(aval, sharding.spec(), sharding.mesh(), "shape_of");
  return internal::without_elements(aval, sharding, true);
}

Array shape_of(const Array& array, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  const internal::ArrayType& type = *internal::concrete(array, "[shape_of]").type;
  return internal::without_elements(type.aval, type.sharding, type.committed);
}

}  // namespace lockstep
