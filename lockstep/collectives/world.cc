// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/world.h"

#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/minority.h"
#include "lockstep/collectives/shared_communicator.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::milliseconds kLook(50);  ///< Between two looks for failures.
constexpr std::chrono::milliseconds kTryAgain(1);
constexpr int kTriesALook = 50;
constexpr std::chrono::milliseconds kStorePoll(250);     ///< The same, where each takes a call of the store.
constexpr std::chrono::milliseconds kConnectAfter(700);  ///< to the process whose list does not come
constexpr std::chrono::milliseconds kListsTimeout(500);  ///< For the others' lists after a divergence.

class WorldImpl : public World {
 public:
  explicit WorldImpl(const WorldOptions& options) : job_(options, [this] { wake_sleepers(); }) {
    if (options.arena != nullptr && options.arena->base() != nullptr) own_arena_.emplace(*options.arena);
  }

  Communicator& communicator(const std::vector<int>& devices, const std::string& doing, int device) override {
    const std::shared_ptr<Entry> entry = entry_of(devices);
    std::unique_lock lock(entry->mutex);
    if (entry->made.communicator != nullptr) return *entry->made.communicator;
    const std::vector<Member> members = members_of(devices);
    const Purpose purpose{devices, doing.empty() ? "a collective" : std::string_view(doing),
                          device < 0 ? own_device(members) : device, *entry};
    if (entry->being_made) {
      LongWait wait = long_wait(purpose);
      while (entry->being_made) {
        if (entry->changed.wait_for(lock, kLook, [&] { return !entry->being_made; })) break;
        const std::vector<int> awaited = entry->awaited;
        lock.unlock();
        wait.look(awaited);  // the same as the thread that sets it up
        lock.lock();
      }
      if (entry->made.communicator != nullptr) return *entry->made.communicator;
    }
    entry->being_made = true;
    lock.unlock();
    const auto done = [&](Made made) {
      lock.lock();
      entry->being_made = false;
      entry->changed.notify_all();
      std::lock_guard also(mutex_);
      entry->made = std::move(made);
    };
    try {
      done(set_up(members, purpose));
    } catch (...) {
      done({});
      throw;
    }
    return *entry->made.communicator;
  }

  void abort(std::exception_ptr cause) override { job_.abort(std::move(cause)); }

  void leave() override { job_.peers().leave(); }

  Handouts& handouts() override { return job_.handouts(); }

  const WorldOptions& options() const override { return job_.options(); }

 private:
  struct Made {
    std::unique_ptr<Communicator> communicator;
    std::function<void()> wake;  ///< Wakes whoever sleeps in it.
  };
  static Fingerprint digest(const std::vector<int>& devices) {
    return fingerprint(fmt::format("{}", fmt::join(devices, ",")));
  }

  struct Entry {
    /// The same for all processes, in whatever order each lists the devices.
    std::string name;
    Made made;  // written under both mutexes, its own and that of the World
    std::mutex mutex;
    std::condition_variable changed;
    bool being_made = false;
    std::vector<int> awaited;  // the devices for which the thread that makes it waits
  };
  /// The operation for which a thread sets up a communicator.
  struct Purpose {
    const std::vector<int>& devices;
    std::string_view doing;
    int device;  ///< which the thread drives
    Entry& entry;

    std::string text() const {
      constexpr std::size_t kShown = 32;
      const std::string rest =
          devices.size() > kShown ? fmt::format(", ... ({} in all)", devices.size()) : std::string();
      return fmt::format("{} over the devices [{}{}]", doing,
                         fmt::join(std::span(devices).first(std::min(devices.size(), kShown)), ", "), rest);
    }
    /// A digest of the list; not 0.
    Fingerprint list() const { return digest(devices) | 1; }
  };

  /// A view of another process's arena.
  struct View {
    std::mutex mutex;
    std::optional<ArenaView> arena;
  };

