// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/tcp_inbox.h"

#include <cstring>

namespace lockstep::collectives {

void Inbox::ask(Request& request) {
  const auto there = unasked_.find(request.tag);
  if (there == unasked_.end()) {
    asked_[request.tag].push_back(&request);
    return;
  }
  Incoming& message = *there->second.front();
  there->second.pop_front();
  if (there->second.empty()) unasked_.erase(there);
  give(message, request);
  // What has not come yet is overwritten when it does.
  if (message.into != nullptr && message.bytes != 0)
    std::memcpy(message.into, message.own.data(), message.bytes);
  message.own = {};
  if (message.done()) finish(message);
}

bool Inbox::withdraw(Request& request) {
  if (request.incoming != nullptr) return false;
  const auto asked = asked_.find(request.tag);
  if (asked == asked_.end()) return true;
  std::erase(asked->second, &request);
  if (asked->second.empty()) asked_.erase(asked);
  return true;
}

Incoming& Inbox::begin(int peer, const PartHeader& part) {
  auto arriving = std::make_unique<Incoming>();
  Incoming& message = *arriving;
  message.peer = peer;
  message.tag = part.tag;
  message.message = part.message;
  message.bytes = part.bytes;
  const auto asked = asked_.find(part.tag);
  if (asked == asked_.end()) {
    message.own.resize(part.bytes);
    message.into = message.own.data();
    unasked_[part.tag].push_back(&message);
  } else {
    give(message, *asked->second.front());
    asked->second.pop_front();
    if (asked->second.empty()) asked_.erase(asked);
  }
  arriving_[{peer, part.message}] = std::move(arriving);
  return message;
}

Incoming* Inbox::find(int peer, std::uint64_t message) const {
  const auto it = arriving_.find({peer, message});
  return it == arriving_.end() ? nullptr : it->second.get();
}

void Inbox::has_arrived(Incoming& message) {
  if (message.request != nullptr) finish(message);
}

void Inbox::end(int peer, const char* error, const std::function<void(const Incoming&)>& forget) {
  for (auto it = arriving_.lower_bound({peer, 0}); it != arriving_.end() && it->first.first == peer;) {
    Incoming& message = *it->second;
    if (message.done()) {
      ++it;
      continue;
    }
    forget(message);
    if (message.request != nullptr) {
      message.request->incoming = nullptr;
      message.request->error = error;
      message.request->done = true;
    } else {
      const auto waiting = unasked_.find(message.tag);
      std::erase(waiting->second, &message);
      if (waiting->second.empty()) unasked_.erase(waiting);
    }
    it = arriving_.erase(it);
  }
}

void Inbox::give(Incoming& message, Request& request) {
  message.request = &request;
  request.incoming = &message;
  const bool fits = message.bytes <= request.size;
  message.into = fits ? request.data : nullptr;
  request.bytes = message.bytes;
  if (!fits) request.error = "the message is longer than the memory for it";
}

void Inbox::finish(Incoming& message) {
  message.request->incoming = nullptr;
  message.request->done = true;
  arriving_.erase({message.peer, message.message});
}

}  // namespace lockstep::collectives
