// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/coordination/client/agent.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/pending.h"
#include "lockstep/coordination/state/coordinator.h"

/// For the sources of the agent: agent.cc has the calls that a process makes, agent_failures.cc what it tells
/// and hears of failures, with the thread for that.
namespace lockstep::coordination {

class Agent : public CoordinationClient, private KeyValueStore {
 public:
  Agent(ClientOptions options, std::shared_ptr<Service> service, std::function<std::string()> why_unreachable,
        std::function<std::string()> why_never);
  ~Agent() override { end_background(); }

  void connect() override;
  void barrier(const std::string& id, std::chrono::milliseconds timeout,
               const std::vector<int>& processes) override;
  void when_set(const std::string& key, std::function<void(std::optional<std::string>)> done) override;
  KeyValueStore& key_value_store() override { return *this; }
  void shutdown() override;
  void report_failure(const FailureReport& report) override;
  void finish_reports() override;
  void report_own_error(const std::string& what) override;
  void fail(const JobError& cause) override;
  int process_id() const override { return options_.process_id; }
  int num_processes() const override { return options_.num_processes; }
  std::uint64_t incarnation() const override { return incarnation_; }

  std::optional<JobError> error() const override {
    std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  void set(const std::string& key, const std::string& value, bool allow_overwrite) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::int64_t increment(const std::string& key, std::int64_t by) override;
  std::vector<std::pair<std::string, std::string>> get_directory(const std::string& directory) override;
  void erase(const std::string& key) override;

  static double seconds(std::chrono::milliseconds duration) {
    return std::chrono::duration<double>(duration).count();
  }
  std::string self() const { return name_processes({options_.process_id}, options_.num_processes); }
  std::uint64_t service_incarnation() const {
    std::lock_guard lock(mutex_);
    return service_incarnation_;
  }

  /// A request to the service that this process has registered with.
  template <class Request>
  Request request() const {
    Request request;
    request.mutable_incarnations()->set_service_incarnation(service_incarnation());
    return request;
  }

  /// Makes a call and blocks until its answer; nullopt where there is none within the timeout, when the call
  /// is cancelled. With `ends_with_job`, throws PeerFailure when the job fails meanwhile or has failed.
  template <class Request>
  std::optional<Answer<ResponseTo<Request>>> call(const std::string& what, std::chrono::milliseconds timeout,
                                                  bool ends_with_job, const Request& request);

  /// The same for a call that the service answers at once; throws Error if it fails, unless as `expected`.
  template <class Request>
  Answer<ResponseTo<Request>> quick_call(const std::string& what, const Request& request,
                                         Code expected = Code::kOk);

  [[noreturn]] void fail_call(const std::string& what, const Status& status);
  [[noreturn]] void throw_peer_failure(const std::string& what, const std::string& cause) const;
  void throw_if_failed(const std::string& what, const Status& status);

  /// For a call that has been noted in ended_by_error_: the error may have come before the service knew the
  /// call.
  void cancel_if_failed(CallId id);

  /// Throws Error for a key that the protocol does not take.
  void check_key(const std::string& key) const;

  /// The participants of a barrier, all processes if `processes` is empty, without this process.
  std::vector<int> others_of(const std::vector<int>& processes) const;
  void report_missing();
  using Registering = Pending<jax::RegisterTaskResponse>;
  CallId start_registering(const std::shared_ptr<Registering>& pending);
  std::string coordinator_lost(const std::string& how, const std::string& detail) const;
  void begin_background();
  void end_background();
  void run_background();
  void job_failed(JobError error);
  CallId begin_background_call();
  void background_call_over(CallId id);

  /// Who runs the coordinator.
  struct Holder {
    Whereabouts where;
    std::optional<int> task;  ///< if it is one of the job's
  };

  ClientOptions options_;
  const std::shared_ptr<Service> service_;
  const std::function<std::string()> why_unreachable_, why_never_;
  const std::uint64_t incarnation_ = random_incarnation();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t service_incarnation_ = 0;
  std::optional<JobError> error_;
  std::set<CallId> ended_by_error_;  ///< Open calls that the job's error ends.
  std::map<std::string, std::int64_t> barrier_counters_;
  std::set<std::string> barriers_in_use_;
  bool leaving_ = false, stopping_ = false, heartbeat_open_ = false;
  std::set<CallId> background_calls_, reports_;
  std::optional<Holder> coordinator_;  ///< once it has told
  std::chrono::steady_clock::time_point last_answered_heartbeat_;
  std::thread background_;
};

}  // namespace lockstep::coordination
