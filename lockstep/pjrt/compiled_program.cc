// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/compiled_program.h"

#include <fmt/format.h>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/named_values.h"

namespace lockstep::pjrt {
namespace {

void destroy(const PJRT_Api* api, PJRT_Executable* executable) {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
  args.executable = executable;
  ignore(api, api->PJRT_Executable_Destroy(&args));
}

}  // namespace

CompiledProgram::CompiledProgram(const PJRT_Api* api, PJRT_Executable* executable)
    : api_(api), executable_(executable) {
  try {
    describe();
  } catch (...) {
    destroy(api_, executable_);
    throw;
  }
}

CompiledProgram::~CompiledProgram() { destroy(api_, executable_); }

void CompiledProgram::describe() {
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

std::string CompiledProgram::compile_options() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_GetCompileOptions_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_GetCompileOptions(&args), "reading compile options");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_compile_options_deleter(args.serialized_compile_options);
  return bytes;
}

std::string CompiledProgram::serialize() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_Serialize(&args), "serializing a compiled program");
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

MemoryStats CompiledProgram::memory_stats() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = executable_;
  check(api_, api_->PJRT_Executable_GetCompiledMemoryStats(&args), "asking for a program's memory");
  return {args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes,
          args.alias_size_in_bytes,          args.temp_size_in_bytes,     args.peak_memory_in_bytes};
}

std::map<std::string, double> CompiledProgram::cost_analysis() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args);
  args.executable = executable_;
  std::map<std::string, double> costs;
  if (PJRT_Error* error = api_->PJRT_Executable_GetCostAnalysis(&args)) {
    ignore(api_, error);
    return costs;
  }
  for (const auto& [name, value] : values_by_name({args.properties, args.num_properties}))
    if (const auto* number = std::get_if<float>(&value)) costs[name] = static_cast<double>(*number);
  return costs;
}

std::optional<std::string> CompiledProgram::fingerprint() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, args);
  args.executable = executable_;
  if (PJRT_Error* error = api_->PJRT_Executable_Fingerprint(&args)) {
    ignore(api_, error);
    return std::nullopt;
  }
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

}  // namespace lockstep::pjrt
