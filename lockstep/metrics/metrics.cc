// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/metrics.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "lockstep/array/data.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/metrics/files.h"
#include "lockstep/metrics/number_of_array.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/storage/url.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::metrics {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A call of log(): its entry, and the arrays whose numbers are still to be put into it.
struct Call {
  Entry entry;
  std::vector<std::pair<std::size_t, NumberOfArray>> unread;  ///< by the place in entry.values
};

/// The process's metrics.
class Log {
 public:
  static Log& get() {
    static auto& log = *new Log;  // outlives main: the program's end writes what is left
    return log;
  }

  void configure(const Options& options, const CallSite& site) {
    std::lock_guard lock(mutex_);
    if (files_ != nullptr) {
      fail("[metrics::configure] is called (at {}) after metrics::log; call it before", site.to_string());
    }
    const std::string folder = local_folder("configure", options.folder);
    options_ = options;
    options_.folder = folder;
  }

  void add(std::int64_t step, std::vector<std::pair<std::string, Value>> values) {
    Call call{{step, seconds_since_1970(), {}}, {}};
    for (auto& [name, value] : values) name = shown(name);  // as it stands in the files
    check_names(values);
    std::lock_guard lock(mutex_);
    begin();
    for (const auto& [name, value] : values) {
      const Array& array = value.array();
      if (!array.valid()) {
        call.entry.values.emplace_back(name, value.number());
      } else if (NumberOfArray::is_here(array)) {
        call.unread.emplace_back(call.entry.values.size(), NumberOfArray(array, name));
        call.entry.values.emplace_back(name, 0);
      } else if (writes_) {
        fail<ShardingError>(
            "[metrics::log] '{}', {}, is only on other processes, but process {} of {} writes the metrics "
            "(at {}); give an array that this process has a part of",
            name, array.to_string(), runtime::Runtime::get().process_index(),
            runtime::Runtime::get().process_count(), CallSiteScope::current().to_string());
      }
    }
    calls_.push_back(std::move(call));
    advance(kMostUnread);
  }

  /// Reads and writes computed values; then waits for the first calls, until at most `most` are left.
  void flush() {
    std::lock_guard lock(mutex_);
    advance(0);
  }

  std::optional<Entry> latest() {
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock) {
      try {
        advance(calls_.size());
      } catch (const Error&) {
        // The computation's error is thrown where its result is read.
      }
    }
    std::lock_guard lock(latest_mutex_);
    return latest_;
  }

  void on_entry(std::function<void(const Entry&)> function) {
    std::lock_guard lock(mutex_);
    observer_ = std::move(function);
  }

 private:
  /// For observers of the process.
  static void show(const Entry& entry) {
    auto values = nlohmann::json::object();
    for (const auto& [name, value] : entry.values) values[name] = value;  // what is not finite becomes null
    watch::set_metrics(entry.step, json_text(values));
  }

  static void check_names(const std::vector<std::pair<std::string, Value>>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string& name = values[i].first;
      const bool twice = std::any_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const auto& other) { return other.first == name; });
      if (!name.empty() && !twice) continue;
      fail("[metrics::log] {} (at {}); give each value a name of its own",
           name.empty() ? "a name is empty" : fmt::format("the name '{}' is given twice", name),
           CallSiteScope::current().to_string());
    }
  }

  static std::string local_folder(const char* function, const std::string& folder) {
    try {
      return folder.empty() ? "" : storage::local_path(folder);
    } catch (const StorageError& error) {
      fail("[metrics::{}] the folder of metrics: {}", function, error.what());
    }
  }

  /// At the first call.
  void begin() {
    if (files_ != nullptr) return;
    const runtime::Runtime& runtime = runtime::Runtime::get();
    if (options_.folder.empty())
      options_.folder = local_folder("log", Environment::process().get("LOCKSTEP_LOG_DIR").value_or(""));
    writes_ = !options_.folder.empty() && (options_.all_processes || runtime.process_index() == 0);
    files_ = std::make_unique<Files>(options_, runtime.process_index(), runtime.attempt());
    std::atexit([] {
      try {
        Log::get().flush();
      } catch (const std::exception&) {
        // The computation's error is thrown where its result is read.
      }
    });
  }

  void advance(std::size_t most) {
    while (!calls_.empty()) {
      std::exception_ptr failed;
      try {
        if (calls_.size() <= most && !is_ready(calls_.front())) return;
        finish(calls_.front());
      } catch (...) {
        failed = std::current_exception();
      }
      calls_.pop_front();
      if (failed) std::rethrow_exception(failed);
    }
  }

  static bool is_ready(const Call& call) {
    return std::ranges::all_of(call.unread, [](const auto& each) { return each.second.is_ready(); });
  }

  void finish(Call& call) {
    for (const auto& [place, number] : call.unread) call.entry.values[place].second = number.read();
    if (writes_) files_->write(call.entry);
    {
      std::lock_guard lock(latest_mutex_);
      latest_ = call.entry;
    }
    if (observer_) observer_(call.entry);
    show(call.entry);
  }

  std::mutex mutex_;
  Options options_;
  bool writes_ = false;
  std::unique_ptr<Files> files_;  ///< from the first call on
  std::deque<Call> calls_;        ///< that are not finished
  std::function<void(const Entry&)> observer_;

  std::mutex latest_mutex_;  ///< never held while a device is waited for
  std::optional<Entry> latest_;
};

}  // namespace

void configure(const Options& options, std::source_location where) {
  Log::get().configure(options, CallSite::from(where));
}

void log(std::int64_t step, const std::vector<std::pair<std::string, Value>>& values,
         std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  Log::get().add(step, values);
}

void flush() { Log::get().flush(); }
std::optional<Entry> latest() { return Log::get().latest(); }
void on_entry(std::function<void(const Entry&)> function) { Log::get().on_entry(std::move(function)); }

}  // namespace lockstep::metrics
