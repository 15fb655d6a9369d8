// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/rounds/algorithm_run.h"

#include <cstring>

#include "lockstep/collectives/reduce.h"

namespace lockstep::collectives {

AlgorithmRun::AlgorithmRun(const Algorithm& algorithm, Carrier& carrier, int slot, ReduceOp op, DType dtype,
                           Memory memory)
    : algorithm_(algorithm), carrier_(carrier), slot_(slot), op_(op), dtype_(dtype), memory_(memory) {}

bool AlgorithmRun::advance() {
  for (;;) {
    while (!pending_.empty() && carrier_.finished(pending_.back().ticket)) pending_.pop_back();
    if (!pending_.empty() || round_ == algorithm_.rounds()) return pending_.empty();
    if (round_ >= 0) end_round();
    if (++round_ < algorithm_.rounds()) begin_round();
  }
}

void AlgorithmRun::begin_round() {
  now_.clear();
  algorithm_.write(round_, now_);
  if (memory_.input != nullptr) {
    for (const Copy& copy : now_.copies) {
      if (copy.bytes != 0 && from(copy.from) != to(copy.to))
        std::memcpy(to(copy.to), from(copy.from), copy.bytes);
    }
  }
  // Receives are posted before the sends, so that messages find their memory ready if possible.
  for (const RoundMessage& message : now_.receives) {
    pending_.push_back(
        {carrier_.receive(message.peer, slot_, to(message.place), message.bytes), message.peer});
  }
  for (const RoundMessage& message : now_.sends)
    pending_.push_back(
        {carrier_.send(message.peer, slot_, from(message.place), message.bytes), message.peer});
}

void AlgorithmRun::end_round() {
  if (memory_.input == nullptr) return;
  for (const Sum& sum : now_.sums) {
    sources_.clear();
    for (const Place& source : sum.sources) sources_.push_back(from(source));
    reduce(op_, dtype_, sources_.data(), static_cast<int>(sources_.size()), sum.bytes / size_of(dtype_),
           to(sum.to), nullptr, false);
  }
}

const std::byte* AlgorithmRun::from(const Place& place) const {
  if (memory_.input == nullptr) return nullptr;
  return place.area == Area::kInput ? memory_.input + place.at : to(place);
}

std::byte* AlgorithmRun::to(const Place& place) const {
  if (memory_.input == nullptr) return nullptr;
  return (place.area == Area::kOutput ? memory_.output : memory_.scratch) + place.at;
}

}  // namespace lockstep::collectives