  std::vector<Member> members_of(const std::vector<int>& devices) const {
    const WorldOptions& options = job_.options();
    std::vector<Member> members;
    for (int device : devices) {
      if (device < 0 || device >= static_cast<int>(options.device_process.size())) {
        fail("a collective over the devices [{}] names device {}, but there are {} devices",
             fmt::join(devices, ", "), device, options.device_process.size());
      }
      members.push_back({device, options.device_process[device]});
    }
    std::vector<int> sorted = devices;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      fail("a collective over the devices [{}] names a device twice", fmt::join(devices, ", "));
    }
    if (std::none_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.process == options.process_index; })) {
      fail("a collective over the devices [{}] was called by process {}, which has none of them",
           fmt::join(devices, ", "), options.process_index);
    }
    return members;
  }

  std::shared_ptr<Entry> entry_of(const std::vector<int>& devices) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& slot = entries_[devices];
    if (slot == nullptr) {
      slot = std::make_shared<Entry>();
      std::vector<int> sorted = devices;
      std::ranges::sort(sorted);
      const int number = numbers_[sorted]++;
      slot->name = fmt::format("{:016x}-{}", digest(sorted), number);
    }
    return slot;
  }

  Made set_up(std::vector<Member> members, const Purpose& purpose) {
    HostLayout layout(members, job_.options());
    if (layout.host_count() == 1) {
      Segment segment = share_segment(members, purpose);
      std::vector<ArenaView*> arenas = share_arenas(members, purpose);
      auto made = std::make_unique<SharedCommunicator>(job_, std::move(members), std::move(segment),
                                                       std::move(arenas));
      const auto wake = [communicator = made.get()] { communicator->wake_sleepers(); };
      return {std::move(made), wake};
    }
    agree_between_hosts(members, layout.host_count(), purpose);
    std::vector<Member> here;
    for (const Member& member : members) {
      if (!is_remote(job_.options(), member.process)) here.push_back(member);
    }
    std::unique_ptr<SharedCommunicator> local;
    if (here.size() > 1) {
      Segment segment = share_segment(here, purpose);
      // Data that they reduce on the way to other hosts is in no arena.
      local = std::make_unique<SharedCommunicator>(job_, here, std::move(segment),
                                                   std::vector<ArenaView*>(here.size()));
    }
    auto made =
        std::make_unique<HostsCommunicator>(job_, std::move(members), std::move(layout), std::move(local));
    const auto wake = [communicator = made.get()] { communicator->wake_sleepers(); };
    return {std::move(made), wake};
  }

  /// The first process of each host compares its list of devices with that of the first process of all.
  void agree_between_hosts(const std::vector<Member>& members, int hosts, const Purpose& purpose) {
    const WorldOptions& options = job_.options();
    int first = options.process_index, first_here = first;
    for (const Member& member : members) {
      first = std::min(first, member.process);
      if (!is_remote(options, member.process)) first_here = std::min(first_here, member.process);
    }
    if (options.process_index != first_here) return;
    const std::string key = fmt::format("lockstep/cliques/{}/{}", options.job_id, purpose.entry.name);
    if (options.process_index == first) {
      options.store->set(key, fmt::format("{} {}", purpose.list(), purpose.text()), /*allow_overwrite=*/true);
      return;
    }
    LongWait wait = long_wait(purpose);
    const watch::Doing connecting(watch::Kind::kConnect, purpose.doing);
    // All hosts ask one coordinator.
    const auto poll = std::max(kStorePoll, std::chrono::milliseconds(hosts / 4));
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::string> theirs;
    while (!theirs) {
      job_.check();
      // Only a connected peer tells that the processes diverge.
      if (std::chrono::steady_clock::now() - start > kConnectAfter)
        job_.peers().wait_connected(first, [&] { job_.check(); });
      job_.check_peer(first, fmt::format("process {} set up a communicator with it", options.process_index));
      try {
        theirs = options.store->get(key, poll);
      } catch (const TimeoutError&) {
        look(wait, members, first, purpose);
      }
    }
    const std::size_t space = theirs->find(' ');
    if (theirs->substr(0, space) == std::to_string(purpose.list())) return;
    job_.peers().wait_connected(first, [&] { job_.check(); });  // it is told
    diverge({{first, 0, theirs->substr(space + 1)}, {options.process_index, 1, purpose.text()}});
  }

  /// The lowest process creates the memory and hands it to the others. All are on this host. Each compares
  /// its list of devices with the creator's.
  Segment share_segment(const std::vector<Member>& members, const Purpose& purpose) {
    const int self = job_.options().process_index;
    const std::set<int> processes = processes_of(members);
    const int creator = *processes.begin();
    LongWait wait = long_wait(purpose);
    const watch::Doing connecting(watch::Kind::kConnect, purpose.doing);
    int lost = self;
    try {
      for (int process : processes) {
        lost = process;
        if (process != self) job_.peers().wait_connected(process, [&] { job_.check(); });
      }
      const std::string& key = purpose.entry.name;
      lost = creator;
      if (creator != self) {
        const FileDescriptor fd = job_.peers().receive(creator, key, [&] {
          job_.check();
          look(wait, members, creator, purpose);
        });
        Segment segment = Segment::open(fd, static_cast<int>(members.size()));
        tell_list(words_of(segment, members, self), purpose);
        const MemberWords& theirs = words_of(segment, members, creator);
        if (theirs.list.load(std::memory_order_acquire) != purpose.list()) compare_lists(segment, members);
        return segment;
      }
      auto [segment, fd] = Segment::create(static_cast<int>(members.size()));
      tell_list(words_of(segment, members, self), purpose);
      for (int process : processes) {
        if (process != self) job_.peers().send(process, key, fd.get());
      }
      return std::move(segment);
    } catch (const PeerFailure&) {
      job_.check_peer(lost, fmt::format("process {} set up a communicator with it", self));
      throw;
    }
  }

  static std::set<int> processes_of(const std::vector<Member>& members) {
    std::set<int> processes;
    for (const Member& member : members) processes.insert(member.process);
    return processes;
  }

  /// Where a process tells how it lists the devices: the same place in whatever order each lists them.
  static MemberWords& words_of(const Segment& segment, const std::vector<Member>& members, int process) {
    int first = -1;
    for (const Member& member : members)
      if (member.process == process && (first < 0 || member.device < first)) first = member.device;
    const auto place =
        std::ranges::count_if(members, [&](const Member& each) { return each.device < first; });
    return segment.words(static_cast<int>(place));
  }

  static void tell_list(MemberWords& words, const Purpose& purpose) {
    set_text(words, purpose.text());
    words.list.store(purpose.list(), std::memory_order_release);
  }

  /// Throws DivergenceError. Waits for a moment for the others' lists, to tell which are the exceptions.
  [[noreturn]] void compare_lists(const Segment& segment, const std::vector<Member>& members) {
    const auto end = std::chrono::steady_clock::now() + kListsTimeout;
    std::vector<List> lists;
    for (const int process : processes_of(members)) {
      const MemberWords& words = words_of(segment, members, process);
      std::uint64_t list = 0;
      while ((list = words.list.load(std::memory_order_acquire)) == 0 &&
             std::chrono::steady_clock::now() < end) {
        job_.check();
        std::this_thread::sleep_for(kTryAgain);
      }
      if (list != 0) lists.push_back({process, list, text_of(words)});
    }
    diverge(lists);
  }

  /// How a process lists the devices of a communicator.
  struct List {
    int process;
    std::uint64_t digest;
    std::string text;
  };

  [[noreturn]] void diverge(const std::vector<List>& lists) {
    std::vector<std::pair<int, std::uint64_t>> digests;
    for (const List& list : lists) digests.emplace_back(list.process, list.digest);
    const std::vector<int> odd = minority(digests);
    const auto is_odd = [&](const List& list) { return std::ranges::binary_search(odd, list.process); };
    // All tell the same two: an exception, and the first of those that differ from it.
    const List *one = &*std::ranges::find_if(lists, is_odd),
               *other =
                   &*std::ranges::find_if(lists, [&](const List&list) { return list.digest != one->digest; });
    if (other->process < one->process) std::swap(one, other);
    const int of = job_.options().process_count;
    const std::string message = fmt::format(
        "process {} of {} is in {}, but process {} of {} in {}: all processes must run the same programs, "
        "over meshes with the same devices in the same order",
        one->process, of, one->text, other->process, of, other->text);
    job_.diverge(digests, message);
  }

  /// The members' arenas; null for members without one. Each pair of processes exchanges this once.
  std::vector<ArenaView*> share_arenas(const std::vector<Member>& members, const Purpose& purpose) {
    const int self = job_.options().process_index;
    const std::string key = "blocks";
    {
      std::lock_guard lock(mutex_);
      for (const Member& member : members) {
        if (member.process == self || !told_.insert(member.process).second) continue;
        const Arena* own = job_.options().arena;
        FileDescriptor fd = own != nullptr ? own->descriptor_to_read() : FileDescriptor();
        if (!fd) fd = FileDescriptor(memfd_create("lockstep-no-blocks", MFD_CLOEXEC));
        job_.peers().send(member.process, key, fd.get());
      }
    }
    std::vector<ArenaView*> arenas;
    for (const Member& member : members) {
      if (member.process == self) {
        arenas.push_back(own_arena_ ? &*own_arena_ : nullptr);
        continue;
      }
      View& view = view_of(member.process);
      LongWait wait = long_wait(purpose);
      std::unique_lock lock(view.mutex, std::try_to_lock);
      // Another thread, which sets up another communicator, waits for it.
      for (int tries = 1; !lock.owns_lock() && !lock.try_lock(); ++tries) {
        std::this_thread::sleep_for(kTryAgain);
        job_.check();
        if (tries % kTriesALook == 0) look(wait, members, member.process, purpose);
      }
      if (!view.arena) {
        try {
          const FileDescriptor fd = job_.peers().receive(member.process, key, [&] {
            job_.check();
            look(wait, members, member.process, purpose);
          });
          view.arena.emplace(fd);
        } catch (const PeerFailure&) {
          job_.check_peer(member.process, fmt::format("process {} set up a communicator with it", self));
          throw;
        }
      }
      arenas.push_back(view.arena->is_readable() ? &*view.arena : nullptr);
    }
    return arenas;
  }

  /// Not to outlive the purpose.
  LongWait long_wait(const Purpose& purpose) {
    return LongWait(
        job_, purpose.device, /*operation=*/{}, [&] { return process_text(); },
        [&purpose] { return purpose.text(); });
  }

  /// Any of the process's members would do.
  void look(LongWait& wait, const std::vector<Member>& members, int process, const Purpose& purpose) {
    std::vector<int> awaited;
    for (const Member& member : members)
      if (member.process == process) awaited.push_back(member.device);
    {
      std::lock_guard lock(purpose.entry.mutex);
      purpose.entry.awaited = awaited;
    }
    wait.look(awaited);
  }

  View& view_of(int process) {
    std::lock_guard lock(mutex_);
    return views_[process];
  }

  int own_device(const std::vector<Member>& members) const {
    const int self = job_.options().process_index;
    return std::ranges::find(members, self, &Member::process)->device;
  }

  std::string process_text() const {
    return fmt::format("process {} of {}", job_.options().process_index, job_.options().process_count);
  }

  void wake_sleepers() {
    std::lock_guard lock(mutex_);
    for (auto& [devices, entry] : entries_) {
      if (entry->made.communicator != nullptr) entry->made.wake();
    }
  }

  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<Entry>> entries_;
  std::map<std::vector<int>, int> numbers_;  // of the communicators of these devices, ascending
  std::set<int> told_;                       // the processes that have been told of the own arena
  std::map<int, View> views_;
  std::optional<ArenaView> own_arena_;
  mutable Job job_;  // After what its thread uses through wake_sleepers, so that it goes first.
};

}  // namespace

std::unique_ptr<World> World::create(WorldOptions options) {
  if (options.process_index < 0 || options.process_index >= options.process_count) {
    fail("process {} of {}: the index is out of range", options.process_index, options.process_count);
  }
  if (options.process_count > 1 && options.store == nullptr) {
    fail("a job of {} processes needs a key-value store to find its peers", options.process_count);
  }
  if (!options.process_host.empty() &&
      static_cast<int>(options.process_host.size()) != options.process_count) {
    fail("the hosts of {} processes are given, but there are {} processes", options.process_host.size(),
         options.process_count);
  }
  for (int process : options.device_process) {
    if (process < 0 || process >= options.process_count) {
      fail("a device belongs to process {}, but there are {} processes", process, options.process_count);
    }
  }
  return std::make_unique<WorldImpl>(options);
}

}  // namespace lockstep::collectives
