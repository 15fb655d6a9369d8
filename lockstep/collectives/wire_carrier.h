// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/rounds/schedule_run.h"
#include "lockstep/collectives/wire.h"

namespace lockstep::collectives {

/// Carries the messages of a member to the members with the same index on the other hosts, through its Wire.
/// If there is a `root`, the participants are the root on its host and the leaders of the others.
class WireCarrier : public Carrier {
 public:
  WireCarrier(Wire& wire, const HostLayout& layout, int index, int root = -1)
      : wire_(wire), layout_(layout), index_(index), root_(root) {}

  /// The participating member on that host.
  int rank(int host) const {
    if (root_ >= 0) return layout_.host_of[root_] == host ? root_ : layout_.leader(host);
    return layout_.hosts[host][index_];
  }

  Ticket send(int host, int slot, const void* data, std::size_t bytes) override {
    return wire_.send(rank(host), slot, data, bytes);
  }
  Ticket receive(int host, int slot, void* data, std::size_t bytes) override {
    return wire_.receive(rank(host), slot, data, bytes);
  }
  bool finished(Ticket ticket) override { return wire_.finished(ticket); }

 private:
  Wire& wire_;
  const HostLayout& layout_;
  const int index_, root_;
};

}  // namespace lockstep::collectives
