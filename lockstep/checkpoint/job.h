// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/coordination/client/key_value_store.h"

/// The communication of a job's processes when they save or restore together.
namespace lockstep::checkpoint {

/// The running attempts of a process's saves, which are not leftovers.
class LiveAttempts {
 public:
  bool contains(const std::string& nonce) const;

 private:
  friend class LiveAttempt;
  mutable std::mutex mutex_;
  std::set<std::string> nonces_;
};

/// Counts an attempt as running during its lifetime.
class LiveAttempt {
 public:
  LiveAttempt(std::shared_ptr<LiveAttempts> all, std::string nonce);
  ~LiveAttempt();
  LiveAttempt(const LiveAttempt&) = delete;
  LiveAttempt& operator=(const LiveAttempt&) = delete;

 private:
  const std::shared_ptr<LiveAttempts> all_;
  const std::string nonce_;
};

/// This process's number, and the job's store; no store in a job of one process.
struct Job {
  int process_index = 0;
  int num_processes = 1;
  std::string id;  ///< the same when the job is started again; empty if there is none
  coordination::KeyValueStore* store = nullptr;
  std::function<void()> check_healthy = [] {};  ///< throws the cause once the job has failed
  std::function<void()> check_joined = [] {};   ///< throws CheckpointError in a later job of the process

  /// This process's running attempts, and its clock.
  std::shared_ptr<LiveAttempts> live = std::make_shared<LiveAttempts>();
  std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now;

  bool leads() const { return process_index == 0; }

  /// "process 2 of 4", or "" in a job of one.
  std::string who(int process) const;

  /// This process's job. Starts the runtime if it has not been started.
  static Job current();
};

/// For tests: what Job::current() returns on this thread for its lifetime.
class ScopedJob {
 public:
  explicit ScopedJob(const Job& job);
  ~ScopedJob();
  ScopedJob(const ScopedJob&) = delete;
  ScopedJob& operator=(const ScopedJob&) = delete;

 private:
  const Job* before_;
};

/// One action of all processes: each does its share and reports, process 0 receives all reports and
/// concludes, and the others receive the conclusion. No device takes part. All processes of the job must make
/// its rounds in the same order; their work may overlap.
class Round {
 public:
  /// `what` is for messages: "save step 100". Everything that follows must be done within the timeout.
  Round(const Job& job, std::string what, std::chrono::milliseconds timeout);

  /// Each process says what it has before the work begins; for process 0, `offers` blocks until all have, and
  /// returns the texts by process. Throws as `reports` does.
  void offer(const std::string& text);
  std::vector<std::string> offers();

  /// Process 0 sends the others a text before the reports; the others receive it, or throw the reason of its
  /// failure.
  void tell(const std::string& text);
  std::string hear();

  /// Reports what this process has done.
  void report(const std::string& text);

  /// Reports why this process failed, also to those that wait for its offer, or for what process 0 tells.
  void report_error(const std::string& message);

  /// For process 0: blocks until all have reported, and returns the reports by process. Throws
  /// CheckpointError with the reasons of those that failed, and with the processes that have not reported in
  /// time.
  std::vector<std::string> reports();

  /// For process 0: sends the conclusion.
  void conclude(const std::string& text);
  void conclude_error(const std::string& message);

  /// For the others: blocks until process 0 has concluded, and returns the text, or throws CheckpointError
  /// with the message.
  std::string conclusion();

 private:
  struct Word {
    bool failed = false;
    std::string text;
  };
  void put(const std::string& key, const Word& word);
  void say(const char* what, std::optional<Word>& mine, Word word);
  std::vector<std::string> gather(const char* what, const Word& mine);
  Word take(const std::string& key, int from, std::chrono::milliseconds longer = {});

  const Job job_;
  const std::string what_;
  std::int64_t number_ = 0;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::milliseconds timeout_;
  std::optional<Word> offered_, reported_;
  bool told_ = false;
};

}  // namespace lockstep::checkpoint
