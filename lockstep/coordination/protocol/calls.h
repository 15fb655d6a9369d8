// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/coordination/protocol/service.h"

// The calls of the coordinator, each typed here once: `jax` those of JAX's protocol (coordination.proto),
// `own` those of Lockstep's (job.proto). The messages of NAME are NAMERequest and NAMEResponse; what it does
// stands at its handler in state_machine.h. After the name, fields of Procedure.
// clang-format off
#define LOCKSTEP_CALLS(jax, own)   \
  jax(RegisterTask, .joins = true) \
  jax(Heartbeat)                   \
  jax(PollForError)                \
  jax(ShutdownTask)                \
  jax(WatchTasks)                  \
  jax(InsertKeyValue)              \
  jax(GetKeyValue, .shared = true) \
  jax(TryGetKeyValue)              \
  jax(IncrementKeyValue)           \
  jax(GetKeyValueDir)              \
  jax(DeleteKeyValue)              \
  jax(Barrier)                     \
  jax(CancelBarrier)               \
  jax(GetAliveTasks)               \
  own(ReportFailure)               \
  own(Describe)
// clang-format on

#define LOCKSTEP_NO_CALL(...)
#define LOCKSTEP_CALL_MESSAGES(name, ...) \
  class name##Request;                    \
  class name##Response;

namespace xla::coordination {
LOCKSTEP_CALLS(LOCKSTEP_CALL_MESSAGES, LOCKSTEP_NO_CALL)
}  // namespace xla::coordination

namespace lockstep::coordination {
namespace jax = xla::coordination;
LOCKSTEP_CALLS(LOCKSTEP_NO_CALL, LOCKSTEP_CALL_MESSAGES)
LOCKSTEP_CALL_MESSAGES(Prove)

/// A procedure that can be called over the network.
struct Procedure {
  const char* path;          ///< as gRPC has it: "/xla.coordination.CoordinationService/Heartbeat"
  const char* request_type;  ///< "xla.coordination.HeartbeatRequest"
  bool joins = false;   ///< waits for a coordinator that listens, which must first prove the job's secret
  bool shared = false;  ///< equal calls of a host at one time are sent once, as one reads the same as another

  /// "Heartbeat"; no two have the same.
  constexpr std::string_view name() const {
    const std::string_view text = path;
    return text.substr(text.rfind('/') + 1);
  }
};

template <class RequestType, class ResponseType>
struct ProcedureOf : Procedure {
  using Request = RequestType;
  using Response = ResponseType;
};

// For each call its procedure kNAME, and procedure_of(), which finds it by the type of its request.
#define LOCKSTEP_PROCEDURE(package, service, messages, name, ...)                          \
  inline constexpr ProcedureOf<messages::name##Request, messages::name##Response> k##name{ \
      {.path = "/" package "." service "/" #name,                                          \
       .request_type = package "." #name "Request" __VA_OPT__(, ) __VA_ARGS__}};           \
  constexpr const auto& procedure_of(const messages::name##Request*) { return k##name; }
#define LOCKSTEP_JAX_PROCEDURE(...) \
  LOCKSTEP_PROCEDURE("xla.coordination", "CoordinationService", xla::coordination, __VA_ARGS__)
#define LOCKSTEP_OWN_PROCEDURE(...) \
  LOCKSTEP_PROCEDURE("lockstep.coordination", "Job", lockstep::coordination, __VA_ARGS__)

LOCKSTEP_CALLS(LOCKSTEP_JAX_PROCEDURE, LOCKSTEP_OWN_PROCEDURE)

/// Proves the secret of who serves, which a proxy does by itself: so it is none of the service's.
LOCKSTEP_OWN_PROCEDURE(Prove)

/// Calls `visit` with the procedure of each call of the service.
template <class Visit>
void for_each_procedure(Visit visit) {
#define LOCKSTEP_VISIT(name, ...) visit(k##name);
  LOCKSTEP_CALLS(LOCKSTEP_VISIT, LOCKSTEP_VISIT)
#undef LOCKSTEP_VISIT
}

#undef LOCKSTEP_CALLS
#undef LOCKSTEP_NO_CALL
#undef LOCKSTEP_CALL_MESSAGES
#undef LOCKSTEP_PROCEDURE
#undef LOCKSTEP_JAX_PROCEDURE
#undef LOCKSTEP_OWN_PROCEDURE

/// The service's procedure of this name, or null.
const Procedure* find_procedure(std::string_view name);

/// INTERNAL, for bytes of a "request" or "response" that are no message of its type.
Status unreadable(std::string_view what);

/// UNIMPLEMENTED, for a call of a procedure that the coordinator does not have.
Status unknown_call();

/// The bytes of a message before a field's own: the number of the field and its size.
std::string field_head(int number, std::size_t size);

template <class Message>
bool parse(const Payload& payload, Message& message) {
  if (payload.tail == nullptr) return message.ParseFromString(payload.head);
  if (payload.head.empty()) return message.ParseFromString(*payload.tail);
  return message.ParseFromString(payload.head + *payload.tail);
}

/// A payload that all who get this message share.
template <class Message>
Payload shared_payload(const Message& message) {
  return {.tail = std::make_shared<const std::string>(message.SerializeAsString())};
}

template <class Request>
using ResponseTo =
    typename std::remove_cvref_t<decltype(procedure_of(static_cast<const Request*>(nullptr)))>::Response;

/// Calls the procedure of the request; `done` gets the response.
template <class Request>
void make_call(Service& service, CallId id, const Request& request, DoneWith<ResponseTo<Request>> done,
               const Caller& caller = {}) {
  service.call(procedure_of(&request), id, caller, request.SerializeAsString(),
               [done = std::move(done)](const Status& status, const Payload& payload) {
                 ResponseTo<Request> response;
                 if (status.ok() && !parse(payload, response)) return done(unreadable("response"), {});
                 done(status, std::move(response));
               });
}

/// Gives the response to one call, once.
template <class Response>
class Responder {
 public:
  Responder() = default;  ///< of no call
  explicit Responder(Answered answered) : answered_(std::move(answered)) {}
  explicit operator bool() const { return answered_ != nullptr; }

  /// If the status is OK, the response is empty.
  void operator()(const Status& status) const { answered_(status, {}); }
  void operator()(const Status& status, const Response& response) const {
    answered_(status, {.head = status.ok() ? response.SerializeAsString() : std::string()});
  }
  /// The bytes of a response.
  void operator()(const Status& status, const Payload& payload) const { answered_(status, payload); }

 private:
  Answered answered_;
};

}  // namespace lockstep::coordination
