// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/agent.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <thread>
#include <utility>

#include "coordination.pb.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/client/agent_impl.h"
#include "lockstep/coordination/protocol/graces.h"
#include "lockstep/coordination/protocol/membership.h"
#include "lockstep/coordination/protocol/pending.h"
#include "lockstep/coordination/state/coordinator.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kLongest = std::chrono::hours(24 * 365);

/// How long the coordinator has to let a process go that leaves a job that has failed.
constexpr milliseconds kForGoodBye(2000);

/// A barrier's id as the protocol takes it: UTF-8, and short enough to stand in the headers of an error.
std::string id_on_wire(const std::string& id) {
  constexpr std::size_t kLongest = 512;
  if (id.size() <= kLongest && is_utf8(id)) return id;
  return fmt::format("{} ({})", shown(id, kLongest), digest(id));
}

}  // namespace

Agent::Agent(ClientOptions options, std::shared_ptr<Service> service,
             std::function<std::string()> why_unreachable, std::function<std::string()> why_never)
    : options_(std::move(options)),
      service_(std::move(service)),
      why_unreachable_(std::move(why_unreachable)),
      why_never_(std::move(why_never)) {
  if (options_.process_id < 0 || options_.num_processes < 1) {
    lockstep::fail<InitializationError>(
        "a job needs at least 1 process, and process ids from 0 up, got process {} of {}",
        options_.process_id, options_.num_processes);
  }
  if (options_.heartbeat_interval.count() <= 0) options_.heartbeat_interval = options_.heartbeat_timeout / 2;
  options_.heartbeat_interval = std::max(options_.heartbeat_interval, milliseconds(1));
}

// Waiting for answers.

void Agent::throw_peer_failure(const std::string& what, const std::string& cause) const {
  lockstep::fail<PeerFailure>("{}\nconsequence: {} ended in {}", cause, what, self());
}

/// Where the status comes of the job's failure: waits for the word on that and throws it.
void Agent::throw_if_failed(const std::string& what, const Status& status) {
  bool of_a_process = status.service_error && status.service_error->source_task;
  bool unreachable = !status.service_error && status.code == Code::kUnavailable;
  if (!of_a_process && !unreachable) return;
  std::unique_lock lock(mutex_);
  if (wake_.wait_for(lock, unreachable ? graces::kForTheLoss : graces::kForTheCause,
                     [this] { return error_.has_value(); })) {
    throw_peer_failure(what, error_->message);
  }
}

void Agent::fail_call(const std::string& what, const Status& status) {
  throw_if_failed(what, status);
  if (!status.service_error && status.code == Code::kUnavailable) {
    lockstep::fail<Error>(
        "[{}] {} failed: the coordinator at {} cannot be reached ({}); see whether it still runs", self(),
        what, options_.address, status.message);
  }
  if (!status.service_error && status.code == Code::kResourceExhausted) {
    lockstep::fail<Error>(
        "[{}] {} failed: it is more than the coordinator at {} takes in one message ({}); put large data "
        "into a file that all can read, or into several keys",
        self(), what, options_.address, status.message);
  }
  lockstep::fail<Error>("[{}] {} failed: {} ({})", self(), what, status.message, to_string(status.code));
}

template <class Request>
std::optional<Answer<ResponseTo<Request>>> Agent::call(const std::string& what, milliseconds timeout,
                                                       bool ends_with_job, const Request& request) {
  using Response = ResponseTo<Request>;
  auto pending = std::make_shared<Pending<Response>>();
  CallId id = next_call_id();
  if (ends_with_job) {
    std::lock_guard lock(mutex_);
    if (error_) throw_peer_failure(what, error_->message);
    ended_by_error_.insert(id);
  }
  make_call(*service_, id, request, answers_to<Response>(pending));
  if (ends_with_job) cancel_if_failed(id);
  auto answer = pending->wait_until(SteadyClock::now() + std::min(timeout, kLongest));
  if (!answer) service_->cancel(id);
  if (ends_with_job) {
    {
      std::lock_guard lock(mutex_);
      ended_by_error_.erase(id);
      if (error_ && (!answer || answer->status.code == Code::kCancelled)) {
        throw_peer_failure(what, error_->message);
      }
    }
    if (answer && !answer->status.ok()) throw_if_failed(what, answer->status);
  }
  return answer;
}

