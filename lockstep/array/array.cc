// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/array.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "lockstep/array/data.h"
#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/array/regions.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep {
namespace internal {

namespace {

/// The interned types of the process.
class Types {
 public:
  static Types& get() {
    static auto& types = *new Types;  // never destroyed: arrays may outlive main
    return types;
  }

  ArrayTypeRef intern(Aval aval, const Sharding& sharding, bool committed) {
    const Fingerprint key = combine(sharding.fingerprint(), fingerprint(to_string(aval)));
    std::lock_guard lock(mutex_);
    auto [begin, end] = all_.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      const ArrayType& type = *it->second;
      if (type.committed != committed || !(type.aval == aval) || !(type.sharding == sharding)) continue;
      type.unheld = false;
      return &type;
    }
    if (all_.size() >= most_) {
      forget_unheld(/*at_once=*/false);
      most_ = std::max(max_kept(), 2 * all_.size());
    }
    const int job = sharding.devices().front().job();
    return all_
        .emplace(key,
                 std::unique_ptr<const ArrayType>(new ArrayType{std::move(aval), sharding, committed, job}))
        ->second.get();
  }

  void forget() {
    std::lock_guard lock(mutex_);
    forget_unheld(/*at_once=*/true);
  }

  std::size_t size() {
    std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  /// Forgets types without holders; only intern() gives them new ones, so not now. Without `at_once`, only
  /// those that had none last time too: a shape may still be read for a moment after its array is gone.
  void forget_unheld(bool at_once) {
    std::erase_if(all_, [&](const auto& each) {
      const ArrayType& type = *each.second;
      if (type.holders.load(std::memory_order_acquire) != 0) return type.unheld = false;
      return at_once || std::exchange(type.unheld, true);
    });
  }

  std::mutex mutex_;
  std::unordered_multimap<Fingerprint, std::unique_ptr<const ArrayType>> all_;
  std::size_t most_ = 0;  // at this many it looks for those that nobody holds
};

}  // namespace

ArrayTypeRef intern(Aval aval, const Sharding& sharding, bool committed) {
  if (sharding.devices().front().job() != runtime::Runtime::get().job()) [[unlikely]] {
    fail(
        "the devices of {} are of a job that this process has left by shutdown() (at {}); make meshes and "
        "shardings again after initialize()",
        sharding.to_string(), CallSiteScope::current().to_string());
  }
  return Types::get().intern(std::move(aval), sharding, committed);
}

void forget_types() { Types::get().forget(); }

std::size_t num_kept_types() { return Types::get().size(); }

Array make_array(ArrayTypeRef type, std::vector<pjrt::Buffer> shards) {
  auto data = std::make_shared<ArrayData>();
  data->type = std::move(type);
  data->shards = std::move(shards);
  return internal::array_with(std::move(data));
}

namespace {

/// Throws the reason why an array is not one that concrete() returns.
[[noreturn]] void fail_not_concrete(const Array& array, std::string_view use) {
  const std::string what = use.starts_with('[') ? std::string(use) : fmt::format("[{}]", use);
  const std::string here = CallSiteScope::current().to_string();
  if (!array.valid()) fail<Error>("{} an Array without a value is used (at {}); assign it first", what, here);
  const ArrayData& data = *internal::data_of(array);
  if (data.type == nullptr) {
    check_not_leaked(array, what);
    fail<TraceError>(
        "{} a {} of a function that is being traced has no elements yet (at {}); compute with it, choose by "
        "it with where, cond or while_loop, show it with debug::print, and read what the function returns",
        what, to_string(data.aval), here);
  }
  if (data.type->job != runtime::Runtime::get().job()) {
    fail(
        "{} the array {} is of a job that this process has left by shutdown() (at {}); copy its elements "
        "with "
        "to_host before initialize() is called again",
        what, to_string(data.type->aval), here);
  }
  fail<Error>("{} the array {} was {} and is used (at {}); keep a copy, or do not use it afterwards", what,
              to_string(data.type->aval),
              data.donated_at.known()
                  ? fmt::format("donated to a computation (at {})", data.donated_at.to_string())
                  : "deleted",
              here);
}

}  // namespace

const ArrayData& concrete(const Array& array, std::string_view use) {
  if (!array.valid() || internal::data_of(array)->type == nullptr) fail_not_concrete(array, use);
  const ArrayData& data = *internal::data_of(array);
  const bool is_of_this_job = data.type->job == runtime::Runtime::get().job();
  if (!is_of_this_job || (data.shards.empty() && array.is_deleted())) [[unlikely]]
    fail_not_concrete(array, use);
  return data;
}

void check_has_elements(const ArrayData& data, std::string_view use) {
  if (!data.no_elements) [[likely]]
    return;
  runtime::Runtime& runtime = runtime::Runtime::get();
  if (!runtime.described()) {
    fail<DescribedError>(
        "{} needs the elements of {}, which is only a shape of shape_of() or eval_shape() (at {}); give an "
        "array, or only lower and compile for it",
        use, to_string(data.type->aval), CallSiteScope::current().to_string());
  }
  runtime.plan().end_at_read(fmt::format("{} {}", use, to_string(data.type->aval)));
}

namespace {

/// The type of an array that is not committed, on this process's first device. The types of scalars are
/// cached.
ArrayTypeRef first_device_type(DType dtype, const Shape& shape, bool weak_type) {
  struct First {
    SingleDeviceSharding sharding{runtime::Runtime::get().local_devices().front()};
    std::array<ArrayTypeRef, 2 * kNumDTypes> scalars;

    First() {
      for (std::size_t i = 0; i < scalars.size(); ++i)
        scalars[i] = intern({static_cast<DType>(i / 2), {}, i % 2 == 1, {}}, sharding, false);
    }
  };
  // Never destroyed: another thread may use it; and there are as many as the process has jobs.
  static std::atomic<const First*> of_the_job = new First;
  const First* first = of_the_job.load(std::memory_order_acquire);
  if (first->scalars[0]->job != runtime::Runtime::get().job()) [[unlikely]]
    of_the_job.store(first = new First, std::memory_order_release);
  if (!shape.empty()) return intern({dtype, shape, weak_type, {}}, first->sharding, false);
  return first->scalars[2 * static_cast<std::size_t>(dtype) + (weak_type ? 1 : 0)];
}

}  // namespace

Array array_from_host(const void* source, DType dtype, const Shape& shape, bool weak_type,
                      std::shared_ptr<const void> owner, bool must_not_copy) {
  check_before_end("array");
  runtime::Runtime& runtime = runtime::Runtime::get();
  std::vector<pjrt::Buffer> shards;
  const auto use = owner == nullptr ? pjrt::HostUse::kCopied : pjrt::HostUse::kZeroCopy;
  if (runtime.described())
    return without_elements({dtype, shape, weak_type, {}},
                            first_device_type(dtype, shape, weak_type)->sharding, false);
  shards.push_back(runtime.put(source, dtype, shape, runtime.local_devices().front(), use,
                               std::const_pointer_cast<void>(std::move(owner))));
  if (must_not_copy) check_in_place("[array]", shards.back(), source, runtime.local_devices().front());
  return make_array(first_device_type(dtype, shape, weak_type), std::move(shards));
}

}  // namespace internal

