#include "lockstep/runtime/compile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/proof.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kToBegin{2000}, kToFinish{300000};

class Stopwatch {
 public:
  std::chrono::duration<double> seconds() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Tells machines apart, so that machine code is not handed from one to another.
const std::string& machine() {
  static const std::string id = [] {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return boot;
  }();
  return id;
}

/// The lowest process of the mesh that runs on this process's host.
int first_of_host(const Mesh& mesh, const std::string& host) {
  int first = -1;
  for (Device device : mesh.devices()) {
    if (device.host() == host && (first < 0 || device.process_index() < first))
      first = device.process_index();
  }
  return first;
}

/// What this process has put into the job's store for the other processes of its host: the last max_kept()
/// programs stay there.
class Given {
 public:
  static Given& get() {
    static auto& given = *new Given;
    return given;
  }

  /// To be called before the program at this key in the store is given.
  void add(coordination::KeyValueStore& store, const std::string& key) {
    std::optional<std::string> oldest;
    {
      std::lock_guard lock(mutex_);
      if (std::ranges::find(keys_, key) != keys_.end()) return;
      keys_.push_back(key);
      if (keys_.size() > max_kept()) {
        oldest = std::move(keys_.front());
        keys_.pop_front();
      }
    }
    if (oldest) store.erase(*oldest);
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> keys_;
};

/// One program on its way to an executable: from the cache on disk, from another process of the host, or from
/// the compiler.
class Compilation {
 public:
  Compilation(const LoweredProgram& program, const Mesh& mesh, const std::string& name, CompileReport& report)
      : program_(program),
        mesh_(mesh),
        name_(name),
        report_(report),
        options_(Runtime::get().platform().compile_options(program)),
        // Of each host, though several may be one machine's: containers, or network namespaces.
        in_store_(fmt::format("lockstep/executable/{}/{}/{}", machine(), host_, digest(program.stablehlo))) {
    bool spans_processes = false;
    for (Device device : mesh.devices()) {
      if (program.native_collectives) options_.devices.push_back(runtime_.plugin_id(device));
      spans_processes = spans_processes || device.process_index() != runtime_.process_index();
    }
    // A plugin's compilers of several processes work together: none may be left waiting for one with a hit.
    if (cache_.enabled() && !(program.native_collectives && spans_processes))
      key_ = compile_cache_key(client_, options_, program.stablehlo);
  }

  std::shared_ptr<pjrt::Executable> run() {
    const int first = first_of_host(mesh_, host_);
    bool shared = false;
    for (Device device : mesh_.devices()) {
      shared = shared || (device.host() == host_ && device.process_index() != runtime_.process_index());
    }
    // Machine code is run as it comes: without a secret nobody can tell whose it is.
    shared = shared && first >= 0 && runtime_.store() != nullptr && !program_.native_collectives &&
             !runtime_.job_secret().empty();
    const bool gives = shared && first == runtime_.process_index();

    std::shared_ptr<pjrt::Executable> executable = from_cache();
    if (executable != nullptr) {
      if (gives) {
        begin_to_give();
        runtime_.store()->set(in_store_ + kCode, kInCache, true);
      }
      return executable;
    }
    if (!shared) return compile();
    if (!gives) return from_process(first);
    begin_to_give();
    executable = compile();
    const std::string code = executable->serialize();
    runtime_.store()->set(in_store_ + kCode, authentication_of(code) + code, true);
    return executable;
  }

 private:
  static constexpr const char *kBegun = "/begun", *kCode = "/code", *kTakers = "/takers";

  /// In place of "1": all have taken the code, which is gone.
  static constexpr const char* kTaken = "taken";

  static constexpr std::size_t kCodeBytes = 32;  ///< Of what comes before the machine code.

  /// In place of the code: it is in the cache. No code is empty.
  static constexpr const char* kInCache = "";

