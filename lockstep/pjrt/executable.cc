#include "lockstep/pjrt/executable.h"

#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

/// `n` pointers that live as long as this object: on the stack where they are few.
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

}  // namespace

void Executable::describe() {
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = loaded_;
  check(api_, api_->PJRT_LoadedExecutable_GetExecutable(&get), "describing a compiled program");
  executable_ = get.executable;

  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Name_Args, name);
  name.executable = executable_;
  check(api_, api_->PJRT_Executable_Name(&name), "describing a compiled program");
  name_.assign(name.executable_name, name.executable_name_size);

  LOCKSTEP_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable_;
  check(api_, api_->PJRT_Executable_OutputElementTypes(&types), "describing a compiled program");

  LOCKSTEP_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, shapes);
  shapes.executable = executable_;
  check(api_, api_->PJRT_Executable_OutputDimensions(&shapes), "describing a compiled program");
  const std::int64_t* dims = shapes.dims;
  for (std::size_t i = 0; i < types.num_output_types; ++i) {
    outputs_.push_back({from_pjrt(types.output_types[i], fmt::format("output {} of {}", i, name_)),
                        {dims, dims + shapes.dim_sizes[i]}});
    dims += shapes.dim_sizes[i];
  }
}

Executable::~Executable() {
  if (executable_ != nullptr) {
    LOCKSTEP_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = executable_;
    ignore(api_, api_->PJRT_Executable_Destroy(&args));
  }
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = loaded_;
  ignore(api_, api_->PJRT_LoadedExecutable_Destroy(&args));
}

void Executable::execute(std::span<PJRT_Buffer* const> arguments, const Device& device,
                         std::span<Buffer> outputs, const ExecuteOptions& options) const {
  if (outputs.size() != outputs_.size()) {
    fail<PjrtError>("[pjrt] running {}: it has {} outputs, and room was given for {}", name_, outputs_.size(),
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
  // A program without outputs has nothing else that could tell of its failure.
  if (outputs.empty()) args.device_complete_events = &done;
  for (Buffer& output : outputs) output.reset();
  if (PJRT_Error* error = api_->PJRT_LoadedExecutable_Execute(&args)) [[unlikely]]
    throw_error(api_, error, fmt::format("running {} on {}", name_, device.to_string()));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = Buffer(api_, result_list[i]);
  if (done != nullptr)
    await_and_destroy(api_, done, fmt::format("running {} on {}", name_, device.to_string()));
}

void Executable::execute_replicas(std::span<const std::vector<PJRT_Buffer*>> arguments,
                                  std::span<Buffer> outputs, const ExecuteOptions& options) const {
  const std::size_t devices = arguments.size();
  if (outputs.size() != outputs_.size() * devices) {
    fail<PjrtError>("[pjrt] running {} on {} devices: it has {} outputs, and room was given for {}", name_,
                    devices, outputs_.size(), outputs.size());
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
    result_lists.push_back(results.data() + i * outputs_.size());
  }
  LOCKSTEP_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = loaded_;
  args.options = &execute_options;
  args.argument_lists = argument_lists.data();
  args.num_devices = devices;
  args.num_args = arguments.front().size();
  args.output_lists = result_lists.data();
  for (Buffer& output : outputs) output.reset();
  check(api_, api_->PJRT_LoadedExecutable_Execute(&args),
        fmt::format("running {} on {} devices", name_, devices));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = Buffer(api_, results[i]);
}

void Executable::execute(std::span<Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
                         const ExecuteOptions& options) const {
  Scratch pointers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) pointers.data()[i] = arguments[i]->get();
  execute(std::span<PJRT_Buffer* const>(pointers.data(), arguments.size()), device, outputs, options);
}

std::vector<Buffer> Executable::execute(std::span<Buffer* const> arguments, const Device& device,
                                        const ExecuteOptions& options) const {
  std::vector<Buffer> outputs(outputs_.size());
  execute(arguments, device, outputs, options);
  return outputs;
}

std::string Executable::compile_options() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_GetCompileOptions_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_GetCompileOptions(&args), "reading compile options");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_compile_options_deleter(args.serialized_compile_options);
  return bytes;
}

std::string Executable::serialize() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_Serialize(&args), "serializing a compiled program");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

MemoryStats Executable::memory_stats() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_GetCompiledMemoryStats(&args), "asking for a program's memory");
  return {args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes,
          args.alias_size_in_bytes, args.temp_size_in_bytes};
}

std::optional<std::string> Executable::fingerprint() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, args);
  args.executable = executable_;
  if (PJRT_Error* error = api_->PJRT_Executable_Fingerprint(&args)) {
    ignore(api_, error);
    return std::nullopt;
  }
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

}  // namespace lockstep::pjrt
