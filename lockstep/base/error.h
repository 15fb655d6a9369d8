// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// The base of every exception that Lockstep throws. A message says what happened, on which process if that
/// matters, at which line of the user's source, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `initialize()` could not make this process part of the job, or was called at the wrong time.
class InitializationError : public Error {
 public:
  using Error::Error;
};

/// The shapes of an operation's operands do not match each other or its parameters.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// An operation does not support a dtype.
class DTypeError : public Error {
 public:
  using Error::Error;
};

/// A mesh, a partition spec or a sharding does not match the devices, the array or the computation.
class ShardingError : public Error {
 public:
  using Error::Error;
};

/// A function cannot be traced or transformed: a leaked tracer, reading the value of a traced array,
/// differentiating an integer.
class TraceError : public Error {
 public:
  using Error::Error;
};

/// The processes of the job did not do the same computation in the same order.
class DivergenceError : public Error {
 public:
  using Error::Error;
};

/// Another process of the job has died, left early, or is silent.
class PeerFailure : public Error {
 public:
  using Error::Error;
};

/// Something did not happen within its time limit.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A file or an object of a store cannot be read or written. The message names it and the cause.
class StorageError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint cannot be written or read.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// A data file is missing, damaged or not in the expected format.
class DataError : public Error {
 public:
  using Error::Error;
};

/// A result has a NaN or an infinity, and debug_nans or debug_infs is set.
class FloatingPointError : public Error {
 public:
  using Error::Error;
};

/// An element of an array was read, but there is none: the devices are only described, and nothing is
/// computed.
class DescribedError : public Error {
 public:
  using Error::Error;
};

/// A fault of Lockstep's own, which no program should be able to cause: please report it, with the message
/// and what the program did.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// The PJRT plugin cannot be loaded, or returned an error.
class PjrtError : public Error {
 public:
  using Error::Error;
};

/// A device has no memory left for an array or a computation. The message says what was asked for, what is in
/// use, and of a computation what it needs and its largest values, with their lines.
class OutOfMemoryError : public PjrtError {
 public:
  using PjrtError::PjrtError;
};

}  // namespace lockstep
