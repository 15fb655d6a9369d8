#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The recorder's memory: what a process does, written by its threads and read by another process, also after
// the writer was killed. Everything is an atomic of a fixed size without pointers; what follows each other in
// one writer is read under a version that is odd while it is written. A text is an offset into `texts`, 0:
// none.

namespace lockstep::watch {

inline constexpr std::uint64_t kMagic = 0x4c53574154434804;  ///< Its last byte is the layout's version.
inline constexpr std::size_t kThreads = 32, kDepth = 8, kEvents = 2048, kMissing = 16;
inline constexpr std::size_t kMeshes = 32, kLaunches = 1024;
inline constexpr std::size_t kMetricsBytes = 4096;
inline constexpr std::size_t kTextBytes = 8 << 20;

using Ticks = std::uint64_t;  ///< Of `Header::clock`.
using TextId = std::uint32_t;

/// What a thread does. The names are in `name_of` (report.h).
enum class Kind : std::uint32_t {
  kNone,
  kPhase,  ///< A user's own, by name.
  kTrace,
  kCompile,
  kLaunch,
  kCollective,
  kConnect,  ///< Waits for processes of a clique to be connected.
  kBarrier,
  kKey,     ///< Waits for a key of the job's store.
  kAnswer,  ///< Waits for what certain processes give: a report, machine code.
  kInput,   ///< Waits for records.
  kSave,
  kRestore,
  kResult,  ///< Waits for a computation that was launched before.
  kInitialize,
  kShutdown,
};

/// Something that a thread is in the midst of.
struct Entry {
  std::atomic<Ticks> since, arrived;     ///< `arrived`: when all others had come; 0: not yet.
  std::atomic<std::uint64_t> number;     ///< Of a launch: which one of its mesh.
  std::atomic<std::uint64_t> operation;  ///< The same for all who take part in the same thing; 0: none.
  std::atomic<Kind> kind;
  std::atomic<TextId> what, site;
  std::atomic<std::uint32_t> mesh;  ///< 1 more than its place in `Memory::meshes`; 0: none.
};

/// Something that a thread has done.
struct Event {
  std::atomic<Ticks> since, arrived, until;
  std::atomic<std::uint64_t> number, operation;
  std::atomic<Kind> kind;
  std::atomic<TextId> what, site;
  std::atomic<std::uint32_t> depth;  ///< In its high half the mesh, as in Entry.
};

struct alignas(64) Thread {
  std::atomic<std::int32_t> tid;       ///< 0: nobody's.
  std::atomic<std::uint32_t> version;  ///< Odd while what follows is written.
  std::atomic<std::uint32_t> depth;    ///< How many entries count; more than kDepth are not written.
  std::atomic<std::uint32_t> missing;  ///< How many processes the innermost entry waits for.
  std::array<Entry, kDepth> entries;
  std::array<std::atomic<std::int32_t>, kMissing> missing_processes;  ///< The first of them.

  // Of the last thing that was done outside of all others.
  std::atomic<Ticks> last_until;
  std::atomic<Kind> last_kind;
  std::atomic<TextId> last_what, last_site;

  // Since the process began; not under the version.
  std::atomic<std::uint64_t> launches, collectives;
  std::atomic<Ticks> launch_ticks, wait_ticks, transfer_ticks, input_ticks;

  std::atomic<std::uint64_t> next_event;  ///< Number n stands at n % kEvents.
  std::array<Event, kEvents> events;
};

/// One launch of a program over a mesh.
struct Launch {
  std::atomic<std::uint64_t>
      number;  ///< From 1 on; what else is here belongs to it if it reads the same twice.
  std::atomic<std::uint64_t> hash;  ///< Of all launches up to this one.
  std::atomic<std::uint64_t> program;
  std::atomic<TextId> site, what, text;  ///< `text`: the whole program.
};

/// The launches of this process over a mesh of several processes.
struct alignas(64) MeshLog {
  std::atomic<std::uint64_t> mesh;       ///< Its fingerprint, the same on all processes; 0: nobody's.
  std::atomic<TextId> processes;         ///< "0-3"
  std::atomic<std::uint32_t> unordered;  ///< Several threads launched over it: its order says nothing.
  std::atomic<std::uint64_t> launches;   ///< So many have begun.
  std::array<Launch, kLaunches> log;     ///< Number n stands at n % kLaunches.
};

enum class Clock : std::uint32_t { kMonotonicNs, kTsc };

struct alignas(64) Header {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> pid;                     ///< Of who writes here; 0: nobody has come.
  std::atomic<std::int32_t> process, process_count;  ///< Its index in the job; -1 before initialize().
  std::atomic<Clock> clock;
  std::atomic<std::uint32_t> texts;  ///< So many bytes of them are written.
  std::atomic<std::int64_t> step;    ///< Of the last metrics or checkpoint; -1: none.

  // The last values that the user logged, as JSON, in words; whole where the version is even and the same
  // twice.
  std::atomic<std::uint32_t> metrics_version, metrics_bytes;
  std::array<std::atomic<std::uint64_t>, kMetricsBytes / 8> metrics;
};

struct Memory {
  Header header;
  std::array<Thread, kThreads> threads;
  std::array<MeshLog, kMeshes> meshes;
  std::array<char, kTextBytes> texts;  ///< Each: its length in four bytes, and its bytes.
};

static_assert(std::atomic<Ticks>::is_always_lock_free && sizeof(std::atomic<Ticks>) == 8);
static_assert(sizeof(Event) == 56 && sizeof(Entry) == 48 && sizeof(Launch) == 40);

}  // namespace lockstep::watch
