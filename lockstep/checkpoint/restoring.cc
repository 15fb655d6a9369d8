// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/restoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lockstep/array/host.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::checkpoint {
namespace {

std::string name_of(const std::string& path) { return path.empty() ? "the root" : shown(path); }

/// An array of the tree, and its type after restoring.
struct Target {
  Array* array = nullptr;
  std::string path, source;  ///< in the tree, in the checkpoint
  Aval aval;
  std::optional<Sharding> sharding;
  bool committed = true;
  std::map<std::string, internal::HostPart> parts;  ///< by box
};

class Restoring {
 public:
  Restoring(const Source& opened, Contents& contents, const RestoreOptions& options, int process_index)
      : source_(opened), contents_(contents), options_(options), process_index_(process_index) {}

  RestoreReport run() {
    match_values();
    for (Leaf& leaf : contents_.arrays) match(leaf);
    if (!options_.partial) check_all_used();
    const std::uint64_t before = source_.bytes_read();
    for (std::size_t first = 0, last = 0; first < targets_.size(); first = last) {
      std::vector<Wanted> wanted;
      for (std::size_t bytes = 0; last < targets_.size() && (last == first || bytes < kAtATime); ++last)
        bytes += need(targets_[last], wanted);
      source_.read(wanted);
      for (std::size_t i = first; i < last; ++i) make(targets_[i]);
    }
    for (auto& [value, found] : values_) *value = *found;
    report_.bytes_read = source_.bytes_read() - before;
    return report_;
  }

 private:
  std::string source_of(const std::string& path) const {
    return options_.rename ? options_.rename(path) : path;
  }

  /// "a.b (named x.b in the checkpoint)".
  static std::string both(const std::string& path, const std::string& source) {
    return source == path ? name_of(path)
                          : fmt::format("{} ({} in the checkpoint)", name_of(path), name_of(source));
  }

  void match(Leaf& leaf) {
    Target target{&leaf.array, leaf.path, source_of(leaf.path), {}, {}, true, {}};
    const auto& arrays = source_.manifest().arrays;
    if (!arrays.contains(target.source)) {
      if (options_.partial) return;
      source_.array(target.source);  // throws, and names the nearest
    }
    used_.insert(target.source);
    const ArrayInfo& info = source_.array(target.source);
    if (!info.dtype) {
      fail<CheckpointError>("[checkpoint] {}: {} is {}, a dtype that Lockstep does not have", source_.url(),
                            both(target.path, target.source), describe(info));
    }
    target.aval = {*info.dtype, info.shape, info.weak_type, {}};
    if (leaf.array.valid()) {
      const Aval& aval = leaf.array.aval();
      if (aval.dtype != target.aval.dtype || aval.shape != target.aval.shape) {
        fail<CheckpointError>("[checkpoint] {}: {} is {}, but the tree to restore has {} there",
                              source_.url(), both(target.path, target.source), describe(info),
                              lockstep::to_string(Aval{aval.dtype, aval.shape}));
      }
      target.committed = internal::is_committed(leaf.array);
      target.sharding = leaf.array.sharding();
    }
    if (options_.sharding) {
      if (const auto given = options_.sharding(leaf.path)) {
        target.sharding = *given;
        target.committed = true;
      }
    }
    if (!target.sharding) {
      target.sharding = SingleDeviceSharding(local_devices().front());
      target.committed = false;
    }
    sharding::check_divisible(target.aval, target.sharding->spec(), target.sharding->mesh(),
                              "checkpoint::restore of " + name_of(leaf.path));
    targets_.push_back(std::move(target));
  }

  void match_values() {
    for (auto& [path, value] : contents_.values) {
      const std::string source = source_of(path);
      const auto found = source_.manifest().values.find(source);
      if (found == source_.manifest().values.end()) {
        if (options_.partial) continue;
        fail<CheckpointError>("[checkpoint] {} has no value {}, which the tree to restore has ({})",
                              source_.url(), both(path, source), to_string(value));
      }
      used_.insert(source);
      if (kind_of(value) != kind_of(found->second)) {
        fail<CheckpointError>("[checkpoint] {}: {} is {}, {}, but the tree to restore has {} there",
                              source_.url(), both(path, source), kind_of(found->second),
                              to_string(found->second), kind_of(value));
      }
      values_.emplace_back(&value, &found->second);
    }
  }

