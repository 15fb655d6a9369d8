// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/registry.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/in_flight.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

std::atomic<ProgramRegistry*> current_registry{nullptr};

/// One collective as one group of the program's mesh does it.
struct Group {
  std::vector<int> devices;
  Call call;
  watch::TextId text = 0;                            ///< Of the call, for the recorder.
  std::atomic<Communicator*> communicator{nullptr};  ///< Found at the first use.
};

/// Where a device of this process is in a collective.
struct InGroup {
  int position;  ///< in the mesh
  Group* group;
  int rank;
};

/// One collective, as far as devices of this process take part.
struct Step {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<InGroup> places;
};

struct Entry {
  Fingerprint program = 0;
  std::string name;
  int mesh_size = 0;
  std::vector<Step> steps;
  mutable std::mutex mutex;
  mutable std::map<int, std::exception_ptr> errors;  ///< By position.
};

/// Calls `work`; keeps its exception for take_pending_error.
template <class Work>
void keeping_error(const Entry& entry, std::int64_t position, Work work) {
  if (position < 0 || position >= entry.mesh_size) {
    fail("program {} has a mesh of {} devices, but was asked to run as position {}", entry.name,
         entry.mesh_size, position);
  }
  try {
    work();
  } catch (...) {
    const std::lock_guard lock(entry.mutex);
    entry.errors[static_cast<int>(position)] = std::current_exception();
    throw;
  }
}

/// Keeps only this process's groups: there may be as many groups as the job has processes.
Step make_step(const ProgramCollectives& program, std::size_t index, const std::vector<int>& own_positions) {
  const Collective& collective = program.collectives[index];
  const auto mesh_size = static_cast<int>(program.devices.size());
  const auto refuse = [&](int position) {
    fail(
        "collective {} of program {}: position {} is out of range, or in two groups, of a mesh of {} devices",
        index, program.name, position, mesh_size);
  };
  Step step;
  for (const std::vector<int>& positions : collective.groups) {
    const std::size_t before = step.places.size();
    for (std::size_t rank = 0; rank < positions.size(); ++rank) {
      const int position = positions[rank];
      if (position < 0 || position >= mesh_size) refuse(position);
      if (!std::ranges::binary_search(own_positions, position)) continue;
      if (std::ranges::find(step.places, position, &InGroup::position) != step.places.end()) refuse(position);
      step.places.push_back({position, nullptr, static_cast<int>(rank)});
    }
    if (step.places.size() == before) continue;
    auto group = std::make_unique<Group>();
    group->call = make_call(collective, static_cast<int>(positions.size()), program.program, program.name,
                            static_cast<std::int64_t>(index));
    group->text = watch::text(group->call.text);
    for (const int position : positions)
      group->devices.push_back(program.devices[static_cast<std::size_t>(position)]);
    for (std::size_t i = before; i < step.places.size(); ++i) step.places[i].group = group.get();
    step.groups.push_back(std::move(group));
  }
  return step;
}

void check(const Operand& operand, const Call& call, std::size_t bytes, const char* which) {
  if (call.collective.kind == Kind::kBarrier) return;
  if (operand.bytes != bytes || operand.dtype != call.collective.dtype) {
    fail("{}: its {} has {} bytes of {}, but the plan says {} bytes of {}", call.text, which, operand.bytes,
         operand.dtype ? name(*operand.dtype) : "a dtype that Lockstep does not have", bytes,
         name(call.collective.dtype));
  }
}

}  // namespace

class ProgramRegistry::Impl {
 public:
  explicit Impl(World& world) : world_(world) {}

  std::shared_ptr<const void> register_program(const ProgramCollectives& program) {
    if (auto registered = find(program.program)) return registered;
    auto entry = std::make_shared<Entry>();
    entry->program = program.program;
    entry->name = program.name;
    entry->mesh_size = static_cast<int>(program.devices.size());
    const std::vector<int> own = own_positions(program.devices);
    for (std::size_t index = 0; index < program.collectives.size(); ++index)
      entry->steps.push_back(make_step(program, index, own));
    std::unique_lock lock(mutex_);
    std::weak_ptr<Entry>& place = entries_[program.program];
    if (auto registered = place.lock()) return registered;
    place = entry;
    if (entries_.size() > most_) {
      std::erase_if(entries_, [](const auto& each) { return each.second.expired(); });
      most_ = 2 * entries_.size() + kFew;
    }
    return entry;
  }

  /// Null if it is not registered, or no longer.
  std::shared_ptr<Entry> find(Fingerprint program) {
    std::shared_lock lock(mutex_);
    auto it = entries_.find(program);
    return it == entries_.end() ? nullptr : it->second.lock();
  }

  const InGroup& place_of(const Entry& entry, std::int64_t index, std::int64_t position) const {
    if (index < 0 || index >= static_cast<std::int64_t>(entry.steps.size())) {
      fail("program {} has {} collectives, but was asked for number {}", entry.name, entry.steps.size(),
           index);
    }
    const std::vector<InGroup>& places = entry.steps[static_cast<std::size_t>(index)].places;
    const auto place = std::ranges::find(places, position, &InGroup::position);
    if (place == places.end()) {
      fail("program {}: position {} of the mesh is in no group of collective {}, or of another process",
           entry.name, position, index);
    }
    return *place;
  }

  /// The collectives in flight of the device at this position.
  InFlight& in_flight(const Entry& entry, std::int64_t index, std::int64_t position) {
    const InGroup& place = place_of(entry, index, position);
    std::lock_guard lock(in_flight_mutex_);
    return in_flight_[place.group->devices[static_cast<std::size_t>(place.rank)]];
  }

