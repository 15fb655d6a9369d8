// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/peers.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep/base/cpu_quota.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/peers_impl.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::milliseconds kProbeAfter(500);
constexpr std::chrono::milliseconds kLeaveLimit(500);  ///< For the last words.
constexpr int kTryAgain = 20;  ///< Milliseconds, to what there was no room or descriptor for.

}  // namespace

void Peers::Impl::block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

Peers::Impl::Impl(const WorldOptions& options, const Lanes& lanes, PeerEvents events)
    : options_(options), events_(std::move(events)), crowding_(cpu_quota()), peers_(options.process_count) {
  CPU_ZERO(&own_cpus_);
  sched_getaffinity(0, sizeof own_cpus_, &own_cpus_);
  for (const int process : options_.device_process)
    if (!is_remote(options_, process)) ++devices_here_[process];
  count_in(options_.process_index, own_cpus_);
  if (options_.process_count == 1) return;
  own_ = {"lockstep-" + random_hex(16), random_hex(16), host_name(), place()};
  if (!options_.meeting.empty()) {
    own_.name = name_at(options_.meeting, options_.process_index);
    own_.token = token_at(options_.meeting, options_.process_index);
  }
  own_.lanes = lanes.addresses();
  listen_to_other_hosts();
  listening_ = open_socket();
  auto [address, size] = socket_address(own_.name);
  if (bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listening_.get(), SOMAXCONN) != 0) {
    fail("cannot listen on a unix socket: {}", describe_error(errno));
  }
  listens_alone_.emplace(listening_.get());
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  options_.store->set(store_key(options_.process_index), own_.encode(), /*allow_overwrite=*/true);
  listener_ = std::thread([this] { guard(&Impl::listen_to_peers); });
  if (options_.process_index > 0) connector_ = std::thread([this] { guard(&Impl::connect_to_lower_peers); });
}

void Peers::Impl::count_in(int process, const cpu_set_t& cpus) {
  crowding_.add(cpus, devices_here_[process]);
}

Peers::Impl::~Impl() {
  leave();
  stop_ = true;
  wake_listener();
  if (connector_.joinable()) connector_.join();
  if (listener_.joinable()) listener_.join();
}

void Peers::Impl::wait_connected(int process, const std::function<void()>& check) {
  const auto start = steady_clock::now();
  bool probed = false;
  if (is_remote(options_, process)) connect_to_other_host(process, start, check);
  std::unique_lock lock(mutex_);
  while (peers_[process].state == PeerState::kUnknown) {
    changed_.wait_for(lock, kPoll);
    const bool again = std::exchange(peers_[process].call_again, false);
    lock.unlock();
    check();
    if (again) call_again(process, start, check);
    const auto waited = steady_clock::now() - start;
    // The process with the higher number connects; if it does not, find out whether it could.
    if (!probed && waited > kProbeAfter && process > options_.process_index &&
        !is_remote(options_, process)) {
      if (auto text = options_.store->try_get(store_key(process))) {
        probed = connect_to(process, Address::decode(*text));
      }
    }
    if (waited > options_.timeout) throw_late(process, waited);
    lock.lock();
  }
  if (peers_[process].state == PeerState::kUnreachable) throw_unreachable(process);
  lock.unlock();
  throw_if_lost(process, fmt::format("process {} set up a communicator with it", options_.process_index));
}

void Peers::Impl::tell(int process, MessageType type, const std::string& text, int fd) {
  const Message message = own_message(type, text);
  std::lock_guard lock(mutex_);
  send_to(peers_[process], message, fd);
}

FileDescriptor Peers::Impl::receive(int process, const std::string& key, const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto& received = peers_[process].received;
    if (auto it = received.find(key); it != received.end()) {
      FileDescriptor fd = std::move(it->second);
      received.erase(it);
      lock.unlock();
      if (!fd) throw_without_descriptor(process);
      return fd;
    }
    changed_.wait_for(lock, kPoll);
    if (received.contains(key)) continue;
    lock.unlock();
    check();
    const PeerState state = this->state(process);
    lock.lock();
    // Messages that it sent before it left have arrived before the news of that.
    if (received.contains(key) || (state != PeerState::kDied && state != PeerState::kLeft)) continue;
    lock.unlock();
    throw_if_lost(process,
                  fmt::format("process {} waited for it to set up a communicator", options_.process_index));
    lock.lock();
  }
}

