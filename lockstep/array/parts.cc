// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/parts.h"

#include <algorithm>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {

Array from_parts(const Aval& aval, const Sharding& sharding, bool committed,
                 const std::function<HostPart(const std::vector<IndexRange>&)>& part) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  if (runtime.described()) return without_elements(aval, sharding, committed);
  const auto indices = sharding.device_indices(aval.shape);
  const Shape shape = sharding.shard_shape(aval.shape);
  const auto& positions = sharding.addressable_positions(runtime.process_index());
  std::vector<pjrt::Buffer> shards(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (shards[i]) continue;
    const auto& index = indices[static_cast<std::size_t>(positions[i])];
    const HostPart source = part(index);
    const auto holds = [&](int position) { return indices[static_cast<std::size_t>(position)] == index; };
    const bool once = std::ranges::count_if(positions, holds) == 1;
    const auto use = source.exclusive && once ? pjrt::HostUse::kMutableZeroCopy : pjrt::HostUse::kZeroCopy;
    for (std::size_t j = i; j < positions.size(); ++j) {
      if (!holds(positions[j])) continue;
      const Device device = sharding.devices()[static_cast<std::size_t>(positions[j])];
      shards[j] = runtime.put(source.data, aval.dtype, shape, device, use, source.owner);
    }
  }
  return make_array(intern(aval, sharding, committed), std::move(shards));
}

Array without_elements(const Aval& aval, const Sharding& sharding, bool committed) {
  const auto& local = sharding.addressable_positions(runtime::Runtime::get().process_index());
  Array array = make_array(intern(aval, sharding, committed), std::vector<pjrt::Buffer>(local.size()));
  internal::data_of(array)->no_elements = true;
  return array;
}

Array sharing(const Array& x) {
  const ArrayType& type = *concrete(x, "[sharing]").type;
  return sharing(x, type.aval, type.sharding, type.committed);
}

Array sharing(const Array& x, const Aval& aval, const Sharding& sharding, bool committed) {
  const ArrayData& data = concrete(x, "[sharing]");
  if (data.no_elements) return without_elements(aval, sharding, committed);
  std::vector<pjrt::Buffer> shards;
  for (const pjrt::Buffer& shard : data.shards) shards.push_back(shard.share());
  return make_array(intern(aval, sharding, committed), std::move(shards));
}

bool is_committed(const Array& x) { return concrete(x, "[is_committed]").type->committed; }

}  // namespace lockstep::internal
