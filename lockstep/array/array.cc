// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/array.h"

#include <array>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "lockstep/array/data.h"
#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/runtime/runtime.h"

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

std::string Array::to_string() const {
  if (!valid()) return "Array()";
  std::string text = lockstep::to_string(aval());
  if (is_tracer()) return fmt::format("Array({}, traced)", text);
  return fmt::format("Array({}, {})", text, is_deleted() ? "deleted" : data_->type->sharding.to_string());
}

}  // namespace lockstep