template <class Request>
Answer<ResponseTo<Request>> Agent::quick_call(const std::string& what, const Request& request,
                                              Code expected) {
  auto answer = call(what, options_.heartbeat_timeout, false, request);
  if (!answer) {
    lockstep::fail<Error>(
        "[{}] {} failed: no answer from the coordinator at {} for {} s; see whether its host is up", self(),
        what, options_.address, seconds(options_.heartbeat_timeout));
  }
  if (!answer->status.ok() && answer->status.code != expected) fail_call(what, answer->status);
  return std::move(*answer);
}

// Joining and leaving.

void Agent::cancel_if_failed(CallId id) {
  {
    std::lock_guard lock(mutex_);
    if (!error_) return;
  }
  service_->cancel(id);
}

CallId Agent::start_registering(const std::shared_ptr<Registering>& pending) {
  CallId id = next_call_id();
  {
    std::lock_guard lock(mutex_);
    if (error_) throw_peer_failure("joining the job", error_->message);
    ended_by_error_.insert(id);
  }
  jax::RegisterTaskRequest request;
  request.set_source_task_id(options_.process_id);
  request.set_incarnation(incarnation_);
  make_call(*service_, id, request, answers_to<jax::RegisterTaskResponse>(pending), {Whereabouts::own()});
  cancel_if_failed(id);
  return id;
}

void Agent::connect() {
  constexpr milliseconds kBetweenLogLines(10000), kBetweenTries(200), kForTheServersAnswer(2000),
      kBetweenLooks(1000);
  auto began = SteadyClock::now();
  auto deadline = began + options_.initialization_timeout;
  bool given_more_time = false;
  std::string last_error;
  auto fail_to_join = [&](const std::string& why) {
    lockstep::fail<InitializationError>("[{}] cannot join the job at the coordinator {}: {}", self(),
                                        options_.address, why);
  };

  auto pending = std::make_shared<Registering>();
  watch::waits_for(others_of({}), fingerprint("initialize"));
  CallId id = start_registering(pending);
  auto next_log_line = began + kBetweenLogLines, next_look = began + kBetweenLooks;
  while (true) {
    auto answer = pending->wait_until(std::min({deadline, next_log_line, next_look}));
    auto now = SteadyClock::now();
    if (now >= next_look) {
      next_look = now + kBetweenLooks;
      if (const std::string never = why_never_ && !answer ? why_never_() : ""; !never.empty()) {
        service_->cancel(id);
        fail_to_join(never);
      }
      if (!answer && now < std::min(deadline, next_log_line)) continue;
    }
    if (answer) {
      const Status& status = answer->status;
      std::unique_lock lock(mutex_);
      ended_by_error_.erase(id);
      if (status.ok()) {
        service_incarnation_ = answer->value.service_incarnation();
        break;
      }
      if (error_) throw_peer_failure("joining the job", error_->message);
      lock.unlock();
      if (status.service_error) {
        bool died = status.code == Code::kUnavailable && status.service_error->source_task;
        if (died) throw_peer_failure("joining the job", status.message);
        fail_to_join(status.message);
      }
      if (status.code == Code::kUnimplemented) {
        fail_to_join("what listens there does not speak the coordination protocol; check the port");
      }
      last_error = status.message;
      if (now < deadline) {
        std::this_thread::sleep_for(std::min<SteadyClock::duration>(kBetweenTries, deadline - now));
        pending = std::make_shared<Registering>();
        id = start_registering(pending);
        continue;
      }
    }
    if (now < deadline) {
      next_log_line = now + kBetweenLogLines;
      std::string why = why_unreachable_();
      logging::info("{} has waited {:.0f} s to join the job at the coordinator {}: {}", self(),
                    std::chrono::duration<double>(now - began).count(), options_.address,
                    why.empty() ? ask_membership(*service_) : why);
      continue;
    }
    std::string why = why_unreachable_();
    if (why.empty() && !given_more_time && !answer) {
      given_more_time = true;
      deadline = now + kForTheServersAnswer;
      continue;
    }
    std::string roll = why.empty() && !answer ? ask_membership(*service_) : "";
    if (why.empty() && !answer) report_missing();
    service_->cancel(id);
    std::string waited = fmt::format("after {} s ", seconds(options_.initialization_timeout));
    if (!why.empty()) fail_to_join(waited + why);
    if (answer) fail_to_join(waited + "its last answer was: " + last_error);
    fail_to_join(waited + roll + "; see whether the missing ones were started");
  }
  begin_background();
}

