// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "lockstep/base/text.h"

namespace lockstep::watch {
namespace {

constexpr double kFreshSeconds = 3;  // what was seen of a connection before says nothing of it now
constexpr int kTries = 200;  // for a version that does not change: a writer that was killed never ends

std::uint64_t launch_number(Kind kind, std::uint64_t number) { return kind == Kind::kLaunch ? number : 0; }

}  // namespace

/// The last durations of a launch.
struct Reader::Usual {
  std::vector<double> last;
  std::size_t next = 0;

  void add(double seconds) {
    constexpr std::size_t kKept = 31;
    if (last.size() < kKept) {
      last.push_back(seconds);
    } else {
      last[next++ % kKept] = seconds;
    }
  }
  double median() const {
    std::vector<double> sorted = last;
    if (sorted.empty()) return 0;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                     sorted.end());
    return sorted[sorted.size() / 2];
  }
};

Reader::Reader(const Memory& memory) : memory_(memory), seen_(kThreads), seen_for_durations_(kThreads) {}
Reader::~Reader() = default;

std::string Reader::text(TextId id) {
  if (id == 0) return "";
  if (const auto known = texts_.find(id); known != texts_.end()) return known->second;
  const std::uint32_t used =
      std::min<std::uint32_t>(memory_.header.texts.load(std::memory_order_acquire), kTextBytes);
  std::uint32_t length = 0;
  if (id + sizeof(length) > used) return "";
  std::memcpy(&length, memory_.texts.data() + id, sizeof(length));
  if (length > used - id - sizeof(length)) return "";
  std::string bytes(memory_.texts.data() + id + sizeof(length), length);
  if (!is_utf8(bytes)) bytes = shown_lines(bytes);
  if (length < 4096) texts_[id] = bytes;
  return bytes;
}

std::string Reader::name(Kind kind, TextId what, std::uint64_t number) {
  std::string name = text(what);
  if (kind != Kind::kLaunch && number != 0) name += std::to_string(number - 1);
  return name;
}

/// A thread as it was at one moment.
struct Reader::RawThread {
  struct Raw {
    Kind kind;
    TextId what, site;
    Ticks since, arrived;
    std::uint64_t number, operation;
    std::uint32_t mesh;
    std::uint64_t group, count;
  };
  std::array<Raw, kDepth> entries;
  std::size_t depth = 0, missing = 0;
  std::array<int, kMissing> missing_processes;
  Ticks last_until = 0;
  Kind last_kind = Kind::kNone;
  TextId last_what = 0, last_site = 0;
  std::uint64_t last_number = 0;
};

Reader::RawThread Reader::read_raw(const Thread& thread) {
  RawThread raw;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t version = thread.version.load(std::memory_order_acquire);
    raw.depth = std::min<std::size_t>(thread.depth.load(relaxed), kDepth);
    raw.missing = thread.missing.load(relaxed);
    for (std::size_t d = 0; d < raw.depth; ++d) {
      const Entry& entry = thread.entries[d];
      raw.entries[d] = {entry.kind.load(relaxed),      entry.what.load(relaxed),
                        entry.site.load(relaxed),      entry.since.load(relaxed),
                        entry.arrived.load(relaxed),   entry.number.load(relaxed),
                        entry.operation.load(relaxed), entry.mesh.load(relaxed),
                        entry.group.load(relaxed),     entry.count.load(relaxed)};
    }
    for (std::size_t m = 0; m < std::min(raw.missing, kMissing); ++m)
      raw.missing_processes[m] = thread.missing_processes[m].load(relaxed);
    raw.last_until = thread.last_until.load(relaxed);
    raw.last_kind = thread.last_kind.load(relaxed);
    raw.last_what = thread.last_what.load(relaxed);
    raw.last_site = thread.last_site.load(relaxed);
    raw.last_number = thread.last_number.load(relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 == 0 && thread.version.load(relaxed) == version) break;
  }
  return raw;
}

