#include "lockstep/runtime/compile.h"

#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/log.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/runtime/compile_cache_key.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kToBegin{2000}, kToFinish{300000};

/// How XLA's CPU backend compiles: by its older loop emitters, which take a third of the time and half of the
/// memory. They read a transposed operand element by element, so a program that transposes gets the newer
/// ones; and what they make of a loop's body takes ten times as long, so a program with loops does too. Small
/// bodies gain nothing from unrolling, and the compiler takes half as long without.
pjrt::CompileOptions options_for(const LoweredProgram& program) {
  pjrt::CompileOptions options;
  if (Runtime::get().client().platform_name() != "cpu") return options;
  if (program.loops) {
    options.backend_options = {"xla_cpu_disable_loop_unrolling"};
  } else if (!program.transposes) {
    options.backend_options = {"xla_cpu_disable_new_fusion_emitters", "xla_cpu_disable_loop_unrolling"};
  }
  return options;
}

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

/// One program on its way to an executable: from the cache on disk, from another process of the host, or from
/// the compiler.
class Compilation {
 public:
  Compilation(const LoweredProgram& program, const Mesh& mesh, const std::string& name)
      : program_(program), mesh_(mesh), name_(name), options_(options_for(program)) {
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
    const std::string& host = runtime_.local_devices().front().host();
    const int first = first_of_host(mesh_, host);
    bool shared = false;
    for (Device device : mesh_.devices()) {
      shared = shared || (device.host() == host && device.process_index() != runtime_.process_index());
    }
    shared = shared && first >= 0 && runtime_.store() != nullptr && !program_.native_collectives;
    const bool gives = shared && first == runtime_.process_index();

    std::shared_ptr<pjrt::Executable> executable = from_cache();
    if (executable != nullptr) {
      if (gives) give(kInCache);
      return executable;
    }
    if (!shared) return compile();
    if (!gives) return from_process(first);
    runtime_.store()->set(key_in_store() + kBegun, "1", true);
    executable = compile();
    runtime_.store()->set(key_in_store() + kCode, executable->serialize(), true);
    return executable;
  }

 private:
  static constexpr const char *kBegun = "/begun", *kCode = "/code";

  /// In place of the code: it is in the cache. No code is empty.
  static constexpr const char* kInCache = "";

  std::string key_in_store() const {
    return fmt::format("lockstep/executable/{}/{:016x}", machine(), fingerprint(program_.stablehlo));
  }

  void give(const std::string& code) {
    runtime_.store()->set(key_in_store() + kBegun, "1", true);
    runtime_.store()->set(key_in_store() + kCode, code, true);
  }

  std::shared_ptr<pjrt::Executable> from_cache() {
    if (key_.empty()) return nullptr;
    const Stopwatch time;
    const std::optional<std::string> code = cache_.find(key_);
    if (!code) return nullptr;
    try {
      std::shared_ptr<pjrt::Executable> executable = client_.deserialize(*code, options_);
      logging::debug("loaded {} from the compilation cache in {:.3f} s", name_, time.seconds().count());
      return executable;
    } catch (const PjrtError& refused) {
      cache_.discard(key_, refused.what());
      return nullptr;
    }
  }

  std::shared_ptr<pjrt::Executable> from_process(int first) {
    try {
      const Stopwatch time;
      runtime_.store()->get(key_in_store() + kBegun, kToBegin);
      const std::string code = runtime_.store()->get(key_in_store() + kCode, kToFinish);
      if (code != kInCache) {
        std::shared_ptr<pjrt::Executable> executable = client_.deserialize(code, options_);
        logging::debug("took {} of process {} in {:.3f} s", name_, first, time.seconds().count());
        return executable;
      }
      if (auto executable = from_cache()) return executable;
    } catch (const TimeoutError& late) {
      logging::debug("{}: compiling for itself", late.what());
    }
    return compile();
  }

  std::shared_ptr<pjrt::Executable> compile() {
    const Stopwatch time;
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
  Runtime& runtime_ = Runtime::get();
  pjrt::Client& client_ = runtime_.client();
  CompileCache& cache_ = runtime_.compile_cache();
  pjrt::CompileOptions options_;
  std::string key_;  ///< empty: not for the cache
};

}  // namespace

std::shared_ptr<pjrt::Executable> compile(const LoweredProgram& program, const Mesh& mesh,
                                          const std::string& name) {
  static std::mutex mutex;
  static auto& kept = *new std::map<std::string, std::shared_ptr<pjrt::Executable>>;
  std::lock_guard lock(mutex);
  std::string key = program.stablehlo;
  if (program.native_collectives) {
    for (Device device : mesh.devices()) key += fmt::format(" {}", device.id());
  }
  auto& executable = kept[key];
  if (!executable) executable = Compilation(program, mesh, name).run();
  return executable;
}

}  // namespace lockstep::runtime
