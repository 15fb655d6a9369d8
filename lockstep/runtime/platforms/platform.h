// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/compiler_options.h"
#include "lockstep/base/environment.h"
#include "lockstep/cluster/system.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/topology.h"
#include "lockstep/program/lower.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// The devices of a described topology.
struct DescribedDevices {
  /// Compiles for the devices; null if this machine's client compiles the program of one device.
  std::unique_ptr<pjrt::Topology> topology;

  /// In the order of their processes; `process_index` is the number of the host.
  std::vector<pjrt::DeviceDescription> devices;

  std::int64_t memory_bytes = 0;  ///< of each device; 0: unknown

  /// Operations per second of each device, in its usual matrix dtype (bf16), according to its vendor's data
  /// sheet; 0: unknown.
  double peak_flops = 0;
};

/// A kind of devices, with everything that differs between kinds. Each has one object, which lives until the
/// process ends.
class Platform {
 public:
  virtual ~Platform() = default;

  /// The name in the plugin's client and in LOCKSTEP_PLATFORM: "cuda".
  virtual const char* name() const = 0;

  /// Texts for messages: "CUDA", "a GPU", "scripts/setup --cuda".
  virtual const char* title() const = 0;
  virtual const char* device_title() const = 0;
  virtual const char* setup() const = 0;

  /// Whether this machine has a device of this platform.
  virtual bool is_seen(const Environment& environment, const cluster::System& system) const = 0;

  /// Whether a plugin, according to its attributes, is for this platform.
  virtual bool owns(const pjrt::Plugin& plugin) const = 0;

  /// A path of the plugin from a variable of the platform's own, besides default_plugin_paths(). Empty: none.
  virtual std::string given_path(const Environment&) const { return ""; }

  /// Sets the environment variables that the plugin needs and that are not set; called before it is loaded.
  /// `described`: to compile for devices that do not exist here.
  virtual void set_environment(const Settings&, const Environment&, const cluster::System&,
                               bool described) const {
    static_cast<void>(described);
  }

  /// Called with the number of processes on this host.
  virtual void share_host(int processes) const { static_cast<void>(processes); }

  /// Registers the handlers that programs of this platform call.
  virtual void register_handlers(pjrt::Plugin&) const {}

  virtual pjrt::ClientOptions client_options(const Settings& settings, const Environment& environment,
                                             const cluster::System& system) const = 0;

  /// The positions of the client's devices that are used. Throws InitializationError if one does not exist.
  virtual std::vector<int> used_devices(const Settings& settings, int shown) const;

  /// Whether the compiler implements StableHLO's collectives, so that one program is compiled for all
  /// devices; otherwise each device's program calls Lockstep's collectives.
  virtual bool makes_collectives() const { return true; }

  /// Whether the devices copy pinned memory of the host by themselves (Client::pin_host_memory).
  virtual bool copies_pinned_memory() const { return false; }

  /// The compile options of a program, without its devices. `asked` are the user's, which go before the
  /// platform's own.
  pjrt::CompileOptions compile_options(const ir::LoweredProgram& program, const CompilerOptions& asked) const;

  /// Sets what programs for this platform are lowered to. `devices`: those of this process; empty if they are
  /// only described.
  virtual void set_lowering(ir::LowerOptions& options, std::span<const pjrt::Device* const> devices) const {
    static_cast<void>(options), static_cast<void>(devices);
  }

  /// Whether a topology, as named by the user, belongs to this platform: "v5e:4x4" is a TPU topology.
  virtual bool describes(std::string_view topology) const = 0;

  /// The devices of such a topology. `plugin` is this platform's plugin. Throws InitializationError, listing
  /// the known ones, for an unknown topology, and PjrtError if the plugin does not compile ahead of time.
  virtual DescribedDevices describe(const std::string& topology,
                                    const std::shared_ptr<pjrt::Plugin>& plugin) const = 0;

  /// Some topologies that `describe` accepts, for messages.
  virtual std::string known_topologies() const = 0;

 protected:
  Platform() = default;

 private:
  virtual pjrt::CompileOptions own_compile_options(const ir::LoweredProgram&) const { return {}; }
};

const Platform& cpu_platform();
const Platform& cuda_platform();
const Platform& tpu_platform();

/// In the order in which `auto` tries them; CPU is the last.
std::span<const Platform* const> platforms();

/// Throws InitializationError for an unknown name.
const Platform& platform_named(std::string_view name);

/// The platform of a topology. If no platform describes it, throws an InitializationError that lists known
/// topologies.
const Platform& platform_describing(const std::string& topology);

/// The part of a topology after the colon, as sizes: "4x4" gives {4, 4}; empty if it does not have that form
/// or a size is not positive.
std::vector<std::int64_t> sizes_in(std::string_view text);

}  // namespace lockstep::runtime