PeerState Peers::Impl::state(int process) const {
  if (process == options_.process_index) return PeerState::kConnected;
  return peers_[process].state;
}

std::string Peers::Impl::describe(int process) const {
  const int pid = process == options_.process_index ? getpid() : peers_[process].pid.load();
  if (pid == 0) return fmt::format("process {} of {}", process, options_.process_count);
  if (is_remote(options_, process)) {
    std::lock_guard lock(mutex_);
    return fmt::format("process {} of {} (host {}, pid {})", process, options_.process_count,
                       peers_[process].host, pid);
  }
  return fmt::format("process {} of {} (pid {})", process, options_.process_count, pid);
}

void Peers::Impl::throw_if_lost(int process, const std::string& doing) const {
  if (process == options_.process_index) return;
  const PeerState state = peers_[process].state;
  if (state == PeerState::kDied) {
    fail<PeerFailure>("{} died while {}", describe(process), doing);
  } else if (state == PeerState::kLeft) {
    fail<PeerFailure>(
        "{} has left the job while {}: all processes must do the same collectives before they end",
        describe(process), doing);
  }
}

void Peers::Impl::ask_for_waits() {
  std::lock_guard lock(mutex_);
  const Message question = own_message(MessageType::kAsk, "");
  for (Peer& peer : peers_) {
    if (peer.connection != nullptr && !std::exchange(peer.asked, true)) send_to(peer, question);
  }
}

std::vector<Wait> Peers::Impl::heard_waits(steady_clock::time_point since) const {
  std::lock_guard lock(mutex_);
  std::vector<Wait> waits;
  for (const Peer& peer : peers_) {
    if (peer.waits_heard >= since) waits.insert(waits.end(), peer.waits.begin(), peer.waits.end());
  }
  return waits;
}

void Peers::Impl::tell_divergence(const std::string& text) {
  std::lock_guard lock(mutex_);
  divergence_ = text;
  send_to_all(own_message(MessageType::kDivergence, text));
}

void Peers::Impl::tell_failure(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (std::exchange(failure_told_, true)) return;
  send_to_all(own_message(MessageType::kFailure, text));
}

void Peers::Impl::leave() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
    // Processes that wait for this one hear first why it leaves.
    if (!divergence_.empty()) send_to_all(own_message(MessageType::kDivergence, divergence_));
    if (!failure_heard_.empty() && !std::exchange(failure_told_, true))
      send_to_all(own_message(MessageType::kFailure, failure_heard_));
    send_to_all(own_message(MessageType::kBye, ""));
    wake_listener();
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLeaveLimit, [this] { return !keeps_messages(); });
}

std::string Peers::Impl::lane(int process, int device) const {
  std::lock_guard lock(mutex_);
  const auto& address = peers_[process].address;
  const auto it = address ? address->lanes.find(device) : std::map<int, std::string>::const_iterator();
  if (!address || it == address->lanes.end()) {
    fail(
        "process {} of {} has given no address of its device {}: are all processes built from the same "
        "version of Lockstep?",
        process, options_.process_count, device);
  }
  return it->second;
}

std::string Peers::Impl::token(int process) const {
  if (process == options_.process_index) return own_.token;
  std::lock_guard lock(mutex_);
  return peers_[process].address ? peers_[process].address->token : "";
}

std::string Peers::Impl::store_key(int process) const {
  return fmt::format("lockstep/collectives/{}/{}", options_.job_id, process);
}

Message Peers::Impl::own_message(MessageType type, const std::string& text) const {
  return {{.type = type, .from = options_.process_index, .pid = getpid(), .cpus = own_cpus_}, text};
}

