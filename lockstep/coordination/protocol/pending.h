// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/coordination/protocol/calls.h"

namespace lockstep::coordination {

/// The answer to a call.
template <class T>
struct Answer {
  Status status;
  T value{};
};

struct Nothing {};

/// An open call, for the thread that waits for its answer.
template <class T>
struct Pending {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Answer<T>> answer;

  /// nullopt if there is no answer in time.
  std::optional<Answer<T>> wait_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex);
    answered.wait_until(lock, deadline, [this] { return answer.has_value(); });
    return answer;
  }
  void give(Status status, T value) {
    std::lock_guard lock(mutex);
    answer = Answer<T>{std::move(status), std::move(value)};
    answered.notify_all();
  }
};

/// The `done` callback for a call whose answer `pending` gets.
template <class T>
auto answers_to(std::shared_ptr<Pending<T>> pending) {
  if constexpr (std::is_same_v<T, Nothing>) {
    return [pending](Status status) { pending->give(std::move(status), {}); };
  } else {
    return [pending](Status status, T value) { pending->give(std::move(status), std::move(value)); };
  }
}

/// Starts a call by start(id, done) and blocks until it is answered. After the timeout it cancels the call
/// and returns nullopt.
template <class T, class Start>
std::optional<Answer<T>> ask(Service& service, std::chrono::milliseconds timeout, Start start) {
  auto pending = std::make_shared<Pending<T>>();
  CallId id = next_call_id();
  start(id, answers_to<T>(pending));
  auto answer = pending->wait_until(std::chrono::steady_clock::now() + timeout);
  if (!answer) service.cancel(id);
  return answer;
}

/// The same for a call of the service with this request.
template <class Request>
std::optional<Answer<ResponseTo<Request>>> ask(Service& service, std::chrono::milliseconds timeout,
                                               const Request& request) {
  return ask<ResponseTo<Request>>(
      service, timeout, [&](CallId id, auto done) { make_call(service, id, request, std::move(done)); });
}

}  // namespace lockstep::coordination