  void check_all_used() const {
    auto unused = [&](const std::string& path, const std::string& what) {
      fail<CheckpointError>(
          "[checkpoint] {} has {}, {}, for which the tree to restore has no place; restore into the "
          "structure that was saved, or set `partial`",
          source_.url(), name_of(path), what);
    };
    for (const auto& [path, info] : source_.manifest().arrays)
      if (!used_.contains(path)) unused(path, describe(info));
    for (const auto& [path, value] : source_.manifest().values)
      if (!used_.contains(path)) unused(path, to_string(value));
  }

  /// Finds memory for each part that a device of this process holds: the file's, or new. Gives the bytes of
  /// the latter.
  std::size_t need(Target& target, std::vector<Wanted>& wanted) {
    const auto indices = target.sharding->device_indices(target.aval.shape);
    const std::size_t element = size_of(target.aval.dtype);
    std::size_t allocated = 0;
    const auto& positions = target.sharding->addressable_positions(process_index_);
    for (int position : positions) {
      const Box& box = indices[static_cast<std::size_t>(position)];
      internal::HostPart& part = target.parts[to_string(box)];
      if (part.data != nullptr) continue;
      const std::size_t bytes = static_cast<std::size_t>(volume(box)) * element;
      report_.bytes_needed += bytes;
      if (options_.map && bytes >= kWorthMapping) {
        if (auto mapped = source_.map(target.source, box)) {
          part = {mapped.get(), std::const_pointer_cast<void>(mapped), false};
          report_.bytes_mapped += bytes;
          continue;
        }
      }
      source_.check_files(target.source, box);
      std::shared_ptr<void> memory = internal::aligned_memory(bytes);
      part = {memory.get(), memory, true};
      // All devices that hold it, and those of this process among them: are they the same?
      const std::int64_t holders = volume(whole(target.aval.shape)) == 0
                                       ? 0
                                       : std::ssize(indices) * volume(box) / volume(whole(target.aval.shape));
      const auto own = std::ranges::count_if(
          positions, [&](int each) { return indices[static_cast<std::size_t>(each)] == box; });
      wanted.push_back({target.source, box, static_cast<std::byte*>(memory.get()), own >= holders});
      allocated += bytes;
    }
    return allocated;
  }

  /// The array of the parts, which then are its own.
  static void make(Target& target) {
    *target.array = internal::from_parts(target.aval, *target.sharding, target.committed,
                                         [&](const Box& box) { return target.parts.at(to_string(box)); });
    target.parts.clear();
  }

  /// Devices that do not compute in the host's memory have their arrays copied there: so much is in both at a
  /// time, or one array.
  static constexpr std::size_t kAtATime = std::size_t{1} << 30;

  static constexpr std::size_t kWorthMapping = 64 << 10;

  const Source& source_;
  Contents& contents_;
  const RestoreOptions& options_;
  int process_index_;
  std::vector<Target> targets_;
  std::vector<std::pair<Value*, const Value*>> values_;
  std::set<std::string> used_;
  RestoreReport report_;
};

}  // namespace

RestoreReport restore_contents(const Job& job, const std::string& url, Contents& contents,
                               const RestoreOptions& options, const View& view) {
  const watch::Doing restoring(watch::Kind::kRestore, url);
  Round round(job, "restore " + url, options.timeout);
  RestoreReport report;
  std::string error;
  try {
    std::shared_ptr<const Source> opened = Opened::open(url);
    if (view) opened = view(opened);
    report = Restoring(*opened, contents, options, job.process_index).run();
    round.report(opened->manifest().nonce);
  } catch (const PeerFailure&) {
    throw;
  } catch (const CheckpointError& failed) {
    error = failed.what();
  } catch (const std::exception& failed) {
    error = fmt::format("[checkpoint] restore {}: {}", url, failed.what());
  }
  if (job.num_processes == 1) {
    if (!error.empty()) throw CheckpointError(error);
    return report;
  }
  if (!error.empty()) round.report_error(fmt::format("{}: {}", job.who(job.process_index), error));
  if (!job.leads()) {
    round.conclusion();
    return report;
  }
  try {
    const std::vector<std::string> nonces = round.reports();
    for (std::size_t i = 1; i < nonces.size(); ++i) {
      if (nonces[i] != nonces[0]) {
        fail<CheckpointError>("[checkpoint] restore {}: {} has read a different checkpoint than process 0",
                              url, job.who(static_cast<int>(i)));
      }
    }
  } catch (const CheckpointError& failed) {
    round.conclude_error(failed.what());
    throw;
  }
  round.conclude("restored");
  return report;
}

}  // namespace lockstep::checkpoint
