// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "lockstep/base/error.h"
#include "lockstep/base/function.h"

namespace lockstep {

/// The reaction of a process to the failure of another process of its job.
enum class OnPeerFailure {
  kThrow,  ///< calls that wait, and later ones, throw PeerFailure; local computation continues
  kExit,   ///< the process ends at once with status 1, after one line on standard error, without cleaning up
};

/// Called once, on a thread of its own, with the failure; calls throw PeerFailure, too. Exceptions that it
/// throws are logged.
using PeerFailureCallback = std::function<void(const PeerFailure& failure)>;

using PeerFailurePolicy = std::variant<OnPeerFailure, PeerFailureCallback>;

}  // namespace lockstep
