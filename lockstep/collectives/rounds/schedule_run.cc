// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/rounds/schedule_run.h"

#include <algorithm>
#include <cstring>

#include "lockstep/collectives/shares.h"

namespace lockstep::collectives {
namespace {

/// Where the areas are in a run's scratch memory: kReceived at its beginning, of which kScratch is the end.
struct Parts {
  Parts(const Schedule& schedule, const SumTypes& types) {
    const std::size_t scratch = schedule.scratch_bytes() * types.scale(Area::kScratch);
    const std::size_t received = schedule.received_bytes() * types.scale(Area::kReceived);
    partial = round_up(std::max(scratch, received), kLine);
    scratch_begin = partial - scratch;
    total = partial;
    if (types.partial != types.result) total += schedule.partial_bytes() * types.scale(Area::kPartial);
  }
  std::size_t scratch_begin, partial, total;
};

}  // namespace

DType SumTypes::of(Area area) const {
  switch (area) {
    case Area::kInput:
    case Area::kScratch:
      return input;
    case Area::kPartial:
    case Area::kReceived:
      return partial;
    case Area::kOutput:
      break;
  }
  return result;
}

std::size_t scratch_bytes(const Schedule& schedule, const SumTypes& types) {
  return Parts(schedule, types).total;
}

ScheduleRun::ScheduleRun(const Schedule& schedule, Carrier& carrier, int slot, ReduceOp op,
                         const SumTypes& types, Memory memory)
    : schedule_(schedule), carrier_(carrier), slot_(slot), op_(op), types_(types), memory_(memory) {
  if (memory.input == nullptr) return;
  const Parts parts(schedule, types);
  const auto base = [&](Area area) -> auto& { return bases_[static_cast<std::size_t>(area)]; };
  base(Area::kOutput) = memory.output;
  base(Area::kReceived) = memory.scratch;
  base(Area::kScratch) = memory.scratch + parts.scratch_begin;
  base(Area::kPartial) = types.partial == types.result ? memory.output : memory.scratch + parts.partial;
}

bool ScheduleRun::advance() {
  for (;;) {
    while (!pending_.empty() && carrier_.finished(pending_.back().ticket)) pending_.pop_back();
    if (!pending_.empty() || round_ == schedule_.rounds()) return pending_.empty();
    if (round_ >= 0) end_round();
    if (++round_ < schedule_.rounds()) begin_round();
  }
}

void ScheduleRun::begin_round() {
  now_.clear();
  schedule_.write(round_, now_);
  if (memory_.input != nullptr)
    for (const Copy& each : now_.copies) copy(each);
  // Receives are posted before the sends, so that messages find their memory ready if possible.
  for (const RoundMessage& message : now_.receives) {
    pending_.push_back(
        {carrier_.receive(message.peer, slot_, to(message.place), bytes(message.place, message.bytes)),
         message.peer});
  }
  for (const RoundMessage& message : now_.sends) {
    pending_.push_back(
        {carrier_.send(message.peer, slot_, from(message.place), bytes(message.place, message.bytes)),
         message.peer});
  }
}

void ScheduleRun::end_round() {
  if (memory_.input == nullptr) return;
  for (const Sum& each : now_.sums) sum(each);
}

void ScheduleRun::copy(const Copy& copy) const {
  const std::byte* source = from(copy.from);
  std::byte* target = to(copy.to);
  if (copy.bytes == 0 || source == target) return;
  if (types_.of(copy.from.area) == types_.of(copy.to.area)) {
    std::memcpy(target, source, bytes(copy.from, copy.bytes));
    return;
  }
  const Term term{source, is_partial(copy.from)};
  reduce(op_, types_.result, {&term, 1}, copy.bytes / size_of(types_.result),
         {target, nullptr, is_partial(copy.to)});
}

void ScheduleRun::sum(const Sum& sum) {
  const std::size_t count = sum.bytes / size_of(types_.result);
  const int n = static_cast<int>(sum.sources.size());
  if (types_.partial == types_.result && sum.tree == nullptr) {
    sources_.clear();
    for (const Place& source : sum.sources) sources_.push_back(from(source));
    reduce(op_, types_.result, sources_.data(), n, count, to(sum.to), nullptr, false);
    return;
  }
  terms_.clear();
  for (const Place& source : sum.sources) terms_.push_back({from(source), is_partial(source)});
  reduce(op_, types_.result, {terms_.data(), n, sum.tree}, count, {to(sum.to), nullptr, is_partial(sum.to)});
}

const std::byte* ScheduleRun::from(const Place& place) const {
  if (memory_.input == nullptr || place.area != Area::kInput) return to(place);
  return memory_.input + bytes(place, place.at);
}

std::byte* ScheduleRun::to(const Place& place) const {
  if (memory_.input == nullptr) return nullptr;
  return bases_[static_cast<std::size_t>(place.area)] + bytes(place, place.at);
}

}  // namespace lockstep::collectives
