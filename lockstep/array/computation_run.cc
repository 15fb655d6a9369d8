// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/array/computation_impl.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {

std::vector<std::int64_t> Computation::Impl::not_to_donate(std::span<const Array* const> given,
                                                           std::span<const Array* const> arguments) const {
  std::vector<std::pair<const ArrayData*, std::size_t>> all;
  for (std::size_t i = 0; i < given.size(); ++i) all.emplace_back(data_of(*given[i]).get(), i);
  std::ranges::sort(all);
  for (std::size_t k = 1; k < all.size(); ++k) {
    const auto [data, i] = all[k - 1];
    if (data != all[k].first || !(donated[i] || donated[all[k].second])) continue;
    fail<Error>(
        "[{}] an array {} is donated and is given twice, as arrays {} and {} of the arguments (at {}); give "
        "a copy, or do not donate it",
        name, to_string(data->type->aval), i, all[k].second, CallSiteScope::current().to_string());
  }
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!donated[i]) continue;
    if (std::ranges::any_of(data_of(*arguments[i])->shards, &pjrt::Buffer::is_shared))
      positions.push_back(static_cast<std::int64_t>(i) + (takes_position ? 1 : 0));
  }
  return positions;
}

void Computation::Impl::launch_collectives(const Local& here, std::size_t local,
                                           std::span<const Array* const> arguments,
                                           std::span<pjrt::Buffer> results) const {
  runtime::Runtime& runtime = runtime::Runtime::get();
  // Kept from call to call, but empty between them.
  thread_local struct {
    std::vector<pjrt::BufferHold> operands;
    std::vector<pjrt::Buffer> results;
    std::vector<const void*> values;
    void clear() {
      operands.clear();
      results.clear();
      values.clear();
    }
  } used;
  struct Emptied {
    ~Emptied() { used.clear(); }
  } emptied;
  try {
    for (const Array* array : arguments) {
      const pjrt::Buffer& buffer = data_of(*array)->shards[local];
      used.operands.emplace_back(buffer);
      buffer.await();
      used.values.push_back(buffer.unsafe_pointer());
    }
    for (const ir::CollectiveSteps::Step& step : only_collectives->steps) {
      const Aval& aval = step.result;
      used.results.push_back(runtime.client().uninitialized_buffer(aval.dtype, aval.shape, *here.device));
      used.values.push_back(used.results.back().unsafe_pointer());
    }
  } catch (const PjrtError&) {
    strand_others(std::current_exception());
    throw;
  }
  const void* const* result = used.values.data() + arguments.size();
  try {
    for (const ir::CollectiveSteps::Step& step : only_collectives->steps) {
      const auto result_bytes = static_cast<std::size_t>(step.result.bytes());
      runtime.programs().run(registered, static_cast<std::int64_t>(step.collective), here.position,
                             {used.values[step.operand], step.operand_bytes, step.result.dtype},
                             {*result++, result_bytes, step.result.dtype});
    }
  } catch (...) {
    // It is kept there for XLA's launches, which only get its text.
    runtime.programs().take_pending_error(fingerprint, here.position);
    throw;
  }
  for (std::size_t k = 0; k < results.size(); ++k)
    results[k] = std::move(used.results[only_collectives->outputs[k] - arguments.size()]);
}

void Computation::Impl::launch(std::size_t local, std::span<const Array* const> arguments,
                               const pjrt::ExecuteOptions& options, std::span<pjrt::Buffer> results) const {
  const Local& here = locals[local];
  if (only_collectives) return launch_collectives(here, local, arguments, results);
  thread_local std::vector<PJRT_Buffer*> buffers;
  buffers.clear();
  if (takes_position) buffers.push_back(here.position_buffer);
  for (const Array* array : arguments) buffers.push_back(data_of(*array)->shards[local].get());
  try {
    executable->execute(std::span<PJRT_Buffer* const>(buffers), *here.device, results, options);
  } catch (const PjrtError&) {
    if (auto failed = runtime::take_failed_check(fingerprint, here.position); failed.cause) {
      if (!failed.everywhere) strand_others(failed.cause);
      std::rethrow_exception(failed.cause);
    }
    if (has_collectives) {
      // XLA hands on the text of a failed collective only; the exception itself waits in the registry.
      auto cause = runtime::Runtime::get().programs().take_pending_error(fingerprint, here.position);
      if (cause) std::rethrow_exception(cause);
    }
    strand_others(std::current_exception());
    throw;
  }
}

void Computation::Impl::strand_others(const std::exception_ptr& cause) const {
  const bool alone = locals.size() == 1 && !meets_processes;
  if (alone || launch_devices.empty()) return;
  runtime::Runtime::get().launch_failed(cause, name, meets_processes);
}

void Computation::Impl::launch_replicas(std::span<const Array* const> arguments,
                                        const pjrt::ExecuteOptions& options,
                                        std::span<pjrt::Buffer> results) const {
  std::vector<std::vector<PJRT_Buffer*>> lists(locals.size());
  for (std::size_t local = 0; local < locals.size(); ++local) {
    for (const Array* array : arguments) lists[local].push_back(data_of(*array)->shards[local].get());
  }
  try {
    executable->execute_replicas(lists, results, options);
  } catch (const PjrtError&) {
    strand_others(std::current_exception());
    throw;
  }
}