void Peers::Impl::send_to(Peer& peer, const Message& message, int fd) {
  if (peer.connection == nullptr) return;
  peer.connection->send(message, fd);
  if (!noting_ && is_remote(options_, peer.connection->process)) {
    noting_ = true;
    next_note_ = steady_clock::now() + kNoteLinks;
    wake_listener();
  }
  if (peer.connection->has_kept()) wake_listener();  // It sends what could not be sent at once.
}

void Peers::Impl::send_to_all(const Message& message) {
  for (Peer& peer : peers_) send_to(peer, message);
}

bool Peers::Impl::keeps_messages() const {
  return std::ranges::any_of(
      peers_, [](const Peer& peer) { return peer.connection != nullptr && peer.connection->has_kept(); });
}

void Peers::Impl::guard(void (Impl::*body)()) noexcept {
  try {
    (this->*body)();
  } catch (const std::exception& error) {
    events_.on_error(std::make_exception_ptr(
        Error(fmt::format("process {} of {} can no longer talk to the other processes: {}",
                          options_.process_index, options_.process_count, error.what()))));
  }
}

void Peers::Impl::wake_listener() {
  const std::uint64_t one = 1;
  if (wake_ && write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
}

void Peers::Impl::listen_to_peers() {
  block_signals();
  std::vector<pollfd> polled;
  for (bool keeps = false, notes = false; !stop_;) {
    {
      const bool kept = keeps;
      std::lock_guard lock(mutex_);
      for (auto& connection : fresh_) connections_.push_back(std::move(connection));
      fresh_.clear();
      for (auto& connection : connections_) connection->send_kept();
      keeps = std::ranges::any_of(connections_, [](auto& connection) { return connection->has_kept(); });
      if (kept && !keeps) changed_.notify_all();
      note_links();
      notes = noting_;
    }
    const Strangers strangers = look_at_strangers();
    const auto now = steady_clock::now();
    const bool accepts = now >= accept_again_;
    polled.assign({{accepts ? listening_.get() : -1, POLLIN, 0},
                   {wake_.get(), POLLIN, 0},
                   {accepts && strangers.have_room(now) ? other_hosts_.get() : -1, POLLIN, 0}});
    for (const auto& connection : connections_) polled.push_back({connection->descriptor(), POLLIN, 0});
    int patience = keeps || !accepts ? kTryAgain : -1;
    if (patience < 0 && strangers.count > 0) {
      const auto until = std::chrono::ceil<std::chrono::milliseconds>(strangers.next_look(now) - now);
      patience = std::max(0, static_cast<int>(until.count()));
    }
    if (notes && (patience < 0 || patience > kNoteLinks.count()))
      patience = static_cast<int>(kNoteLinks.count());
    if (poll(polled.data(), polled.size(), patience) < 0) continue;
    if (polled[1].revents != 0) {
      std::uint64_t ignored;
      if (read(wake_.get(), &ignored, sizeof ignored) < 0) continue;
    }
    for (std::size_t i = connections_.size(); i-- > 0;) {
      if (polled[i + 3].revents != 0 && !hear(connections_[i])) connections_.erase(connections_.begin() + i);
    }
    if (polled[0].revents != 0 && have_room_here()) {
      FileDescriptor fd = accept_at(listening_);
      if (fd && same_user(fd.get())) connections_.push_back(unix_connection(std::move(fd), -1));
    }
    if (polled[2].revents != 0) accept_from_other_hosts();
  }
}

FileDescriptor Peers::Impl::accept_at(const FileDescriptor& listening) {
  FileDescriptor fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd || errno == EINTR || errno == ECONNABORTED || errno == EAGAIN) return fd;
  const int error = errno;
  if ((error == EMFILE || error == ENFILE) && give_up_a_stranger()) return {};
  // It stays readable while this process cannot have another descriptor, or the kernel no memory.
  if (!std::exchange(said_short_, true)) {
    logging::warning("collectives: a process that connects to this one has to wait: {}",
                     describe_error(error));
  }
  accept_again_ = steady_clock::now() + kPoll;
  return {};
}

