// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/plan.h"
#include "lockstep/collectives/world.h"

namespace lockstep::collectives {

/// One side of a collective's data in the compiled program.
struct Operand {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::optional<DType> dtype;  ///< nullopt for a dtype that Lockstep does not have
};

/// The compiled programs whose collectives this process may execute. There is at most one registry at a time;
/// the FFI handler finds it through `current()`. All methods may be called from any thread.
class ProgramRegistry {
 public:
  /// `world` must outlive it. Throws Error if another registry exists.
  explicit ProgramRegistry(World& world);
  ~ProgramRegistry();
  ProgramRegistry(const ProgramRegistry&) = delete;
  ProgramRegistry& operator=(const ProgramRegistry&) = delete;

  /// Registers the program's collectives before its first launch. They can be called as long as the returned
  /// object, or an earlier one for the same program, exists. Throws Error if the groups do not match the
  /// devices, and DTypeError as make_call does.
  [[nodiscard]] std::shared_ptr<const void> register_program(const ProgramCollectives& program);

  /// Executes collective number `index` of the program as the device at `position` of its mesh, and blocks
  /// until it is done. Throws Error if there is no such program, index or position, and if dtype or bytes of
  /// the operands are not the plan's; otherwise as Communicator::run. Its exception is kept for
  /// `take_pending_error`.
  void run(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
           const Operand& out);

  /// The same, of a program that register_program has returned, which needs no search.
  void run(const std::shared_ptr<const void>& registered, std::int64_t index, std::int64_t position,
           const Operand& in, const Operand& out);

  /// As `run`, but returns when the collective is started; a thread of the device does it. Until `finish`
  /// returns or throws, `in` must not be changed, and `out` not be used. Collectives of a device that `run`
  /// is asked for meanwhile wait for it.
  void start(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
             const Operand& out);

  /// Blocks until the collective that `start` has started is done. Throws what `run` would have thrown; then
  /// no other collective of the device is in flight.
  void finish(Fingerprint program, std::int64_t index, std::int64_t position);

  /// The exception that `run` or `finish` last threw for this device of the program since the previous call
  /// of this function, or null. XLA only passes on the text of a failed custom call; the launching code takes
  /// the exception from here.
  std::exception_ptr take_pending_error(Fingerprint program, int position);

  /// The number of the program's groups that contain devices of this process; other groups are not kept.
  std::size_t kept_groups(Fingerprint program) const;

  /// The current registry, or null.
  static ProgramRegistry* current();

 private:
  class Impl;

  template <class Work>
  void with_entry(Fingerprint program, std::int64_t index, std::int64_t position, Work work);

  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives
