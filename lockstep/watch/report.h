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

/// Whether somebody who does this waits for others.
bool waits(Kind kind);

/// Something that a thread does.
struct Activity {
  Kind kind = Kind::kNone;
  std::string what, site;
  double seconds = 0;    ///< Since it began.
  bool arrived = false;  ///< All others have come.
  std::uint64_t number = 0, operation = 0, mesh = 0;
  double usual_seconds = 0;  ///< The median of earlier times of the launch, or the wait; 0: there are none.
};

/// What a thread has done last.
struct Done {
  Kind kind = Kind::kNone;
  std::string what, site;
  double seconds_ago = 0;
};

struct ThreadReport {
  int tid = 0;
  std::vector<Activity> doing;  ///< From the outermost to the innermost.
  std::vector<int> missing;     ///< The processes that the innermost waits for, the first kMissing of them.
  int missing_count = 0;
  Done last;
  std::uint64_t launches = 0;
};

struct LaunchReport {
  std::uint64_t number = 0, hash = 0, program = 0;
  std::string site, what;
  std::string text;  ///< The whole program; only with its first launch of a log.
};

struct MeshReport {
  std::uint64_t mesh = 0;
  std::string processes;  ///< "0-3"
  bool unordered = false;
  std::uint64_t launches = 0, hash = 0;
  std::vector<LaunchReport> log;  ///< The last ones, ascending; only where it was asked for.
};

/// What the kernel says of the thread that a process's work is on.
struct Evidence {
  char state = 0;        ///< As /proc has it: 'R', 'S', 'D', 'T', 'Z'; 0: nothing is known.
  std::string call;      ///< The system call that it is blocked in, or the kernel's function; may be empty.
  double cpu_share = 0;  ///< Of one core, since the look before.
  std::string thread_name;  ///< Where it is not the process's first thread.
};

/// A process at one moment.
struct ProcessReport {
  int process = 0;
  std::string host;
  int pid = 0;
  bool came = false;    ///< It has a recorder: it uses Lockstep.
  bool joined = false;  ///< It has its place in the job: initialize() has gone so far.
  std::string ended;    ///< How, once it has: "exited with status 1".
  int restarts = 0;
  double age_seconds = 0;  ///< Since it was started, as its host's clock has it; 0: unknown.
  std::vector<ThreadReport> threads;
  std::vector<MeshReport> meshes;
  Evidence evidence;
  std::uint64_t launches = 0, collectives = 0;
  double launch_seconds = 0, wait_seconds = 0, transfer_seconds = 0, input_seconds = 0;  ///< In all.
  double cpu_share = 0;  ///< Of one core, over all threads, since the look before.
  std::uint64_t resident_bytes = 0;
  std::int64_t step = -1;
  std::string metrics;  ///< JSON.

  /// The thread that the process's work is on: which launched most, or else the first one. Null without
  /// threads.
  const ThreadReport* foremost() const;
};

nlohmann::json to_json(const ProcessReport& report);
/// Throws Error where it is none.
ProcessReport from_json(const nlohmann::json& json);

/// "process 2", or with the host and pid where they are known: "process 2 (host b, pid 123)".
std::string name_process(const ProcessReport& report);

/// "0-2, 5".
std::string describe_processes(std::vector<int> processes);
/// What describe_processes and a mesh's `processes` say.
std::vector<int> processes_of(std::string_view text);

}  // namespace lockstep::watch