bool Peers::Impl::hear(const std::shared_ptr<Connection>& connection) {
  while (true) {
    Message message;
    FileDescriptor fd;
    Connection::Heard heard;
    {
      std::lock_guard lock(mutex_);
      heard = connection->hear(message, fd);
    }
    if (heard == Connection::Heard::kNothing) return true;
    if (heard == Connection::Heard::kEnd) {
      lose(connection);
      return false;
    }
    if (!is_from_a_peer(*connection, message)) {
      if (connection->process >= 0) {
        refuse(*connection, fmt::format("expected a message of process {}, got one of process {}",
                                        connection->process, message.header.from));
        lose(connection);
      }
      return false;
    }
    heed(connection, message, std::move(fd));
    changed_.notify_all();
  }
}

bool Peers::Impl::is_from_a_peer(Connection& connection, const Message& message) const {
  const int from = message.header.from;
  if (from < 0 || from >= options_.process_count || from == options_.process_index) return false;
  if (connection.process >= 0) return connection.process == from;
  if (message.header.type != MessageType::kHello || own_.token != message.text) return false;
  connection.process = from;
  return true;
}

void Peers::Impl::greet(const std::shared_ptr<Connection>& connection, const Message& hello) {
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[connection->process];
  peer.pid = hello.header.pid;
  if (is_remote(options_, connection->process)) peer.host = hello.text;
  if (connection->accepted) connection->send(own_message(MessageType::kHello, own_.host));
  if (peer.connection == nullptr) {
    if (!is_remote(options_, connection->process)) count_in(connection->process, hello.header.cpus);
    peer.connection = connection;
    peer.asked = false;
    if (left_) send_to(peer, own_message(MessageType::kBye, ""));
  }
  if (peer.state == PeerState::kUnknown || peer.state == PeerState::kUnreachable) {
    peer.state = PeerState::kConnected;
  }
}

void Peers::Impl::lose(const std::shared_ptr<Connection>& connection) {
  if (!connection->is_proved()) return lose_unproved(*connection);
  if (connection->process < 0 || connection->process >= options_.process_count) return;
  if (!connection->trouble().empty()) refuse(*connection, connection->trouble());
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[connection->process];
    if (peer.connection == connection) peer.connection = nullptr;
    peer.asked = false;
  }
  lose(connection->process, PeerState::kDied);
}

void Peers::Impl::refuse(const Connection& connection, const std::string& trouble) {
  const std::string text = fmt::format(
      "process {} of {} ended its connection to {}, which sent an invalid message: {}; run the same version "
      "of Lockstep in all processes",
      options_.process_index, options_.process_count, describe(connection.process), trouble);
  tell_failure(text);
  events_.on_failure(text);
}

void Peers::Impl::heed(const std::shared_ptr<Connection>& connection, const Message& message,
                       FileDescriptor fd) {
  const int process = connection->process;
  switch (message.header.type) {
    case MessageType::kHello:
      greet(connection, message);
      break;
    case MessageType::kSegment: {
      std::lock_guard lock(mutex_);
      peers_[process].received[message.text] = std::move(fd);
      break;
    }
    case MessageType::kAsk: {
      const std::vector<std::string> parts = split_text(encode(events_.waits()), kMaxText);
      std::lock_guard lock(mutex_);
      for (const std::string& part : parts) connection->send(own_message(MessageType::kWaits, part));
      break;
    }
    case MessageType::kWaits: {
      std::lock_guard lock(mutex_);
      Peer& peer = peers_[process];
      const std::optional<std::string> text = peer.answer.take(message.text);
      if (!text) break;
      peer.asked = false;
      peer.waits = decode(*text);
      peer.waits_heard = steady_clock::now();
      break;
    }
    case MessageType::kDivergence: {
      {
        std::lock_guard lock(mutex_);
        divergence_ = message.text;
      }
      events_.on_divergence(message.text);
      break;
    }
    case MessageType::kFailure: {
      std::lock_guard lock(mutex_);
      failure_heard_ = message.text;
    }
      events_.on_failure(message.text);
      break;
    case MessageType::kWant:
      events_.on_want(process, message.text);
      break;
    case MessageType::kGiven:
      events_.on_given(process, message.text, std::move(fd));
      break;
    case MessageType::kBye:
      lose(process, PeerState::kLeft);
      break;
  }
}