  void begin_to_give() {
    Given::get().add(*runtime_.store(), in_store_);
    runtime_.store()->erase(in_store_ + kTakers);
    runtime_.store()->set(in_store_ + kBegun, "1", true);
  }

  std::shared_ptr<pjrt::Executable> from_cache() {
    if (key_.empty()) return nullptr;
    const Stopwatch time;
    const std::optional<std::string> code = cache_.find(key_);
    if (!code) return nullptr;
    try {
      std::shared_ptr<pjrt::Executable> executable = client_.deserialize(*code, options_);
      report_.from = CompileReport::From::kCache;
      logging::debug("loaded {} from the compilation cache in {:.3f} s", name_, time.seconds().count());
      return executable;
    } catch (const PjrtError& refused) {
      cache_.discard(key_, refused.what());
      return nullptr;
    }
  }

  std::shared_ptr<pjrt::Executable> from_process(int first) {
    const watch::Doing waiting(watch::Kind::kAnswer,
                               fmt::format("machine code of {}, which process {} compiles", name_, first));
    watch::waits_for(std::array{first}, 0);
    try {
      const Stopwatch time;
      if (runtime_.store()->get(in_store_ + kBegun, kToBegin) == kTaken) return compile();
      std::string code = finished_code();
      if (code != kInCache) {
        check(code, first);
        note_taken();
        std::shared_ptr<pjrt::Executable> executable = client_.deserialize(code, options_);
        report_.from = CompileReport::From::kProcess;
        report_.process = first;
        logging::debug("took {} of process {} in {:.3f} s", name_, first, time.seconds().count());
        return executable;
      }
      if (auto executable = from_cache()) return executable;
    } catch (const TimeoutError& late) {
      logging::debug("{}: compiling for itself", late.what());
    } catch (const ForeignCode& foreign) {
      logging::warning("{}; this process compiles it itself", foreign.what());
    }
    return compile();
  }

  struct ForeignCode : Error {
    using Error::Error;
  };

  std::string authentication_of(const std::string& code) const {
    return coordination::authentication_code(runtime_.job_secret(), "machine code of " + in_store_, code);
  }

  /// Leaves the machine code alone. Throws ForeignCode where it is not of a process of the job.
  void check(std::string& code, int giver) const {
    const std::string claimed = code.substr(0, kCodeBytes);
    code.erase(0, claimed.size());
    if (coordination::same_code(claimed, authentication_of(code))) return;
    fail<ForeignCode>(
        "the machine code of {} in the job's store is not what process {} put there: somebody "
        "without the job's secret can write to it",
        name_, giver);
  }

  /// The last of the host that takes the code removes it: the coordinator keeps no code that nobody awaits.
  void note_taken() {
    std::set<int> takers;
    for (Device device : mesh_.devices())
      if (device.host() == host_) takers.insert(device.process_index());
    coordination::KeyValueStore& store = *runtime_.store();
    if (store.increment(in_store_ + kTakers, 1) < static_cast<std::int64_t>(takers.size()) - 1) return;
    store.set(in_store_ + kBegun, kTaken, true);
    store.erase(in_store_ + kCode);
    store.erase(in_store_ + kTakers);
  }

  /// The code of a program that was begun. Throws TimeoutError where it does not come, or is taken back.
  std::string finished_code() {
    const Stopwatch time;
    while (true) {
      try {
        return runtime_.store()->get(in_store_ + kCode, kToBegin);
      } catch (const TimeoutError&) {
        const auto begun = runtime_.store()->try_get(in_store_ + kBegun);
        if (time.seconds() > kToFinish || !begun || *begun == kTaken) throw;
      }
    }
  }

  std::shared_ptr<pjrt::Executable> compile() {
    const Stopwatch time;
    report_.from = CompileReport::From::kCompiler;
    report_.not_cached = !key_.empty();
    std::shared_ptr<pjrt::Executable> executable = client_.compile(program_.stablehlo, options_);
    const std::chrono::duration<double> seconds = time.seconds();
    logging::debug("compiled {} in {:.3f} s", name_, seconds.count());
    if (key_.empty() || !cache_.wants(seconds)) return executable;
    try {
      cache_.store(key_, executable->serialize());
    } catch (const PjrtError& refused) {
      cache_.complain(fmt::format("{} cannot be kept: {}", name_, refused.what()));
    }
    return executable;
  }

