#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/watch/report.h"

namespace lockstep::watch {

/// Why others wait for a process.
enum class Reason {
  kOwnCode,   ///< In the user's code, doing what cannot be told.
  kSpinning,  ///< In the user's code, using a core.
  kBlocked,   ///< In the user's code, in a system call.
  kSleeping,  ///< In the user's code, in a system call that only waits for time to pass.
  kLocked,    ///< In the user's code, waiting for a lock.
  kDisk,      ///< In the kernel, without being interruptible.
  kStopped,   ///< By a signal or a debugger.
  kEnded,
  kTracing,
  kCompiling,
  kComputing,  ///< In a launch, between its collectives.
  kPhase,      ///< In a phase that the user has named.
  kInput,
  kCheckpoint,
  kNotCome,      ///< It has not called initialize().
  kWaitsForKey,  ///< For a key that nobody has set.
  kUnknown,
};
std::string_view name_of(Reason reason);

/// Who holds up others, and by what.
struct Culprit {
  int process = 0;
  Reason reason = Reason::kUnknown;
  double seconds = 0;  ///< Since it does this.
  std::string words;   ///< "is in its own code since train.cc:38, and sleeps (nanosleep)"
};

/// Who waits in the same thing.
struct Waiters {
  Kind kind = Kind::kNone;
  std::vector<int> processes;
  std::string what, site;
  double seconds = 0;  ///< Of who waits longest.
  double usual_seconds = 0;
};

/// Processes that wait for others.
struct Stall {
  std::vector<Waiters> waiters;   ///< Those with the most processes first.
  std::vector<Culprit> culprits;  ///< By process; empty where all wait for each other, or for devices.
  std::vector<int> ring;          ///< Who waits for each other, where nobody else is to blame.
  double seconds = 0;             ///< The longest wait.
  bool declared = false;          ///< All culprits are in phases that the user has named, or there are none.

  /// Whether it is time for a word: max(10 s, 20 times what the launch usually takes).
  bool long_enough(double least_seconds = 10) const;
  /// Who holds up the others: the culprits, or those of the ring. Nobody where all of a mesh have launched
  /// the same and wait for its result: their devices compute, or do not reach each other.
  std::set<int> awaited() const;
  /// The same for a stall that goes on.
  std::string key() const;
};

/// Who waits for whom at this moment. A pure function of the reports of all processes; those that the job has
/// and `reports` lacks are taken as not heard of. A process that waits for others is never a culprit.
std::vector<Stall> diagnose(std::span<const ProcessReport> reports);

/// "stalled for 12 s: processes 0, 1, 3 of 4 wait in psum f32[4] over i at train.cc:40 for process 2 (host b,
/// pid 123), which ..."
std::string describe(const Stall& stall, std::span<const ProcessReport> reports);

/// Where processes that must launch the same programs over a mesh have not.
struct Difference {
  std::uint64_t mesh = 0, number = 0;  ///< The earliest launch that differs.
  struct Side {
    std::vector<int> processes;
    std::string what, site, text;  ///< Empty: they have launched nothing else.
  };
  std::vector<Side> sides;  ///< The one with the most processes first.
  bool earlier_lost =
      false;  ///< The launches before it are not kept any longer: there may be an earlier one.
};

/// Whether the processes' hashes at a launch that all have made differ: cheap, without the logs. Meshes over
/// which several threads launch say nothing.
bool hashes_differ(std::span<const ProcessReport> reports);

/// The earliest launch that differs, of reports with logs.
std::optional<Difference> find_difference(std::span<const ProcessReport> reports);

std::string describe(const Difference& difference, int process_count);

/// Who is the cause of a stall: its culprits; of a ring, those that launched what the most did not, where
/// they are in it; where nobody is to blame, all who wait.
std::vector<int> causes(const Stall& stall, const std::optional<Difference>& difference);

}  // namespace lockstep::watch
