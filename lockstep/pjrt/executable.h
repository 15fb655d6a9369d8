// SPDX-License-Identifier: Apache-2.0
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

/// Options of one execution.
struct ExecuteOptions {
  /// Positions of arguments that must not be donated in this execution although the program allows it.
  std::span<const std::int64_t> non_donatable = {};

  /// The number of the launch, or 0; for a device's profiler, and for the plugin's checks of mismatched
  /// launches.
  int launch_id = 0;
};

/// A compiled program that runs on one addressable device of its client at a time. It must be destroyed
/// before its Client. Functions may be called from any thread, also concurrently.
class Executable : public CompiledProgram {
 public:
  ~Executable() override;

  /// Runs the program on `device`, whose memory holds the arguments, and fills `outputs`, which must have
  /// `num_outputs()` entries; buffers in them are freed first.
  ///
  /// If the client has `asynchronous = false`, and always for small programs, the CPU plugin runs the program
  /// in this call, on this thread (parts of large operations run in its pool). An argument is donated if the
  /// program's text says so and `options` do not forbid it; then its `is_deleted()` is true.
  ///
  /// Throws PjrtError if the arguments do not match the program, or if the program has already failed; then
  /// `outputs` are empty. If an execution fails later, `Buffer::await()` of each output throws the error.
  void execute(std::span<Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
               const ExecuteOptions& options = {}) const;
  void execute(std::span<PJRT_Buffer* const> arguments, const Device& device, std::span<Buffer> outputs,
               const ExecuteOptions& options = {}) const;

  /// Runs a program that was compiled for several devices on all of this process's devices among them at
  /// once. `arguments` has the arguments of each of these devices, in the order of the replicas; `outputs`
  /// has room for the outputs of one device after the other. Returns before the program is done if the plugin
  /// is asynchronous. Throws as execute does.
  void execute_replicas(std::span<const std::vector<PJRT_Buffer*>> arguments, std::span<Buffer> outputs,
                        const ExecuteOptions& options = {}) const;

  /// Whether it was loaded by Client::deserialize. XLA's CPU plugin then writes machine code that it cannot
  /// load again ("Function dot.1_kernel not found").
  bool is_deserialized() const { return deserialized_; }

  /// As the first execute, but returns the outputs.
  std::vector<Buffer> execute(std::span<Buffer* const> arguments, const Device& device,
                              const ExecuteOptions& options = {}) const;

 private:
  friend class Client;

  /// Takes ownership.
  Executable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded);

  PJRT_LoadedExecutable* loaded_;
  bool deserialized_ = false;
};

}  // namespace lockstep::pjrt
