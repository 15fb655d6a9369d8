// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/watch/clock.h"
#include "lockstep/watch/layout.h"

namespace lockstep::watch {

/// The memory to which this process writes what it does: provided and read by its launcher
/// (LOCKSTEP_RECORDER_FD), or its own. Null if LOCKSTEP_RECORDER=0. Made at the first call, by any thread.
Memory* memory();

/// Sets the process's number in the job, once it is known.
void set_process(int process, int process_count);

/// The id of a text, the same for the same text, which readers get as `shown` (lockstep/base/text.h) makes
/// it. 0 if there is no memory; if there is no room left, that of a text that says so.
TextId text(std::string_view text);

/// The same for a text of many lines; 0 if half of the room is taken.
TextId text_of_lines(std::string_view text);

/// The id of "train.cc:42"; 0 for an unknown place.
TextId text(const CallSite& site);

/// Sets the user's last metrics, as JSON, and their step.
void set_metrics(std::int64_t step, std::string_view json);
void set_step(std::int64_t step);

/// Sets how much of the memory of this process's device number `device` is in use, in bytes.
void set_device_memory(std::size_t device, std::uint64_t in_use, std::uint64_t limit);

/// Begins an activity of this thread, inside its current one; the same thread must end it. Null if nothing is
/// recorded.
Thread* begin_doing(Kind kind, TextId what, TextId site, std::uint64_t number = 0, std::uint32_t mesh = 0);

/// The same for anything but a launch. A number at the end of `what`, as in "step 17", is kept beside the
/// text, so that a name for each step does not fill the room for texts.
Thread* begin_doing(Kind kind, std::string_view what, const CallSite& site);
void end_doing(Thread* thread);

/// An activity of this thread for the lifetime of this object, inside the thread's current one. Costs one
/// store for each field, and one event at the end; allocates nothing. Must stay on the thread that made it.
class Doing {
 public:
  Doing(Kind kind, TextId what, TextId site, std::uint64_t number = 0, std::uint32_t mesh = 0);
  Doing(Kind kind, std::string_view what, const CallSite& site = CallSiteScope::current());
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  Thread* thread_;
};

/// The innermost activity of this thread; kNone if there is none, or nothing is recorded.
Kind innermost();

/// For the innermost activity of this thread: all others have arrived, so from now on it works, and waits for
/// nobody.
void all_arrived();

/// For the innermost activity of this thread: it waits for these processes in `operation`, which is the same
/// number for all who wait in the same operation: number `count` of a group. Call it rarely, when a wait is
/// long.
void waits_for(std::span<const int> processes, std::uint64_t operation, std::uint64_t group = 0,
               std::uint64_t count = 0);

/// For the innermost activity of this thread: it waits for no process any more, but is still in `operation`.
void waits_no_more();

/// Where to write the number of operations that a device has begun in a group over several hosts, from 0 on;
/// null if there is no room left, or nothing is recorded.
std::atomic<std::uint64_t>* begun_place(std::uint64_t group, int device);

/// The place of the connections from a device of this process to a device of `process`, to be kept by the
/// caller; null if there is no room left, or nothing is recorded.
Link* link_place(int process);

/// A mesh whose launches are counted: an opaque position in the memory. Null: not counted.
class MeshPlace;

/// The place of a mesh over several processes, the same for the same `mesh`; `processes` is "0-3". Null if
/// there is no room left. `unchecked`: collectives over it do not compare what the processes launch.
MeshPlace* mesh_place(Fingerprint mesh, std::string_view processes, bool unchecked = false);

/// How readers identify a program.
struct ProgramTexts {
  Fingerprint program = 0;
  TextId what = 0;  ///< "step(f32[64,32])"
  TextId text = 0;  ///< the whole program
};

/// Counts a launch over the mesh; returns its number, from 1 on.
std::uint64_t count_launch(MeshPlace& place, const ProgramTexts& program, TextId site);

/// Its index in the memory plus 1.
std::uint32_t index_of(const MeshPlace& place);

}  // namespace lockstep::watch
