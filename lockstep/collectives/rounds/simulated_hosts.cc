// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/rounds/simulated_hosts.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace lockstep::collectives {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

struct SimulatedHosts::Transfer {
  int host;                        ///< The one that sends or receives.
  std::vector<std::byte> content;  ///< Of a message: it is given away when it is sent.
  void* to;
  std::size_t bytes;
  double ready;  ///< A message: when it is there; a place for one: since when it is.
  double done = kNever;
  bool met = false;
};

class SimulatedHosts::HostCarrier : public Carrier {
 public:
  HostCarrier(SimulatedHosts& all, int self) : all_(all), self_(self) {}

  Ticket send(int participant, int slot, const void* data, std::size_t bytes) override {
    double& free = all_.out_free_[static_cast<std::size_t>(self_)];
    const double left = std::max(free, all_.now_) + all_.network_.overhead +
                        static_cast<double>(bytes) / all_.network_.bandwidth;
    free = left;
    ++all_.messages_;
    all_.sent_[static_cast<std::size_t>(self_)] += bytes;
    Transfer& transfer = add({self_, {}, nullptr, bytes, kNever});
    if (data != nullptr) {
      const auto* begin = static_cast<const std::byte*>(data);
      transfer.content.assign(begin, begin + bytes);
    }
    transfer.done = left;
    all_.wake(self_, left);
    if (left > all_.lost_[static_cast<std::size_t>(self_)]) return number_of_last();
    const double first_byte =
        left - static_cast<double>(bytes) / all_.network_.bandwidth + all_.network_.latency;
    all_.events_.push({first_byte, all_.events_made_++, participant, &transfer, slot});
    return number_of_last();
  }

  Ticket receive(int participant, int slot, void* data, std::size_t bytes) override {
    Transfer& place = add({self_, {}, data, bytes, all_.now_});
    auto& [messages, places] = from_[{participant, slot}];
    if (messages.empty()) {
      places.push_back(&place);
    } else {
      Transfer& message = *messages.front();
      messages.pop_front();
      all_.meet(message, place);
    }
    return number_of_last();
  }

  bool finished(Ticket ticket) override {
    return ticket < forgotten_ || transfers_[ticket - forgotten_].done <= all_.now_;
  }

  /// A message arrives.
  void take(Transfer& message, int slot) {
    auto& [messages, places] = from_[{message.host, slot}];
    if (places.empty()) {
      messages.push_back(&message);
    } else {
      Transfer& place = *places.front();
      places.pop_front();
      all_.meet(message, place);
    }
  }

  void forget() {
    while (!transfers_.empty() && transfers_.front().met && transfers_.front().done <= all_.now_) {
      transfers_.pop_front();
      ++forgotten_;
    }
  }

 private:
  struct Queues {
    std::deque<Transfer*> messages, places;
  };

  Transfer& add(Transfer transfer) {
    transfers_.push_back(std::move(transfer));
    return transfers_.back();
  }
  Ticket number_of_last() const { return forgotten_ + transfers_.size() - 1; }

  SimulatedHosts& all_;
  const int self_;
  std::deque<Transfer> transfers_;
  Ticket forgotten_ = 0;
  std::map<std::pair<int, int>, Queues> from_;  ///< By sender and slot.
};

SimulatedHosts::SimulatedHosts(int hosts, Network network)
    : network_(network),
      lost_(static_cast<std::size_t>(hosts), kNever),
      out_free_(static_cast<std::size_t>(hosts)),
      in_free_(static_cast<std::size_t>(hosts)),
      sent_(static_cast<std::size_t>(hosts)) {
  for (int host = 0; host < hosts; ++host) hosts_.push_back(std::make_unique<HostCarrier>(*this, host));
}

SimulatedHosts::~SimulatedHosts() = default;

Carrier& SimulatedHosts::carrier(int host) { return *hosts_[static_cast<std::size_t>(host)]; }

void SimulatedHosts::lose(int host, double when) { lost_[static_cast<std::size_t>(host)] = when; }

std::uint64_t SimulatedHosts::most_sent() const { return *std::ranges::max_element(sent_); }

/// The message arrives after those before it.
void SimulatedHosts::arrive(const Event& event) {
  const auto host = static_cast<std::size_t>(event.host);
  Transfer& message = *event.message;
  in_free_[host] = std::max(in_free_[host], now_) + static_cast<double>(message.bytes) / network_.bandwidth;
  message.ready = in_free_[host];
  hosts_[host]->take(message, event.slot);
}

void SimulatedHosts::meet(Transfer& sent, Transfer& received) {
  sent.met = received.met = true;
  const double there = std::max(sent.ready, received.ready) + network_.overhead;
  if (there > lost_[static_cast<std::size_t>(received.host)]) return;
  if (!sent.content.empty() && received.to != nullptr)
    std::memcpy(received.to, sent.content.data(), sent.bytes);
  received.done = there;
  wake(received.host, there);
}

void SimulatedHosts::wake(int host, double when) {
  events_.push({.when = when, .number = events_made_++, .host = host});
}

double SimulatedHosts::finish(const std::vector<std::function<bool()>>& advance, std::vector<int>* stuck) {
  std::vector<bool> done(advance.size());
  double last = now_;
  for (std::size_t host = 0; host < advance.size(); ++host) wake(static_cast<int>(host), now_);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.when;
    const auto host = static_cast<std::size_t>(event.host);
    if (event.message != nullptr) {
      arrive(event);
      continue;
    }
    if (done[host] || now_ > lost_[host]) continue;
    done[host] = advance[host]();
    hosts_[host]->forget();
    if (done[host]) last = now_;
  }
  if (stuck != nullptr) {
    stuck->clear();
    for (std::size_t host = 0; host < advance.size(); ++host)
      if (!done[host]) stuck->push_back(static_cast<int>(host));
  }
  return last;
}

}  // namespace lockstep::collectives
