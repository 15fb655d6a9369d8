// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/multihost.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/ranges.h>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/text.h"
#include "lockstep/collectives/minority.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/report.h"

namespace lockstep::multihost {
namespace {

using internal::concrete;

constexpr const char* kAxis = "process";

/// The first device of each process.
Mesh one_device_each() {
  runtime::Runtime& runtime = runtime::Runtime::get();
  std::vector<Device> firsts;
  for (Device device : runtime.devices()) {
    if (firsts.empty() || firsts.back().process_index() != device.process_index()) firsts.push_back(device);
  }
  return Mesh(firsts, {static_cast<std::int64_t>(firsts.size())}, {kAxis});
}

std::vector<char> bytes_of(const Array& x) {
  std::vector<char> bytes(static_cast<std::size_t>(x.aval().bytes()));
  x.copy_to_host(bytes.data(), x.dtype() == DType::kBool ? DType::kU8 : x.dtype());
  return bytes;
}

/// A whole, replicated array as one of this process alone.
Array at_home(const Array& x, const Shape& shape) {
  const std::vector<char> bytes = bytes_of(x);
  return internal::array_from_host(bytes.data(), x.dtype(), shape);
}

Array gather_rows(const void* data, DType dtype, const Shape& shape, const CallSite& site) {
  const Mesh mesh = one_device_each();
  Shape row = shape;
  row.insert(row.begin(), 1);
  Array rows =
      internal::from_process_local_data(NamedSharding(mesh, P(kAxis)), data, dtype, row, std::nullopt, site);
  return device_put(rows, NamedSharding(mesh, P()));
}

/// The same parts on this process's devices, as those of an array over another mesh, which has more or fewer
/// of them.
Array with_parts_over(const Array& x, const Mesh& from, const Mesh& to, const PartitionSpec& spec) {
  Aval aval = x.aval();
  for (std::size_t d = 0; d < aval.shape.size(); ++d) {
    const std::vector<std::string> axes = spec.axes(d);
    aval.shape[d] = aval.shape[d] / from.axis_env().size(axes) * to.axis_env().size(axes);
  }
  return internal::sharing(x, aval, NamedSharding(to, spec), true);
}

}  // namespace

Array host_local_array_to_global_array(const Array& x, const Mesh& mesh, const PartitionSpec& spec,
                                       std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  concrete(x, "[host_local_array_to_global_array]");
  if (!x.is_fully_addressable()) return x;
  const Mesh local = mesh.local_mesh(runtime::Runtime::get().process_index(), where);
  return with_parts_over(device_put(x, NamedSharding(local, spec), where), local, mesh, spec);
}

Array global_array_to_host_local_array(const Array& x, const Mesh& mesh, const PartitionSpec& spec,
                                       std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  concrete(x, "[global_array_to_host_local_array]");
  if (x.is_fully_addressable()) return x;
  const Mesh local = mesh.local_mesh(runtime::Runtime::get().process_index(), where);
  return with_parts_over(device_put(x, NamedSharding(mesh, spec), where), mesh, local, spec);
}

Array process_allgather(const Array& x, bool tiled, std::source_location where) {
  const CallSite site = CallSite::from(where);
  CallSiteScope scope(site);
  const Sharding& sharding = concrete(x, "[process_allgather]").type->sharding;
  const int processes = runtime::Runtime::get().process_count();
  if (!x.is_fully_addressable()) {
    Array whole = x.is_fully_replicated() ? x : device_put(x, NamedSharding(sharding.mesh(), P()));
    return at_home(whole, x.shape());
  }
  Shape shape = x.shape();
  if (tiled) {
    if (shape.empty()) {
      fail<ShapeError>(
          "[process_allgather] a scalar cannot be tiled (at {}): it has no dimension to concatenate along; "
          "leave tiled out",
          site.to_string());
    }
    shape.front() *= processes;
  } else {
    shape.insert(shape.begin(), processes);
  }
  const std::vector<char> bytes = bytes_of(x);
  return at_home(gather_rows(bytes.data(), x.dtype(), x.shape(), site), shape);
}

Array broadcast_one_to_all(const Array& x, std::optional<bool> is_source, std::source_location where) {
  const CallSite site = CallSite::from(where);
  CallSiteScope scope(site);
  concrete(x, "[broadcast_one_to_all]");
  runtime::Runtime& runtime = runtime::Runtime::get();
  if (runtime.described()) return internal::sharing(x);
  const bool source = is_source.value_or(runtime.process_index() == 0);
  // The sum of bytes of which all but one are zero is that one, whatever the dtype; one more byte counts the
  // sources.
  std::vector<char> bytes = bytes_of(x);
  bytes.push_back(1);
  if (!source) std::ranges::fill(bytes, 0);
  const Mesh mesh = one_device_each();
  const auto size = static_cast<std::int64_t>(bytes.size());
  Array rows = internal::from_process_local_data(NamedSharding(mesh, P(kAxis)), bytes.data(), DType::kU8,
                                                 {1, size}, std::nullopt, site);
  Trace trace(fmt::format("broadcast_one_to_all {}", to_string(x.aval())));
  const Array sum = ir::lax::reduce_sum(trace.input(rows.aval()), {0});
  const Array* argument = &rows;
  const internal::ArrayType* type = internal::data_of(rows)->type;
  auto computation =
      internal::Computation::compile(trace.finish(std::span(&sum, 1)), std::span(&type, 1),
                                     {.out_shardings = {NamedSharding(mesh, P())}, .is_operation = true});
  bytes = bytes_of(computation->run(std::span(&argument, 1)).front());
  if (bytes.back() != 1) {
    fail("[broadcast_one_to_all] {} processes said that they are the source, expected one (at {})",
         static_cast<int>(bytes.back()), site.to_string());
  }
  return internal::array_from_host(bytes.data(), x.dtype(), x.shape());
}

void sync_global_devices(const std::string& name, std::chrono::milliseconds timeout,
                         std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  runtime::Runtime& runtime = runtime::Runtime::get();
  runtime.check_healthy(runtime.process_count() > 1);
  if (runtime.process_count() == 1 || runtime.described()) return;
  try {
    runtime.coordination()->barrier("lockstep/sync_global_devices/" + name, timeout);
  } catch (const TimeoutError& error) {
    fail<TimeoutError>("[sync_global_devices] '{}' (at {}): {}", shown(name),
                       CallSiteScope::current().to_string(), error.what());
  }
}

void assert_equal(const Array& x, const std::string& message, std::source_location where) {
  const CallSite site = CallSite::from(where);
  CallSiteScope scope(site);
  concrete(x, "[assert_equal]");
  if (runtime::Runtime::get().described()) return;
  const std::vector<char> bytes = bytes_of(x);
  const std::uint64_t mine =
      combine(fingerprint(to_string(x.aval())), fingerprint(std::string_view(bytes.data(), bytes.size())));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(runtime::Runtime::get().process_count()));
  Array rows = gather_rows(&mine, DType::kU64, {}, site);
  rows.copy_to_host(all.data(), DType::kU64);
  std::map<std::uint64_t, std::vector<int>> groups;
  for (std::size_t process = 0; process < all.size(); ++process)
    groups[all[process]].push_back(static_cast<int>(process));
  if (groups.size() == 1) return;
  std::vector<std::string> parts;
  for (const auto& [value, processes] : groups)
    parts.push_back(fmt::format("[{}]", fmt::join(processes, ", ")));
  std::ranges::sort(parts);
  const std::string what = fmt::format(
      "[assert_equal] {}{} is not the same everywhere: the processes {} have different values (at {})",
      message.empty() ? "" : message + ": ", to_string(x.aval()), fmt::join(parts, " and "),
      site.to_string());
  std::vector<std::pair<int, std::uint64_t>> by_process;
  for (std::size_t process = 0; process < all.size(); ++process)
    by_process.emplace_back(static_cast<int>(process), all[process]);
  runtime::Runtime::get().report_divergence(collectives::minority(by_process), what);
  throw DivergenceError(what);
}

