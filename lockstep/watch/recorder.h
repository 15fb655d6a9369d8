#pragma once

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

/// Where this process writes down what it does: memory that its launcher gave it (LOCKSTEP_RECORDER_FD) and
/// reads, or its own. Null with LOCKSTEP_RECORDER=0. Made at the first call, by any thread.
Memory* memory();

/// The process's place in the job, once it is known.
void set_process(int process, int process_count);

/// The id of a text, the same for the same text; 0 where there is no room left, or no memory.
TextId text(std::string_view text);

/// The id of "train.cc:42"; 0 for an unknown place.
TextId text(const CallSite& site);

/// The user's last metrics, as JSON, and their step.
void set_metrics(std::int64_t step, std::string_view json);
void set_step(std::int64_t step);

/// From now on this thread does this, within what it did before; to be ended by the same thread. Null where
/// nothing is recorded.
Thread* begin_doing(Kind kind, TextId what, TextId site, std::uint64_t number = 0, std::uint32_t mesh = 0);
void end_doing(Thread* thread);

/// For its lifetime, this thread does this, within what it did before: one store of each field, and one event
/// at the end. Nothing is allocated. Belongs to the thread that made it.
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

/// The innermost thing that this thread does; kNone where it does nothing, or nothing is recorded.
Kind innermost();

/// Of the innermost thing that this thread does: all others have come, so that from now on it is at work.
void all_arrived();

/// Of the innermost thing that this thread does: it waits for these processes, and `operation` is what it
/// waits in, the same number for all who wait in the same thing. To be called seldom, when a wait is long.
void waits_for(std::span<const int> processes, std::uint64_t operation);

/// A mesh whose launches are counted: an opaque place in the memory. Null: it is not counted.
class MeshPlace;

/// The place of a mesh over several processes, the same for the same `mesh`; `processes` is "0-3". Null where
/// there is no room left.
MeshPlace* mesh_place(Fingerprint mesh, std::string_view processes);

/// What tells a program to readers.
struct ProgramTexts {
  Fingerprint program = 0;
  TextId what = 0;  ///< "step(f32[64,32])"
  TextId text = 0;  ///< The whole program.
};

/// Counts a launch over the mesh; gives its number, from 1 on.
std::uint64_t count_launch(MeshPlace& place, const ProgramTexts& program, TextId site);

/// 1 more than its place in the memory.
std::uint32_t index_of(const MeshPlace& place);

}  // namespace lockstep::watch
