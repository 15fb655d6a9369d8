// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdint>

namespace lockstep {

/// For jobs whose processes get a signal some time before they are ended (Slurm, Kubernetes and clouds send
/// SIGTERM). Once the signal has reached any process, it returns true on every process, beginning with the
/// same step:
///
///     for (int step = 0; step < steps; ++step) {
///       state = train(state);
///       if (preemption_point(step)) { save(state); break; }
///     }
///
/// If some processes have already ended their loop and called `shutdown()` when the signal arrives, the
/// others run theirs to its end as usual.
///
/// All processes must call it with the same increasing steps, in one thread. Until a signal arrives it costs
/// one uncontended lock and no message; then one call blocks until the processes have exchanged their steps.
/// The first call also does `watch_for_preemption()`; until then a signal ends the process as usual. In a job
/// of one process there is no exchange. Throws PeerFailure if a process fails, and TimeoutError if one does
/// not call it within 300 s of the signal.
bool preemption_point(std::int64_t step);

/// Handles `signal` from now on, so that it no longer ends the process. A handler that was installed before
/// is still called. Only the first call has an effect. Throws Error if the signal cannot be caught.
void watch_for_preemption(int signal = SIGTERM);

namespace runtime {

/// Stops waiting for other processes' signals, before this process leaves its job.
void stop_preemption_watch();

/// Begins anew, before this process joins another job.
void begin_preemption_watch();

}  // namespace runtime
}  // namespace lockstep