  const LoweredProgram& program_;
  const Mesh& mesh_;
  const std::string& name_;
  CompileReport& report_;
  Runtime& runtime_ = Runtime::get();
  pjrt::Client& client_ = runtime_.client();
  CompileCache& cache_ = runtime_.compile_cache();
  pjrt::CompileOptions options_;
  const std::string host_ = runtime_.local_devices().front().host();
  std::string key_;       ///< empty: not for the cache
  std::string in_store_;  ///< the program's place in the job's store
};

/// The executables of the process, by their texts' digests.
class Executables {
 public:
  static Executables& get() {
    static auto& all = *new Executables;
    return all;
  }

  /// The executable of this digest, made if it is not there, by one of the threads that ask for it.
  std::shared_ptr<pjrt::Executable> find_or_make(
      const std::string& digest, const std::function<std::shared_ptr<pjrt::Executable>()>& make) {
    const std::size_t hash = std::hash<std::string>()(digest);
    auto is = [&](const KeptExecutable& each) { return each.digest == digest; };
    std::promise<std::shared_ptr<pjrt::Executable>> promise;
    std::shared_future<std::shared_ptr<pjrt::Executable>> others;
    {
      std::lock_guard lock(mutex_);
      if (auto found = kept_.find(hash, is)) return found->executable;
      auto [place, mine] = being_made_.try_emplace(digest);
      if (mine)
        place->second = promise.get_future().share();
      else
        others = place->second;
    }
    if (others.valid()) return others.get();
    try {
      auto made = std::make_shared<KeptExecutable>();
      made->digest = digest;
      made->executable = make();
      const auto executable = kept_.add(hash, std::move(made), is)->executable;
      std::lock_guard lock(mutex_);
      being_made_.erase(digest);
      promise.set_value(executable);
      return executable;
    } catch (...) {
      std::lock_guard lock(mutex_);
      being_made_.erase(digest);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  void clear() { kept_.clear(); }

 private:
  struct KeptExecutable : Kept {
    std::string digest;
    std::shared_ptr<pjrt::Executable> executable;
  };

  std::mutex mutex_;  ///< not held while one is made
  std::map<std::string, std::shared_future<std::shared_ptr<pjrt::Executable>>> being_made_;
  KeptByUse<const KeptExecutable> kept_;
};

}  // namespace

std::string CompileReport::to_string() const {
  const double seconds = time.count();
  switch (from) {
    case From::kMemory:
      return fmt::format("found compiled in memory in {:.3f} s", seconds);
    case From::kCache:
      return fmt::format("loaded from the compilation cache in {:.3f} s", seconds);
    case From::kProcess:
      return fmt::format("taken, compiled, of process {} in {:.3f} s", process, seconds);
    case From::kCompiler:
      break;
  }
  return fmt::format("compiled in {:.3f} s{}", seconds,
                     not_cached ? ", not being in the compilation cache" : "");
}

std::shared_ptr<pjrt::Executable> compile(const LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name, CompileReport* report) {
  CompileReport mine;
  CompileReport& told = report != nullptr ? *report : mine;
  const Stopwatch time;
  std::string text = program.stablehlo;
  if (program.native_collectives) {
    for (Device device : mesh.devices()) text += fmt::format(" {}", device.id());
  }
  auto executable = Executables::get().find_or_make(digest(text), [&] {
    const watch::Doing compiling(watch::Kind::kCompile, name);
    return Compilation(program, mesh, name, told).run();
  });
  told.time = time.seconds();
  return executable;
}

void forget_compiled() { Executables::get().clear(); }

}  // namespace lockstep::runtime
