#pragma once

#include <csignal>
#include <cstdint>

namespace lockstep {

/// For jobs whose processes are told by a signal that they will soon be ended (Slurm, Kubernetes and clouds
/// send SIGTERM): true on every process from one and the same step on, once the signal has reached any of
/// them.
///
///     for (int step = 0; step < steps; ++step) {
///       state = train(state);
///       if (preemption_point(step)) { save(state); break; }
///     }
///
/// All processes call it with the same growing steps, in one thread. It costs a lock that nobody contends,
/// and no message, until a signal comes; then one call waits until the processes have told each other how far
/// they are. The first call does what `watch_for_preemption()` does, so until then a signal ends the process
/// as before. In a job of one process nobody is asked. Throws PeerFailure when a process fails, and
/// TimeoutError when one does not call it within 300 s of the signal.
bool preemption_point(std::int64_t step);

/// Takes `signal` from now on: it no longer ends the process. A handler that was there before is still
/// called. Only the first call counts. Throws Error where the signal cannot be caught.
void watch_for_preemption(int signal = SIGTERM);

namespace runtime {

/// Ends the waiting for other processes' signals, before this process leaves its job.
void stop_preemption_watch();

}  // namespace runtime
}  // namespace lockstep
