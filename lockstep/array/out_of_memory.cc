// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/out_of_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "lockstep/base/amount.h"
#include "lockstep/base/call_site.h"
#include "lockstep/runtime/device_memory.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {
namespace {

std::string amount(std::int64_t bytes) { return amount_of_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

std::exception_ptr explained(const OutOfMemoryError& error, const LoweredComputation& computation,
                             const pjrt::MemoryStats& needs, const std::vector<Device>& devices) {
  const auto in_use = [](Device device) {
    const auto memory = device.memory_stats();
    return memory ? memory->bytes_in_use : 0;
  };
  const Device fullest = *std::ranges::max_element(devices, {}, in_use);
  const runtime::Runtime& runtime = runtime::Runtime::get();
  std::string text =
      fmt::format("[{}] process {} of {} has no memory left on {} for this computation (at {}): {}",
                  computation.name, runtime.process_index(), runtime.process_count(), fullest.to_string(),
                  CallSiteScope::current().to_string(), error.what());
  text += fmt::format("\n  it needs: {} of arguments, {} of results, {} of temporary values, {} of code",
                      amount(needs.arguments), amount(needs.outputs - needs.aliased), amount(needs.temporary),
                      amount(needs.generated_code));
  if (const std::string memory = runtime::describe_memory(fullest); !memory.empty())
    text += "\n  in use: " + memory;
  for (const ir::LargeValue& value : computation.largest) {
    text += fmt::format("\n  {:>10}  {}, {}{}", amount(value.bytes), value.type, value.operation,
                        value.site.empty() ? "" : " at " + value.site);
  }
  text +=
      "\n  donate arguments that are not used again (donate_argnums), recompute values for the derivative "
      "(checkpoint), take smaller batches, or split the arrays over more devices";
  return std::make_exception_ptr(OutOfMemoryError(text));
}

}  // namespace lockstep::internal
