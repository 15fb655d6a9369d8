#include "cli/job.h"

#include <fmt/format.h>

#include <csignal>

#include "cli/attempt.h"
#include "cli/job_variables.h"
#include "cli/signals.h"

namespace lockstep::cli {

int run_job(const JobOptions& options) {
  // Before the threads of the coordinator, which must not get them.
  Signals signals;
  signal(SIGPIPE, SIG_IGN);
  const Descendants descendants;
  JobIdentity job = new_job(options.num_processes);
  while (true) {
    const bool last = job.attempt >= options.max_restarts;
    Attempt attempt(options, job, signals, descendants, last);
    const AttemptResult result = attempt.run();
    if (!result.failed || last) return result.status;
    ++job.attempt;
    attempt.say(fmt::format("{}; starting all again: restart {} of {}", result.failure, job.attempt,
                            options.max_restarts));
  }
}

}  // namespace lockstep::cli
