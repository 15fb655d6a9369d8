#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/system.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/topology.h"
#include "lockstep/program/lowering.h"
#include "lockstep/runtime/settings.h"

namespace lockstep::runtime {

/// Devices that a topology describes.
struct DescribedDevices {
  /// What compiles for them; null where one device's program is compiled by a client of this machine.
  std::unique_ptr<pjrt::Topology> topology;

  /// In the order of their processes; `process_index` counts hosts.
  std::vector<pjrt::DeviceDescription> devices;

  std::int64_t memory_bytes = 0;  ///< of each; 0: not known

  /// Of each, in a second, in its usual matrix dtype (bf16), by its vendor's data sheet; 0: not known.
  double peak_flops = 0;
};

/// A kind of devices, and all that differs between kinds. There is one object of each, for ever.
class Platform {
 public:
  virtual ~Platform() = default;

  /// As the plugin's client names it, and LOCKSTEP_PLATFORM: "cuda".
  virtual const char* name() const = 0;

  /// For people: "CUDA", "a GPU", "scripts/setup --cuda".
  virtual const char* title() const = 0;
  virtual const char* device_title() const = 0;
  virtual const char* setup() const = 0;

  /// Whether this machine shows a device of it.
  virtual bool is_seen(const Environment& environment, const cluster::System& system) const = 0;

  /// Whether a plugin, by what it says of itself, is for it.
  virtual bool owns(const pjrt::Plugin& plugin) const = 0;

  /// Where else than default_plugin_paths() its plugin may be: the path that a variable of the platform's own
  /// names. Empty: none does.
  virtual std::string given_path(const Environment&) const { return ""; }

  /// What the plugin is to find in this process's environment, set where it is not: before it is loaded.
  /// `described`: to compile for devices that are not here.
  virtual void set_environment(const Settings&, const Environment&, const cluster::System&,
                               bool described) const {
    static_cast<void>(described);
  }

  /// This process is one of so many on its host.
  virtual void share_host(int processes) const { static_cast<void>(processes); }

  /// Registers the handlers that programs on it call.
  virtual void register_handlers(pjrt::Plugin&) const {}

  virtual pjrt::ClientOptions client_options(const Settings& settings, const Environment& environment,
                                             const cluster::System& system) const = 0;

  /// Which of the devices that the client shows are used, by position. Throws InitializationError where there
  /// is no such device.
  virtual std::vector<int> used_devices(const Settings& settings, int shown) const;

  /// Whether the compiler makes the collectives, of StableHLO's, and so one program for all devices;
  /// otherwise each device's program calls Lockstep's.
  virtual bool makes_collectives() const { return true; }

  /// How a program is compiled, but for its devices.
  virtual pjrt::CompileOptions compile_options(const LoweredProgram&) const { return {}; }

  /// Whether a topology, as the user names it, is of this platform: "v5e:4x4" is a TPU's.
  virtual bool describes(std::string_view topology) const = 0;

  /// The devices of such a topology. `plugin` is this platform's. Throws InitializationError for one that
  /// there is not, listing those that there are, and PjrtError where the plugin does not compile for devices
  /// that are not here.
  virtual DescribedDevices describe(const std::string& topology,
                                    const std::shared_ptr<pjrt::Plugin>& plugin) const = 0;

  /// Some topologies that `describe` takes, for messages.
  virtual std::string known_topologies() const = 0;

 protected:
  Platform() = default;
};

const Platform& cpu_platform();
const Platform& cuda_platform();
const Platform& tpu_platform();

/// In the order in which `auto` looks for them; the CPU's is the last.
std::span<const Platform* const> platforms();

/// Throws InitializationError for a name that is none.
const Platform& platform_named(std::string_view name);

/// The platform of a topology. Throws InitializationError, listing topologies that there are, where it is
/// none's.
const Platform& platform_describing(const std::string& topology);

/// What follows the colon of a topology, as sizes: "4x4" gives {4, 4}; empty where it is not of that form or
/// a size is not above 0.
std::vector<std::int64_t> sizes_in(std::string_view text);

}  // namespace lockstep::runtime
