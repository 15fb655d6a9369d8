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

/// Bytes of a device's memory that one execution needs, as the compiler planned them.
struct MemoryStats {
  std::int64_t generated_code = 0;
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  std::int64_t aliased = 0;  ///< of the outputs, those that lie in donated arguments
  std::int64_t temporary = 0;
  std::int64_t peak = 0;  ///< the most at any time, of all of these; 0 where the plugin does not say
};

/// What a compiler made of a program, loaded or not. Functions may be called from any thread, also at the
/// same time; they throw PjrtError where the plugin refuses.
class CompiledProgram {
 public:
  struct Output {
    DType dtype;
    std::vector<std::int64_t> dims;
  };

  /// Takes it over. Throws PjrtError where it cannot be described.
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

  /// The options that it was compiled with, a serialized `xla.CompileOptionsProto`.
  std::string compile_options() const;

  MemoryStats memory_stats() const;

  /// What the compiler counted and estimated of one execution on one device, by XLA's names: "flops", "bytes
  /// accessed", and "optimal_seconds" where the platform estimates its time. Empty where the plugin makes
  /// none.
  std::map<std::string, double> cost_analysis() const;

  /// The plugin's own digest of it, or nullopt where the plugin makes none.
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
