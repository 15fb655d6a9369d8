// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::coordination {

/// The gRPC status codes that the protocol uses, with gRPC's numbers.
enum class Code {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};

/// A payload that marks an error of the service itself, as opposed to the RPC layer.
struct ServiceError {
  std::optional<int> source_task;  ///< the task that failed
  bool diverged = false;           ///< it, or another, did another computation than the others
};

/// A payload with the instance of the barrier that failed; it becomes the caller's count.
struct BarrierInstance {
  std::string id;
  std::int64_t counter = 0;
};

/// The outcome of a call of the service: a code, a text for people, and payloads for agents.
struct Status {
  Code code = Code::kOk;
  std::string message;
  std::optional<ServiceError> service_error;
  std::optional<BarrierInstance> barrier;
  std::optional<std::uint64_t> right_service_incarnation;  ///< set if the call had another one

  bool ok() const { return code == Code::kOk; }

  /// An error without payloads.
  static Status bare(Code code, std::string message) { return Status{code, std::move(message)}; }

  /// An error of the service itself, caused by the process `source` if it is known.
  static Status of_service(Code code, std::string message, std::optional<int> source = std::nullopt) {
    return Status{code, std::move(message), ServiceError{source}};
  }
};

/// The name of a code, as gRPC writes it: "DEADLINE_EXCEEDED".
const char* to_string(Code code);

}  // namespace lockstep::coordination
