// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/executable.h"

#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

/// `n` pointers that live as long as this object; on the stack if there are few.
class Scratch {
 public:
  explicit Scratch(std::size_t n) {
    if (n > few_.size()) {
      many_.resize(n);
      data_ = many_.data();
    }
  }
  Scratch(const Scratch&) = delete;
  PJRT_Buffer** data() { return data_; }

 private:
  std::array<PJRT_Buffer*, 64> few_;
  std::vector<PJRT_Buffer*> many_;
  PJRT_Buffer** data_ = few_.data();
};

PJRT_Executable* executable_of(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) {
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = loaded;
  check(api, api->PJRT_LoadedExecutable_GetExecutable(&args), "describing a compiled program");
  return args.executable;
}

}  // namespace

Executable::Executable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded)
    : CompiledProgram(api, executable_of(api, loaded)), loaded_(loaded) {}

Executable::~Executable() {
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = loaded_;
  ignore(api(), api()->PJRT_LoadedExecutable_Destroy(&args));
}

void Executable::execute(std::span<PJRT_Buffer* const> arguments, const Device& device,
                         std::span<Buffer> outputs, const ExecuteOptions& options) const {
  if (outputs.size() != num_outputs()) {
    fail<PjrtError>("[pjrt] running {}: it has {} outputs, but room was given for {}", name(), num_outputs(),
                    outputs.size());
  }
  LOCKSTEP_PJRT_ARGS(PJRT_ExecuteOptions, execute_options);
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();
  Scratch results(outputs.size());
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Buffer** result_list = results.data();
  PJRT_Event* done = nullptr;
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = loaded_;
  args.options = &execute_options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &result_list;
  args.execute_device = device.get();
  // A program without outputs has no other means to report its failure.
  if (outputs.empty()) args.device_complete_events = &done;
  for (Buffer& output : outputs) output.reset();
  if (PJRT_Error* error = api()->PJRT_LoadedExecutable_Execute(&args)) [[unlikely]]
    throw_error(api(), error, fmt::format("running {} on {}", name(), device.to_string()));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = Buffer(api(), result_list[i]);
  if (done != nullptr)
    await_and_destroy(api(), done, fmt::format("running {} on {}", name(), device.to_string()));
}

void Executable::execute_replicas(std::span<const std::vector<PJRT_Buffer*>> arguments,
                                  std::span<Buffer> outputs, const ExecuteOptions& options) const {
  const std::size_t devices = arguments.size();
  if (outputs.size() != num_outputs() * devices) {
    fail<PjrtError>("[pjrt] running {} on {} devices: it has {} outputs, but room was given for {}", name(),
                    devices, num_outputs(), outputs.size());
  }
  LOCKSTEP_PJRT_ARGS(PJRT_ExecuteOptions, execute_options);
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer*> results(outputs.size());
  std::vector<PJRT_Buffer**> result_lists;
  for (std::size_t i = 0; i < devices; ++i) {
    argument_lists.push_back(arguments[i].data());
    result_lists.push_back(results.data() + i * num_outputs());
  }
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = loaded_;
  args.options = &execute_options;
  args.argument_lists = argument_lists.data();
  args.num_devices = devices;
  args.num_args = arguments.front().size();
  args.output_lists = result_lists.data();
  for (Buffer& output : outputs) output.reset();
  check(api(), api()->PJRT_LoadedExecutable_Execute(&args),
        fmt::format("running {} on {} devices", name(), devices));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = Buffer(api(), results[i]);
}

void Executable::execute(std::span<Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
                         const ExecuteOptions& options) const {
  Scratch pointers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) pointers.data()[i] = arguments[i]->get();
  execute(std::span<PJRT_Buffer* const>(pointers.data(), arguments.size()), device, outputs, options);
}

std::vector<Buffer> Executable::execute(std::span<Buffer* const> arguments, const Device& device,
                                        const ExecuteOptions& options) const {
  std::vector<Buffer> outputs(num_outputs());
  execute(arguments, device, outputs, options);
  return outputs;
}

}  // namespace lockstep::pjrt
