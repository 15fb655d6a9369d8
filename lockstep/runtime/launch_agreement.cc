// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/launch_agreement.h"

#include <algorithm>
#include <future>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/collectives/minority.h"
#include "lockstep/watch/difference.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;

constexpr const char* kSame = "same";
constexpr milliseconds kForLogs(10'000);

}  // namespace

class LaunchAgreement::Group {
 public:
  Group(Fingerprint number, std::vector<int> processes) : number(number), processes(std::move(processes)) {}

  const Fingerprint number;  ///< the same on all processes
  const std::vector<int> processes;

  std::mutex mutex;
  std::uint64_t launches = 0;
  Fingerprint hash = 0;  ///< of all launches
  std::string last;      ///< what was launched first at the last comparison
  std::uint64_t comparisons = 0;
  std::unordered_set<Fingerprint> compared;  ///< programs over meshes
};

struct LaunchAgreement::Launches {
  Fingerprint group = 0;
  std::vector<int> processes;
  std::uint64_t launches = 0;
  Fingerprint hash = 0;
  std::string last;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Launches, group, processes, launches, hash, last)
};

LaunchAgreement::LaunchAgreement(coordination::CoordinationClient& client, OnDifference on_difference)
    : client_(client), on_difference_(std::move(on_difference)) {}

LaunchAgreement::~LaunchAgreement() = default;

LaunchAgreement::Group& LaunchAgreement::group(std::vector<int> devices, std::vector<int> processes) {
  std::ranges::sort(devices);
  std::lock_guard lock(mutex_);
  std::unique_ptr<Group>& group = groups_[devices];
  if (!group) {
    const std::string_view bytes(reinterpret_cast<const char*>(devices.data()),
                                 devices.size() * sizeof devices.front());
    group = std::make_unique<Group>(fingerprint(bytes), std::move(processes));
  }
  return *group;
}

void LaunchAgreement::before_launch(Group& group, Fingerprint mesh, Fingerprint program,
                                    const std::string& name) {
  const Fingerprint launch = combine(mesh, program);
  std::lock_guard lock(group.mutex);
  ++group.launches;
  group.hash = combine(group.hash, launch);
  if (group.compared.contains(launch)) return;
  group.last = fmt::format("{} at {}", name, CallSiteScope::current().to_string());
  const auto place = [&](std::uint64_t number) {
    return fmt::format("lockstep/launches/{:016x}/{}", group.number, number);
  };
  const std::uint64_t number = group.comparisons++;
  compare(place(number), group.processes,
          {{group.number, group.processes, group.launches, group.hash, group.last}}, std::nullopt);
  group.compared.insert(launch);
  // All have come to this comparison, and so have read the verdict of the one before.
  if (number > 0 && client_.process_id() == group.processes.front())
    client_.key_value_store().erase(place(number - 1));
}

void LaunchAgreement::finish(milliseconds timeout) {
  std::vector<Launches> own;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [devices, group] : groups_) {
      std::lock_guard group_lock(group->mutex);
      own.push_back({group->number, group->processes, group->launches, group->hash, group->last});
    }
  }
  std::vector<int> all;
  for (int process = 0; process < client_.num_processes(); ++process) all.push_back(process);
  try {
    compare("lockstep/launches/end", all, own, timeout);
  } catch (const TimeoutError&) {
    // The job's end waits for the same processes, and names them.
  }
}

std::string LaunchAgreement::get(const std::string& key, std::optional<milliseconds> timeout) {
  // Not the store's own wait: to others this process is in the launch, or in shutdown().
  const auto promise = std::make_shared<std::promise<std::optional<std::string>>>();
  client_.when_set(key,
                   [promise](std::optional<std::string> value) { promise->set_value(std::move(value)); });
  std::future<std::optional<std::string>> value = promise->get_future();
  if (timeout && value.wait_for(*timeout) == std::future_status::timeout)
    throw TimeoutError(fmt::format("the key '{}' was not set within {} ms", key, timeout->count()));
  if (std::optional<std::string> found = value.get()) return *std::move(found);
  const std::optional<coordination::JobError> error = client_.error();
  if (error && error->diverged) throw DivergenceError(error->message);
  throw PeerFailure(error ? error->message : "this process has left the job");
}

