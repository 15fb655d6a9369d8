// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/state/failure_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::coordination {
namespace {

/// For barriers that failed in a program that continues.
constexpr std::size_t kMostBarriers = 16;

}  // namespace

bool FailureNotes::Note::explains(const Failure& other) const {
  if (barrier.empty()) return true;
  if (other.kind != FailureKind::kEndedWithError) return false;
  return members.empty() || std::ranges::any_of(other.processes, [this](int process) {
           return std::ranges::find(members, process) != members.end();
         });
}

void FailureNotes::note_divergence(const Failure& failure) {
  const bool known = std::ranges::any_of(notes_, [](const Note& note) { return note.barrier.empty(); });
  if (!known) notes_.push_back({failure, "", {}});
}

void FailureNotes::note_barrier(const std::string& barrier, std::vector<int> members,
                                const Failure& failure) {
  const auto of_barriers = [](const Note& note) { return !note.barrier.empty(); };
  if (std::ranges::count_if(notes_, of_barriers) >= static_cast<std::ptrdiff_t>(kMostBarriers))
    notes_.erase(std::ranges::find_if(notes_, of_barriers));
  notes_.push_back({failure, barrier, std::move(members)});
}

void FailureNotes::barrier_passed(const std::string& barrier) {
  std::erase_if(notes_, [&](const Note& note) { return note.barrier == barrier; });
}

Failure FailureNotes::cause_of(const Failure& failure) const {
  for (const Note& note : notes_) {
    if (!note.explains(failure)) continue;
    Failure cause = note.failure;
    cause.message += fmt::format("\nconsequence: {}", failure.message);
    return cause;
  }
  return failure;
}

void FailureNotes::await(const Failure& failure, Clock::TimePoint due) {
  const auto same = std::ranges::find_if(
      awaited_, [&](const Awaited& each) { return each.failure.processes == failure.processes; });
  if (same == awaited_.end()) {
    awaited_.push_back({failure, due});
  } else if (due <= same->due) {
    // A process's own report is better than its exit status, and both are better than closed connections.
    if (same->failure.kind == FailureKind::kDied) same->failure = failure;
    same->due = due;
  }
}

void FailureNotes::forget(int process) {
  std::erase_if(awaited_, [process](const Awaited& each) {
    return std::ranges::find(each.failure.processes, process) != each.failure.processes.end();
  });
}

std::vector<Failure> FailureNotes::take_due(Clock::TimePoint now) {
  std::vector<Failure> due;
  auto next = awaited_.begin();
  for (; next != awaited_.end() && next->due <= now; ++next) due.push_back(std::move(next->failure));
  awaited_.erase(awaited_.begin(), next);
  return due;
}

void FailureNotes::settle() {
  for (Awaited& each : awaited_) each.due = Clock::TimePoint::min();
}

}  // namespace lockstep::coordination
