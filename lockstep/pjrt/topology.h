// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/device_description.h"

struct PJRT_TopologyDescription;

namespace lockstep::pjrt {

/// Described devices, which need not exist: programs are compiled for them ahead of time.
class Topology {
 public:
  /// The CUDA plugin's options are `target_config`, the text form of XLA's GpuTargetConfigProto, and
  /// `topology`, "1x2x4" for 1 partition of 2 processes with 4 devices each; its `name` is only for display.
  /// The TPU plugin's `name` is "v5e:4x4", its options are `num_slices` and `chip_config_name`. Throws
  /// PjrtError if the plugin does not compile ahead of time, or does not know the name or an option.
  static std::unique_ptr<Topology> create(std::shared_ptr<Plugin> plugin, const std::string& name,
                                          const ClientOptions& options);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  /// "cuda", "tpu".
  const std::string& platform_name() const { return platform_name_; }
  const std::shared_ptr<Plugin>& plugin() const { return plugin_; }
  const std::vector<DeviceDescription>& devices() const { return devices_; }

  /// As Client::compile, for the described devices. The result can be loaded by `Client::deserialize` where
  /// they exist.
  std::unique_ptr<CompiledProgram> compile(std::string_view mlir, const CompileOptions& options = {}) const;

 private:
  Topology(std::shared_ptr<Plugin> plugin, PJRT_TopologyDescription* topology);

  std::shared_ptr<Plugin> plugin_;
  PJRT_TopologyDescription* topology_;
  std::string platform_name_;
  std::vector<DeviceDescription> devices_;
};

}  // namespace lockstep::pjrt
