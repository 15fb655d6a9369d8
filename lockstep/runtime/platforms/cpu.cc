// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/ffi_handler.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/runtime/callback_calls.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/ffi_targets.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/sleef/sleef.h"
#include "lockstep/sorting/sorting.h"
#include "lockstep/threefry/threefry.h"

namespace lockstep::runtime {
namespace {

/// The maximum number of hosts, and of devices over all of them.
constexpr std::int64_t kMostDescribed = 1 << 20;

bool nproc_is_given = false;  // by the user or the launcher
bool has_several_devices = false;

class Cpu : public Platform {
 public:
  const char* name() const override { return "cpu"; }
  const char* title() const override { return "CPU"; }
  const char* device_title() const override { return "a CPU"; }
  const char* setup() const override { return "scripts/setup"; }

  bool is_seen(const Environment&, const cluster::System&) const override { return true; }

  /// Its attributes do not mention the platform: plugins that belong to no other platform are for CPU.
  bool owns(const pjrt::Plugin&) const override { return true; }

  /// A collective occupies a thread of XLA's pool while it waits for the other devices: the pool must have
  /// one for each device of this process, or they wait for each other for ever.
  void set_environment(const Settings& settings, const Environment&, const cluster::System&,
                       bool) const override {
    nproc_is_given = settings.threads.has_value();
    // Calls of several devices at once would wait for each other's threads in OpenBLAS, which takes a hundred
    // times as long as on one thread each.
    has_several_devices = *settings.options.num_cpu_devices > 1;
    if (has_several_devices || settings.threads)
      lapack::limit_threads(has_several_devices ? 1 : *settings.threads);
    const int threads = settings.threads.value_or(static_cast<int>(std::thread::hardware_concurrency()));
    if (threads < *settings.options.num_cpu_devices)
      setenv("NPROC", std::to_string(*settings.options.num_cpu_devices).c_str(), /*overwrite=*/1);
  }

  /// LAPACK in this process gets its share of the host's CPUs, unless the number of threads is set. A process
  /// that is bound to some of the CPUs has these for itself.
  void share_host(int processes) const override {
    const auto cpus = static_cast<int>(std::thread::hardware_concurrency());
    if (has_several_devices || nproc_is_given || cpus < sysconf(_SC_NPROCESSORS_ONLN)) return;
    lapack::limit_threads(std::max(1, cpus / processes));
  }

  void register_handlers(pjrt::Plugin& plugin) const override {
    plugin.register_ffi_handler(ir::kDebugTarget, "Host", debug_handler());
    for (const auto& [target, handler] : collectives::collective_handlers())
      plugin.register_ffi_handler(target, "Host", handler);
    open_ffi_targets(plugin, name());
    plugin.register_ffi_handler(ir::kCallbackTarget, "Host", callback_handler());
    plugin.register_ffi_handler(lapack::kLapackTarget, "Host", lapack::lapack_handler());
    plugin.register_ffi_handler(onednn::kOneDnnTarget, "Host", onednn::onednn_handler());
    plugin.register_ffi_handler(sorting::kSortTarget, "Host", sorting::sort_handler());
    plugin.register_ffi_handler(sleef::kSleefTarget, "Host", sleef::sleef_handler());
    plugin.register_ffi_handler(threefry::kThreefryTarget, "Host", threefry::threefry_handler());
  }

  pjrt::ClientOptions client_options(const Settings& settings, const Environment&,
                                     const cluster::System&) const override {
    return {{"cpu_device_count", std::int64_t{*settings.options.num_cpu_devices}}, {"asynchronous", false}};
  }

  bool makes_collectives() const override { return false; }

  /// XLA's older loop emitters take a third of the time and half of the memory. They read a transposed
  /// operand element by element, so a program with transposes gets the newer ones; and their code for a
  /// loop's body takes ten times as long, so a program with loops does, too. Small bodies gain nothing from
  /// unrolling, and the compiler takes half of the time without it; but running sums take many times
  /// as long, and so do sums of pads in a loop, as in the gradient of a stencil.
  pjrt::CompileOptions own_compile_options(const ir::LoweredProgram& program) const override {
    pjrt::CompileOptions options;
    const ir::CodeTraits& has = program.traits;
    if (has.running || has.padding) return options;
    if (!has.needs_newer_emitters())
      options.backend_options = {"xla_cpu_disable_new_fusion_emitters", "xla_cpu_disable_loop_unrolling"};
    else if (has.loops)
      options.backend_options = {"xla_cpu_disable_loop_unrolling"};
    return options;
  }

  bool describes(std::string_view topology) const override { return topology.starts_with("cpu:"); }

  DescribedDevices describe(const std::string& topology,
                            const std::shared_ptr<pjrt::Plugin>&) const override {
    const std::vector<std::int64_t> sizes = sizes_in(std::string_view(topology).substr(4));
    if (sizes.size() != 2 || sizes[0] > kMostDescribed || sizes[1] > kMostDescribed ||
        sizes[0] * sizes[1] > kMostDescribed) {
      fail<InitializationError>(
          "[initialize] the topology '{}': expected cpu:HOSTSxDEVICES, such as cpu:64x4, with at most {} "
          "devices",
          topology, kMostDescribed);
    }
    DescribedDevices described;
    for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
      described.devices.push_back({.id = static_cast<int>(i),
                                   .process_index = static_cast<int>(i / sizes[1]),
                                   .kind = "cpu",
                                   .attributes = {}});
    }
    return described;
  }

  std::string known_topologies() const override { return "cpu:64x4 (hosts x devices)"; }
};

}  // namespace

const Platform& cpu_platform() {
  static const Cpu& platform = *new Cpu;
  return platform;
}

}  // namespace lockstep::runtime
