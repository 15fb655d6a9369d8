// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/recorder.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "lockstep/base/text.h"
#include "lockstep/watch/memory.h"
#include "lockstep/watch/proc_state.h"

namespace lockstep::watch {
namespace {

constexpr std::size_t kLongestText = 64 << 10;

std::atomic<Memory*> chosen{nullptr};
std::atomic<bool> looked{false};

void forget_in_child() {
  // A child must not write what its parent does.
  chosen.store(nullptr, std::memory_order_release);
}

// Whether this process is the one that writes here; a process that has ended leaves its place to the next.
bool claim(Memory& memory) {
  const pid_t self = getpid();
  const std::uint64_t pid_namespace = own_pid_namespace();
  std::int32_t before = 0;
  if (memory.header.pid.compare_exchange_strong(before, self)) {
    memory.header.pid_namespace = pid_namespace;
    return true;
  }
  // A pid in another namespace may be that of any process here.
  if (memory.header.pid_namespace != pid_namespace) return false;
  if (before == self) return true;
  if (kill(before, 0) == 0 || errno != ESRCH) return false;
  if (!memory.header.pid.compare_exchange_strong(before, self)) return false;
  for (Thread& thread : memory.threads) {
    thread.tid = 0;
    thread.depth = 0;
  }
  for (MeshLog& mesh : memory.meshes) {
    mesh.mesh = 0;
    mesh.launches = 0;
    mesh.unordered = 0;
    mesh.unchecked = 0;
  }
  for (Group& group : memory.groups) group.group = 0;
  for (Link& link : memory.links) link.used = 0;
  for (DeviceMemory& device : memory.devices) device.limit = 0;
  return true;
}

Memory* open_memory() {
  const char* wanted = std::getenv("LOCKSTEP_RECORDER");
  if (wanted != nullptr && std::string_view(wanted) == "0") return nullptr;
  Memory* memory = nullptr;
  if (const char* text = std::getenv(kDescriptorVariable)) {
    int descriptor = -1;
    std::from_chars(text, text + std::strlen(text), descriptor);
    memory = map_memory(descriptor);
    if (memory != nullptr && !claim(*memory)) {
      munmap(memory, sizeof(Memory));
      memory = nullptr;
    } else if (memory != nullptr) {
      close(descriptor);
    }
  }
  if (memory == nullptr) {
    memory = map_private_memory();
    if (memory == nullptr) return nullptr;
    claim(*memory);
  }
  Header& header = memory->header;
  header.process = -1;
  header.step = -1;
  header.clock = machine_clock();
  header.magic.store(kMagic, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, forget_in_child);
  return memory;
}

/// The texts that are written, by their bytes.
class Texts {
 public:
  template <class Show>
  TextId find_or_add(Memory& memory, std::string_view text, std::size_t room, Show show) {
    std::lock_guard lock(mutex_);
    if (no_room_ == 0) no_room_ = add(memory, "(one of more names than are kept)", kTextBytes);
    const Fingerprint key = fingerprint(text);
    if (const auto it = ids_.find(key); it != ids_.end()) return it->second;
    const TextId id = add(memory, show(text), room);
    if (id != 0) ids_.emplace(key, id);
    return id;
  }

  TextId no_room() const { return no_room_; }

 private:
  static TextId add(Memory& memory, const std::string& text, std::size_t room) {
    std::uint32_t used = memory.header.texts.load(relaxed);
    if (used == 0) used = 8;  // 0 is no text
    const auto length = static_cast<std::uint32_t>(text.size());
    if (text.size() > room || used + sizeof(length) + length > room) return 0;
    std::memcpy(memory.texts.data() + used, &length, sizeof(length));
    std::memcpy(memory.texts.data() + used + sizeof(length), text.data(), length);
    memory.header.texts.store((used + static_cast<std::uint32_t>(sizeof(length)) + length + 7) & ~7U,
                              std::memory_order_release);
    return used;
  }

  std::mutex mutex_;
  std::unordered_map<Fingerprint, TextId> ids_;
  TextId no_room_ = 0;
};

Texts& texts() {
  static auto& all = *new Texts;
  return all;
}

/// This thread's place in the memory. No destructor, so that no access pays for a check whether it was made.
struct Place {
  Thread* thread = nullptr;
  Memory* memory = nullptr;
  Clock clock = Clock::kMonotonicNs;

  /// The same as watch::memory() after the first call.
  bool known() const { return memory != nullptr && memory == chosen.load(relaxed); }
  Thread* find();
  Thread* get() { return known() ? thread : find(); }
};

constinit thread_local Place place;

/// Leaves the thread's place when the thread ends. The first thread keeps its place: its activities after
/// main, such as shutdown(), count, too.
struct Leaver {
  Thread* thread = nullptr;
  Memory* memory = nullptr;

