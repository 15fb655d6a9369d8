// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/topology.h"

#include "lockstep/base/fail.h"
#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/compile_options.h"
#include "lockstep/pjrt/named_values.h"

namespace lockstep::pjrt {

std::unique_ptr<Topology> Topology::create(std::shared_ptr<Plugin> plugin, const std::string& name,
                                           const ClientOptions& options) {
  if (plugin->api()->PJRT_TopologyDescription_Create == nullptr || plugin->api()->PJRT_Compile == nullptr) {
    fail<PjrtError>("[pjrt] the plugin {} does not compile for devices that are only described",
                    plugin->path());
  }
  const std::vector<PJRT_NamedValue> values = named_values(options);
  LOCKSTEP_PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = values.data();
  args.num_options = values.size();
  check(plugin->api(), plugin->api()->PJRT_TopologyDescription_Create(&args),
        fmt::format("describing the devices {} to {}", name, plugin->path()));
  return std::unique_ptr<Topology>(new Topology(std::move(plugin), args.topology));
}

Topology::Topology(std::shared_ptr<Plugin> plugin, PJRT_TopologyDescription* topology)
    : plugin_(std::move(plugin)), topology_(topology) {
  const PJRT_Api* api = plugin_->api();
  LOCKSTEP_PJRT_ARGS(PJRT_TopologyDescription_PlatformName_Args, platform);
  platform.topology = topology_;
  check(api, api->PJRT_TopologyDescription_PlatformName(&platform), "asking for the platform's name");
  platform_name_.assign(platform.platform_name, platform.platform_name_size);

  LOCKSTEP_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, list);
  list.topology = topology_;
  check(api, api->PJRT_TopologyDescription_GetDeviceDescriptions(&list), "listing the devices");
  for (std::size_t i = 0; i < list.num_descriptions; ++i)
    devices_.push_back(describe(api, list.descriptions[i]));
}

Topology::~Topology() {
  LOCKSTEP_PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, args);
  args.topology = topology_;
  ignore(plugin_->api(), plugin_->api()->PJRT_TopologyDescription_Destroy(&args));
}

std::unique_ptr<CompiledProgram> Topology::compile(std::string_view mlir,
                                                   const CompileOptions& options) const {
  const PJRT_Api* api = plugin_->api();
  constexpr std::string_view kFormat = "mlir";
  LOCKSTEP_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(mlir.data());
  program.code_size = mlir.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  const std::string serialized = serialize(options, platform_name_);
  LOCKSTEP_PJRT_ARGS(PJRT_Compile_Args, args);
  args.topology = topology_;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  check(api, api->PJRT_Compile(&args), "compiling a program ahead of time");
  return std::make_unique<CompiledProgram>(api, args.executable);
}

}  // namespace lockstep::pjrt
