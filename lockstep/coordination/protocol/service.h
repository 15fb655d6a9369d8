// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/identity/status.h"

namespace lockstep::coordination {

struct Procedure;

/// Identifies a call, so that it can be cancelled. Chosen by the caller.
using CallId = std::uint64_t;

/// A number that no other call of this process has.
CallId next_call_id();

using Done = std::function<void(Status)>;
template <class T>
using DoneWith = std::function<void(Status, T)>;

/// Shared, because many may wait for one large value; null in case of an error.
using Value = std::shared_ptr<const std::string>;

/// The bytes of a message: a head of its own, and then a part that many messages may share; null if there is
/// none.
struct Payload {
  std::string head = {};
  Value tail = {};

  std::size_t size() const { return head.size() + (tail != nullptr ? tail->size() : 0); }
};

using Answered = std::function<void(const Status&, const Payload&)>;

/// The coordination service, in this process or over the network. It has the procedures of calls.h, which
/// also makes calls with typed messages; here they are bytes, which proxies forward as they are.
class Service {
 public:
  virtual ~Service() = default;

  /// Returns at once and is answered exactly once, through `done`, perhaps before it returns and on any
  /// thread; `done` must not block and may call the service. The payload is the procedure's response; in case
  /// of an error it is meaningless.
  virtual void call(const Procedure& procedure, CallId id, const Caller& caller, std::string request,
                    Answered done) = 0;

  /// The caller is gone: an unanswered call is answered with CANCELLED, soon or before this returns.
  virtual void cancel(CallId call) = 0;
};

}  // namespace lockstep::coordination
