// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/hosts_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {

HostsCommunicator::HostsCommunicator(Job& job, std::vector<Member> members, HostLayout layout,
                                     std::unique_ptr<SharedCommunicator> local)
    : job_(job),
      members_(std::move(members)),
      layout_(std::move(layout)),
      host_([&] {
        const int self = job.options().process_index;
        const auto own = [&](const Member& member) { return member.process == self; };
        return layout_.host_of[std::find_if(members_.begin(), members_.end(), own) - members_.begin()];
      }()),
      local_(std::move(local)),
      blocks_(job.options().reproducible_sums ? std::optional(HostBlocks(layout_.hosts, size()))
                                              : std::nullopt),
      tree_(blocks_ ? std::optional(SumTree(size())) : std::nullopt),
      locals_(members_.size()) {
  if (local_ != nullptr) local_->belong_to(members_);
  for (int rank = 0; rank < size(); ++rank) {
    if (members_[rank].process != job.options().process_index) continue;
    locals_[rank] = std::make_unique<Local>();
    locals_[rank]->wire = std::make_unique<Wire>(job, members_, layout_, rank);
  }
}

int HostsCommunicator::rank_of(int device) const {
  for (int rank = 0; rank < size(); ++rank) {
    if (members_[rank].device == device) return rank;
  }
  return -1;
}

void HostsCommunicator::wake_sleepers() {
  if (local_ != nullptr) local_->wake_sleepers();
}

void HostsCommunicator::run(const Call& call, int rank, const void* in, void* out) {
  if (broken_.load(std::memory_order_acquire)) std::rethrow_exception(broken_cause_);
  job_.check();
  Local& local = *locals_[rank];
  if (local.plans.size() >= kMostPlans && !local.plans.contains(call.signature)) local.plans.clear();
  Plan& plan = local.plans[call.signature];
  if (plan.text != call.text) {
    plan.text = call.text;
    plan.steps.clear();
  }
  const Task task{
      call,  rank, layout_.index_of[rank], static_cast<const std::byte*>(in), static_cast<std::byte*>(out),
      local, plan};
  local.wire->next_operation();
  try {
    if (call.input_bytes * size() <= kSmallBytes) {
      run_small(task);
    } else {
      run_large(task);
    }
  } catch (...) {
    local.wire->abandon();
    fail_all(std::current_exception());
    throw;
  }
}

void HostsCommunicator::fail_all(std::exception_ptr cause) {
  {
    std::lock_guard lock(broken_mutex_);
    if (!broken_) {
      broken_cause_ = cause;
      broken_.store(true, std::memory_order_release);
    }
  }
  try {
    std::rethrow_exception(cause);
  } catch (const DivergenceError&) {
    // The thread that found it has told all processes.
  } catch (const std::exception& error) {
    // Also if it came from another host: processes of this host may have no other source.
    job_.peers().tell_failure(error.what());
  }
  job_.abort(cause);
}