std::uint64_t Reader::mesh_of(std::uint32_t place) const {
  return place > 0 && place <= kMeshes ? memory_.meshes[place - 1].mesh.load(relaxed) : 0;
}

ThreadReport Reader::read_thread(const Thread& thread, Ticks now) {
  const RawThread raw = read_raw(thread);
  ThreadReport report;
  report.tid = thread.tid.load(relaxed);
  report.launches = thread.launches.load(relaxed);
  for (std::size_t d = 0; d < raw.depth; ++d) {
    Activity activity{.kind = raw.entries[d].kind,
                      .what = name(raw.entries[d].kind, raw.entries[d].what, raw.entries[d].number),
                      .site = text(raw.entries[d].site),
                      .seconds = clock_->seconds(raw.entries[d].since, now),
                      .arrived = raw.entries[d].arrived != 0,
                      .number = launch_number(raw.entries[d].kind, raw.entries[d].number),
                      .operation = raw.entries[d].operation};
    activity.mesh = mesh_of(raw.entries[d].mesh);
    if (activity.operation != 0) {
      activity.group = raw.entries[d].group;
      activity.count = raw.entries[d].count;
    }
    if (const auto usual = usual_.find({raw.entries[d].what, raw.entries[d].site}); usual != usual_.end())
      activity.usual_seconds = usual->second.median();
    report.doing.push_back(std::move(activity));
  }
  if (raw.depth > 0) {
    report.missing_count = static_cast<int>(raw.missing);
    report.missing.assign(
        raw.missing_processes.begin(),
        raw.missing_processes.begin() + static_cast<std::ptrdiff_t>(std::min(raw.missing, kMissing)));
  }
  if (raw.last_until != 0)
    report.last = {raw.last_kind, name(raw.last_kind, raw.last_what, raw.last_number), text(raw.last_site),
                   clock_->seconds(raw.last_until, now)};
  return report;
}

