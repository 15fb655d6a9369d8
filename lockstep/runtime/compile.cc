#include "lockstep/runtime/compile.h"

#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/log.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kToBegin{2000}, kToFinish{300000};

/// How XLA's CPU backend compiles: by its older loop emitters, which take a third of the time and half of the
/// memory, but read a transposed operand element by element; a program that transposes gets the newer ones.
pjrt::CompileOptions options_for(const LoweredProgram& program) {
  pjrt::CompileOptions options;
  if (!program.transposes && Runtime::get().client().platform_name() == "cpu") {
    options.backend_options = {"xla_cpu_disable_new_fusion_emitters", "xla_cpu_disable_loop_unrolling"};
  }
  return options;
}

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

std::shared_ptr<pjrt::Executable> compile_together(const LoweredProgram& program, const Mesh& mesh) {
  Runtime& runtime = Runtime::get();
  pjrt::Client& client = runtime.client();
  pjrt::CompileOptions options = options_for(program);
  if (program.native_collectives) {
    for (Device device : mesh.devices()) options.devices.push_back(runtime.plugin_id(device));
    return client.compile(program.stablehlo, options);
  }
  const std::string& host = runtime.local_devices().front().host();
  const int first = first_of_host(mesh, host);
  bool shared = false;
  for (Device device : mesh.devices()) {
    shared = shared || (device.host() == host && device.process_index() != runtime.process_index());
  }
  if (runtime.store() == nullptr || first < 0 || !shared) return client.compile(program.stablehlo, options);

  const std::string key =
      fmt::format("lockstep/executable/{}/{:016x}", machine(), fingerprint(program.stablehlo));
  const std::string begun = key + "/begun", code = key + "/code";
  if (first == runtime.process_index()) {
    runtime.store()->set(begun, "1", true);
    std::shared_ptr<pjrt::Executable> executable = client.compile(program.stablehlo, options);
    runtime.store()->set(code, executable->serialize(), true);
    return executable;
  }
  try {
    runtime.store()->get(begun, kToBegin);
    return client.deserialize(runtime.store()->get(code, kToFinish), options);
  } catch (const TimeoutError& late) {
    logging::debug("{}: compiling for itself", late.what());
  }
  return client.compile(program.stablehlo, options);
}

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
  if (!executable) {
    const auto start = std::chrono::steady_clock::now();
    executable = compile_together(program, mesh);
    logging::debug("compiled {} in {:.3f} s", name,
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return executable;
}

}  // namespace lockstep::runtime
