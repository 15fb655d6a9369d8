// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/compile.h"

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/call_site.h"
#include "lockstep/base/cores.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/log.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/runtime/plan.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/runtime/shared_code.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

pjrt::CompileOptions compile_options(const ir::LoweredProgram& program, const CompilerOptions& asked) {
  const Runtime& runtime = Runtime::get();
  pjrt::CompileOptions options = runtime.platform().compile_options(program, asked);
  // The order of the sums in a matrix product depends on the number of threads that share it.
  // And on CPUs a Fourier transform blocks its thread of XLA's pool until others have done parts of it. With
  // several devices these may all be in collectives, which wait for this device.
  const bool may_block =
      program.traits.fft && !runtime.platform().makes_collectives() && runtime.local_devices().size() > 1;
  if (may_block || runtime.reproducible_sums())
    options.xla_options.try_emplace("xla_cpu_multi_thread_eigen", false);
  return options;
}

class Stopwatch {
 public:
  std::chrono::duration<double> seconds() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One program on its way to an executable: from the cache on disk, from another process of the host, or from
/// the compiler.
class Compilation {
 public:
  Compilation(const ir::LoweredProgram& program, const Mesh& mesh, const std::string& name,
              CompileReport& report, const CompilerOptions& options)
      : program_(program),
        name_(name),
        report_(report),
        options_(compile_options(program, options)),
        asked_(lockstep::to_string(options)),
        shared_(program, mesh, asked_) {
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
    if (auto executable = from_cache()) {
      shared_.give_in_cache();
      return executable;
    }
    shared_.begin();
    if (shared_.giver() >= 0) {
      if (auto executable = from_process()) return executable;
    }
    std::shared_ptr<pjrt::Executable> executable = compile();
    if (shared_.has_takers()) shared_.give(executable->serialize());
    return executable;
  }

 private:
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

  /// Null if it does not arrive.
  std::shared_ptr<pjrt::Executable> from_process() {
    const Stopwatch time;
    const std::optional<SharedCode::Code> taken = shared_.take(name_);
    if (!taken) return nullptr;
    if (taken->code.empty()) {
      auto executable = from_cache();
      if (executable != nullptr) shared_.give_in_cache();
      return executable;
    }
    try {
      std::shared_ptr<pjrt::Executable> executable = client_.deserialize(taken->code, options_);
      report_.from = CompileReport::From::kProcess;
      report_.process = shared_.giver();
      const std::chrono::duration<double> seconds = time.seconds();
      logging::debug("took {} from process {} in {:.3f} s", name_, shared_.giver(), seconds.count());
      // Another host may keep its programs elsewhere.
      if (!key_.empty() && shared_.comes_from_another_host() && cache_.wants(seconds))
        cache_.store(key_, taken->code);
      return executable;
    } catch (const PjrtError& refused) {
      logging::warning("the machine code of {} that process {} gives cannot be loaded: {}; compiling instead",
                       name_, shared_.giver(), refused.what());
      return nullptr;
    }
  }

  std::shared_ptr<pjrt::Executable> compile() {
    const Stopwatch time;
    report_.from = CompileReport::From::kCompiler;
    report_.not_cached = !key_.empty();
    std::shared_ptr<pjrt::Executable> executable = compiled();
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

  std::shared_ptr<pjrt::Executable> compiled() {
    // XLA's compiler starts a thread for each core that the thread of its first call may use.
    const OnHostCores while_others_wait;
    try {
      return client_.compile(program_.stablehlo, options_);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const PjrtError& refused) {
      if (program_.stablehlo.find("__cudnn$fmha") != std::string::npos) {
        fail<PjrtError>(
            "[jit] compiling {} failed (at {}): {}. It calls cuDNN for attention. If cuDNN is the cause, let "
            "XLA compute "
            "attention: set LOCKSTEP_CUDNN_ATTENTION=0, or .implementation = AttentionImplementation::kXla",
            name_, CallSiteScope::current().to_string(), refused.what());
      }
      if (asked_.empty()) throw;
      fail<PjrtError>("[jit] {} is not compiled with compiler_options {} (at {}): {}", name_, asked_,
                      CallSiteScope::current().to_string(), refused.what());
    }
  }

  const ir::LoweredProgram& program_;
  const std::string& name_;
  CompileReport& report_;
  Runtime& runtime_ = Runtime::get();
  pjrt::Client& client_ = runtime_.client();
  CompileCache& cache_ = runtime_.compile_cache();
  pjrt::CompileOptions options_;
  const std::string asked_;  ///< the user's options, as text
  SharedCode shared_;
  std::string key_;  ///< empty: not for the cache
};

/// The executables of the process, by their texts' digests.
class Executables {
 public:
  static Executables& get() {
    static auto& all = *new Executables;
    return all;
  }

  /// The executable with this digest; if it does not exist, one of the threads that need it makes it.
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
      return fmt::format("taken, compiled, from process {} in {:.3f} s", process, seconds);
    case From::kFile:
      return fmt::format("loaded from a file in {:.3f} s", seconds);
    case From::kNowhere:
      return "not compiled, because it only does collectives";
    case From::kCompiler:
      break;
  }
  return fmt::format("compiled in {:.3f} s{}", seconds,
                     not_cached ? ", not being in the compilation cache" : "");
}

std::shared_ptr<pjrt::Executable> compile(const ir::LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name, CompileReport* report,
                                          const CompilerOptions& options) {
  CompileReport mine;
  CompileReport& told = report != nullptr ? *report : mine;
  const Stopwatch time;
  std::string text = program.stablehlo + lockstep::to_string(options);
  if (program.native_collectives) {
    for (Device device : mesh.devices()) text += fmt::format(" {}", device.id());
  }
  auto executable = Executables::get().find_or_make(digest(text), [&] {
    const watch::Doing compiling(watch::Kind::kCompile, name);
    return Compilation(program, mesh, name, told, options).run();
  });
  told.time = time.seconds();
  return executable;
}

std::shared_ptr<pjrt::Executable> load_code(const ir::LoweredProgram& program, const Mesh& mesh,
                                            std::string_view code) {
  Runtime& runtime = Runtime::get();
  pjrt::CompileOptions options = compile_options(program, {});
  if (program.native_collectives)
    for (Device device : mesh.devices()) options.devices.push_back(runtime.plugin_id(device));
  return runtime.client().deserialize(code, options);
}

std::string machine_code(const pjrt::Executable& executable, const ir::LoweredProgram& program,
                         const CompilerOptions& options) {
  // A program for several devices at once is compiled by all of its processes together, and so not again.
  if (!executable.is_deserialized() || program.native_collectives) return executable.serialize();
  Runtime& runtime = Runtime::get();
  return runtime.client().compile(program.stablehlo, compile_options(program, options))->serialize();
}

CodeIdentity code_identity() {
  Runtime& runtime = Runtime::get();
  if (runtime.described()) return runtime.plan().code_identity();
  return code_identity(*runtime.client().plugin(), runtime.client().platform_name());
}

void forget_compiled() { Executables::get().clear(); }

}  // namespace lockstep::runtime
