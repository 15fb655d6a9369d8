#include "lockstep/coordination/agent.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/host.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

double seconds(milliseconds duration) { return std::chrono::duration<double>(duration).count(); }

/// What a call was answered with, for the thread that waits for it.
template <class T>
struct Answer {
  Status status;
  T value{};
};

template <class T>
struct Pending {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Answer<T>> answer;

  /// Nullopt where there is no answer in time.
  std::optional<Answer<T>> wait_until(SteadyClock::time_point deadline) {
    std::unique_lock lock(mutex);
    answered.wait_until(lock, deadline, [this] { return answer.has_value(); });
    return answer;
  }
  void give(Status status, T value) {
    std::lock_guard lock(mutex);
    answer = Answer<T>{std::move(status), std::move(value)};
    answered.notify_all();
  }
};

struct Nothing {};

constexpr milliseconds kLongest = std::chrono::hours(24 * 365);

class Agent : public CoordinationClient, private KeyValueStore {
 public:
  Agent(ClientOptions options, std::shared_ptr<Service> service, std::function<std::string()> why_unreachable)
      : options_(std::move(options)),
        service_(std::move(service)),
        why_unreachable_(std::move(why_unreachable)) {
    if (options_.process_id < 0 || options_.num_processes < 1) {
      fail<InitializationError>("a job needs at least 1 process, and ids from 0 up, got process {} of {}",
                                options_.process_id, options_.num_processes);
    }
    if (options_.heartbeat_interval.count() <= 0)
      options_.heartbeat_interval = options_.heartbeat_timeout / 2;
    options_.heartbeat_interval = std::max(options_.heartbeat_interval, milliseconds(1));
  }

  ~Agent() override { end_background(); }

  void connect() override;
  void barrier(const std::string& id, milliseconds timeout, const std::vector<int>& processes) override;
  KeyValueStore& key_value_store() override { return *this; }
  void shutdown() override;
  int process_id() const override { return options_.process_id; }
  int num_processes() const override { return options_.num_processes; }

