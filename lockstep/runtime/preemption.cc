// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/preemption.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kForAgreement(300);
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr const char* kNotice = "lockstep/preemption/notice";
constexpr const char* kStop = "lockstep/preemption/stop";

std::string step_key(int process) { return fmt::format("lockstep/preemption/step/{}", process); }

std::atomic<bool> signalled = false;
struct sigaction action_before;

void on_signal(int signal, siginfo_t* info, void* context) {
  signalled.store(true, std::memory_order_relaxed);
  if ((action_before.sa_flags & SA_SIGINFO) != 0) {
    if (action_before.sa_sigaction != nullptr) action_before.sa_sigaction(signal, info, context);
  } else if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
    action_before.sa_handler(signal);
  }
}

class Preemption {
 public:
  static Preemption& get() {
    static auto* instance = new Preemption;  // Outlives main, as its thread may.
    return *instance;
  }

  void watch(int signal) {
    std::lock_guard lock(mutex_);
    if (watching_) return;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (sigaction(signal, &action, &action_before) != 0) {
      fail("[watch_for_preemption] signal {} cannot be caught: {}", signal, std::strerror(errno));
    }
    watching_ = true;
  }

  bool point(std::int64_t step) {
    runtime::Runtime& runtime = runtime::Runtime::get();
    const bool alone = runtime.process_count() == 1 || runtime.described();
    std::unique_lock lock(mutex_);
    if (!alone && !std::exchange(known_.listening, true)) {
      lock.unlock();
      runtime.coordination()->when_set(kNotice, [this](const auto& notice) { heard(notice.has_value()); });
      lock.lock();
    }
    if (signalled.load(std::memory_order_relaxed) && !std::exchange(known_.told, true)) {
      if (alone) {
        known_.stop_at = step;
      } else {
        lock.unlock();
        logging::info(
            "a signal told this process to stop, at step {}: agreeing with the others on the last step",
            step);
        runtime.store()->set(kNotice, std::to_string(runtime.process_index()), /*allow_overwrite=*/true);
        lock.lock();
        changed_.wait(lock,
                      [this] { return known_.agreeing || known_.stop_at || known_.error || known_.over; });
      }
    }
    changed_.wait(lock, [this] { return !known_.agreeing; });
    if (known_.stop_at) return step >= *known_.stop_at;
    if (known_.error) std::rethrow_exception(known_.error);
    if (known_.over) throw_if_failed(runtime);
    known_.last_step = step;
    return false;
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      known_.over = true;
    }
    changed_.notify_all();
    if (agreement_.joinable()) agreement_.join();
    if (known_.listening) answer_before_leaving();
  }

  void begin() {
    std::lock_guard lock(mutex_);
    known_ = {};
  }

 private:
  static void throw_if_failed(runtime::Runtime& runtime) {
    const auto error = runtime.coordination()->error();
    if (!error) return;
    fail<PeerFailure>("{}\nconsequence: preemption_point ended in process {} of {}", error->message,
                      runtime.process_index(), runtime.process_count());
  }

  /// Answers a signal that comes after this process has left; without it the others would wait for its last
  /// step. If process 0 leaves, nobody collects the steps, so it answers that all run to their end.
  void answer_before_leaving() {
    runtime::Runtime& runtime = *runtime::Runtime::existing();
    if (runtime.coordination()->error()) return;
    try {
      if (runtime.process_index() != 0) {
        tell(runtime, step_key(runtime.process_index()), known_.last_step);
      } else if (!known_.stop_at) {
        tell(runtime, kStop, kNever);
      }
    } catch (const Error& error) {
      logging::debug("cannot tell the others the last step of this process: {}", error.what());
    }
  }

  /// A process was told to stop; or the job has failed, or this process leaves.
  void heard(bool notice) {
    std::lock_guard lock(mutex_);
    if (known_.over) return;
    if (notice) {
      known_.agreeing = true;  // From here on this process comes to no further step.
      agreement_ = std::thread([this, last = known_.last_step] { find_agreement(last); });
    } else {
      known_.over = true;
    }
    changed_.notify_all();
  }

  void find_agreement(std::int64_t last) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    runtime::Runtime& runtime = *runtime::Runtime::existing();
    std::optional<std::int64_t> stop_at;
    std::exception_ptr error;
    try {
      stop_at = agree(runtime, last);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    known_.stop_at = stop_at;
    known_.error = error;
    known_.agreeing = false;
    changed_.notify_all();
  }

  static void tell(runtime::Runtime& runtime, const std::string& key, std::int64_t step) {
    runtime.store()->set(key, std::to_string(step), /*allow_overwrite=*/true);
  }

  /// The first step that no process has passed: process 0 computes it from the steps of all, and the others
  /// read it. nullopt if this process leaves the job before it is known.
  std::optional<std::int64_t> agree(runtime::Runtime& runtime, std::int64_t last) {
    const int self = runtime.process_index();
    if (self != 0) {
      tell(runtime, step_key(self), last);
      return value_of(runtime, kStop, "process 0 has not heard from all processes");
    }
    for (int process = 1; process < runtime.process_count(); ++process) {
      const auto other = value_of(
          runtime, step_key(process),
          fmt::format("process {} of {} has not called preemption_point", process, runtime.process_count()));
      if (!other) return std::nullopt;
      last = std::max(last, *other);
    }
    const std::int64_t stop_at = last == std::numeric_limits<std::int64_t>::min() ? last : last + 1;
    tell(runtime, kStop, stop_at);
    return stop_at;
  }

  /// Waits for the value of the key; nullopt if this process leaves the job first. After the timeout the
  /// error says `what`.
  std::optional<std::int64_t> value_of(runtime::Runtime& runtime, const std::string& key,
                                       const std::string& what) {
    using Answer = std::optional<std::optional<std::string>>;
    const auto answer = std::make_shared<Answer>();
    runtime.coordination()->when_set(key, [this, answer](const std::optional<std::string>& value) {
      std::lock_guard lock(mutex_);
      answer->emplace(value);
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kForAgreement, [&] { return answer->has_value() || known_.over; });
    if (answer->has_value() && **answer) return std::stoll(***answer);
    if (known_.over) return std::nullopt;
    throw_if_failed(runtime);
    fail<TimeoutError>("[preemption_point] {} within {} s of the signal to stop", what,
                       kForAgreement.count());
  }

  /// What is known of the signal in the job of this process.
  struct Known {
    bool listening = false, told = false, agreeing = false;
    bool over = false;  // The job has failed, or this process leaves.
    std::int64_t last_step = std::numeric_limits<std::int64_t>::min();  // The last at which not to stop.
    std::optional<std::int64_t> stop_at;
    std::exception_ptr error;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  Known known_;
  std::thread agreement_;
};

}  // namespace

void watch_for_preemption(int signal) { Preemption::get().watch(signal); }

bool preemption_point(std::int64_t step) {
  Preemption& preemption = Preemption::get();
  preemption.watch(SIGTERM);
  return preemption.point(step);
}

namespace runtime {

void stop_preemption_watch() { Preemption::get().stop(); }

void begin_preemption_watch() { Preemption::get().begin(); }

}  // namespace runtime
}  // namespace lockstep
