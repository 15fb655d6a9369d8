// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/collector.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/watch/memory.h"
#include "lockstep/watch/proc_state.h"
#include "lockstep/watch/proportional_memory.h"
#include "lockstep/watch/reader.h"

namespace lockstep::cli {
namespace {

constexpr int kFullLooks = 5;  // so seldom are all threads of a process looked at that launches something
constexpr std::chrono::seconds kBetweenSearches(5);  // of /proc for a process that is not found

}  // namespace

struct Collector::Watched {
  ~Watched() { watch::unmap_memory(memory); }

  watch::Memory* memory = nullptr;
  std::unique_ptr<watch::Reader> reader;
  pid_t pid = 0;
  Steady::time_point started;
  bool ended = false;

  int writer = 0, found = 0;  // the pid of the process that writes, in its own pid namespace and in /proc
  Steady::time_point next_search;
  std::map<int, int> tids;  // in /proc, of its threads by the tids in its own pid namespace

  // The pid in /proc of the process that uses Lockstep; 0 if it is not found there.
  int find() {
    const int own_pid = reader == nullptr ? 0 : reader->pid();
    if (own_pid == 0) return watch::find_process(pid, pid, watch::own_pid_namespace());
    const Steady::time_point now = Steady::now();
    if (writer == own_pid && (found != 0 || now < next_search)) return found;
    writer = own_pid;
    found = watch::find_process(pid, own_pid, reader->pid_namespace());
    next_search = now + kBetweenSearches;
    return found;
  }

  // Values from the previous look.
  Steady::time_point at;
  std::map<int, std::uint64_t> ticks_of_thread;
  std::uint64_t ticks = 0, launches = 0;
  watch::Evidence evidence;
  watch::ProportionalMemory memory_of_it;
  std::uint64_t memory_bytes = 0;
  double cpu_share = 0;
  int looks = 0;
};

Collector::Collector() = default;
Collector::~Collector() = default;

int Collector::add(int process) {
  auto watched = std::make_unique<Watched>();
  int descriptor = watch::create_memory();
  watched->memory = watch::map_memory(descriptor);
  if (descriptor >= 0 && watched->memory == nullptr) {
    const int error = errno;
    close(std::exchange(descriptor, -1));
    errno = error;
  }
  if (watched->memory != nullptr) watched->reader = std::make_unique<watch::Reader>(*watched->memory);
  watched_[process] = std::move(watched);
  return descriptor;
}

void Collector::started(int process, pid_t pid) {
  watched_[process]->pid = pid;
  watched_[process]->started = Steady::now();
}

pid_t Collector::pid(int process) {
  Watched& watched = *watched_.at(process);
  const pid_t found = watched.find();
  return found != 0 ? found : watched.pid;
}

watch::ProcessReport Collector::report(int process, Watched& watched, bool with_logs) {
  watch::ProcessReport report;
  if (watched.reader != nullptr) report = watched.reader->read(with_logs);
  report.process = process;
  report.age_seconds = std::chrono::duration<double>(Steady::now() - watched.started).count();
  const int pid = watched.find();
  if (!report.came) report.pid = watched.pid;
  const bool moves = report.launches != watched.launches;
  watched.launches = report.launches;
  if (!watched.ended && (!moves || watched.looks++ % kFullLooks == 0)) {
    const watch::ProcessState state = pid == 0 ? watch::ProcessState() : watch::read_process_state(pid);
    const Steady::time_point now = Steady::now();
    const double passed = std::chrono::duration<double>(now - watched.at).count();
    const auto share = [&](std::uint64_t before, std::uint64_t after) {
      return before == 0 || passed <= 0 || after < before ? 0
                                                          : watch::seconds_of_ticks(after - before) / passed;
    };
    const watch::ThreadReport* const foremost = report.foremost();
    const int tid = foremost == nullptr ? report.pid : foremost->tid;
    watched.evidence = {};
    if (pid != 0 && !state.exists) watched.evidence.state = 'X';
    std::map<int, std::uint64_t> ticks;
    watched.tids.clear();
    for (const watch::ThreadState& thread : state.threads) {
      ticks[thread.own_tid] = thread.cpu_ticks;
      watched.tids[thread.own_tid] = thread.tid;
      if (thread.own_tid != tid) continue;
      const auto before = watched.ticks_of_thread.find(tid);
      const double used = before == watched.ticks_of_thread.end()
                              ? 0
                              : share(std::max<std::uint64_t>(before->second, 1), thread.cpu_ticks);
      watched.evidence = watch::evidence_of(thread, state.own_pid, used);
    }
    // A process of which one thread is stopped is stopped.
    if (state.exists && (state.state == 'T' || state.state == 't' || state.state == 'Z'))
      watched.evidence.state = state.state;
    watched.cpu_share = share(watched.ticks, state.cpu_ticks);
    watched.memory_bytes = state.exists ? watched.memory_of_it.look(pid, state.rss_bytes) : 0;
    watched.ticks_of_thread = std::move(ticks);
    watched.ticks = state.cpu_ticks;
    watched.at = now;
  }
  // Others know the process and its threads by their numbers in /proc.
  if (pid != report.pid) {
    for (watch::ThreadReport& thread : report.threads) {
      const auto known = watched.tids.find(thread.tid);
      thread.tid = known == watched.tids.end() ? 0 : known->second;
    }
    report.pid = pid != 0 ? pid : watched.pid;
  }
  report.evidence = watched.evidence;
  report.cpu_share = watched.cpu_share;
  report.memory_bytes = watched.memory_bytes;
  return report;
}

std::vector<watch::ProcessReport> Collector::look(bool with_logs) {
  next_look_ = Steady::now() + kInterval;
  std::vector<watch::ProcessReport> reports;
  for (auto& [process, watched] : watched_) {
    if (watched->pid != 0 && !watched->ended) reports.push_back(report(process, *watched, with_logs));
  }
  return reports;
}

watch::ProcessReport Collector::last_words(int process, const std::string& how) {
  Watched& watched = *watched_[process];
  watched.ended = true;
  watch::ProcessReport last = report(process, watched, /*with_logs=*/true);
  last.ended = how;
  last.evidence = {};
  return last;
}

TraceChunk Collector::events(int process, watch::TickClock& clock, bool unfinished) {
  TraceChunk chunk{.process = process};
  const auto found = watched_.find(process);
  if (found == watched_.end()) return chunk;
  chunk.pid = found->second->pid;
  watch::Reader* const reader = found->second->reader.get();
  if (reader == nullptr) return chunk;
  chunk.events = reader->events(clock, &chunk.lost);
  if (unfinished) {
    for (watch::EventReport& event : reader->unfinished(clock)) chunk.events.push_back(std::move(event));
  }
  return chunk;
}

}  // namespace lockstep::cli