  std::optional<JobError> error() const override {
    std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  void set(const std::string& key, const std::string& value, bool allow_overwrite) override;
  std::string get(const std::string& key, milliseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::int64_t increment(const std::string& key, std::int64_t by) override;
  std::vector<std::pair<std::string, std::string>> get_directory(const std::string& directory) override;
  void erase(const std::string& key) override;

  std::string self() const { return name_processes({options_.process_id}, options_.num_processes); }
  std::uint64_t service_incarnation() const {
    std::lock_guard lock(mutex_);
    return service_incarnation_;
  }

  /// Starts a call and blocks until its answer; nullopt where there is none within the timeout, when the call
  /// is cancelled. With `ends_with_job`, throws PeerFailure when the job fails meanwhile or has failed.
  template <class T, class Start>
  std::optional<Answer<T>> call(const std::string& what, milliseconds timeout, bool ends_with_job,
                                Start start);

  /// The same for a call that the service answers at once.
  template <class T, class Start>
  Answer<T> quick_call(const std::string& what, Start start);

  [[noreturn]] void fail_call(const std::string& what, const Status& status) const;
  [[noreturn]] void throw_job_error(const std::string& what, const JobError& error) const;

  std::string missing_processes();
  void begin_background();
  void end_background();
  void run_background();
  void job_failed(JobError error);

  ClientOptions options_;
  const std::shared_ptr<Service> service_;
  const std::function<std::string()> why_unreachable_;
  const std::uint64_t incarnation_ = random_incarnation();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t service_incarnation_ = 0;
  std::optional<JobError> error_;
  std::set<CallId> ended_by_error_;  ///< Open calls that the job's error ends.
  std::map<std::string, std::int64_t> barrier_counters_;
  std::set<std::string> barriers_in_use_;
  bool leaving_ = false, stopping_ = false;
  std::optional<CallId> poll_, heartbeat_;
  SteadyClock::time_point last_answered_heartbeat_;
  std::thread background_;
};

// Waiting for answers.

void Agent::throw_job_error(const std::string& what, const JobError& error) const {
  fail<PeerFailure>("[{}] {} ended, because the job has failed: {}", self(), what, error.message);
}

void Agent::fail_call(const std::string& what, const Status& status) const {
  if (!status.service_error && status.code == Code::kUnavailable) {
    fail<Error>("[{}] {} failed: the coordinator at {} cannot be reached ({}); see whether it still runs",
                self(), what, options_.address, status.message);
  }
  fail<Error>("[{}] {} failed: {} ({})", self(), what, status.message, to_string(status.code));
}

template <class T, class Start>
std::optional<Answer<T>> Agent::call(const std::string& what, milliseconds timeout, bool ends_with_job,
                                     Start start) {
  auto pending = std::make_shared<Pending<T>>();
  CallId id = next_call_id();
  if (ends_with_job) {
    std::lock_guard lock(mutex_);
    if (error_) throw_job_error(what, *error_);
    ended_by_error_.insert(id);
  }
  if constexpr (std::is_same_v<T, Nothing>) {
    start(id, [pending](Status status) { pending->give(std::move(status), {}); });
  } else {
    start(id, [pending](Status status, T value) { pending->give(std::move(status), std::move(value)); });
  }
  auto answer = pending->wait_until(SteadyClock::now() + std::min(timeout, kLongest));
  if (!answer) service_->cancel(id);
  if (ends_with_job) {
    std::lock_guard lock(mutex_);
    ended_by_error_.erase(id);
    if (error_ && (!answer || answer->status.code == Code::kCancelled)) throw_job_error(what, *error_);
  }
  return answer;
}

template <class T, class Start>
Answer<T> Agent::quick_call(const std::string& what, Start start) {
  auto answer = call<T>(what, options_.heartbeat_timeout, false, start);
  if (!answer) {
    fail<Error>("[{}] {} failed: no answer from the coordinator at {} for {} s; see whether its host is up",
                self(), what, options_.address, seconds(options_.heartbeat_timeout));
  }
  return *answer;
}

// Joining and leaving.

void Agent::connect() {
  constexpr milliseconds kBetweenLogLines(10000), kBetweenTries(200), kForTheServersAnswer(2000);
  auto began = SteadyClock::now();
  auto deadline = began + options_.initialization_timeout;
  bool given_more_time = false;
  std::string last_error;
  auto fail_to_join = [&](const std::string& why) {
    fail<InitializationError>("[{}] cannot join the job at the coordinator {}: {}", self(), options_.address,
                              why);
  };

  auto pending = std::make_shared<Pending<std::uint64_t>>();
  CallId id = 0;
  auto start = [&] {
    pending = std::make_shared<Pending<std::uint64_t>>();
    id = next_call_id();
    service_->register_task(
        id, options_.process_id, incarnation_,
        [pending](Status status, std::uint64_t service) { pending->give(status, service); });
  };
  start();
  auto next_log_line = began + kBetweenLogLines;
  while (true) {
    auto answer = pending->wait_until(std::min(deadline, next_log_line));
    auto now = SteadyClock::now();
    if (answer) {
      const Status& status = answer->status;
      if (status.ok()) {
        std::lock_guard lock(mutex_);
        service_incarnation_ = answer->value;
        break;
      }
      if (status.service_error) fail_to_join(status.message);
      if (status.code == Code::kUnimplemented) {
        fail_to_join("what listens there does not speak the coordination protocol; check the port");
      }
      last_error = status.message;
      if (now < deadline) {
        std::this_thread::sleep_for(std::min<SteadyClock::duration>(kBetweenTries, deadline - now));
        start();
        continue;
      }
    }
    if (now < deadline) {
      next_log_line = now + kBetweenLogLines;
      std::string why = why_unreachable_();
      logging::info("{} has waited {:.0f} s to join the job at the coordinator {}: {}", self(),
                    std::chrono::duration<double>(now - began).count(), options_.address,
                    why.empty() ? "not all processes have come yet" : why);
      continue;
    }
    std::string why = why_unreachable_();
    if (why.empty() && !given_more_time && !answer) {
      given_more_time = true;
      deadline = now + kForTheServersAnswer;
      continue;
    }
    std::string missing = why.empty() && !answer ? missing_processes() : "";
    service_->cancel(id);
    std::string waited = fmt::format("after {} s ", seconds(options_.initialization_timeout));
    if (!why.empty()) fail_to_join(waited + why);
    if (answer) fail_to_join(waited + "its last answer was: " + last_error);
    fail_to_join(waited + missing);
  }
  begin_background();
}

std::string Agent::missing_processes() {
  // A wrong incarnation tells the right one.
  std::uint64_t service = 0;
  for (int i = 0; i < 2; ++i) {
    auto answer = call<WatchedTasks>("watching", milliseconds(2000), false, [&](CallId id, auto done) {
      service_->watch_tasks(id, service, -1, std::move(done));
    });
    if (!answer)
      return "somebody listens there, but does not answer; check the port, and whether the coordinator hangs";
    if (answer->status.ok()) {
      std::vector<int> missing;
      for (const TaskInfo& task : answer->value.tasks) {
        if (task.state == TaskState::kUninitialized && task.incarnation == 0) missing.push_back(task.task);
      }
      std::sort(missing.begin(), missing.end());
      int size = static_cast<int>(answer->value.tasks.size());
      return fmt::format("not all processes have come; missing: {}; see whether they were started",
                         name_processes(missing, size));
    }
    if (!answer->status.right_service_incarnation) {
      return fmt::format("somebody listens there, but is no coordinator ({}); check the port",
                         answer->status.message);
    }
    service = *answer->status.right_service_incarnation;
  }
  return "not all processes have come";
}

void Agent::shutdown() {
  bool job_has_failed;
  {
    std::lock_guard lock(mutex_);
    if (leaving_ || service_incarnation_ == 0) return;
    leaving_ = true;
    job_has_failed = error_.has_value();
  }
  milliseconds timeout = job_has_failed ? milliseconds(2000) : options_.shutdown_timeout + milliseconds(5000);
  auto answer = call<Nothing>("shutdown", timeout, false, [&](CallId id, auto done) {
    service_->shutdown_task(id, service_incarnation(), options_.process_id, std::move(done));
  });
  end_background();
  if (job_has_failed || (answer && answer->status.ok())) return;
  if (!answer) {
    fail<TimeoutError>("[{}] shutdown got no answer from the coordinator at {} within {} s", self(),
                       options_.address, seconds(timeout));
  }
  const Status& status = answer->status;
  if (!status.service_error) fail_call("shutdown", status);
  if (status.service_error->source_task) fail<PeerFailure>("[{}] {}", self(), status.message);
  fail<TimeoutError>("[{}] {}", self(), status.message);
}

// Listening for errors, and heartbeats.

void Agent::begin_background() {
  last_answered_heartbeat_ = SteadyClock::now();
  CallId poll = next_call_id();
  {
    std::lock_guard lock(mutex_);
    poll_ = poll;
  }
  service_->poll_for_error(poll, service_incarnation_, options_.process_id, [this](const Status& status) {
    if (!status.service_error) {
      job_failed({fmt::format("the coordinator at {} is gone: {}", options_.address, status.message), {}});
    } else if (status.code != Code::kCancelled) {  // What the service says to who has left.
      job_failed({status.message, status.service_error->source_task});
    }
    std::lock_guard lock(mutex_);
    poll_.reset();
    wake_.notify_all();
  });
  background_ = std::thread([this] { run_background(); });
}

void Agent::end_background() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (background_.joinable()) background_.join();
  std::optional<CallId> poll, heartbeat;
  {
    std::lock_guard lock(mutex_);
    poll = poll_;
    heartbeat = heartbeat_;
  }
  if (poll) service_->cancel(*poll);
  if (heartbeat) service_->cancel(*heartbeat);
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return !poll_ && !heartbeat_; });
}