void LaunchAgreement::compare(const std::string& place, const std::vector<int>& processes,
                              const std::vector<Launches>& own, std::optional<milliseconds> timeout) {
  coordination::KeyValueStore& store = client_.key_value_store();
  const int self = client_.process_id();
  const std::string verdict_key = place + "/verdict", message_key = place + "/message";
  if (self != processes.front()) {
    store.set(fmt::format("{}/{}", place, self), json_text(nlohmann::json(own)));
    if (get(verdict_key, timeout) == kSame) return;
    store.set(fmt::format("{}/log/{}", place, self), own_log());
    const std::string message = get(message_key, std::nullopt);
    on_difference_({}, message);
    throw DivergenceError(message);
  }
  std::map<int, std::vector<Launches>> said;
  for (const int process : processes) {
    said[process] =
        process == self
            ? own
            : parse_json(get(fmt::format("{}/{}", place, process), timeout)).get<std::vector<Launches>>();
  }
  const std::optional<Difference> difference = find_difference(said);
  store.set(verdict_key, difference ? "different" : kSame);
  if (!difference) return;
  const std::string message = fmt::format(
      "the processes launch different programs: {}. Their collectives would mix the data of both; all "
      "processes must launch the same programs, on the same shapes, in the same order",
      with_logs(place, processes, difference->text));
  store.set(message_key, message);
  on_difference_(difference->minority, message);
  throw DivergenceError(message);
}

std::optional<LaunchAgreement::Difference> LaunchAgreement::find_difference(
    const std::map<int, std::vector<Launches>>& said) const {
  std::map<Fingerprint, std::vector<int>> members;
  std::map<std::pair<Fingerprint, int>, Launches> launches;
  for (const auto& [process, groups] : said) {
    for (const Launches& each : groups) {
      members[each.group] = each.processes;
      launches[{each.group, process}] = each;
    }
  }
  const auto describe = [&](const Launches& of, int process) {
    return fmt::format("process {} of {} has made {} launches over these devices{}", process,
                       client_.num_processes(), of.launches,
                       of.last.empty() ? "" : "; the last new program was " + of.last);
  };
  for (const auto& [group, processes] : members) {
    std::vector<std::pair<int, std::uint64_t>> hashes;
    for (const int process : processes) hashes.emplace_back(process, launches[{group, process}].hash);
    const auto other =
        std::ranges::find_if(hashes, [&](const auto& each) { return each.second != hashes.front().second; });
    if (other == hashes.end()) continue;
    const int first = processes.front(), second = other->first;
    return Difference{collectives::minority(hashes),
                      fmt::format("{}, but {}", describe(launches[{group, first}], first),
                                  describe(launches[{group, second}], second))};
  }
  return std::nullopt;
}

std::string LaunchAgreement::own_log() const {
  watch::ProcessReport report;
  if (const watch::Memory* memory = watch::memory()) report = watch::Reader(*memory).read(/*with_logs=*/true);
  report.process = client_.process_id();
  return json_text(watch::to_json(report));
}

std::string LaunchAgreement::with_logs(const std::string& place, const std::vector<int>& processes,
                                       std::string otherwise) {
  std::vector<watch::ProcessReport> reports;
  try {
    for (const int process : processes) {
      const std::string log = process == client_.process_id()
                                  ? own_log()
                                  : get(fmt::format("{}/log/{}", place, process), kForLogs);
      reports.push_back(watch::from_json(parse_json(log)));
    }
  } catch (const TimeoutError&) {
    return otherwise;
  }
  const auto difference = watch::find_difference(reports);
  return difference ? watch::describe(*difference, client_.num_processes()) : otherwise;
}

}  // namespace lockstep::runtime