void Agent::shutdown() {
  const bool was_known = error().has_value();
  // Reports what this process has seen before it leaves: once all leave, the job ends without an error.
  finish_reports();
  bool job_has_failed;
  {
    std::lock_guard lock(mutex_);
    if (leaving_ || service_incarnation_ == 0) return;
    leaving_ = true;
    job_has_failed = error_.has_value();
  }
  milliseconds timeout = job_has_failed ? kForGoodBye : options_.shutdown_timeout + milliseconds(5000);
  auto leave = request<jax::ShutdownTaskRequest>();
  leave.set_source_task_id(options_.process_id);
  std::optional<Answer<jax::ShutdownTaskResponse>> answer;
  try {
    answer = call("shutdown", timeout, !job_has_failed, leave);
  } catch (const PeerFailure&) {
    end_background();
    throw;
  }
  end_background();
  // An error that came while this call waited to be told is this call's.
  if (job_has_failed && !was_known) throw_peer_failure("shutdown", error()->message);
  if (job_has_failed || (answer && answer->status.ok())) return;
  if (!answer) {
    lockstep::fail<TimeoutError>("[{}] shutdown got no answer from the coordinator at {} within {} s", self(),
                                 options_.address, seconds(timeout));
  }
  const Status& status = answer->status;
  if (!status.service_error) fail_call("shutdown", status);
  if (status.service_error->source_task) throw_peer_failure("shutdown", status.message);
  lockstep::fail<TimeoutError>("[{}] {}", self(), status.message);
}

// Barriers and keys.

std::vector<int> Agent::others_of(const std::vector<int>& processes) const {
  std::vector<int> others = processes;
  if (others.empty()) {
    others.resize(static_cast<std::size_t>(options_.num_processes));
    std::iota(others.begin(), others.end(), 0);
  }
  std::erase(others, options_.process_id);
  return others;
}

void Agent::barrier(const std::string& id, milliseconds timeout, const std::vector<int>& processes) {
  std::string what = fmt::format("barrier '{}'", shown(id));
  auto request = this->request<jax::BarrierRequest>();
  request.set_barrier_id(id_on_wire(id));
  request.set_barrier_timeout_in_ms(timeout.count());
  request.mutable_task_ids()->Add(processes.begin(), processes.end());
  request.set_source_task_id(options_.process_id);
  {
    std::lock_guard lock(mutex_);
    if (!barriers_in_use_.insert(id).second) {
      lockstep::fail<Error>("[{}] {} is called by two threads of this process at once; call it from one",
                            self(), what);
    }
    request.set_counter(barrier_counters_[id]);
  }
  struct Release {
    Agent& agent;
    const std::string& id;
    ~Release() {
      std::lock_guard lock(agent.mutex_);
      agent.barriers_in_use_.erase(id);
    }
  } release{*this, id};
  const watch::Doing waiting(watch::Kind::kBarrier, id);
  watch::waits_for(others_of(processes), fingerprint("barrier " + id));

  const auto answer = call(what, kLongest, true, request);
  if (!answer) lockstep::fail<TimeoutError>("[{}] {} got no answer", self(), what);
  const Status& status = answer->status;
  {
    std::lock_guard lock(mutex_);
    if (status.ok()) barrier_counters_[id] = answer->value.counter() + 1;
    if (status.barrier) barrier_counters_[id] = status.barrier->counter + 1;
  }
  if (status.ok()) return;
  if (status.code == Code::kDeadlineExceeded) lockstep::fail<TimeoutError>("[{}] {}", self(), status.message);
  if (status.service_error && status.service_error->source_task) {
    lockstep::fail<PeerFailure>("[{}] {}", self(), status.message);
  }
  fail_call(what, status);
}

void Agent::check_key(const std::string& key) const {
  if (is_utf8(key)) return;
  lockstep::fail<Error>(
      "[{}] the key '{}' of the job's store is not UTF-8, as the coordination protocol requires; convert it, "
      "or write its bytes as digits",
      self(), shown(key));
}

