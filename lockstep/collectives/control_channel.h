#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/network.h"

namespace lockstep::collectives {

/// The messages that Peers of different hosts exchange: what the unix sockets are within a host. All methods
/// may be called from any thread, and none blocks but `flush`.
class ControlChannel {
 public:
  explicit ControlChannel(std::shared_ptr<Network> network);
  ~ControlChannel();

  const std::string& address() const { return mailbox_->address(); }

  /// An endpoint to the channel of that address. Throws Error where it is none.
  int connect(const std::string& address);

  void send(int endpoint, std::string message);

  struct News {
    std::vector<std::string> messages;
    std::vector<std::pair<int, const char*>> broken;  ///< Endpoints, each once, and why.
  };

  /// What has come since the last call. From then on `descriptor` is readable when there is more.
  News listen();
  int descriptor() const { return mailbox_->descriptor(); }

  /// Blocks until what was sent has left this process, or the time is over.
  void flush(std::chrono::milliseconds limit);

 private:
  struct Outgoing {
    std::string text;
    Transfer transfer;
  };
  void drop_sent();

  mutable std::mutex mutex_;
  std::list<Outgoing> outgoing_;  // Before the mailbox, which uses it until it is gone.
  std::vector<bool> reported_;    // Of each endpoint: that it is broken.
  std::unique_ptr<Mailbox> mailbox_;
};

}  // namespace lockstep::collectives
