#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/pjrt/buffer.h"
#include "lockstep/pjrt/compiled_program.h"
#include "lockstep/pjrt/device.h"

struct PJRT_LoadedExecutable;

namespace lockstep::pjrt {

class Client;

/// How one execution is done.
struct ExecuteOptions {
  /// Arguments, by position, that must not be donated in this execution though the program asks for it.
  std::span<const std::int64_t> non_donatable = {};

  /// For a device's profiler and for mismatch checks of the plugin: the number of the launch, or 0.
  int launch_id = 0;
};

/// A compiled program that runs on any one addressable device of its client at a time. It must be gone before
/// its Client. Functions may be called from any thread, also at the same time.
class Executable : public CompiledProgram {
 public:
  ~Executable() override;

  /// Runs the program on `device`, whose memory holds the arguments, and fills `outputs`, which has room for
  /// `num_outputs()`; buffers that it holds before are freed.
  ///
  /// With a client of `asynchronous = false`, and for small programs always, the CPU plugin runs the program
  /// in this call, on this thread (parts of large operations go to its pool). An argument is donated where
  /// the text of the program says so and `options` do not forbid it: it then `is_deleted()`.
  ///
  /// Throws PjrtError where the arguments do not fit the program, or where it is known now that it failed;
  /// then `outputs` are empty. An execution that fails later, or elsewhere, shows at `Buffer::await()` of
  /// each output.
  void execute(std::span<Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
               const ExecuteOptions& options = {}) const;
  void execute(std::span<PJRT_Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
               const ExecuteOptions& options = {}) const;

  /// Runs a program that was compiled for several devices on all those of this process at once: `arguments`
  /// has for each of this process's, in the order of its replicas, the arguments, and `outputs` the room for
  /// its outputs, one device's after the other's. Returns before it is done where the plugin is asynchronous.
  /// Throws as execute.
  void execute_replicas(std::span<const std::vector<PJRT_Buffer*>> arguments, std::span<Buffer> outputs,
                        const ExecuteOptions& options = {}) const;

  /// The same, with the outputs returned.
  std::vector<Buffer> execute(std::span<Buffer* const> arguments, const Device& device,
                              const ExecuteOptions& options = {}) const;

 private:
  friend class Client;

  /// Takes it over.
  Executable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded);

  PJRT_LoadedExecutable* loaded_;
};

}  // namespace lockstep::pjrt
