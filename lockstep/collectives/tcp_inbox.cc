// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/tcp_inbox.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/limits.h"

namespace lockstep::collectives {
namespace {

[[noreturn]] void refuse(const PartHeader& part, std::string_view expected) {
  fail(
      "{}, got bytes {} to {} of {} of message {} (tag {:#x}): the sender runs another version of Lockstep, "
      "or the data was changed on the way",
      expected, part.offset, part.offset + part.length, part.bytes, part.message, part.tag);
}

template <class T>
T& at(std::vector<T>& all, int index) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= all.size()) all.resize(i + 1);
  return all[i];
}

}  // namespace

void Inbox::ask(Request& request) {
  const auto there = unasked_.find(request.tag);
  if (there == unasked_.end()) {
    asked_[request.tag].push_back(&request);
    count(request, 1);
    return;
  }
  Incoming& message = *there->second.front();
  there->second.pop_front();
  if (there->second.empty()) unasked_.erase(there);
  held_ -= cost(message.bytes);
  give(message, request);
  // If it has several parts, those that have not arrived yet are overwritten when they do.
  const std::size_t come = message.parts.empty() ? message.arrived : message.bytes;
  if (message.into != nullptr && come != 0) std::memcpy(message.into, message.own.get(), come);
  message.own.reset();
  if (message.done()) finish(message);
}

bool Inbox::withdraw(Request& request) {
  if (request.incoming != nullptr) return false;
  const auto asked = asked_.find(request.tag);
  if (asked == asked_.end()) return true;
  if (std::erase(asked->second, &request) != 0) count(request, -1);
  if (asked->second.empty()) asked_.erase(asked);
  return true;
}

void Inbox::count(const Request& request, int change) {
  if (request.sender >= 0) at(awaited_, request.sender) += change;
}

Incoming* Inbox::take(int peer, int sender, const PartHeader& part) {
  if (part.offset > part.bytes || part.length > part.bytes - part.offset ||
      (part.length == 0 && part.bytes != 0))
    refuse(part, fmt::format("expected bytes within 0 to {}", part.bytes));
  std::uint64_t& last = at(last_, peer);
  Incoming* message = nullptr;
  if (part.offset == 0) {
    if (part.message != last + 1) refuse(part, fmt::format("expected message {}", last + 1));
    message = begin(peer, sender, part);
    if (message == nullptr) return nullptr;
    last = part.message;
  } else {
    const auto it = arriving_.find({peer, part.message});
    if (it != arriving_.end())
      message = it->second.get();
    else if (part.message <= last)
      refuse(part, "expected no more of this message, which is complete");
    else
      return nullptr;
  }
  if (part.tag != message->tag || part.bytes != message->bytes)
    refuse(part, fmt::format("expected tag {:#x} and {} bytes in all, as its first part said", message->tag,
                             message->bytes));
  const std::size_t end = part.offset + part.length;
  const auto overlaps = [&](const auto& other) { return part.offset < other.second && other.first < end; };
  if (part.length > message->bytes - message->begun || std::ranges::any_of(message->parts, overlaps))
    refuse(part, "expected bytes that were not received before");
  if (part.length != part.bytes) {
    if (message->parts.size() == kMostConnections)
      refuse(part, fmt::format("expected at most {} parts", kMostConnections));
    message->parts.emplace_back(part.offset, end);
  }
  message->begun += part.length;
  return message;
}

Incoming* Inbox::begin(int peer, int sender, const PartHeader& part) {
  const auto asked = asked_.find(part.tag);
  if (asked == asked_.end()) {
    const bool fits = part.bytes <= room_ && held_ + cost(part.bytes) <= room_;
    if (!fits && at(awaited_, sender) == 0) {
      turned_away_ = true;
      return nullptr;
    }
  }
  auto arriving = std::make_unique<Incoming>();
  Incoming& message = *arriving;
  message.peer = peer;
  message.tag = part.tag;
  message.message = part.message;
  message.bytes = part.bytes;
  if (asked == asked_.end()) {
    try {
      message.own = std::make_unique_for_overwrite<std::byte[]>(part.bytes);
    } catch (const std::bad_alloc&) {
      fail("it sent a message of {} bytes, for which there is not enough memory", part.bytes);
    }
    held_ += cost(part.bytes);
    message.into = message.own.get();
    unasked_[part.tag].push_back(&message);
  } else {
    count(*asked->second.front(), -1);
    give(message, *asked->second.front());
    asked->second.pop_front();
    if (asked->second.empty()) asked_.erase(asked);
  }
  arriving_[{peer, part.message}] = std::move(arriving);
  return &message;
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
      held_ -= cost(message.bytes);
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
