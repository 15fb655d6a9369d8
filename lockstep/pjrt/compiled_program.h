// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"

struct PJRT_Api;
struct PJRT_Executable;

namespace lockstep::pjrt {

/// The bytes of a device's memory that one execution needs, as planned by the compiler.
struct MemoryStats {
  std::int64_t generated_code = 0;
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  std::int64_t aliased = 0;  ///< the bytes of the outputs that use the memory of donated arguments
  std::int64_t temporary = 0;
  std::int64_t peak = 0;  ///< the largest total at any time; 0 if the plugin does not report it
};

/// The result of a compilation, loaded or not. Functions may be called from any thread, also concurrently;
/// they throw PjrtError if the plugin returns an error.
class CompiledProgram {
 public:
  struct Output {
    DType dtype;
    std::vector<std::int64_t> dims;
  };

  /// Takes ownership. Throws PjrtError if the plugin cannot describe it.
  CompiledProgram(const PJRT_Api* api, PJRT_Executable* executable);
  virtual ~CompiledProgram();
  CompiledProgram(const CompiledProgram&) = delete;
  CompiledProgram& operator=(const CompiledProgram&) = delete;

  /// The name of its MLIR module.
  const std::string& name() const { return name_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::size_t num_outputs() const { return outputs_.size(); }

  /// Its machine code, for `Client::deserialize` of the same plugin on the same kind of machine.
  std::string serialize() const;

  /// The options with which it was compiled, a serialized `xla.CompileOptionsProto`.
  std::string compile_options() const;

  MemoryStats memory_stats() const;

  /// The compiler's counts and estimates for one execution on one device, by XLA's names: "flops", "bytes
  /// accessed", and "optimal_seconds" if the platform estimates the time. Empty if the plugin does not
  /// support it.
  std::map<std::string, double> cost_analysis() const;

  /// The plugin's own fingerprint of the program, or nullopt if the plugin has none.
  std::optional<std::string> fingerprint() const;

 protected:
  const PJRT_Api* api() const { return api_; }

 private:
  void describe();

  const PJRT_Api* api_;
  PJRT_Executable* executable_;
  std::string name_;
  std::vector<Output> outputs_;
};

}  // namespace lockstep::pjrt
