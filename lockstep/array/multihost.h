#pragma once

#include <chrono>
#include <optional>
#include <source_location>
#include <string>

#include "lockstep/array/array.h"

/// What all processes of the job do together with values that each has for itself, as
/// jax.experimental.multihost_utils. Every process must make each call; one that makes another one is a
/// DivergenceError, one that has died a PeerFailure.
namespace lockstep::multihost {

/// Everyone's x. Of an array that is on this process only, the processes' arrays, of one shape and dtype, in
/// their order: along a new leading dimension, or, if tiled, one after the other along the first. Of an array
/// over several processes its whole. The result is on this process's first device.
Array process_allgather(const Array& x, bool tiled = false,
                        std::source_location where = std::source_location::current());

/// The x of the one process that says that it is the source, to the bit; process 0's, if nothing is said. The
/// others give an array of the same shape and dtype. Throws Error where none or several are the source.
Array broadcast_one_to_all(const Array& x, std::optional<bool> is_source = std::nullopt,
                           std::source_location where = std::source_location::current());

/// Blocks until all processes have come here with the same name. Throws TimeoutError, naming who has not
/// come.
void sync_global_devices(const std::string& name, std::chrono::milliseconds timeout = std::chrono::minutes(5),
                         std::source_location where = std::source_location::current());

/// Throws DivergenceError on every process, with `message` and the processes that differ, where x is not the
/// same everywhere: shape, dtype and bits. x must be readable on this process.
void assert_equal(const Array& x, const std::string& message = "",
                  std::source_location where = std::source_location::current());

}  // namespace lockstep::multihost
