// SPDX-License-Identifier: Apache-2.0
// What the host reads of an array: in place, or copied from the devices.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "lockstep/array/array.h"
#include "lockstep/array/data.h"
#include "lockstep/array/regions.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep {

using internal::concrete;

namespace {

/// Whether a device may wait in vain for devices of a process that is gone. On CPU, collectives end with the
/// job's error themselves.
bool may_wait_in_vain() {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  return runtime.process_count() > 1 && runtime.native_collectives();
}

/// Blocks until `await_for`, which takes a timeout, is true; throws the job's error if it never will be.
template <class AwaitFor>
void await_or_fail(const AwaitFor& await_for) {
  static const watch::TextId what = watch::text("a result");
  const watch::Doing waiting(watch::Kind::kResult, what, watch::text(CallSiteScope::current()));
  while (!await_for(std::chrono::milliseconds(100))) runtime::Runtime::get().check_healthy(false);
}

/// Elsewhere, whoever reads the part waits for it.
void await_or_fail(const pjrt::Buffer& shard) {
  if (!may_wait_in_vain()) return;
  await_or_fail([&](std::chrono::milliseconds timeout) { return shard.await_for(timeout); });
}

std::mutex host_copies_mutex;

/// The copy of a part that was begun; null if there is none.
std::shared_ptr<const pjrt::CopyToHost> begun_copy(const internal::ArrayData& data, std::size_t local) {
  std::lock_guard lock(host_copies_mutex);
  return data.host_copies == nullptr ? nullptr : (*data.host_copies)[local];
}

/// The copy of a part, which is begun now unless it was before.
std::shared_ptr<const pjrt::CopyToHost> begin_copy(const internal::ArrayData& data, std::size_t local) {
  std::lock_guard lock(host_copies_mutex);
  if (data.host_copies == nullptr) {
    data.host_copies =
        std::make_unique<std::vector<std::shared_ptr<const pjrt::CopyToHost>>>(data.shards.size());
  }
  std::shared_ptr<const pjrt::CopyToHost>& copy = (*data.host_copies)[local];
  if (copy == nullptr) {
    copy = std::make_shared<const pjrt::CopyToHost>(
        runtime::Runtime::get().client().begin_copy_to_host(data.shards[local]));
  }
  return copy;
}

void await_copy(const pjrt::CopyToHost& copy) {
  const auto await_for = [&](std::chrono::milliseconds timeout) { return copy.await_for(timeout); };
  if (may_wait_in_vain()) return await_or_fail(await_for);
  while (!await_for(std::chrono::hours(1))) continue;
}

/// The elements of a part, in memory that the host can read and the array keeps.
const void* readable(const internal::ArrayData& data, std::size_t local) {
  internal::check_has_elements(data, "[addressable_shards]");
  if (const void* here = data.shards[local].host_pointer()) return here;
  const auto copy = begin_copy(data, local);
  await_copy(*copy);
  return copy->data();
}

/// Copies the elements of a part.
void read_part(const internal::ArrayData& data, std::size_t local, void* destination, std::size_t bytes) {
  if (const auto copy = begun_copy(data, local)) {
    await_copy(*copy);
    std::memcpy(destination, copy->data(), bytes);
    return;
  }
  await_or_fail(data.shards[local]);
  runtime::Runtime::get().client().to_host(data.shards[local], destination, bytes);
}

}  // namespace

std::vector<Shard> Array::addressable_shards(std::source_location where) const {
  std::vector<Shard> shards = global_shards(where);
  std::erase_if(shards, [process = runtime::Runtime::get().process_index()](const Shard& shard) {
    return shard.device.process_index() != process;
  });
  return shards;
}

std::vector<Shard> Array::global_shards(std::source_location where) const {
  CallSiteScope scope(CallSite::from(where));
  const internal::ArrayData& data = concrete(*this, "[addressable_shards]");
  const Sharding& sharding = data.type->sharding;
  const int process = runtime::Runtime::get().process_index();
  const auto indices = sharding.device_indices(shape());
  const Shape part = sharding.shard_shape(shape());
  std::vector<Shard> shards;
  std::map<std::vector<std::int64_t>, int> replicas;
  std::size_t local = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::vector<std::int64_t> start;
    for (const IndexRange& range : indices[i]) start.push_back(range.start);
    const Device device = sharding.devices()[i];
    const void* elements = nullptr;
    if (device.process_index() == process) {
      elements = readable(data, local++);
    }
    shards.push_back({device, indices[i], part, dtype(), elements, replicas[std::move(start)]++});
  }
  return shards;
}

