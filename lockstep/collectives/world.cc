// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/world.h"

#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/hosts_communicator.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/shared_communicator.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

class WorldImpl : public World {
 public:
  explicit WorldImpl(const WorldOptions& options) : job_(options, [this] { wake_sleepers(); }) {}

  Communicator& communicator(const std::vector<int>& devices, const std::string& doing) override {
    std::shared_ptr<Entry> entry;
    {
      std::lock_guard lock(mutex_);
      auto& slot = entries_[devices];
      if (slot == nullptr) slot = std::make_shared<Entry>();
      entry = slot;
    }
    std::lock_guard lock(entry->setting_up);
    if (entry->made.communicator == nullptr) {
      Made made = set_up(devices, doing);
      std::lock_guard also(mutex_);
      entry->made = std::move(made);
    }
    return *entry->made.communicator;
  }

  void abort(std::exception_ptr cause) override { job_.abort(std::move(cause)); }

  void tell_divergence(const std::string& message) override { job_.peers().tell_divergence(message); }

  void leave() override { job_.peers().leave(); }

  Handouts& handouts() override { return job_.handouts(); }

  const WorldOptions& options() const override { return job_.options(); }

 private:
  struct Made {
    std::unique_ptr<Communicator> communicator;
    std::function<void()> wake;  ///< Wakes whoever sleeps in it.
  };
  struct Entry {
    std::mutex setting_up;
    Made made;
  };

  /// Of another process's arena.
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

  Made set_up(const std::vector<int>& devices, const std::string& doing) {
    std::vector<Member> members = members_of(devices);
    HostLayout layout(members, job_.options());
    if (layout.host_count() == 1) {
      Segment segment = share_segment(members, fmt::format("{}", fmt::join(devices, ",")), devices, doing);
      std::vector<const std::byte*> arenas = share_arenas(members, devices, doing);
      auto made = std::make_unique<SharedCommunicator>(job_, std::move(members), std::move(segment),
                                                       std::move(arenas));
      const auto wake = [communicator = made.get()] { communicator->wake_sleepers(); };
      return {std::move(made), wake};
    }
    std::vector<Member> here;
    for (const Member& member : members) {
      if (!is_remote(job_.options(), member.process)) here.push_back(member);
    }
    std::unique_ptr<SharedCommunicator> local;
    if (here.size() > 1) {
      // The devices of this host may also have a communicator of their own.
      Segment segment =
          share_segment(here, fmt::format("{} on one host", fmt::join(devices, ",")), devices, doing);
      // What they reduce on the way to other hosts is in no arena.
      local = std::make_unique<SharedCommunicator>(job_, here, std::move(segment),
                                                   std::vector<const std::byte*>(here.size()));
    }
    auto made =
        std::make_unique<HostsCommunicator>(job_, std::move(members), std::move(layout), std::move(local));
    const auto wake = [communicator = made.get()] { communicator->wake_sleepers(); };
    return {std::move(made), wake};
  }

  /// The process of the first member creates the memory and hands it to the others. All are on this host.
  Segment share_segment(const std::vector<Member>& members, const std::string& name,
                        const std::vector<int>& devices, const std::string& doing) {
    const int self = job_.options().process_index;
    std::vector<int> processes;
    for (const Member& member : members) {
      if (std::find(processes.begin(), processes.end(), member.process) == processes.end()) {
        processes.push_back(member.process);
      }
    }
    const auto check = [&] { job_.check(); };
    LongWait wait(
        job_, own_device(members), /*operation=*/{}, [&] { return process_text(); },
        [&] { return doing_text(devices, doing); });
    const watch::Doing connecting(watch::Kind::kConnect,
                                  doing.empty() ? std::string_view("a collective") : doing);
    const auto check_and_look = [&] {
      job_.check();
      wait.look({members.front().device});
    };
    int lost = self;
    try {
      for (int process : processes) {
        lost = process;
        if (process != self) job_.peers().wait_connected(process, check);
      }
      const std::string key = fmt::format("{:016x}", fingerprint(name));
      lost = processes.front();
      if (processes.front() != self) {
        return Segment::open(job_.peers().receive(processes.front(), key, check_and_look),
                             static_cast<int>(members.size()));
      }
      auto [segment, fd] = Segment::create(static_cast<int>(members.size()));
      for (int process : processes) {
        if (process != self) job_.peers().send(process, key, fd.get());
      }
      return std::move(segment);
    } catch (const PeerFailure&) {
      job_.check_peer(lost, fmt::format("process {} set up a communicator with it", self));
      throw;
    }
  }

  /// Where this process can read the members' arenas; null for members without one. Each pair of processes
  /// exchanges this once.
  std::vector<const std::byte*> share_arenas(const std::vector<Member>& members,
                                             const std::vector<int>& devices, const std::string& doing) {
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
    std::vector<const std::byte*> bases;
    for (const Member& member : members) {
      if (member.process == self) {
        bases.push_back(job_.options().arena != nullptr ? job_.options().arena->base() : nullptr);
        continue;
      }
      View& view = view_of(member.process);
      std::lock_guard lock(view.mutex);
      if (!view.arena) {
        LongWait wait(
            job_, own_device(members), /*operation=*/{}, [&] { return process_text(); },
            [&] { return doing_text(devices, doing); });
        try {
          const FileDescriptor fd = job_.peers().receive(member.process, key, [&] {
            job_.check();
            wait.look({member.device});
          });
          view.arena.emplace(fd);
        } catch (const PeerFailure&) {
          job_.check_peer(member.process, fmt::format("process {} set up a communicator with it", self));
          throw;
        }
      }
      bases.push_back(view.arena->base());
    }
    return bases;
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

  static std::string doing_text(const std::vector<int>& devices, const std::string& doing) {
    return doing.empty() ? fmt::format("a collective over the devices [{}]", fmt::join(devices, ", "))
                         : doing;
  }

  void wake_sleepers() {
    std::lock_guard lock(mutex_);
    for (auto& [devices, entry] : entries_) {
      if (entry->made.communicator != nullptr) entry->made.wake();
    }
  }

  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<Entry>> entries_;
  std::set<int> told_;  // the processes that have been told of the own arena
  std::map<int, View> views_;
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
      fail("a device is said to belong to process {}, but there are {} processes", process,
           options.process_count);
    }
  }
  return std::make_unique<WorldImpl>(options);
}

}  // namespace lockstep::collectives
