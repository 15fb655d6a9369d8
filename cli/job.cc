#include "cli/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "cli/attempt.h"
#include "cli/console.h"
#include "cli/descendants.h"
#include "cli/job_variables.h"
#include "cli/signals.h"

namespace lockstep::cli {
namespace {

// How long, once a signal has asked for the end, the last lines wait for a reader who takes nothing.
constexpr std::chrono::seconds kUntilReaderIsGivenUp(2);

class Job {
 public:
  explicit Job(const JobOptions& options) : options_(options) {}

  int run() {
    JobIdentity job = new_job(options_.num_processes);
    while (true) {
      const bool last = job.attempt >= options_.max_restarts;
      Attempt attempt(options_, job, signals_, console_, descendants_, last);
      const AttemptResult result = attempt.run();
      stopped_ = result.stopped;
      if (!result.failed || last) return result.status;
      ++job.attempt;
      attempt.say(fmt::format("{}; starting all again: restart {} of {}", result.failure, job.attempt,
                              options_.max_restarts));
    }
  }

  // The readers of the output may be slower than the job.
  void write_the_rest() {
    console_.work();
    while (!console_.empty()) {
      std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
      console_.add_polled(polled);
      poll(polled.data(), polled.size(), stopped_ ? 100 : -1);
      for (const Signal& signal : signals_.take()) {
        if (signal.number == SIGTSTP) raise(SIGSTOP);
        stopped_ |= signal.number == SIGINT || signal.number == SIGTERM || signal.number == SIGHUP;
      }
      console_.work();
      if (stopped_ && std::chrono::steady_clock::now() >= console_.stuck_since() + kUntilReaderIsGivenUp)
        return;
    }
  }

 private:
  const JobOptions& options_;
  // Before the threads of the coordinator, which must not get them.
  Signals signals_;
  const Descendants descendants_;
  Console console_;
  bool stopped_ = false;
};

}  // namespace

int run_job(const JobOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  Job job(options);
  try {
    const int status = job.run();
    job.write_the_rest();
    return status;
  } catch (...) {
    job.write_the_rest();
    throw;
  }
}

}  // namespace lockstep::cli