void Agent::job_failed(JobError error) {
  std::lock_guard lock(mutex_);
  if (error_ || leaving_ || stopping_) return;
  error_ = std::move(error);
  wake_.notify_all();
}

void Agent::run_background() {
  bool reported = false;
  auto next_heartbeat = SteadyClock::now() + options_.heartbeat_interval;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_until(lock, next_heartbeat, [&] { return stopping_ || (error_ && !reported); });
    if (stopping_) return;
    if (error_ && !reported) {
      reported = true;
      std::set<CallId> open = ended_by_error_;
      JobError error = *error_;
      lock.unlock();
      for (CallId id : open) service_->cancel(id);
      if (options_.on_error) options_.on_error(error);
      lock.lock();
      continue;
    }
    auto now = SteadyClock::now();
    if (now < next_heartbeat) continue;
    next_heartbeat = now + options_.heartbeat_interval;
    if (!error_ && !leaving_ && now - last_answered_heartbeat_ > options_.heartbeat_timeout) {
      error_ =
          JobError{fmt::format("nothing was heard of the coordinator at {} for {} s: its host is down, or "
                               "the network between is",
                               options_.address, seconds(options_.heartbeat_timeout)),
                   {}};
      continue;
    }
    if (heartbeat_) continue;
    CallId id = next_call_id();
    heartbeat_ = id;
    lock.unlock();
    service_->heartbeat(id, service_incarnation(), options_.process_id, incarnation_,
                        [this](const Status& status) {
                          if (status.service_error)
                            job_failed({status.message, status.service_error->source_task});
                          std::lock_guard answered(mutex_);
                          if (status.ok()) last_answered_heartbeat_ = SteadyClock::now();
                          heartbeat_.reset();
                          wake_.notify_all();
                        });
    lock.lock();
  }
}

// Barriers and keys.

