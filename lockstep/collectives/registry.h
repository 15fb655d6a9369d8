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

/// One side of a collective's data as the compiled program holds it.
struct Operand {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::optional<DType> dtype;  ///< nullopt for a dtype that Lockstep does not have.
};

/// The compiled programs whose collectives this process may be asked to do. At most one stands at a time: the
/// FFI handler finds it through `current()`. All methods may be called from any thread.
class ProgramRegistry {
 public:
  /// `world` must outlive it. Throws Error where another registry stands.
  explicit ProgramRegistry(World& world);
  ~ProgramRegistry();
  ProgramRegistry(const ProgramRegistry&) = delete;
  ProgramRegistry& operator=(const ProgramRegistry&) = delete;

  /// Makes the program's collectives callable as long as what it gives back, or what it gave for the same
  /// program before, lives; to be done before its first launch. Throws Error where the groups do not fit the
  /// devices, and DTypeError as make_call does.
  [[nodiscard]] std::shared_ptr<const void> register_program(const ProgramCollectives& program);

  /// Does the `index`-th collective of the program as the device at `position` of its mesh, and blocks until
  /// it is done. Throws Error where there is no such program, index or position, and where dtype or bytes of
  /// the operands are not the plan's; otherwise as Communicator::run. What it throws is kept for
  /// `take_pending_error`.
  void run(Fingerprint program, std::int64_t index, std::int64_t position, const Operand& in,
           const Operand& out);

  /// What `run` threw last for this device of the program since it was asked last, as the exception that was
  /// thrown, or null. XLA hands on only the text of a failed custom call; whoever launches takes the
  /// exception from here.
  std::exception_ptr take_pending_error(Fingerprint program, int position);

  /// Of the program's collectives, the groups that devices of this process are in: of others nothing is kept.
  std::size_t kept_groups(Fingerprint program) const;

  /// The registry that stands, or null.
  static ProgramRegistry* current();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives
