#include "lockstep/collectives/registry.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/communicator.h"
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

struct Step {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::pair<Group*, int>> places;  ///< Of each position: its group and its rank there.
};

struct Entry {
  std::string name;
  std::vector<Step> steps;
  std::mutex mutex;
  std::vector<std::exception_ptr> errors;  ///< Of each position.
};

Step make_step(const ProgramCollectives& program, std::size_t index) {
  const Collective& collective = program.collectives[index];
  Step step;
  step.places.resize(program.devices.size());
  for (const std::vector<int>& positions : collective.groups) {
    auto group = std::make_unique<Group>();
    group->call = make_call(collective, static_cast<int>(positions.size()), program.program, program.name,
                            static_cast<std::int64_t>(index));
    group->text = watch::text(group->call.text);
    for (int position : positions) {
      if (position < 0 || position >= static_cast<int>(program.devices.size()) ||
          step.places[position].first != nullptr) {
        fail("{}: position {} is out of range, or in two groups, of a mesh of {} devices", group->call.text,
             position, program.devices.size());
      }
      step.places[position] = {group.get(), static_cast<int>(group->devices.size())};
      group->devices.push_back(program.devices[position]);
    }
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
    entry->name = program.name;
    entry->errors.resize(program.devices.size());
    for (std::size_t index = 0; index < program.collectives.size(); ++index) {
      entry->steps.push_back(make_step(program, index));
    }
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

  /// Null where it is not registered, or is no more.
  std::shared_ptr<Entry> find(Fingerprint program) {
    std::shared_lock lock(mutex_);
    auto it = entries_.find(program);
    return it == entries_.end() ? nullptr : it->second.lock();
  }

  void run(Entry& entry, std::int64_t index, std::int64_t position, const Operand& in, const Operand& out) {
    if (index < 0 || index >= static_cast<std::int64_t>(entry.steps.size())) {
      fail("program {} has {} collectives, but was asked for number {}", entry.name, entry.steps.size(),
           index);
    }
    auto [group, rank] = entry.steps[index].places[position];
    if (group == nullptr) {
      fail("program {}: position {} of the mesh is in no group of collective {}", entry.name, position,
           index);
    }
    check(in, group->call, group->call.input_bytes, "operand");
    check(out, group->call, group->call.output_bytes, "result");
    const watch::Doing doing(watch::Kind::kCollective, group->text, 0);
    try {
      Communicator* communicator = group->communicator.load(std::memory_order_acquire);
      if (communicator == nullptr) {
        communicator = &world_.communicator(group->devices, group->call.text);
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

 private:
  static constexpr std::size_t kFew = 64;

  World& world_;
  std::shared_mutex mutex_;
  std::unordered_map<Fingerprint, std::weak_ptr<Entry>> entries_;
  std::size_t most_ = kFew;  ///< At more than this it looks for those that are no more.
};

ProgramRegistry::ProgramRegistry(World& world) : impl_(std::make_unique<Impl>(world)) {
  ProgramRegistry* none = nullptr;
  if (!current_registry.compare_exchange_strong(none, this))
    fail("this process has a ProgramRegistry already");
}

ProgramRegistry::~ProgramRegistry() { current_registry = nullptr; }

ProgramRegistry* ProgramRegistry::current() { return current_registry.load(std::memory_order_acquire); }

std::shared_ptr<const void> ProgramRegistry::register_program(const ProgramCollectives& program) {
  return impl_->register_program(program);
}

void ProgramRegistry::run(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
                          const Operand& out) {
  const std::shared_ptr<Entry> entry = impl_->find(program);
  if (entry == nullptr) fail("collective {} of a program {:016x} that was not registered", index, program);
  if (position < 0 || position >= static_cast<std::int64_t>(entry->errors.size())) {
    fail("program {} has a mesh of {} devices, but was asked to run as position {}", entry->name,
         entry->errors.size(), position);
  }
  try {
    impl_->run(*entry, index, position, in, out);
  } catch (...) {
    std::lock_guard lock(entry->mutex);
    entry->errors[position] = std::current_exception();
    throw;
  }
}

std::exception_ptr ProgramRegistry::take_pending_error(Fingerprint program, int position) {
  const std::shared_ptr<Entry> entry = impl_->find(program);
  if (entry == nullptr || position < 0 || position >= static_cast<int>(entry->errors.size())) return nullptr;
  std::lock_guard lock(entry->mutex);
  return std::exchange(entry->errors[position], nullptr);
}

}  // namespace lockstep::collectives
