// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The recorder's memory: what a process does, written by its threads and read by another process, also after
// the writer was killed. Everything is an atomic of a fixed size without pointers. Values of one writer that
// belong together are read under a version, which is odd while they are written. A text is an offset into
// `texts`; 0: none.

namespace lockstep::watch {

inline constexpr std::uint64_t kMagic = 0x4c53574154434807;  ///< the last byte is the version of the layout
inline constexpr std::size_t kThreads = 32, kDepth = 8, kEvents = 2048, kMissing = 16;
inline constexpr std::size_t kMeshes = 32, kLaunches = 1024;
inline constexpr std::size_t kGroups = 256, kLinks = 256, kDevices = 32;
inline constexpr std::size_t kMetricsBytes = 4096;
inline constexpr std::size_t kTextBytes = 8 << 20;

inline constexpr auto relaxed = std::memory_order_relaxed;

using Ticks = std::uint64_t;  ///< of `Header::clock`
using TextId = std::uint32_t;

/// Activities of a thread. Their names are in `name_of` (report.h).
enum class Kind : std::uint32_t {
  kNone,
  kPhase,  ///< a phase named by the user
  kTrace,
  kCompile,
  kLaunch,
  kCollective,
  kConnect,  ///< waits for processes of a clique to be connected
  kBarrier,
  kKey,     ///< waits for a key of the job's store
  kAnswer,  ///< waits for data from certain processes: a report, machine code
  kInput,   ///< waits for records
  kSave,
  kRestore,
  kResult,  ///< waits for a computation that was launched before
  kInitialize,
  kShutdown,
  kIdle,  ///< a phase named by the user, that may last as long as it likes
};

/// Whether the user has named it.
constexpr bool is_phase(Kind kind) { return kind == Kind::kPhase || kind == Kind::kIdle; }

/// An activity of a thread that has not ended.
struct Entry {
  std::atomic<Ticks> since, arrived;  ///< `arrived`: when all others had arrived; 0: not yet
  std::atomic<std::uint64_t> number;  ///< of a launch over its mesh; else that at the name's end plus 1, or 0
  std::atomic<std::uint64_t> operation;  ///< the same for all who take part in the same operation; 0: none
  std::atomic<Kind> kind;
  std::atomic<TextId> what, site;
  std::atomic<std::uint32_t> mesh;   ///< its index in `Memory::meshes` plus 1; 0: none
  std::atomic<std::uint64_t> group;  ///< of `operation`; valid if that is not 0
  std::atomic<std::uint64_t> count;  ///< the number of `operation` in the group
};

/// An activity of a thread that has ended: one line of the cache.
struct alignas(64) Event {
  std::atomic<Ticks> since, arrived, until;
  std::atomic<std::uint64_t> number, operation;
  std::atomic<Kind> kind;
  std::atomic<TextId> what, site;
  std::atomic<std::uint32_t> depth;  ///< its high half is the mesh, as in Entry
};

struct alignas(64) Thread {
  std::atomic<std::int32_t> tid;       ///< 0: not used
  std::atomic<std::uint32_t> version;  ///< odd while the following fields are written
  std::atomic<std::uint32_t> depth;    ///< the number of valid entries; more than kDepth are not written
  std::atomic<std::uint32_t> missing;  ///< the number of processes for which the innermost entry waits
  std::array<Entry, kDepth> entries;
  std::array<std::atomic<std::int32_t>, kMissing> missing_processes;  ///< the first ones

  // The last activity that was not inside another one.
  std::atomic<Ticks> last_until;
  std::atomic<Kind> last_kind;
  std::atomic<TextId> last_what, last_site;
  std::atomic<std::uint64_t> last_number;

  // Since the process began; not under the version.
  std::atomic<std::uint64_t> launches, collectives;
  std::atomic<Ticks> launch_ticks, wait_ticks, transfer_ticks, input_ticks;

  std::atomic<std::uint64_t> next_event;  ///< number n is at n % kEvents
  std::array<Event, kEvents> events;
};

/// One launch of a program over a mesh.
struct Launch {
  std::atomic<std::uint64_t>
      number;  ///< from 1 on; the other fields belong to it if it is the same when read before and after them
  std::atomic<std::uint64_t> hash;  ///< of all launches up to this one
  std::atomic<std::uint64_t> program;
  std::atomic<TextId> site, what, text;  ///< `text`: the whole program
};

/// The launches of this process over a mesh of several processes.
struct alignas(64) MeshLog {
  std::atomic<std::uint64_t> mesh;       ///< its fingerprint, the same on all processes; 0: not used
  std::atomic<TextId> processes;         ///< "0-3"
  std::atomic<std::uint32_t> unordered;  ///< several threads launched over it, so its order means nothing
  std::atomic<std::uint32_t> unchecked;  ///< collectives do not compare what the processes launch over it
  std::atomic<std::uint64_t> launches;   ///< the number of launches that have begun
  std::array<Launch, kLaunches> log;     ///< number n is at n % kLaunches
};

/// The operations that a device of this process has begun in a group over several hosts.
struct Group {
  std::atomic<std::uint64_t> group;  ///< a digest of its devices; 0: not used
  std::atomic<std::int32_t> device;
  std::atomic<std::uint64_t> begun;
};

/// The connections of one device of this process to one device on another host, as they were at some moments
/// of long waits. Times are nanoseconds of the monotonic clock; 0: never.
struct Link {
  std::atomic<std::int32_t> used;        ///< 0: not used
  std::atomic<std::int32_t> process;     ///< at the other end
  std::atomic<std::int64_t> looked;      ///< when this was written
  std::atomic<std::int64_t> unanswered;  ///< since when the other host confirms none of the bytes that were
                                         ///< sent there; 0: it has confirmed all
};

/// The memory of a device of this process, in bytes, as it was within the last seconds.
struct DeviceMemory {
  std::atomic<std::uint64_t> in_use;
  std::atomic<std::uint64_t> limit;  ///< 0: not used
};

enum class Clock : std::uint32_t { kMonotonicNs, kTsc };

struct alignas(64) Header {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> pid;                     ///< of the writer in its own namespace; 0: none yet
  std::atomic<std::uint64_t> pid_namespace;          ///< of the writer; 0: unknown
  std::atomic<std::int32_t> process, process_count;  ///< its number in the job; -1 before initialize()
  std::atomic<Clock> clock;
  std::atomic<std::uint32_t> texts;  ///< the number of bytes written
  std::atomic<std::int64_t> step;    ///< of the last metrics or checkpoint; -1: none

  // The last values that the user logged, as JSON, in words; valid if the version is even and unchanged after
  // reading.
  std::atomic<std::uint32_t> metrics_version, metrics_bytes;
  std::array<std::atomic<std::uint64_t>, kMetricsBytes / 8> metrics;
};

struct Memory {
  Header header;
  std::array<Thread, kThreads> threads;
  std::array<MeshLog, kMeshes> meshes;
  std::array<Group, kGroups> groups;
  std::array<Link, kLinks> links;
  std::array<DeviceMemory, kDevices> devices;  ///< by their places among the process's devices
  std::array<char, kTextBytes> texts;          ///< each text: its length in four bytes, then its bytes
};

static_assert(std::atomic<Ticks>::is_always_lock_free && sizeof(std::atomic<Ticks>) == 8);
static_assert(sizeof(Event) == 64 && sizeof(Entry) == 64 && sizeof(Launch) == 40);

}  // namespace lockstep::watch
