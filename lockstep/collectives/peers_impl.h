// SPDX-License-Identifier: Apache-2.0
#pragma once

// The implementation of Peers: the common part is in peers.cc, connections within a host in
// peers_same_host.cc, and connections to other hosts in peers_other_hosts.cc.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/collectives/confirmations.h"
#include "lockstep/collectives/connection.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/limits.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/peers.h"

namespace lockstep::collectives {

class Peers::Impl {
 public:
  using steady_clock = std::chrono::steady_clock;

  Impl(const WorldOptions& options, const Lanes& lanes, PeerEvents events);
  ~Impl();
  void wait_connected(int process, const std::function<void()>& check);
  FileDescriptor receive(int process, const std::string& key, const std::function<void()>& check);
  void tell(int process, MessageType type, const std::string& text, int fd);
  PeerState state(int process) const;
  std::string describe(int process) const;
  void throw_if_lost(int process, const std::string& doing) const;
  const Crowding& crowding() const { return crowding_; }
  void ask_for_waits();
  std::vector<Wait> heard_waits(steady_clock::time_point since) const;
  void tell_divergence(const std::string& text);
  void tell_failure(const std::string& text);
  void leave();
  std::string lane(int process, int device) const;
  std::string token(int process) const;

 private:
  static constexpr std::chrono::milliseconds kPoll{50}, kNoteLinks{1000};

  struct Peer {
    std::atomic<PeerState> state = PeerState::kUnknown;
    std::atomic<int> pid = 0;
    std::shared_ptr<Connection> connection;  // one of connections_
    std::optional<Address> address;          // its address on another host
    std::string trouble;                     // why it is unreachable
    bool distrusted = false;  // it exists, but one of the two processes does not accept the other one's
                              // identity
    bool call_again = false;  // the connection was closed before both had proved their identity
    std::string host = "unknown";
    std::map<std::string, FileDescriptor> received;  // null if this process could not open it
    bool asked = false;                              // for its waits, and it has not answered yet
    SplitText answer;
    std::vector<Wait> waits;
    steady_clock::time_point waits_heard{};
    Confirmations confirmations;    // of its connection, on another host
    std::optional<NotedLink> link;  // none while all was confirmed at once
  };

  // peers.cc
  static void block_signals();
  /// A process of this host may run on these CPUs.
  void count_in(int process, const cpu_set_t& cpus);
  std::string store_key(int process) const;
  Message own_message(MessageType type, const std::string& text) const;
  /// Calls the body of a thread; an exception ends the job for this process.
  void guard(void (Impl::*body)()) noexcept;
  /// The mutex must be held. If a stopped peer has no room for the message, it is sent later.
  void send_to(Peer& peer, const Message& message, int fd = -1);
  void send_to_all(const Message& message);
  /// The mutex must be held. Whether messages wait until there is room.
  bool keeps_messages() const;
  void wake_listener();
  void listen_to_peers();
  /// Whether another process of this host may connect now. For it closes the first connection that has not
  /// said which process it is, if there are kMostStrangers more of these than the job has processes.
  bool have_room_here();
  /// Null if there is no connection, or if this process cannot open another descriptor now, not even in place
  /// of a stranger's.
  FileDescriptor accept_at(const FileDescriptor& listening);
  /// Handles a message; false if the connection is to be closed.
  bool hear(const std::shared_ptr<Connection>& connection);
  bool is_from_a_peer(Connection& connection, const Message& message) const;
  void heed(const std::shared_ptr<Connection>& connection, const Message& message, FileDescriptor fd);
  void greet(const std::shared_ptr<Connection>& connection, const Message& hello);
  void lose(const std::shared_ptr<Connection>& connection);
  /// A process of the job has sent what cannot be; all are told.
  void refuse(const Connection& connection, const std::string& trouble);
  /// A connection that ends before both have proved their identity says nothing about whether the process
  /// lives.
  void lose_unproved(const Connection& connection);
  void lose(int process, PeerState how);
  [[noreturn]] void throw_late(int process, steady_clock::duration waited) const;
  [[noreturn]] void throw_without_descriptor(int process) const;
  /// The mutex must be held.
  [[noreturn]] void throw_unreachable(int process) const;

  // peers_same_host.cc
  void connect_to_lower_peers();
  /// Processes that do not exist yet remain in `processes`.
  void connect_at_meeting(std::vector<int>& processes);
  void connect_by_store(int process);
  /// False if the process has no room for a connection at the moment.
  bool connect_to(int process, const Address& target);
  /// 0 or the error number; EAGAIN if the process has as many connections to accept as it may have.
  int try_to_connect(int process, const Address& target);

  // peers_other_hosts.cc
  void listen_to_other_hosts();
  void accept_from_other_hosts();
  /// The connections over TCP that have not proved their identity.
  struct Strangers {
    std::size_t count = 0;
    steady_clock::time_point first_came{};
    /// Whether another one may be accepted now.
    bool have_room(steady_clock::time_point now) const;
    /// The time of the next action; only if there are some.
    steady_clock::time_point next_look(steady_clock::time_point now) const;
  };
  /// Closes the late ones, and returns the others.
  Strangers look_at_strangers();
  void end_first_stranger();
  /// If there are no descriptors: closes the oldest one, after its minimal time. False if there is none.
  bool give_up_a_stranger();
  /// Connects to a process on another host, unless it is connected.
  void connect_to_other_host(int process, steady_clock::time_point start, const std::function<void()>& check);
  void call(int process, const Address& target, steady_clock::time_point start,
            const std::function<void()>& check);
  /// If the last connection was closed early: connects again, or gives up.
  void call_again(int process, steady_clock::time_point start, const std::function<void()>& check);
  /// The mutex must be held. Notes for the recorder which hosts do not confirm what was sent there.
  void note_links();
  [[noreturn]] void throw_without_common_tls(int process, const Address& target) const;
  /// Null, and the reason, if it cannot be reached.
  FileDescriptor connect_by_tcp(int process, const SocketAddress& address, steady_clock::time_point start,
                                const std::function<void()>& check, std::string& trouble) const;

  const WorldOptions options_;
  const PeerEvents events_;
  cpu_set_t own_cpus_;
  std::map<int, int> devices_here_;  // for each process of this host, its number of devices
  Crowding crowding_;
  Address own_;
  FileDescriptor listening_, wake_;
  FileDescriptor other_hosts_;                    // listens to them; null in a job on one host
  std::shared_ptr<const coordination::Tls> tls_;  // null: plain text
  std::optional<NotForChildren> listens_alone_, listens_to_hosts_alone_;
  std::vector<std::shared_ptr<Connection>> connections_;  // only for the listening thread
  steady_clock::time_point accept_again_{};  // only for the listening thread: no accept before this time,
                                             // because there are no descriptors
  bool said_short_ = false;                  // only for the listening thread
  std::atomic<bool> stop_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::vector<std::shared_ptr<Connection>> fresh_;  // to be taken over by the listening thread
  bool noting_ = false;  // something was sent to another host, and not all was confirmed yet
  steady_clock::time_point next_note_{};
  bool left_ = false, failure_told_ = false;
  std::string failure_heard_;  // of another process; whoever waits for this one may not have heard it
  std::string divergence_;     // as told or received; empty if the processes do not diverge

  std::thread listener_, connector_;
};

}  // namespace lockstep::collectives
