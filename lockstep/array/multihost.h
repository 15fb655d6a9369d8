#pragma once

#include <chrono>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

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

/// Throws DivergenceError on every process, with each value and the processes that have it, where the value
/// is not the same everywhere: a learning rate, a number of steps, the name of a file. Numbers are the same
/// where their decimal texts are, which tell any two doubles apart. Texts of any length are compared whole,
/// and shown in part. Blocks until all processes have come here.
///
///     multihost::agree("learning rate", lr);
void agree(const std::string& name, std::string_view value,
           std::source_location where = std::source_location::current());
void agree(const std::string& name, double value,
           std::source_location where = std::source_location::current());

template <class T>
requires std::is_integral_v<T>
void agree(const std::string& name, T value, std::source_location where = std::source_location::current()) {
  agree(name, std::string_view(std::to_string(value)), where);
}

}  // namespace lockstep::multihost
