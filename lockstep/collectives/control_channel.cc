#include "lockstep/collectives/control_channel.h"

#include <thread>

#include "lockstep/collectives/peer_messages.h"

namespace lockstep::collectives {
namespace {

constexpr std::uint64_t kTag = 0x4c53'0000'0000'0001;

}  // namespace

ControlChannel::ControlChannel(std::shared_ptr<Network> network)
    : mailbox_(Mailbox::open(std::move(network))) {}

ControlChannel::~ControlChannel() = default;

int ControlChannel::connect(const std::string& address) {
  std::lock_guard lock(mutex_);
  const int endpoint = mailbox_->connect(address);
  reported_.resize(endpoint + 1);
  return endpoint;
}

void ControlChannel::send(int endpoint, std::string message) {
  std::lock_guard lock(mutex_);
  Outgoing& outgoing = outgoing_.emplace_back(Outgoing{std::move(message), {}});
  outgoing.transfer = mailbox_->send(endpoint, kTag, outgoing.text.data(), outgoing.text.size());
  mailbox_->progress();
  drop_sent();
}

void ControlChannel::drop_sent() {
  outgoing_.remove_if([&](Outgoing& outgoing) { return mailbox_->finished(outgoing.transfer); });
}

ControlChannel::News ControlChannel::listen() {
  std::lock_guard lock(mutex_);
  News news;
  do {
    while (mailbox_->progress()) {
    }
    while (auto message = mailbox_->take(kTag, kMaxPacked)) news.messages.push_back(std::move(*message));
  } while (!mailbox_->arm());
  drop_sent();
  for (std::size_t i = 0; i < reported_.size(); ++i) {
    const int endpoint = static_cast<int>(i);
    if (reported_[i] || mailbox_->broken(endpoint) == nullptr) continue;
    reported_[i] = true;
    news.broken.emplace_back(endpoint, mailbox_->broken(endpoint));
  }
  return news;
}

void ControlChannel::flush(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  std::vector<Transfer> flushes;
  for (std::size_t i = 0; i < reported_.size(); ++i) flushes.push_back(mailbox_->flush(static_cast<int>(i)));
  for (Transfer& flush : flushes) {
    while (!mailbox_->finished(flush) && std::chrono::steady_clock::now() < end) {
      if (mailbox_->progress()) continue;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
  }
}

}  // namespace lockstep::collectives