void agree(const std::string& name, std::string_view value, std::source_location where) {
  const CallSite site = CallSite::from(where);
  CallSiteScope scope(site);
  if (runtime::Runtime::get().described()) return;
  // The digest of name and value, and as much of the value as is shown, with its length before it.
  constexpr std::size_t kShown = 100, kDigest = sizeof(Fingerprint);
  std::array<std::uint8_t, kDigest + 1 + kShown> mine{};
  const Fingerprint digest = combine(fingerprint(name), fingerprint(value));
  std::memcpy(mine.data(), &digest, kDigest);
  const std::string text = shown(value, kShown);
  mine[kDigest] = static_cast<std::uint8_t>(text.size());
  std::memcpy(mine.data() + kDigest + 1, text.data(), text.size());
  const int processes = runtime::Runtime::get().process_count();
  std::vector<std::uint8_t> all(mine.size() * static_cast<std::size_t>(processes));
  gather_rows(mine.data(), DType::kU8, {static_cast<std::int64_t>(mine.size())}, site)
      .copy_to_host(all.data(), DType::kU8);
  std::map<Fingerprint, std::vector<int>> groups;
  std::vector<std::pair<int, std::uint64_t>> by_process;
  const auto row = [&](int process) { return all.data() + mine.size() * static_cast<std::size_t>(process); };
  for (int process = 0; process < processes; ++process) {
    Fingerprint theirs;
    std::memcpy(&theirs, row(process), kDigest);
    groups[theirs].push_back(process);
    by_process.emplace_back(process, theirs);
  }
  if (groups.size() == 1) return;
  std::vector<std::string> parts;
  for (const auto& [value_of, who] : groups) {
    const std::uint8_t* const theirs = row(who.front()) + kDigest;
    parts.push_back(fmt::format("'{}' on process{} {}", std::string(theirs + 1, theirs + 1 + *theirs),
                                who.size() == 1 ? "" : "es", watch::describe_processes(who)));
  }
  std::ranges::sort(parts);
  const std::string what = fmt::format("[agree] {} is not the same everywhere: {} (at {})", shown(name),
                                       fmt::join(parts, ", "), site.to_string());
  runtime::Runtime::get().report_divergence(collectives::minority(by_process), what);
  throw DivergenceError(what);
}

void agree(const std::string& name, double value, std::source_location where) {
  agree(name, std::string_view(fmt::to_string(value)), where);
}

}  // namespace lockstep::multihost