  ~Leaver() {
    if (thread == nullptr || watch::memory() != memory || thread->tid.load(relaxed) == getpid()) return;
    place.thread = nullptr;  // what ends after this is not recorded
    thread->tid.store(0, std::memory_order_release);
  }
};

thread_local Leaver leaver;

Thread* Place::find() {
  Memory* const now = watch::memory();
  if (now == memory) return thread;
  *this = {nullptr, now, machine_clock()};
  if (now == nullptr) return nullptr;
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (Thread& each : now->threads) {
    std::int32_t nobody = 0;
    if (!each.tid.compare_exchange_strong(nobody, tid, std::memory_order_acq_rel)) continue;
    each.depth.store(0, relaxed);
    each.missing.store(0, relaxed);
    each.last_until.store(0, relaxed);
    thread = &each;
    break;
  }
  leaver.thread = thread;
  leaver.memory = now;
  return thread;
}

/// While it exists, the fields under the version are being written.
class Writing {
 public:
  explicit Writing(Thread& thread) : thread_(thread), version_(thread.version.load(relaxed) | 1U) {
    thread_.version.store(version_, relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Writing() { thread_.version.store(version_ + 1, std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Thread& thread_;
  const std::uint32_t version_;
};

void add(std::atomic<std::uint64_t>& total, std::uint64_t amount) {
  total.store(total.load(relaxed) + amount, relaxed);  // one writer
}

// Adds an entry to the process's totals.
void count(Thread& thread, Kind kind, Ticks since, Ticks arrived, Ticks now) {
  switch (kind) {
    case Kind::kLaunch:
      add(thread.launches, 1);
      add(thread.launch_ticks, now - since);
      return;
    case Kind::kCollective: {
      const Ticks until = arrived == 0 ? now : arrived;
      add(thread.collectives, 1);
      add(thread.wait_ticks, until - since);
      add(thread.transfer_ticks, now - until);
      return;
    }
    case Kind::kConnect:
    case Kind::kBarrier:
    case Kind::kAnswer:
      add(thread.wait_ticks, now - since);
      return;
    case Kind::kInput:
      add(thread.input_ticks, now - since);
      return;
    default:
      return;
  }
}

TextId id_of_line(std::string_view text, std::size_t most) {
  Memory* const here = memory();
  if (here == nullptr || text.empty()) return 0;
  const TextId id = texts().find_or_add(*here, text, kTextBytes,
                                        [most](std::string_view each) { return shown(each, most); });
  return id != 0 ? id : texts().no_room();
}

/// A name as the text before its number, and the number.
struct NumberedName {
  TextId what = 0;
  std::uint64_t number = 0;  // the number plus 1; 0: none
};

NumberedName numbered(std::string_view name) {
  constexpr std::size_t kMostDigits = 18;
  std::size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  const std::string_view digits = name.substr(begin);
  const bool plain = digits.size() == 1 || !digits.starts_with('0');  // as the number is written
  if (digits.empty() || digits.size() > kMostDigits || !plain) return {id_of_line(name, kLongestShown), 0};
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return {id_of_line(name.substr(0, begin), kLongestShown), number + 1};
}

}  // namespace

Memory* memory() {
  if (looked.load(std::memory_order_acquire)) return chosen.load(relaxed);
  static std::once_flag once;
  std::call_once(once, [] {
    chosen.store(open_memory(), std::memory_order_release);
    looked.store(true, std::memory_order_release);
  });
  return chosen.load(relaxed);
}

void set_process(int process, int process_count) {
  Memory* const here = memory();
  if (here == nullptr) return;
  here->header.process_count = process_count;
  here->header.process = process;
}

TextId text(std::string_view text) { return id_of_line(text, kLongestText); }

TextId text_of_lines(std::string_view text) {
  Memory* const here = memory();
  if (here == nullptr || text.empty()) return 0;
  return texts().find_or_add(*here, text, kTextBytes / 2,
                             [](std::string_view each) { return shown_lines(each); });
}

TextId text(const CallSite& site) {
  struct Known {
    const char* file = nullptr;
    std::uint32_t line = 0;
    TextId id = 0;
  };
  // Places are few, and the pointers are constants of the program.
  thread_local std::array<Known, 64> known;
  if (!site.known() || memory() == nullptr) return 0;
  Known& here = known[(reinterpret_cast<std::uintptr_t>(site.file) / 8 + site.line) % known.size()];
  if (here.file != site.file || here.line != site.line || here.id == 0)
    here = {site.file, site.line, text(std::string_view(site.to_string()))};
  return here.id;
}

void set_metrics(std::int64_t step, std::string_view json) {
  Memory* const here = memory();
  if (here == nullptr) return;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  Header& header = here->header;
  header.step = step;
  if (json.size() > kMetricsBytes) json = "{}";
  const std::uint32_t version = header.metrics_version.load(relaxed) | 1U;
  header.metrics_version.store(version, relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t at = 0; at < json.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, json.data() + at, std::min<std::size_t>(8, json.size() - at));
    header.metrics[at / 8].store(word, relaxed);
  }
  header.metrics_bytes.store(static_cast<std::uint32_t>(json.size()), relaxed);
  header.metrics_version.store(version + 1, std::memory_order_release);
}

void set_step(std::int64_t step) {
  if (Memory* const here = memory()) here->header.step = step;
}

void set_device_memory(std::size_t device, std::uint64_t in_use, std::uint64_t limit) {
  Memory* const here = memory();
  if (here == nullptr || device >= kDevices) return;
  here->devices[device].in_use.store(in_use, relaxed);
  here->devices[device].limit.store(limit, relaxed);
}

Thread* begin_doing(Kind kind, TextId what, TextId site, std::uint64_t number, std::uint32_t mesh) {
  Thread* const thread = place.get();
  if (thread == nullptr) return nullptr;
  const Writing writing(*thread);
  const std::uint32_t depth = thread->depth.load(relaxed);
  if (depth < kDepth) {
    Entry& entry = thread->entries[depth];
    entry.since.store(ticks(place.clock), relaxed);
    entry.arrived.store(0, relaxed);
    entry.number.store(number, relaxed);
    entry.operation.store(0, relaxed);
    entry.kind.store(kind, relaxed);
    entry.what.store(what, relaxed);
    entry.site.store(site, relaxed);
    entry.mesh.store(mesh, relaxed);
  }
  thread->missing.store(0, relaxed);
  thread->depth.store(depth + 1, relaxed);
  // The ring is larger than the first cache.
  __builtin_prefetch(&thread->events[thread->next_event.load(relaxed) % kEvents], 1);
  return thread;
}

Thread* begin_doing(Kind kind, std::string_view what, const CallSite& site) {
  const NumberedName name = numbered(what);
  return begin_doing(kind, name.what, text(site), name.number);
}

void end_doing(Thread* thread) {
  if (thread == nullptr || !place.known()) return;
  const std::uint32_t depth = thread->depth.load(relaxed) - 1;
  if (depth >= kDepth) {
    thread->depth.store(depth, relaxed);
    return;
  }
  const Entry& entry = thread->entries[depth];
  const Ticks now = ticks(place.clock), since = entry.since.load(relaxed),
              arrived = entry.arrived.load(relaxed);
  const Kind kind = entry.kind.load(relaxed);
  const TextId what = entry.what.load(relaxed), site = entry.site.load(relaxed);
  const std::uint64_t number = thread->next_event.load(relaxed);
  Event& event = thread->events[number % kEvents];
  event.since.store(since, relaxed);
  event.arrived.store(arrived, relaxed);
  event.until.store(now, relaxed);
  event.number.store(entry.number.load(relaxed), relaxed);
  event.operation.store(entry.operation.load(relaxed), relaxed);
  event.kind.store(kind, relaxed);
  event.what.store(what, relaxed);
  event.site.store(site, relaxed);
  event.depth.store(depth | entry.mesh.load(relaxed) << 16, relaxed);
  thread->next_event.store(number + 1, std::memory_order_release);
  count(*thread, kind, since, arrived, now);
  const Writing writing(*thread);
  thread->depth.store(depth, relaxed);
  thread->missing.store(0, relaxed);
  if (depth == 0 || is_phase(thread->entries[0].kind.load(relaxed))) {
    thread->last_until.store(now, relaxed);
    thread->last_kind.store(kind, relaxed);
    thread->last_what.store(what, relaxed);
    thread->last_site.store(site, relaxed);
    thread->last_number.store(entry.number.load(relaxed), relaxed);
  }
}

Doing::Doing(Kind kind, TextId what, TextId site, std::uint64_t number, std::uint32_t mesh)
    : thread_(begin_doing(kind, what, site, number, mesh)) {}
Doing::Doing(Kind kind, std::string_view what, const CallSite& site)
    : thread_(begin_doing(kind, what, site)) {}
Doing::~Doing() { end_doing(thread_); }

Kind innermost() {
  const Thread* const thread = place.get();
  const std::uint32_t depth = thread == nullptr ? 0 : thread->depth.load(relaxed);
  return depth == 0 || depth > kDepth ? Kind::kNone : thread->entries[depth - 1].kind.load(relaxed);
}

void all_arrived() {
  Thread* const thread = place.get();
  if (thread == nullptr) return;
  const std::uint32_t depth = thread->depth.load(relaxed);
  if (depth == 0 || depth > kDepth) return;
  Entry& entry = thread->entries[depth - 1];
  if (entry.arrived.load(relaxed) == 0) entry.arrived.store(ticks(place.clock), relaxed);
  waits_no_more();
}

void waits_no_more() {
  Thread* const thread = place.get();
  if (thread == nullptr || thread->missing.load(relaxed) == 0) return;
  const Writing writing(*thread);
  thread->missing.store(0, relaxed);
}

void waits_for(std::span<const int> processes, std::uint64_t operation, std::uint64_t group,
               std::uint64_t count) {
  Thread* const thread = place.get();
  if (thread == nullptr) return;
  const Writing writing(*thread);
  const std::uint32_t depth = thread->depth.load(relaxed);
  if (depth == 0 || depth > kDepth) return;
  Entry& entry = thread->entries[depth - 1];
  entry.operation.store(operation, relaxed);
  entry.group.store(group, relaxed);
  entry.count.store(count, relaxed);
  for (std::size_t i = 0; i < std::min(processes.size(), kMissing); ++i)
    thread->missing_processes[i].store(processes[i], relaxed);
  thread->missing.store(static_cast<std::uint32_t>(processes.size()), relaxed);
}

std::atomic<std::uint64_t>* begun_place(std::uint64_t group, int device) {
  static std::mutex mutex;
  Memory* const here = memory();
  if (here == nullptr) return nullptr;
  std::lock_guard lock(mutex);
  for (Group& each : here->groups) {
    const std::uint64_t known = each.group.load(relaxed);
    if (known != 0 && (known != group || each.device.load(relaxed) != device)) continue;
    each.begun.store(0, relaxed);
    each.device.store(device, relaxed);
    each.group.store(group, std::memory_order_release);
    return &each.begun;
  }
  return nullptr;
}

Link* link_place(int process) {
  Memory* const here = memory();
  if (here == nullptr) return nullptr;
  for (Link& link : here->links) {
    std::int32_t unused = 0;
    if (!link.used.compare_exchange_strong(unused, 1)) continue;
    link.process.store(process, relaxed);
    return &link;
  }
  return nullptr;
}

class MeshPlace {
 public:
  MeshPlace(MeshLog& log, std::uint32_t index) : log_(log), index_(index) {}

  std::uint64_t count(const ProgramTexts& program, TextId site) {
    std::lock_guard lock(mutex_);
    const auto thread = static_cast<const void*>(&place);
    if (thread_ != thread) {
      if (thread_ != nullptr) log_.unordered.store(1, relaxed);
      thread_ = thread;
    }
    const std::uint64_t number = log_.launches.load(relaxed) + 1;
    hash_ = combine(hash_, program.program);
    Launch& launch = log_.log[number % kLaunches];
    launch.number.store(0, relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    launch.hash.store(hash_, relaxed);
    launch.program.store(program.program, relaxed);
    launch.site.store(site, relaxed);
    launch.what.store(program.what, relaxed);
    launch.text.store(program.text, relaxed);
    launch.number.store(number, std::memory_order_release);
    log_.launches.store(number, std::memory_order_release);
    return number;
  }
  std::uint32_t index() const { return index_; }

 private:
  MeshLog& log_;
  const std::uint32_t index_;
  std::mutex mutex_;
  Fingerprint hash_ = 0;
  const void* thread_ = nullptr;  // of the last launch
};

MeshPlace* mesh_place(Fingerprint mesh, std::string_view processes, bool unchecked) {
  static std::mutex mutex;
  static auto& places = *new std::map<Fingerprint, std::unique_ptr<MeshPlace>>;
  Memory* const here = memory();
  if (here == nullptr) return nullptr;
  std::lock_guard lock(mutex);
  if (const auto it = places.find(mesh); it != places.end()) return it->second.get();
  if (places.size() >= kMeshes) return nullptr;
  const std::size_t index = places.size();
  MeshLog& log = here->meshes[index];
  log.processes = text(processes);
  log.unchecked.store(unchecked ? 1 : 0, relaxed);
  log.mesh.store(mesh, std::memory_order_release);
  return (places[mesh] = std::make_unique<MeshPlace>(log, static_cast<std::uint32_t>(index + 1))).get();
}

std::uint64_t count_launch(MeshPlace& place, const ProgramTexts& program, TextId site) {
  return place.count(program, site);
}

std::uint32_t index_of(const MeshPlace& place) { return place.index(); }

}  // namespace lockstep::watch
