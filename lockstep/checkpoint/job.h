#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/coordination/key_value_store.h"

/// What the processes of a job say to each other when they save or restore together.
namespace lockstep::checkpoint {

/// This process's place, and the job's store; none in a job of one process.
struct Job {
  int process_index = 0;
  int num_processes = 1;
  std::string id;  ///< the same when the job is started again; empty if nothing gives one
  coordination::KeyValueStore* store = nullptr;
  std::function<void()> check_healthy = [] {};  ///< throws the cause once the job has failed

  bool leads() const { return process_index == 0; }

  /// "process 2 of 4", or "" in a job of one.
  std::string who(int process) const;

  /// This process's own. Starts the runtime where it has not been started.
  static Job current();
};

/// One thing that all processes do together: each does its share and reports, process 0 hears all reports and
/// concludes, and the others hear the conclusion. No device takes part. The rounds of a job have to be made
/// in the same order by all of its processes; what is done in them may overlap.
class Round {
 public:
  /// `what` is for messages: "save step 100". All that follows must be done within the timeout.
  Round(const Job& job, std::string what, std::chrono::milliseconds timeout);

  /// Process 0 tells the others one thing before the reports, or why it cannot; they hear it, or throw that.
  void tell(const std::string& text);
  void tell_error(const std::string& message);
  std::string hear();

  /// What this process has done, or why it could not.
  void report(const std::string& text);
  void report_error(const std::string& message);

  /// To be called by process 0: blocks until all have reported, and gives what they said, by process. Throws
  /// CheckpointError with what those that could not said, and with who has not reported in time.
  std::vector<std::string> reports();

  /// To be called by process 0 as its last word.
  void conclude(const std::string& text);
  void conclude_error(const std::string& message);

  /// To be called by the others: blocks until process 0 has concluded, and gives the text, or throws
  /// CheckpointError with the message.
  std::string conclusion();

 private:
  struct Word {
    bool failed = false;
    std::string text;
  };
  void put(const std::string& key, const Word& word);
  Word take(const std::string& key, int from, std::chrono::milliseconds longer = {});

  const Job job_;
  const std::string what_;
  std::int64_t number_ = 0;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::milliseconds timeout_;
  Word mine_;  // of process 0
};

}  // namespace lockstep::checkpoint