void Agent::barrier(const std::string& id, milliseconds timeout, const std::vector<int>& processes) {
  std::string what = fmt::format("barrier '{}'", id);
  BarrierCall request{id, 0, timeout.count(), processes, options_.process_id};
  {
    std::lock_guard lock(mutex_);
    if (!barriers_in_use_.insert(id).second) {
      fail<Error>("[{}] {} is called by two threads of this process at once; call it from one", self(), what);
    }
    request.counter = barrier_counters_[id];
  }
  struct Release {
    Agent& agent;
    const std::string& id;
    ~Release() {
      std::lock_guard lock(agent.mutex_);
      agent.barriers_in_use_.erase(id);
    }
  } release{*this, id};

  auto answer = call<std::int64_t>(what, kLongest, true, [&](CallId call, auto done) {
    service_->barrier(call, service_incarnation(), request, std::move(done));
  });
  if (!answer) fail<TimeoutError>("[{}] {} got no answer", self(), what);
  const Status& status = answer->status;
  {
    std::lock_guard lock(mutex_);
    if (status.ok()) barrier_counters_[id] = answer->value + 1;
    if (status.barrier) barrier_counters_[id] = status.barrier->counter + 1;
  }
  if (status.ok()) return;
  if (status.code == Code::kDeadlineExceeded) fail<TimeoutError>("[{}] {}", self(), status.message);
  if (status.service_error && status.service_error->source_task) {
    fail<PeerFailure>("[{}] {}", self(), status.message);
  }
  fail_call(what, status);
}

void Agent::set(const std::string& key, const std::string& value, bool allow_overwrite) {
  std::string what = fmt::format("setting the key '{}'", key);
  auto answer = quick_call<Nothing>(what, [&](CallId id, auto done) {
    service_->insert(id, service_incarnation(), key, value, allow_overwrite, std::move(done));
  });
  if (!answer.status.ok()) fail_call(what, answer.status);
}

std::string Agent::get(const std::string& key, milliseconds timeout) {
  std::string what = fmt::format("waiting for the key '{}'", key);
  auto answer = call<std::string>(what, timeout, true, [&](CallId id, auto done) {
    service_->get(id, service_incarnation(), key, std::move(done));
  });
  if (!answer) {
    fail<TimeoutError>(
        "[{}] nobody has set the key '{}' within {} s; see whether the process that sets it has come "
        "this far",
        self(), key, seconds(timeout));
  }
  if (!answer->status.ok()) fail_call(what, answer->status);
  return answer->value;
}

std::optional<std::string> Agent::try_get(const std::string& key) {
  std::string what = fmt::format("reading the key '{}'", key);
  auto answer = quick_call<std::string>(what, [&](CallId id, auto done) {
    service_->try_get(id, service_incarnation(), key, std::move(done));
  });
  if (answer.status.code == Code::kNotFound) return std::nullopt;
  if (!answer.status.ok()) fail_call(what, answer.status);
  return answer.value;
}

std::int64_t Agent::increment(const std::string& key, std::int64_t by) {
  std::string what = fmt::format("incrementing the key '{}'", key);
  auto answer = quick_call<std::string>(what, [&](CallId id, auto done) {
    service_->increment(id, service_incarnation(), key, by, std::move(done));
  });
  if (!answer.status.ok()) fail_call(what, answer.status);
  std::int64_t number = 0;
  const char* end = answer.value.data() + answer.value.size();
  auto [stop, error] = std::from_chars(answer.value.data(), end, number);
  if (error != std::errc() || stop != end) {
    fail<Error>("[{}] {} gave '{}', which is no number", self(), what, answer.value);
  }
  return number;
}

std::vector<std::pair<std::string, std::string>> Agent::get_directory(const std::string& directory) {
  std::string what = fmt::format("reading the keys below '{}'", directory);
  auto answer = quick_call<KeyValues>(what, [&](CallId id, auto done) {
    service_->get_directory(id, service_incarnation(), directory, std::move(done));
  });
  if (!answer.status.ok()) fail_call(what, answer.status);
  return answer.value;
}

void Agent::erase(const std::string& key) {
  std::string what = fmt::format("erasing the key '{}'", key);
  auto answer = quick_call<Nothing>(
      what, [&](CallId id, auto done) { service_->erase(id, service_incarnation(), key, std::move(done)); });
  if (!answer.status.ok()) fail_call(what, answer.status);
}

}  // namespace

std::unique_ptr<CoordinationClient> make_agent(ClientOptions options, std::shared_ptr<Service> service,
                                               std::function<std::string()> why_unreachable) {
  return std::make_unique<Agent>(std::move(options), std::move(service), std::move(why_unreachable));
}

}  // namespace lockstep::coordination
