// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "lockstep/array/device_put.h"
#include "lockstep/base/fail.h"
#include "lockstep/collectives/minority.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::data::internal {
namespace {

constexpr std::size_t kNumbers = sizeof(LoaderState) / sizeof(std::uint64_t);
using Numbers = std::array<std::uint64_t, kNumbers>;

/// Names of the numbers of a LoaderState.
constexpr std::array<const char*, kNumbers> kNames = {
    "the version of Lockstep",
    "the position",
    "the files, or the functions and options that make records of them",
    "the number of records",
    "the weights",
    "the number of epochs",
    "the seed",
    "the batch size, or drop_last"};

constexpr std::size_t kPosition = 1, kRecords = 3, kEpochs = 5, kBatch = 7;

Numbers numbers_of(const LoaderState& state) {
  Numbers numbers;
  std::memcpy(numbers.data(), &state, sizeof state);
  return numbers;
}

/// The number, if it has a meaning for users.
std::string number_text(std::size_t i, std::uint64_t number) {
  if (i == kBatch) return fmt::format("{}{}", number / 2, number % 2 != 0 ? " with drop_last" : "");
  if (i == kEpochs && number == 0) return "for ever";
  if (i == kRecords || i == kEpochs || i == kPosition) return std::to_string(number);
  return fmt::format("fingerprint {:016x}", number);
}

}  // namespace

void check_restorable(const LoaderState& state, const LoaderState& configuration) {
  const Numbers saved = numbers_of(state), own = numbers_of(configuration);
  std::string differences;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    if (i == kPosition || saved[i] == own[i]) continue;
    differences += fmt::format("{}{} ({} then, {} now)", differences.empty() ? "" : "; ", kNames[i],
                               number_text(i, saved[i]), number_text(i, own[i]));
  }
  if (differences.empty()) return;
  fail<DataError>(
      "[Loader] the state belongs to another loader, so this one cannot continue from it; what differs: {}",
      differences);
}

void check_agreement(const Sharding& sharding, const LoaderState& state, const CallSite& site) {
  runtime::Runtime& runtime = runtime::Runtime::get(site);
  if (runtime.described()) return;
  std::map<int, Device> firsts;  // Of each process that takes part.
  for (Device device : sharding.devices()) firsts.emplace(device.process_index(), device);
  if (firsts.size() == 1) return;
  std::vector<Device> devices;
  std::vector<int> processes;
  for (const auto& [process, device] : firsts) {
    processes.push_back(process);
    devices.push_back(device);
  }
  CallSiteScope scope(site);
  const Mesh mesh(devices, {std::ssize(devices)}, {"process"});
  const Numbers own = numbers_of(state);
  const Shape row = {1, static_cast<std::int64_t>(kNumbers)};
  const Array rows = make_array_from_process_local_data(NamedSharding(mesh, P("process")),
                                                        std::span<const std::uint64_t>(own), row);
  const auto all = device_put(rows, NamedSharding(mesh, P())).to_host<std::uint64_t>();
  std::string differences;
  std::vector<std::pair<int, std::uint64_t>> by_process;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    std::map<std::uint64_t, std::vector<int>> groups;
    for (std::size_t p = 0; p < processes.size(); ++p) groups[all[p * kNumbers + i]].push_back(processes[p]);
    if (groups.size() == 1) continue;
    std::vector<std::string> parts;
    for (const auto& [number, members] : groups)
      parts.push_back(fmt::format("{} on [{}]", number_text(i, number), fmt::join(members, ", ")));
    differences +=
        fmt::format("{}{} ({})", differences.empty() ? "" : "; ", kNames[i], fmt::join(parts, ", "));
    if (by_process.empty()) {
      for (std::size_t p = 0; p < processes.size(); ++p)
        by_process.emplace_back(processes[p], all[p * kNumbers + i]);
    }
  }
  if (differences.empty()) return;
  const std::string what = fmt::format(
      "[Loader] the processes do not load the same data (loader of {}); what differs: {}. Give all the same "
      "files and options",
      site.to_string(), differences);
  runtime.report_divergence(collectives::minority(by_process), what);
  throw DivergenceError(what);
}

}  // namespace lockstep::data::internal
