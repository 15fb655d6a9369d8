// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// "collective", "compile", ...
std::string_view name_of(Kind kind);

/// Whether a thread with this activity waits for others.
bool waits(Kind kind);

/// An activity of a thread.
struct Activity {
  Kind kind = Kind::kNone;
  std::string what, site;
  double seconds = 0;    ///< since it began
  bool arrived = false;  ///< all others have arrived
  std::uint64_t number = 0, operation = 0, mesh = 0;
  std::uint64_t group = 0, count = 0;  ///< the group of `operation`, and its number there
  double usual_seconds = 0;  ///< the median of earlier durations of the launch, or of the wait; 0: there are
                             ///< none
};

/// The last activity of a thread.
struct Done {
  Kind kind = Kind::kNone;
  std::string what, site;
  double seconds_ago = 0;
};

struct ThreadReport {
  int tid = 0;
  std::vector<Activity> doing;  ///< from the outermost to the innermost
  std::vector<int> missing;     ///< the processes for which the innermost waits, up to kMissing of them
  int missing_count = 0;
  Done last;
  std::uint64_t launches = 0;
};

struct LaunchReport {
  std::uint64_t number = 0, hash = 0, program = 0;
  std::string site, what;
  std::string text;  ///< the whole program; only in the first launch of a log
};

struct MeshReport {
  std::uint64_t mesh = 0;
  std::string processes;  ///< "0-3"
  bool unordered = false, unchecked = false;
  std::uint64_t launches = 0, hash = 0;
  std::vector<LaunchReport> log;  ///< the last ones, ascending; only if they were requested
};

/// The launch of this number, if it is in the log; null otherwise.
const LaunchReport* launch_of(const MeshReport& mesh, std::uint64_t number);

/// The operations that a process has begun in a group over several hosts, with all its devices there.
struct GroupReport {
  std::uint64_t group = 0, begun = 0;
};

/// The connections to a process on another host, as they were seen within the last seconds.
struct LinkReport {
  int process = 0;
  double unanswered_seconds = 0;  ///< since its host last confirmed bytes; 0: it has confirmed all
};

/// How much of a device's memory is in use, in bytes.
struct DeviceMemoryReport {
  std::uint64_t in_use = 0, limit = 0;
};

/// The kernel's report about the thread that does a process's work.
struct Evidence {
  char state = 0;        ///< as in /proc: 'R', 'S', 'D', 'T', 'Z'; 0: unknown
  std::string call;      ///< the system call in which it is blocked, or the kernel's function; may be empty
  double cpu_share = 0;  ///< of one core, since the previous look
  std::string thread_name;  ///< if it is not the process's first thread
};

/// A process at one moment.
struct ProcessReport {
  int process = 0;
  std::string host;
  int pid = 0;
  bool came = false;    ///< it has a recorder: it uses Lockstep
  bool joined = false;  ///< it has a number in the job: initialize() has come so far
  std::string ended;    ///< how it ended, if it has: "exited with status 1"
  int restarts = 0;
  double age_seconds = 0;  ///< since its start, by its host's clock; 0: unknown
  std::vector<ThreadReport> threads;
  std::vector<MeshReport> meshes;
  std::vector<GroupReport> groups;
  std::vector<LinkReport> links;
  Evidence evidence;
  std::uint64_t launches = 0, collectives = 0;
  double launch_seconds = 0, wait_seconds = 0, transfer_seconds = 0, input_seconds = 0;  ///< in total
  double cpu_share = 0;                           ///< of one core, over all threads, since the previous look
  std::uint64_t memory_bytes = 0;                 ///< see ProportionalMemory
  std::vector<DeviceMemoryReport> device_memory;  ///< of each of its devices; none if they do not count it
  std::int64_t step = -1;
  std::string metrics;  ///< as JSON

  /// The thread that does the process's work: the one with the most launches, or else the first one. Null if
  /// there are no threads.
  const ThreadReport* foremost() const;
};

/// Its texts are UTF-8 in any case.
nlohmann::json to_json(const ProcessReport& report);
/// Throws Error if it is not a report.
ProcessReport from_json(const nlohmann::json& json);

/// "process 2", or with host and pid if they are known: "process 2 (host b, pid 123)".
std::string name_process(const ProcessReport& report);

/// "0-2, 5".
std::string describe_processes(std::vector<int> processes);
/// The inverse of describe_processes; also for a mesh's `processes`. Empty where a number is that of no
/// process, or there are more than a job may have.
std::vector<int> processes_of(std::string_view text);

}  // namespace lockstep::watch