void Peers::Impl::lose(int process, PeerState how) {
  {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[process];
    if (peer.state == PeerState::kDied || peer.state == how) return;
    if (peer.state == PeerState::kLeft) {
      how = PeerState::kUnknown;
    } else {
      peer.state = how;
    }
  }
  changed_.notify_all();
  events_.on_loss(process, how);
}

void Peers::Impl::throw_late(int process, steady_clock::duration waited) const {
  fail<TimeoutError>(
      "process {} of {} waited {:.1f} s for {} to take part in a collective, but it has not joined",
      options_.process_index, options_.process_count, std::chrono::duration<double>(waited).count(),
      describe(process));
}

void Peers::Impl::throw_without_descriptor(int process) const {
  fail(
      "process {} of {} cannot take the memory that {} shares with it: it has as many open files as it may "
      "have (ulimit -n); give it more, or close some",
      options_.process_index, options_.process_count, describe(process));
}

void Peers::Impl::throw_unreachable(int process) const {
  const Peer& peer = peers_[process];
  if (peer.distrusted) {
    fail(
        "process {} of {} (host {}) and process {} of {} (host {}) cannot connect to each other: {}. The "
        "processes of a job need the same secret, and, where they have certificates, those of one authority "
        "that have not expired (LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY, LOCKSTEP_TLS_AUTHORITY)",
        options_.process_index, options_.process_count, own_.host, process, options_.process_count, peer.host,
        peer.trouble);
  }
  if (is_remote(options_, process)) {
    fail<PeerFailure>(
        "process {} of {} (host {}) cannot be reached over the network from process {} of {} (host {}): {}. "
        "It has died, or the network between the hosts does not let them talk; LOCKSTEP_INTERFACE names the "
        "network interface to use",
        process, options_.process_count, peer.host, options_.process_index, options_.process_count, own_.host,
        peer.trouble);
  }
  fail(
      "process {} of {} (host {}) and process {} of {} (host {}) were expected to share memory, but they run "
      "on different hosts, in different network namespaces or as different users",
      options_.process_index, options_.process_count, own_.host, process, options_.process_count, peer.host);
}

Peers::Peers(const WorldOptions& options, const Lanes& lanes, PeerEvents events)
    : impl_(std::make_unique<Impl>(options, lanes, std::move(events))) {}
Peers::~Peers() = default;

void Peers::wait_connected(int process, const std::function<void()>& check) {
  impl_->wait_connected(process, check);
}
void Peers::send(int process, const std::string& key, int fd) {
  impl_->tell(process, MessageType::kSegment, key, fd);
}
void Peers::want(int process, const std::string& text) { impl_->tell(process, MessageType::kWant, text, -1); }
void Peers::given(int process, const std::string& text, int fd) {
  impl_->tell(process, MessageType::kGiven, text, fd);
}
FileDescriptor Peers::receive(int process, const std::string& key, const std::function<void()>& check) {
  return impl_->receive(process, key, check);
}
PeerState Peers::state(int process) const { return impl_->state(process); }
std::string Peers::describe(int process) const { return impl_->describe(process); }
void Peers::throw_if_lost(int process, const std::string& doing) const {
  impl_->throw_if_lost(process, doing);
}
const Crowding& Peers::crowding() const { return impl_->crowding(); }
void Peers::ask_for_waits() { impl_->ask_for_waits(); }
std::vector<Wait> Peers::heard_waits(std::chrono::steady_clock::time_point since) const {
  return impl_->heard_waits(since);
}
void Peers::tell_divergence(const std::string& message) { impl_->tell_divergence(message); }
void Peers::tell_failure(const std::string& message) { impl_->tell_failure(message); }
void Peers::leave() { impl_->leave(); }
std::string Peers::lane(int process, int device) const { return impl_->lane(process, device); }
std::string Peers::token(int process) const { return impl_->token(process); }

}  // namespace lockstep::collectives