MeshReport Reader::read_mesh(const MeshLog& mesh, bool with_log) {
  MeshReport report{.mesh = mesh.mesh.load(std::memory_order_acquire),
                    .processes = text(mesh.processes.load(relaxed)),
                    .unordered = mesh.unordered.load(relaxed) != 0,
                    .unchecked = mesh.unchecked.load(relaxed) != 0};
  std::set<std::uint64_t> written;  // programs whose texts are in the log
  const auto read_launch = [&](std::uint64_t number, bool with_texts) -> std::optional<LaunchReport> {
    const Launch& launch = mesh.log[number % kLaunches];
    if (launch.number.load(std::memory_order_acquire) != number) return std::nullopt;
    LaunchReport one{
        .number = number, .hash = launch.hash.load(relaxed), .program = launch.program.load(relaxed)};
    const TextId site = launch.site.load(relaxed), what = launch.what.load(relaxed),
                 body = launch.text.load(relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (launch.number.load(relaxed) != number) return std::nullopt;
    if (with_texts) {
      one.site = text(site);
      one.what = text(what);
      if (written.insert(one.program).second) one.text = text(body);
    }
    return one;
  };
  for (int i = 0; i < kTries && report.hash == 0; ++i) {
    report.launches = mesh.launches.load(std::memory_order_acquire);
    if (report.launches == 0) break;
    if (const auto last = read_launch(report.launches, false)) report.hash = last->hash;
  }
  if (!with_log) return report;
  const std::uint64_t kept = std::min<std::uint64_t>(report.launches, kLaunches);
  for (std::uint64_t i = 1; i <= kept; ++i) {
    if (auto launch = read_launch(report.launches - kept + i, true)) report.log.push_back(std::move(*launch));
  }
  return report;
}

void Reader::read_groups(ProcessReport& report) const {
  for (const Group& group : memory_.groups) {
    const std::uint64_t digest = group.group.load(std::memory_order_acquire),
                        begun = group.begun.load(relaxed);
    if (digest == 0) continue;
    const auto known = std::ranges::find(report.groups, digest, &GroupReport::group);
    if (known == report.groups.end()) {
      report.groups.push_back({digest, begun});
    } else {
      known->begun = std::min(known->begun, begun);
    }
  }
}

void Reader::read_links(ProcessReport& report) const {
  using std::chrono::steady_clock;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
  const auto since = [&](std::int64_t then) { return std::max(1e-9 * static_cast<double>(now - then), 0.0); };
  for (const Link& link : memory_.links) {
    if (link.used.load(std::memory_order_acquire) == 0) continue;
    const std::int64_t looked = link.looked.load(std::memory_order_acquire),
                       unanswered = link.unanswered.load(relaxed);
    if (looked == 0 || since(looked) > kFreshSeconds) continue;
    const LinkReport one{link.process.load(relaxed), unanswered == 0 ? 0 : since(unanswered)};
    const auto known = std::ranges::find(report.links, one.process, &LinkReport::process);
    if (known == report.links.end()) {
      report.links.push_back(one);
    } else {
      known->unanswered_seconds = std::max(known->unanswered_seconds, one.unanswered_seconds);
    }
  }
}

void Reader::look_at_durations() {
  for (std::size_t t = 0; t < kThreads; ++t) {
    const Thread& thread = memory_.threads[t];
    const std::uint64_t next = thread.next_event.load(std::memory_order_acquire);
    std::uint64_t at = std::max(seen_for_durations_[t], next < kEvents / 2 ? 0 : next - kEvents / 2);
    for (; at < next; ++at) {
      const Event& event = thread.events[at % kEvents];
      const Kind kind = event.kind.load(relaxed);
      if (kind != Kind::kLaunch && kind != Kind::kResult) continue;
      const std::pair key{event.what.load(relaxed), event.site.load(relaxed)};
      const Ticks since = event.since.load(relaxed), until = event.until.load(relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (thread.next_event.load(relaxed) - at >= kEvents) continue;  // written over meanwhile
      if (usual_.size() < 1000 || usual_.contains(key)) usual_[key].add(clock_->seconds(since, until));
    }
    seen_for_durations_[t] = next;
  }
}

ProcessReport Reader::read(bool with_logs) {
  ProcessReport report;
  const Header& header = memory_.header;
  report.pid = pid();
  if (report.pid == 0 || header.magic.load(std::memory_order_acquire) != kMagic) return report;
  report.came = true;
  if (!clock_) clock_ = std::make_unique<TickClock>(header.clock.load(relaxed));
  report.process = header.process.load(relaxed);
  report.joined = report.process >= 0;
  report.step = header.step.load(relaxed);
  look_at_durations();
  const Ticks now = clock_->now();
  Ticks launch = 0, wait = 0, transfer = 0, input = 0;
  for (const Thread& thread : memory_.threads) {
    report.launches += thread.launches.load(relaxed);
    report.collectives += thread.collectives.load(relaxed);
    launch += thread.launch_ticks.load(relaxed);
    wait += thread.wait_ticks.load(relaxed);
    transfer += thread.transfer_ticks.load(relaxed);
    input += thread.input_ticks.load(relaxed);
    if (thread.tid.load(std::memory_order_acquire) != 0) report.threads.push_back(read_thread(thread, now));
  }
  report.launch_seconds = clock_->seconds(0, launch);
  report.wait_seconds = clock_->seconds(0, wait);
  report.transfer_seconds = clock_->seconds(0, transfer);
  report.input_seconds = clock_->seconds(0, input);
  read_groups(report);
  read_links(report);
  for (const DeviceMemory& device : memory_.devices) {
    const std::uint64_t limit = device.limit.load(relaxed);
    if (limit != 0) report.device_memory.push_back({device.in_use.load(relaxed), limit});
  }
  for (const MeshLog& mesh : memory_.meshes) {
    if (mesh.mesh.load(std::memory_order_acquire) != 0) report.meshes.push_back(read_mesh(mesh, with_logs));
  }
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t version = header.metrics_version.load(std::memory_order_acquire);
    std::string bytes(kMetricsBytes, '\0');
    const std::size_t length = std::min<std::size_t>(header.metrics_bytes.load(relaxed), kMetricsBytes);
    for (std::size_t at = 0; at < length; at += 8) {
      const std::uint64_t word = header.metrics[at / 8].load(relaxed);
      std::memcpy(bytes.data() + at, &word, 8);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || header.metrics_version.load(relaxed) != version) continue;
    report.metrics = bytes.substr(0, length);
    break;
  }
  return report;
}

std::vector<EventReport> Reader::events(TickClock& clock, std::uint64_t* lost) {
  std::vector<EventReport> all;
  if (pid() == 0 || memory_.header.magic.load(std::memory_order_acquire) != kMagic) return all;
  clock.calibrate();
  for (std::size_t t = 0; t < kThreads; ++t) {
    const Thread& thread = memory_.threads[t];
    const std::uint64_t next = thread.next_event.load(std::memory_order_acquire);
    const std::uint64_t oldest = next < kEvents ? 0 : next - kEvents + 1;
    if (lost != nullptr && oldest > seen_[t]) *lost += oldest - seen_[t];
    const int tid = thread.tid.load(relaxed);
    for (std::uint64_t at = std::max(seen_[t], oldest); at < next; ++at) {
      const Event& event = thread.events[at % kEvents];
      const TextId what = event.what.load(relaxed), site = event.site.load(relaxed);
      const Ticks since = event.since.load(relaxed), arrived = event.arrived.load(relaxed),
                  until = event.until.load(relaxed);
      const std::uint32_t depth = event.depth.load(relaxed);
      const std::uint64_t number = event.number.load(relaxed);
      EventReport one{.kind = event.kind.load(relaxed),
                      .number = number,
                      .operation = event.operation.load(relaxed),
                      .depth = static_cast<int>(depth & 0xffff),
                      .thread = static_cast<int>(t),
                      .tid = tid};
      std::atomic_thread_fence(std::memory_order_acquire);
      if (thread.next_event.load(relaxed) - at >= kEvents) {
        if (lost != nullptr) ++*lost;
        continue;
      }
      one.what = name(one.kind, what, number);
      one.number = launch_number(one.kind, number);
      one.site = text(site);
      one.mesh = mesh_of(depth >> 16);
      one.since_ns = clock.to_monotonic_ns(since);
      one.arrived_ns = arrived == 0 ? 0 : clock.to_monotonic_ns(arrived);
      one.until_ns = clock.to_monotonic_ns(until);
      all.push_back(std::move(one));
    }
    seen_[t] = next;
  }
  return all;
}

std::vector<EventReport> Reader::unfinished(TickClock& clock) {
  std::vector<EventReport> all;
  if (pid() == 0 || memory_.header.magic.load(std::memory_order_acquire) != kMagic) return all;
  for (std::size_t t = 0; t < kThreads; ++t) {
    const Thread& thread = memory_.threads[t];
    const int tid = thread.tid.load(std::memory_order_acquire);
    if (tid == 0) continue;
    const RawThread raw = read_raw(thread);
    const std::int64_t now = clock.to_monotonic_ns(clock.now());
    for (std::size_t d = 0; d < raw.depth; ++d) {
      const RawThread::Raw& entry = raw.entries[d];
      all.push_back({.kind = entry.kind,
                     .what = name(entry.kind, entry.what, entry.number),
                     .site = text(entry.site),
                     .since_ns = clock.to_monotonic_ns(entry.since),
                     .arrived_ns = entry.arrived == 0 ? 0 : clock.to_monotonic_ns(entry.arrived),
                     .until_ns = now,
                     .number = launch_number(entry.kind, entry.number),
                     .operation = entry.operation,
                     .mesh = mesh_of(entry.mesh),
                     .depth = static_cast<int>(d),
                     .thread = static_cast<int>(t),
                     .tid = tid,
                     .finished = false});
    }
  }
  return all;
}

}  // namespace lockstep::watch
