// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/array/computation_impl.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {

std::vector<std::int64_t> Computation::Impl::not_to_donate(std::span<const Array* const> given,
                                                           std::span<const Array* const> arguments) const {
  std::vector<std::pair<const ArrayData*, std::size_t>> all;
  for (std::size_t i = 0; i < given.size(); ++i) all.emplace_back(data_of(*given[i]).get(), i);
  std::ranges::sort(all);
  for (std::size_t k = 1; k < all.size(); ++k) {
    const auto [data, i] = all[k - 1];
    if (data != all[k].first || !(lowered.donated[i] || lowered.donated[all[k].second])) continue;
    fail<Error>(
        "[{}] an array {} is donated and is given twice, as arrays {} and {} of the arguments (at {}); give "
        "a copy, or do not donate it",
        lowered.name, to_string(data->type->aval), i, all[k].second, CallSiteScope::current().to_string());
  }
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!lowered.donated[i]) continue;
    if (std::ranges::any_of(data_of(*arguments[i])->shards, &pjrt::Buffer::is_shared))
      positions.push_back(static_cast<std::int64_t>(i) + (lowered.takes_position ? 1 : 0));
  }
  return positions;
}

std::vector<Array> Computation::placed(std::vector<Array> last) const {
  const std::size_t first = lowered().inputs.size() - last.size();
  for (std::size_t i = 0; i < last.size(); ++i) {
    const ArrayType* there = lowered().moved[first + i];
    if (there == nullptr) continue;
    last[i] = data_of(last[i])->no_elements ? without_elements(last[i].aval(), there->sharding, true)
                                            : device_put(last[i], there->sharding);
  }
  return last;
}

void Computation::Impl::take_donated(std::span<const Array* const> given) const {
  if (!donates) return;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!lowered.donated[i]) continue;
    data_of(*given[i])->shards.clear();
    data_of(*given[i])->host_copies.reset();
    data_of(*given[i])->donated_at = CallSiteScope::current();
  }
}

std::vector<Array> Computation::run_described(std::span<const Array* const> given) const {
  runtime::Plan& plan = runtime::Runtime::get().plan();
  if (impl_->planned)
    plan.note_call(*impl_->planned);
  else
    plan.note_operation();
  std::vector<Array> outputs;
  for (std::size_t k = 0; k < lowered().outputs.size() - (impl_->check ? 1 : 0); ++k) {
    const ArrayType& type = *lowered().outputs[k];
    outputs.push_back(without_elements(type.aval, type.sharding, type.committed));
  }
  impl_->take_donated(given);
  return outputs;
}

std::vector<Array> Computation::run(std::span<const Array* const> given) const {
  const Impl& impl = *impl_;
  check_before_end(impl.lowered.name);
  runtime::Runtime& runtime = runtime::Runtime::get();
  runtime.check_healthy(impl.launcher && impl.launcher->spans_processes());
  if (impl.launcher && impl.launcher->job() != runtime.job()) [[unlikely]] {
    fail(
        "{} was compiled for devices of a job that this process has left by shutdown() (at {}); compile it "
        "again after initialize()",
        impl.lowered.name, CallSiteScope::current().to_string());
  }
  const bool described = runtime.described();
  for (const Array* array : given) {
    const ArrayData& data = concrete(*array, impl.lowered.name);
    if (data.no_elements && !described) check_has_elements(data, impl.lowered.name);
  }
  if (described) return run_described(given);
  ensure_compiled();

  std::span<const Array* const> arguments = given;
  std::vector<Array> replaced;
  std::vector<const Array*> replacing;
  if (impl.moves) {
    replaced.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const ArrayType* there = impl.lowered.moved[i];
      if (there == nullptr || data_of(*given[i])->type == there) continue;
      if (replacing.empty()) replacing.assign(given.begin(), given.end());
      replacing[i] = &replaced.emplace_back(device_put(*given[i], there->sharding));
    }
    if (!replacing.empty()) arguments = replacing;
  }
  const std::vector<std::int64_t> keep =
      impl.donates ? impl.not_to_donate(given, arguments) : std::vector<std::int64_t>();
  const pjrt::ExecuteOptions options{.non_donatable = keep};
  thread_local std::vector<pjrt::Buffer> results;
  impl.launcher->run(arguments, options, results);
  const std::size_t num_outputs = impl.lowered.outputs.size(), num_locals = impl.launcher->num_devices();
  std::vector<Array> outputs;
  outputs.reserve(num_outputs);
  for (std::size_t k = 0; k < num_outputs; ++k) {
    std::vector<pjrt::Buffer> shards;
    shards.reserve(num_locals);
    for (std::size_t local = 0; local < num_locals; ++local) {
      shards.push_back(std::move(results[local * num_outputs + k]));
    }
    outputs.push_back(make_array(impl.lowered.outputs[k], std::move(shards)));
  }
  if (impl.check) {
    const Array found = std::move(outputs.back());
    outputs.pop_back();
    impl.check->look_at(found, impl.lowered.name, given);
  }
  impl.take_donated(given);
  return outputs;
}

void Computation::check_types(std::span<const Array* const> arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArrayType& given = *concrete(*arguments[i], name()).type;
    if (&given == lowered().inputs[i].get()) continue;
    const auto ids = [](const ArrayType& type) {
      std::vector<int> all;
      for (const Device device : type.sharding.devices()) all.push_back(device.id());
      return all;
    };
    fail<ShardingError>("[{}] argument array {} is {} with {} on devices {}, but is given on devices {}",
                        name(), i, to_string(lowered().inputs[i]->aval),
                        lowered().inputs[i]->sharding.to_string(), ids(*lowered().inputs[i]), ids(given));
  }
}

}  // namespace lockstep::internal