const Array& Array::block_until_ready(std::source_location where) const {
  CallSiteScope scope(CallSite::from(where));
  const internal::ArrayData& data = concrete(*this, "[block_until_ready]");
  if (data.no_elements && runtime::Runtime::get().described()) return *this;
  check_has_elements(data, "[block_until_ready]");
  for (const pjrt::Buffer& shard : data.shards) {
    await_or_fail(shard);
    shard.await();
  }
  return *this;
}

namespace internal {

const pjrt::Buffer& whole_shard(const Array& array, std::string_view use) {
  const ArrayData& data = concrete(array, use);
  check_has_elements(data, use);
  if (data.shards.empty() || !data.type->sharding.is_fully_replicated()) {
    fail<ShardingError>(
        "{} no device of this process holds all elements of {}, whose sharding is {} (at {}); read the parts "
        "with addressable_shards(), or copy all elements with to_host",
        use, to_string(data.type->aval), data.type->sharding.to_string(),
        CallSiteScope::current().to_string());
  }
  await_or_fail(data.shards.front());
  return data.shards.front();
}

}  // namespace internal

const void* Array::in_place(std::string_view what, DType as) const {
  const internal::ArrayData& data = concrete(*this, what);
  if (as != dtype() && !(dtype() == DType::kBool && as == DType::kU8)) {
    fail<DTypeError>(
        "{} the elements of {} cannot be read as {} (at {}); convert the array with astype, or read {} "
        "elements",
        what, lockstep::to_string(aval()), name(as), CallSiteScope::current().to_string(), name(dtype()));
  }
  const void* elements = internal::whole_shard(*this, what).host_pointer();
  if (elements == nullptr && size() != 0) {
    fail("{} the host cannot read the memory of {}, which holds {} (at {}); copy the elements with to_host",
         what, data.type->sharding.to_string(), lockstep::to_string(aval()),
         CallSiteScope::current().to_string());
  }
  return elements;
}

void Array::copy_to_host(void* destination, DType as) const {
  const internal::ArrayData& data = concrete(*this, "[to_host]");
  if (as != dtype() && !(dtype() == DType::kBool && as == DType::kU8)) {
    fail<DTypeError>(
        "[to_host] the elements of {} cannot be read as {} (at {}); convert with astype, or read the C++ "
        "type of {}",
        lockstep::to_string(aval()), name(as), CallSiteScope::current().to_string(), name(dtype()));
  }
  internal::check_has_elements(data, "[to_host]");
  const Sharding& sharding = data.type->sharding;
  const std::size_t bytes = static_cast<std::size_t>(aval().bytes());
  if (sharding.is_fully_replicated() && !data.shards.empty()) {
    read_part(data, 0, destination, bytes);
    return;
  }
  // Every part must be with this process: parts are counted by replica 0's index, so that replicas need not
  // be.
  const auto& positions = sharding.addressable_positions(runtime::Runtime::get().process_index());
  auto indices = sharding.device_indices(shape());
  std::int64_t covered = 0;
  std::vector<std::vector<IndexRange>> done;
  std::vector<char> part;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::vector<IndexRange>& ranges = indices[static_cast<std::size_t>(positions[i])];
    if (std::ranges::find(done, ranges) != done.end()) continue;
    part.resize(data.shards[i].size_bytes());
    read_part(data, i, part.data(), part.size());
    internal::for_each_run(shape(), ranges, size_of(dtype()),
                           [&](std::size_t whole, std::size_t at, std::size_t size) {
                             std::memcpy(static_cast<char*>(destination) + whole, part.data() + at, size);
                           });
    covered += num_elements(sharding.shard_shape(shape()));
    done.push_back(std::move(ranges));
  }
  if (covered != size()) {
    runtime::Runtime& runtime = runtime::Runtime::get();
    fail<ShardingError>(
        "[to_host] process {} of {} holds {} of the {} elements of {} with {} (at {}); gather it first with "
        "multihost::process_allgather, or read what is here with addressable_shards()",
        runtime.process_index(), runtime.process_count(), covered, size(), lockstep::to_string(aval()),
        sharding.to_string(), CallSiteScope::current().to_string());
  }
}

void Array::copy_to_host_async(std::source_location where) const {
  CallSiteScope scope(CallSite::from(where));
  const internal::ArrayData& data = concrete(*this, "[copy_to_host_async]");
  if (data.no_elements && runtime::Runtime::get().described()) return;
  internal::check_has_elements(data, "[copy_to_host_async]");
  const std::size_t parts = data.type->sharding.is_fully_replicated()
                                ? std::min<std::size_t>(data.shards.size(), 1)
                                : data.shards.size();
  for (std::size_t local = 0; local < parts; ++local)
    if (!data.shards[local].is_on_cpu()) begin_copy(data, local);
}

}  // namespace lockstep
