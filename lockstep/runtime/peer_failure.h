#pragma once

#include <functional>
#include <variant>

#include "lockstep/base/error.h"

namespace lockstep {

/// What a process does when it learns that another process of its job has failed.
enum class OnPeerFailure {
  kThrow,  ///< Its calls that wait, and its next ones, throw PeerFailure. What it computes itself goes on.
  kExit,   ///< It ends at once with status 1, after one line on standard error; nothing is cleaned up.
};

/// Called once, in a thread of its own, with the failure; the calls throw it besides. What it throws is
/// logged.
using PeerFailureCallback = std::function<void(const PeerFailure& failure)>;

using PeerFailurePolicy = std::variant<OnPeerFailure, PeerFailureCallback>;

}  // namespace lockstep