void Computation::Impl::launch_all(std::span<const Array* const> arguments,
                                   const pjrt::ExecuteOptions& options,
                                   std::span<pjrt::Buffer> results) const {
  if (locals.empty()) return;
  if (replicated) return launch_replicas(arguments, options, results);
  const auto launch_one = [&](std::size_t local) {
    launch(local, arguments, options, results.subspan(local * outputs.size(), outputs.size()));
  };
  if (locals.size() == 1) return launch_one(0);
  runtime::Runtime::get().threads().run(local_devices,
                                        [&, site = CallSiteScope::current()](std::size_t local) {
                                          const CallSiteScope scope(site);
                                          launch_one(local);
                                        });
}

std::vector<Array> Computation::placed(std::vector<Array> last) const {
  const std::size_t first = impl_->inputs.size() - last.size();
  for (std::size_t i = 0; i < last.size(); ++i) {
    const ArrayType* there = impl_->moved[first + i];
    if (there == nullptr) continue;
    last[i] = data_of(last[i])->no_elements ? without_elements(last[i].aval(), there->sharding, true)
                                            : device_put(last[i], there->sharding);
  }
  return last;
}

void Computation::Impl::take_donated(std::span<const Array* const> given) const {
  if (!donates) return;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!donated[i]) continue;
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
  for (std::size_t k = 0; k < impl_->outputs.size() - (impl_->check ? 1 : 0); ++k)
    outputs.push_back(
        without_elements(impl_->outputs[k]->aval, impl_->outputs[k]->sharding, impl_->outputs[k]->committed));
  impl_->take_donated(given);
  return outputs;
}

std::vector<Array> Computation::run(std::span<const Array* const> given) const {
  const Impl& impl = *impl_;
  check_before_end(impl.name);
  runtime::Runtime& runtime = runtime::Runtime::get();
  runtime.check_healthy(impl.spans_processes);
  const bool described = runtime.described();
  for (const Array* array : given) {
    const ArrayData& data = concrete(*array, impl.name);
    if (data.no_elements && !described) check_has_elements(data, impl.name);
  }
  if (described) return run_described(given);
  ensure_compiled();

  std::span<const Array* const> arguments = given;
  std::vector<Array> replaced;
  std::vector<const Array*> replacing;
  if (impl.moves) {
    replaced.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const ArrayType* there = impl.moved[i];
      if (there == nullptr || data_of(*given[i])->type == there) continue;
      if (replacing.empty()) replacing.assign(given.begin(), given.end());
      replacing[i] = &replaced.emplace_back(device_put(*given[i], there->sharding));
    }
    if (!replacing.empty()) arguments = replacing;
  }
  const std::vector<std::int64_t> keep =
      impl.donates ? impl.not_to_donate(given, arguments) : std::vector<std::int64_t>();
  const pjrt::ExecuteOptions options{.non_donatable = keep};
  const std::size_t num_outputs = impl.outputs.size(), num_locals = impl.locals.size();
  const watch::TextId site = watch::text(CallSiteScope::current());
  const std::uint64_t number = impl.launches ? watch::count_launch(*impl.launches, impl.recorded, site) : 0;
  const watch::Doing launching(watch::Kind::kLaunch, impl.recorded_name, site, number,
                               impl.launches ? watch::index_of(*impl.launches) : 0);
  // If the compiler makes the collectives, the devices connect first, and the call may not return before all
  // have arrived.
  std::optional<watch::Doing> meeting;
  if (impl.recorded_meeting != 0 && impl.launches != nullptr) {
    meeting.emplace(watch::Kind::kResult, impl.recorded_meeting, site, number,
                    watch::index_of(*impl.launches));
  }
  thread_local std::vector<pjrt::Buffer> results;
  results.resize(num_outputs * num_locals);
  if (impl.launch_devices.empty()) {
    impl.launch_all(arguments, options, results);
  } else {
    const runtime::Launches::Launch alone(runtime.launches(), impl.launch_devices,
                                          {impl.name, CallSiteScope::current(), impl.meets_processes});
    if (impl.agreement != nullptr) {
      runtime.launch_agreement()->before_launch(*impl.agreement, impl.mesh->fingerprint(), impl.fingerprint,
                                                impl.signature);
    }
    impl.launch_all(arguments, options, results);
  }
  meeting.reset();
  std::vector<Array> outputs;
  outputs.reserve(num_outputs);
  for (std::size_t k = 0; k < num_outputs; ++k) {
    std::vector<pjrt::Buffer> shards;
    shards.reserve(num_locals);
    for (std::size_t local = 0; local < num_locals; ++local) {
      shards.push_back(std::move(results[local * num_outputs + k]));
    }
    outputs.push_back(make_array(impl.outputs[k], std::move(shards)));
  }
  if (impl.check) {
    const Array found = std::move(outputs.back());
    outputs.pop_back();
    impl.check->look_at(found, impl.name, given);
  }
  impl.take_donated(given);
  return outputs;
}

}  // namespace lockstep::internal