void Agent::set(const std::string& key, const std::string& value, bool allow_overwrite) {
  check_key(key);
  std::string what = fmt::format("setting the key '{}'", shown(key));
  auto request = this->request<jax::InsertKeyValueRequest>();
  request.mutable_kv()->set_key(key);
  request.mutable_kv()->set_value(value);
  request.set_allow_overwrite(allow_overwrite);
  quick_call(what, request);
}

std::string Agent::get(const std::string& key, milliseconds timeout) {
  check_key(key);
  std::string what = fmt::format("waiting for the key '{}'", shown(key));
  // One who knows whose answer it is has said so.
  std::optional<watch::Doing> waiting;
  if (watch::innermost() != watch::Kind::kAnswer) waiting.emplace(watch::Kind::kKey, key);
  auto request = this->request<jax::GetKeyValueRequest>();
  request.set_key(key);
  auto answer = call(what, timeout, true, request);
  if (!answer) {
    lockstep::fail<TimeoutError>(
        "[{}] nobody has set the key '{}' within {} s; see whether the process that sets it has reached that "
        "point",
        self(), shown(key), seconds(timeout));
  }
  if (!answer->status.ok()) fail_call(what, answer->status);
  return std::move(*answer->value.mutable_kv()->mutable_value());
}

void Agent::when_set(const std::string& key, std::function<void(std::optional<std::string>)> done) {
  check_key(key);
  const CallId id = next_call_id();
  {
    std::unique_lock lock(mutex_);
    if (error_ || stopping_) {
      lock.unlock();
      return done(std::nullopt);
    }
    background_calls_.insert(id);
    ended_by_error_.insert(id);
  }
  auto request = this->request<jax::GetKeyValueRequest>();
  request.set_key(key);
  make_call(*service_, id, request,
            [this, id, done = std::move(done)](const Status& status, const jax::GetKeyValueResponse& found) {
              done(status.ok() ? std::optional(found.kv().value()) : std::nullopt);
              {
                std::lock_guard lock(mutex_);
                ended_by_error_.erase(id);
              }
              background_call_over(id);
            });
  cancel_if_failed(id);
}

std::optional<std::string> Agent::try_get(const std::string& key) {
  check_key(key);
  std::string what = fmt::format("reading the key '{}'", shown(key));
  auto request = this->request<jax::TryGetKeyValueRequest>();
  request.set_key(key);
  auto answer = quick_call(what, request, Code::kNotFound);
  if (!answer.status.ok()) return std::nullopt;
  return std::move(*answer.value.mutable_kv()->mutable_value());
}

std::int64_t Agent::increment(const std::string& key, std::int64_t by) {
  check_key(key);
  std::string what = fmt::format("incrementing the key '{}'", shown(key));
  auto request = this->request<jax::IncrementKeyValueRequest>();
  request.set_key(key);
  request.set_increment(by);
  const auto answer = quick_call(what, request);
  const std::string& text = answer.value.kv().value();
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    lockstep::fail<Error>("[{}] {}: expected a number as the answer, got '{}'", self(), what, shown(text));
  }
  return number;
}

std::vector<std::pair<std::string, std::string>> Agent::get_directory(const std::string& directory) {
  check_key(directory);
  std::string what = fmt::format("reading the keys below '{}'", shown(directory));
  const watch::Doing reading(watch::Kind::kKey, directory);
  auto request = this->request<jax::GetKeyValueDirRequest>();
  request.set_directory_key(directory);
  auto answer = quick_call(what, request);
  std::vector<std::pair<std::string, std::string>> found;
  for (jax::KeyValueEntry& entry : *answer.value.mutable_kv())
    found.emplace_back(std::move(*entry.mutable_key()), std::move(*entry.mutable_value()));
  return found;
}

void Agent::erase(const std::string& key) {
  check_key(key);
  std::string what = fmt::format("erasing the key '{}'", shown(key));
  auto request = this->request<jax::DeleteKeyValueRequest>();
  request.set_key(key);
  request.set_is_directory(true);
  quick_call(what, request);
}

std::unique_ptr<CoordinationClient> make_agent(ClientOptions options, std::shared_ptr<Service> service,
                                               std::function<std::string()> why_unreachable,
                                               std::function<std::string()> why_never) {
  return std::make_unique<Agent>(std::move(options), std::move(service), std::move(why_unreachable),
                                 std::move(why_never));
}

}  // namespace lockstep::coordination