  /// Waits for those that were started before, so that the device is in one collective at a time.
  void run(const Entry& entry, std::int64_t index, std::int64_t position, const Operand& in,
           const Operand& out) {
    if (started_.load(std::memory_order_relaxed) != 0) in_flight(entry, index, position).drain();
    run_now(entry, index, position, in, out);
  }

  void start(const std::shared_ptr<Entry>& entry, std::int64_t index, std::int64_t position,
             const Operand& in, const Operand& out) {
    InFlight& flights = in_flight(*entry, index, position);
    started_.fetch_add(1, std::memory_order_relaxed);
    flights.start({entry->program, index}, [=, this] { run_now(*entry, index, position, in, out); });
  }

  void finish(const Entry& entry, std::int64_t index, std::int64_t position) {
    InFlight& flights = in_flight(entry, index, position);
    started_.fetch_sub(1, std::memory_order_relaxed);
    flights.finish({entry.program, index});
  }

  void run_now(const Entry& entry, std::int64_t index, std::int64_t position, const Operand& in,
               const Operand& out) {
    const InGroup& place = place_of(entry, index, position);
    Group* const group = place.group;
    const int rank = place.rank;
    check(in, group->call, group->call.input_bytes, "operand");
    check(out, group->call, group->call.output_bytes, "result");
    const watch::Doing doing(watch::Kind::kCollective, group->text, 0);
    try {
      Communicator* communicator = group->communicator.load(std::memory_order_acquire);
      if (communicator == nullptr) {
        communicator = &world_.communicator(group->devices, group->call.text,
                                            group->devices[static_cast<std::size_t>(rank)]);
        group->communicator.store(communicator, std::memory_order_release);
      }
      communicator->run(group->call, rank, in.data, const_cast<void*>(out.data));
    } catch (const PeerFailure& failure) {
      const std::string_view cause = failure.what();
      if (cause.find(group->call.text) != cause.npos) throw;
      const WorldOptions& options = world_.options();
      fail<PeerFailure>("{}\nconsequence: process {} of {} ended its wait in {}", cause,
                        options.process_index, options.process_count, group->call.text);
    }
  }

  std::size_t kept_groups(Fingerprint program) {
    std::size_t count = 0;
    if (const auto entry = find(program))
      for (const Step& step : entry->steps) count += step.groups.size();
    return count;
  }

 private:
  static constexpr std::size_t kFew = 64;

  /// Ascending.
  std::vector<int> own_positions(const std::vector<int>& devices) const {
    const WorldOptions& options = world_.options();
    std::vector<int> own;
    for (std::size_t position = 0; position < devices.size(); ++position) {
      const auto device = static_cast<std::size_t>(devices[position]);
      // World reports the error for a device that does not exist.
      if (device >= options.device_process.size() || options.device_process[device] == options.process_index)
        own.push_back(static_cast<int>(position));
    }
    return own;
  }

  World& world_;
  std::shared_mutex mutex_;
  std::unordered_map<Fingerprint, std::weak_ptr<Entry>> entries_;
  std::size_t most_ = kFew;       ///< At more than this it looks for those that are no more.
  std::atomic<int> started_ = 0;  ///< by all devices, and not awaited; after an error perhaps more
  std::mutex in_flight_mutex_;
  std::map<int, InFlight> in_flight_;  ///< by device
};

ProgramRegistry::ProgramRegistry(World& world) : impl_(std::make_unique<Impl>(world)) {
  ProgramRegistry* none = nullptr;
  if (!current_registry.compare_exchange_strong(none, this))
    fail("this process already has a ProgramRegistry");
}

ProgramRegistry::~ProgramRegistry() { current_registry = nullptr; }

ProgramRegistry* ProgramRegistry::current() { return current_registry.load(std::memory_order_acquire); }

std::shared_ptr<const void> ProgramRegistry::register_program(const ProgramCollectives& program) {
  return impl_->register_program(program);
}

/// Calls `work` with the program's entry; keeps its exception for take_pending_error.
template <class Work>
void ProgramRegistry::with_entry(Fingerprint program, std::int64_t index, std::int64_t position, Work work) {
  const std::shared_ptr<Entry> entry = impl_->find(program);
  if (entry == nullptr)
    fail("collective {} belongs to program {:016x}, which was not registered", index, program);
  keeping_error(*entry, position, [&] { work(entry); });
}

void ProgramRegistry::run(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
                          const Operand& out) {
  with_entry(program, index, position,
             [&](const std::shared_ptr<Entry>& entry) { impl_->run(*entry, index, position, in, out); });
}

void ProgramRegistry::run(const std::shared_ptr<const void>& registered, std::int64_t index,
                          std::int64_t position, const Operand& in, const Operand& out) {
  const auto& entry = *static_cast<const Entry*>(registered.get());
  keeping_error(entry, position, [&] { impl_->run(entry, index, position, in, out); });
}

void ProgramRegistry::start(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
                            const Operand& out) {
  with_entry(program, index, position,
             [&](const std::shared_ptr<Entry>& entry) { impl_->start(entry, index, position, in, out); });
}

void ProgramRegistry::finish(Fingerprint program, std::int64_t index, std::int64_t position) {
  with_entry(program, index, position,
             [&](const std::shared_ptr<Entry>& entry) { impl_->finish(*entry, index, position); });
}

std::exception_ptr ProgramRegistry::take_pending_error(Fingerprint program, int position) {
  const std::shared_ptr<Entry> entry = impl_->find(program);
  if (entry == nullptr) return nullptr;
  std::lock_guard lock(entry->mutex);
  const auto error = entry->errors.extract(position);
  return error ? error.mapped() : nullptr;
}

std::size_t ProgramRegistry::kept_groups(Fingerprint program) const { return impl_->kept_groups(program); }

}  // namespace lockstep::collectives