std::byte* HostsCommunicator::Task::scratch(int which, std::size_t bytes) const {
  std::vector<std::byte>& memory = local.scratch[which];
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

void HostsCommunicator::run_local(const Task& task, const Collective& collective, const void* in, void* out) {
  const Collective& c = collective;
  auto [it, added] =
      task.plan.steps.try_emplace({static_cast<int>(c.kind), static_cast<int>(c.dtype), c.count, c.root});
  Call& step = it->second;
  if (added) {
    step = make_call(c, local_count());
    step.text = task.call.text;
    step.signature = fingerprint(fmt::format("{} {} {} on one host", task.call.signature, step.signature,
                                             job_.algorithms().fingerprint()));
  }
  step.step_of = task.wire().operation(task.call);
  Wire::Elsewhere elsewhere(task.wire());
  local_->run(step, task.index, in, out);
}

void HostsCommunicator::gather(const Task& task, const void* in, void* out, std::size_t bytes) {
  if (local_ == nullptr) {
    if (bytes != 0 && in != out) std::memcpy(out, in, bytes);
    return;
  }
  run_local(task, {.kind = Kind::kAllGather, .dtype = DType::kU8, .count = static_cast<std::int64_t>(bytes)},
            in, out);
}

void HostsCommunicator::spread(const Task& task, const void* in, void* out, std::size_t bytes, int root) {
  if (local_ == nullptr) {
    if (bytes != 0 && in != out) std::memcpy(out, in, bytes);
    return;
  }
  run_local(task,
            {.kind = Kind::kBroadcast,
             .dtype = DType::kU8,
             .count = static_cast<std::int64_t>(bytes),
             .root = root},
            in, out);
}

void HostsCommunicator::run_small(const Task& task) {
  const std::size_t bytes = task.call.input_bytes;
  std::byte* all = task.scratch(0, kSmallBytes);  // Host by host.
  const std::size_t before = static_cast<std::size_t>(layout_.before[host_]) * bytes;
  gather(task, task.in, all + before, bytes);
  if (layout_.leader(host_) == task.rank) {
    if (task.wire().tells_all()) {
      task.wire().begin(task.call, all + before, local_count() * bytes);
      std::size_t at = 0;
      for (int host = 0; host < layout_.host_count(); ++host) {
        const std::size_t theirs = layout_.local_count(host) * bytes;
        if (host != host_) {
          const std::byte* told = task.wire().wait_for_leader(host);
          if (theirs != 0) std::memcpy(all + at, told, theirs);
        }
        at += theirs;
      }
      watch::all_arrived();
    } else {
      task.wire().begin(task.call);
      gather_between_leaders(task, all + before, bytes, all);
    }
    task.wire().end();
  }
  if (local_ != nullptr) {
    spread(task, all, all, size() * bytes, 0);
    watch::all_arrived();  // only the leader knew before
  }
  combine(task, all);
}

/// `own` are the inputs of this host's members, which are in `all` already; each has `bytes`.
void HostsCommunicator::gather_between_leaders(const Task& task, const std::byte* own, std::size_t bytes,
                                               std::byte* all) {
  if (bytes == 0) return;  // Telling each other the call was all.
  // Blocks of one size for all hosts.
  const std::size_t block = static_cast<std::size_t>(layout_.most) * bytes;
  std::byte* padded = task.scratch(1, (layout_.host_count() + 1) * block);
  std::byte* mine = padded + layout_.host_count() * block;
  std::memcpy(mine, own, local_count() * bytes);
  exchange(task, Kind::kAllGather, block, mine, padded);
  for (int host = 0; host < layout_.host_count(); ++host) {
    const std::size_t theirs = layout_.local_count(host) * bytes;
    if (theirs != 0) std::memcpy(all, padded + host * block, theirs);
    all += theirs;
  }
}

void HostsCommunicator::combine(const Task& task, const std::byte* inputs) const {
  const Collective& c = task.call.collective;
  if (task.call.output_bytes == 0) return;
  const std::size_t part = c.count * size_of(c.dtype);
  std::vector<const std::byte*> input(members_.size());
  for (const std::vector<int>& ranks : layout_.hosts) {
    for (int rank : ranks) {
      input[rank] = inputs;
      inputs += task.call.input_bytes;
    }
  }
  switch (c.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      std::vector<const void*> sources;
      for (const std::byte* data : input) {
        sources.push_back(data + (c.kind == Kind::kReduceScatter ? task.rank * part : 0));
      }
      if (!is_in_fixed_order(task, c.kind)) {
        reduce(c.op, c.dtype, sources.data(), size(), c.count, task.out, nullptr, false);
        break;
      }
      std::vector<Term> terms;
      for (const void* source : sources) terms.push_back({source});
      reduce(c.op, c.dtype, {terms.data(), size(), &*tree_}, c.count, {task.out});
      break;
    }
    case Kind::kAllGather:
      for (int rank = 0; rank < size(); ++rank) std::memcpy(task.out + rank * part, input[rank], part);
      break;
    case Kind::kAllToAll:
      for (int rank = 0; rank < size(); ++rank) {
        std::memcpy(task.out + rank * part, input[rank] + task.rank * part, part);
      }
      break;
    case Kind::kPermute: {
      const auto to_this = [&](auto pair) { return pair.second == task.rank; };
      const auto pair = std::find_if(c.pairs.begin(), c.pairs.end(), to_this);
      if (pair == c.pairs.end()) {
        std::memset(task.out, 0, part);
      } else {
        std::memcpy(task.out, input[pair->first], part);
      }
      break;
    }
    case Kind::kBroadcast:
      std::memcpy(task.out, input[c.root], part);
      break;
    case Kind::kBarrier:
      break;
  }
}

void HostsCommunicator::run_large(const Task& task) {
  task.wire().begin(task.call);
  if (!task.plan.connected) {
    task.wire().connect(partners(task.call, task.rank));
    task.plan.connected = true;
  }
  switch (task.call.collective.kind) {
    case Kind::kAllReduce:
      run_all_reduce(task);
      break;
    case Kind::kReduceScatter:
      run_reduce_scatter(task);
      break;
    case Kind::kAllGather:
      run_all_gather(task);
      break;
    case Kind::kAllToAll:
      run_all_to_all(task);
      break;
    case Kind::kPermute:
      run_permute(task);
      break;
    case Kind::kBroadcast:
      run_broadcast(task);
      break;
    case Kind::kBarrier:
      break;
  }
  task.wire().end();
}

/// The ranks of other hosts to which `rank` sends, or which send to it, in the order of the hosts. Exchanges
/// by rounds connect themselves.
std::vector<int> HostsCommunicator::partners(const Call& call, int rank) const {
  const Collective& c = call.collective;
  std::vector<bool> wanted(members_.size());
  const auto link = [&](int a, int b) {
    if (layout_.same_host(a, b)) return;
    if (a == rank) wanted[b] = true;
    if (b == rank) wanted[a] = true;
  };
  switch (c.kind) {
    case Kind::kAllToAll:
      if (!goes_directly(call.input_bytes / members_.size())) break;
      for (int other = 0; other < size(); ++other) link(rank, other);
      break;
    case Kind::kPermute:
      for (auto [from, to] : c.pairs) link(from, to);
      break;
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
    case Kind::kAllGather:
    case Kind::kBroadcast:
    case Kind::kBarrier:
      break;
  }
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    if (wanted[other]) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace lockstep::collectives