using internal::concrete;

namespace {

/// For a device that may wait in vain for devices of a process that is gone: blocks until `await_for` is
/// true, and throws the job's error if it never will be. On CPU, collectives end with that error themselves.
template <class AwaitFor>
void await_or_fail(const AwaitFor& await_for) {
  runtime::Runtime& runtime = runtime::Runtime::get();
  constexpr std::chrono::milliseconds kBetween(100);
  if (runtime.process_count() == 1 || !runtime.native_collectives()) {
    while (!await_for(kBetween)) continue;
    return;
  }
  static const watch::TextId what = watch::text("a result");
  const watch::Doing waiting(watch::Kind::kResult, what, watch::text(CallSiteScope::current()));
  while (!await_for(kBetween)) runtime.check_healthy(false);
}

void await_or_fail(const pjrt::Buffer& shard) {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  if (runtime.process_count() == 1 || !runtime.native_collectives()) return;  // which reading waits for
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
  if (copy == nullptr) copy = std::make_shared<const pjrt::CopyToHost>(data.shards[local]);
  return copy;
}

void await_copy(const pjrt::CopyToHost& copy) {
  await_or_fail([&](std::chrono::milliseconds timeout) { return copy.await_for(timeout); });
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
  data.shards[local].to_host(destination, bytes);
}

}  // namespace

void Array::set_real(double value) {
  const auto narrow = static_cast<float>(value);
  *this = internal::array_from_host(&narrow, DType::kF32, {}, true);
  data_->number = value;
}

void Array::set_integer(std::int64_t value, bool is_unsigned, const std::source_location& where) {
  const auto narrow = static_cast<std::int32_t>(value);
  if (narrow != value || (is_unsigned && value < 0)) {
    CallSiteScope here(CallSite::from(where));
    fail<DTypeError>(
        "[Array] an integer becomes an Array of dtype i32, which cannot hold {} (at {}); give it a wider "
        "dtype with full({{}}, number, int64)",
        is_unsigned ? fmt::format("{}", static_cast<std::uint64_t>(value)) : fmt::format("{}", value),
        CallSiteScope::current().to_string());
  }
  *this = internal::array_from_host(&narrow, DType::kI32, {}, true);
}

void Array::set_bool(bool value) { *this = internal::array_from_host(&value, DType::kBool, {}); }

const Aval& Array::aval() const {
  if (!data_)
    fail<Error>("an Array without a value is used (at {}); assign it first",
                CallSiteScope::current().to_string());
  return data_->type ? data_->type->aval : data_->aval;
}

bool Array::is_tracer() const { return data_ && data_->type == nullptr; }

const Sharding& Array::sharding() const { return concrete(*this, "[sharding]").type->sharding; }

bool Array::is_fully_addressable() const {
  return sharding().is_fully_addressable(runtime::Runtime::get().process_index());
}

bool Array::is_fully_replicated() const { return sharding().is_fully_replicated(); }

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

void Array::delete_() {
  concrete(*this, "[delete_]");
  data_->shards.clear();
  data_->host_copies.reset();
}

bool Array::is_deleted() const {
  // A sharding without local devices has no shards either, so this is only known for shardings with local
  // devices.
  if (!data_ || data_->type == nullptr) return false;
  return data_->shards.empty() &&
         !data_->type->sharding.addressable_positions(runtime::Runtime::get().process_index()).empty();
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

std::string Array::to_string() const {
  if (!valid()) return "Array()";
  std::string text = lockstep::to_string(aval());
  if (is_tracer()) return fmt::format("Array({}, traced)", text);
  return fmt::format("Array({}, {})", text, is_deleted() ? "deleted" : data_->type->sharding.to_string());
}

}  // namespace lockstep
