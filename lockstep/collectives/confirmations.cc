// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/confirmations.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {

Confirmations::TimePoint Confirmations::unanswered(int socket, TimePoint now) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  // Where the other side has no room it is asked again and again, and answers.
  const bool waits = info.tcpi_unacked != 0 || info.tcpi_probes > 1;
  if (!waits) {
    unanswered_ = {};
  } else if (unanswered_ == TimePoint() || info.tcpi_bytes_acked != confirmed_) {
    unanswered_ = now;
  }
  confirmed_ = info.tcpi_bytes_acked;
  return unanswered_;
}

NotedLink::~NotedLink() {
  if (link_ != nullptr) link_->used.store(0, std::memory_order_relaxed);
}

void NotedLink::note(Confirmations::TimePoint unanswered) {
  if (link_ == nullptr && (link_ = watch::link_place(process_)) == nullptr) return;
  const auto nanoseconds = [](Confirmations::TimePoint time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  link_->unanswered.store(nanoseconds(unanswered), std::memory_order_relaxed);
  link_->looked.store(nanoseconds(std::chrono::steady_clock::now()), std::memory_order_release);
}

}  // namespace lockstep::collectives
