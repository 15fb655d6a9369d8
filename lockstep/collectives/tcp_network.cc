// SPDX-License-Identifier: Apache-2.0
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/limits.h"
#include "lockstep/collectives/networks.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/tcp_link.h"
#include "lockstep/collectives/tcp_listener.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kCallAgainAfter(50);
constexpr std::uint32_t kIgnored = ~0U;       ///< Link::interest, where epoll does not watch it
constexpr std::size_t kLeastPart = 64 << 10;  ///< of a message that is divided among connections

/// With so few links each is asked directly, which takes one call of the system instead of two; and how often
/// the others, new connections among them, are looked at meanwhile.
constexpr std::size_t kFewLinks = 2;
constexpr int kLookAtAll = 32;

class TcpNetwork : public Network {
 public:
  explicit TcpNetwork(const NetworkOptions& options)
      : options(options), own(own_address(options.interface, options.coordinator)) {
    description_ = fmt::format("TCP from {}{}, connections to each other device: {}", own.to_string(),
                               options.tls != nullptr ? " with TLS" : "", options.connections);
  }

  const std::string& description() const override { return description_; }
  std::unique_ptr<Mailbox> open_mailbox() override;

  const NetworkOptions options;
  const SocketAddress own;

 private:
  std::string description_;
};

class TcpMailbox : public Mailbox, public LinkOwner {
 public:
  explicit TcpMailbox(std::shared_ptr<TcpNetwork> network)
      : network_(std::move(network)),
        proof_{network_->options.secret, random_hex(16), network_->options.tls},
        events_(epoll_create1(EPOLL_CLOEXEC)),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        listener_(network_->own, events_.get()),
        inbox_(static_cast<std::size_t>(network_->options.unexpected_messages_mib) << 20) {
    if (!events_ || !timer_ || !wake_)
      fail("cannot wait for other hosts: this process has no descriptor left: {}", describe_error(errno));
    address_ = fmt::format("{}{} {}", proof_.tls ? kTlsAddress : kTcpAddress, proof_.own,
                           listener_.address().to_string());
    add(timer_.get(), EPOLLIN, &timer_);
  }

  ~TcpMailbox() override {
    const auto end = steady_clock::now() + kCloseLimit;
    const auto unsent = [&] {
      return std::ranges::any_of(links_, [](const auto& link) {
        return link->is_open() && (link->wants_to_send() || !link->is_acknowledged());
      });
    };
    while (unsent() && steady_clock::now() < end) {
      if (!progress()) sleep(std::chrono::milliseconds(1));
    }
  }

  const std::string& address() const override { return address_; }

  int connect(const std::string& address) override {
    const int index = static_cast<int>(peers_.size());
    const std::optional<Target> target = parse(address);
    if (!target) {
      peers_.emplace_back().error = "it has no address";
      const bool encrypts = address.starts_with(kTlsAddress);
      if (!encrypts && !address.starts_with(kTcpAddress)) throw_other_network("TCP sockets", "UCX");
      if (encrypts != (proof_.tls != nullptr)) throw_other_encryption(!encrypts);
      fail("\"{}\" is not the address of another process", address);
    }
    // It has called first.
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].id == target->id && peers_[i].error.empty()) return static_cast<int>(i);
    Peer& peer = new_peer(target->id);
    peer.address = target->address;
    for (int number = 0; number < network_->options.connections; ++number) call(index, number);
    return index;
  }

  bool broken_by_data(int endpoint) const override {
    return peers_.at(static_cast<std::size_t>(endpoint)).broken_by_data;
  }

  const char* broken(int endpoint) const override {
    const Peer& peer = peers_[static_cast<std::size_t>(endpoint)];
    return peer.error.empty() ? nullptr : peer.error.c_str();
  }

  void disconnect(int endpoint) override {
    break_off(static_cast<std::size_t>(endpoint), "this side has ended the connection");
    sweep();
  }

  Transfer send(int endpoint, std::uint64_t tag, const void* data, std::size_t bytes) override {
    Transfer transfer;
    transfer.bytes = bytes;
    transfer.error = broken(endpoint);
    if (transfer.error != nullptr) return transfer;
    Peer& peer = peers_[static_cast<std::size_t>(endpoint)];
    Request* const request = new_request();
    const std::size_t usable = bytes < 2 * kLeastPart ? 1 : std::min(usable_links(peer), bytes / kLeastPart);
    PartHeader part{tag, ++peer.messages, bytes, 0, 0};
    request->parts = 1;  // not done before all parts are counted
    for (std::size_t i = 0; i < usable; ++i) {
      part.length = bytes * (i + 1) / usable - part.offset;
      Link& link = *peer.links[i];
      const bool at_once = link.is_open() && !link.wants_to_send();
      link.send(part, static_cast<const std::byte*>(data) + part.offset, request);
      if (at_once) link.send_some();
      part.offset += part.length;
    }
    return counted(request, transfer);
  }

  Transfer receive(int endpoint, std::uint64_t tag, void* data, std::size_t bytes) override {
    Transfer transfer;
    transfer.receives = true;
    Request* const request = new_request();
    request->tag = tag;
    request->sender = endpoint < 0 ? -1 : peers_[static_cast<std::size_t>(endpoint)].sender;
    request->data = static_cast<std::byte*>(data);
    request->size = bytes;
    transfer.request = request;
    inbox_.ask(*request);
    take_up();
    return transfer;
  }

  Transfer flush(int endpoint) override {
    Transfer transfer;
    transfer.error = broken(endpoint);
    if (transfer.error != nullptr) return transfer;
    Request* const request = new_request();
    request->parts = 1;
    for (Link* link : peers_[static_cast<std::size_t>(endpoint)].links) {
      if (link == nullptr || link->has_ended() || (link->is_open() && !link->wants_to_send())) continue;
      link->mark(request);
    }
    return counted(request, transfer);
  }

  void cancel(Transfer& transfer) override {
    auto* const request = static_cast<Request*>(transfer.request);
    if (request == nullptr || request->done || !transfer.receives || !inbox_.withdraw(*request)) return;
    request->error = "it was cancelled";
    request->done = true;
  }

  bool finished(Transfer& transfer) override {
    auto* const request = static_cast<Request*>(transfer.request);
    if (request == nullptr) return true;
    if (!request->done) return false;
    if (transfer.receives) transfer.bytes = request->bytes;
    transfer.error = request->error;
    transfer.request = nullptr;
    free_.push_back(request);
    return true;
  }

  bool progress() override {
    bool any = false;
    if (links_.size() <= kFewLinks && ++turn_ % kLookAtAll != 0) {
      for (std::size_t i = 0; i < links_.size(); ++i) {
        any |= links_[i]->read_some();
        if (links_[i]->wants_to_send()) any |= links_[i]->send_some();
      }
      sweep();
      return any;
    }
    // Data that TLS has read already makes no socket readable.
    for (std::size_t i = 0; i < links_.size(); ++i)
      if (links_[i]->may_have_more()) any |= links_[i]->read_some();
    settle_interest();
    std::array<epoll_event, 64> ready;
    const int count = epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<std::size_t>(i)];
      if (event.data.ptr == &listener_) {
        any |= accept_some();
      } else if (event.data.ptr == &timer_) {
        look_at_time();
      } else {
        Link& link = *static_cast<Link*>(event.data.ptr);
        if ((event.events & ~EPOLLOUT) != 0) any |= link.read_some();
        if ((event.events & (EPOLLERR | EPOLLHUP)) != 0 && (link.is_held() || link.has_ended())) ignore(link);
        if ((event.events & EPOLLOUT) != 0 || link.wants_to_send()) any |= link.send_some();
      }
    }
    sweep();
    return any;
  }

  int descriptor() const override { return events_.get(); }

  // The events stay until they have been dealt with.
  bool arm() override {
    settle_interest();
    return std::ranges::none_of(links_, [](const auto& link) { return link->may_have_more(); });
  }

  void sleep(std::chrono::milliseconds limit) override {
    if (!arm()) limit = {};
    pollfd polled[2] = {{descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    turn_ = kLookAtAll - 1;  // then look at all
    if (poll(polled, 2, static_cast<int>(limit.count())) <= 0 || polled[1].revents == 0) return;
    std::uint64_t ignored;
    if (read(wake_.get(), &ignored, sizeof ignored) < 0) return;  // Another sleep has read it.
  }

  std::optional<steady_clock::time_point> unanswered(int endpoint) override {
    steady_clock::time_point first{};
    const auto now = steady_clock::now();
    for (Link* link : peers_[static_cast<std::size_t>(endpoint)].links) {
      if (link == nullptr || link->has_ended() || link->was_pushed_out()) continue;
      const auto one = link->unanswered(now);
      if (first == steady_clock::time_point() || (one != steady_clock::time_point() && one < first))
        first = one;
    }
    return first;
  }

  void wake() override {
    const std::uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
  }

 private:
  struct Target {
    MailboxId id;
    SocketAddress address;
  };
  /// A mailbox, and the links to it that one side has made.
  struct Peer {
    MailboxId id;
    int sender = -1;                       ///< the first index of a peer that is this mailbox
    std::optional<SocketAddress> address;  ///< none: it has called
    std::vector<Link*> links;              ///< by number; null: not there yet
    std::string error;
    bool broken_by_data = false;  ///< see Mailbox
    std::uint64_t messages = 0;   ///< sent
    std::optional<steady_clock::time_point> call_again;
    steady_clock::time_point called = steady_clock::now();
  };

  Peer& new_peer(const MailboxId& id) {
    const auto same = std::ranges::find(peers_, id, &Peer::id);
    const int sender = static_cast<int>(same - peers_.begin());
    Peer& peer = peers_.emplace_back();
    peer.id = id;
    peer.sender = sender;
    return peer;
  }

  std::optional<Target> parse(std::string_view address) const {
    if (!address.starts_with(proof_.tls ? kTlsAddress : kTcpAddress)) return std::nullopt;
    address.remove_prefix(kTcpAddress.size());
    const std::size_t space = address.find(' ');
    if (space != 32) return std::nullopt;
    const auto socket = SocketAddress::parse(std::string(address.substr(space + 1)));
    if (!socket) return std::nullopt;
    return Target{MailboxId(address.substr(0, space)), *socket};
  }

  Request* new_request() {
    if (free_.empty()) return &requests_.emplace_back();
    Request* const request = free_.back();
    free_.pop_back();
    *request = {};
    return request;
  }

  /// All parts of the request have been counted.
  Transfer counted(Request* request, Transfer transfer) {
    if (--request->parts == 0) request->done = true;
    transfer.request = request;
    finished(transfer);
    return transfer;
  }

  /// The number of links, from 0 on, that are there. The side that was called does not have all at once.
  static std::size_t usable_links(const Peer& peer) {
    std::size_t count = 0;
    while (count < peer.links.size() && peer.links[count] != nullptr && !peer.links[count]->has_ended())
      ++count;
    return std::max<std::size_t>(count, 1);
  }

  void add(int descriptor, std::uint32_t events, void* what) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = what;
    if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      fail("cannot wait for other hosts: {}", describe_error(errno));
  }

  Link& keep(std::unique_ptr<Link> link) {
    watch(*link);
    return *links_.emplace_back(std::move(link));
  }

  void watch(Link& link) {
    link.interest = EPOLLIN;
    add(link.descriptor(), link.interest, &link);
  }

  /// The kernel would report again and again that the other side is gone, which is dealt with when what it
  /// has sent is taken.
  void ignore(Link& link) {
    if (std::exchange(link.interest, kIgnored) != kIgnored)
      epoll_ctl(events_.get(), EPOLL_CTL_DEL, link.descriptor(), nullptr);
  }

  /// Goes on with messages for which there was no room.
  void take_up() {
    if (!inbox_.turned_away()) return;
    for (const auto& link : links_) link->go_on();
  }

  void settle_interest() {
    for (const auto& link : links_) {
      if (link->was_pushed_out()) continue;
      const std::uint32_t wanted = (link->is_held() ? 0U : std::uint32_t{EPOLLIN}) |
                                   (link->wants_to_send() ? std::uint32_t{EPOLLOUT} : 0U);
      if (link->interest == wanted) continue;
      if (link->interest == kIgnored && (link->is_held() || link->has_ended())) continue;
      epoll_event event{};
      event.events = wanted;
      event.data.ptr = link.get();
      const int change = link->interest == kIgnored ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
      epoll_ctl(events_.get(), change, link->descriptor(), &event);
      link->interest = wanted;
    }
  }

  /// Begins a connection.
  void call(int index, int number) {
    Peer& peer = peers_[static_cast<std::size_t>(index)];
    Link& link = keep(std::make_unique<Link>(*this, proof_, tcp_socket(*peer.address), peer.id, number));
    link.peer = index;
    peer.links.push_back(&link);
    connect_socket(link, *peer.address);
  }

  static void connect_socket(Link& link, const SocketAddress& address) {
    prepare_connection(link.descriptor());
    if (::connect(link.descriptor(), address.get(), address.size) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
      link.end(std::strerror(errno));
  }

  bool accept_some() {
    bool any = false;
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      std::optional<FileDescriptor> socket = listener_.accept(links_);
      if (!socket) break;
      prepare_connection(socket->get());
      keep(std::make_unique<Link>(*this, proof_, std::move(*socket)));
      any = true;
    }
    set_timer();
    return any;
  }

  /// The timer makes the descriptor readable when something is due.
  void set_timer() {
    std::optional<steady_clock::time_point> next = listener_.next_due(links_);
    const auto also = [&](steady_clock::time_point at) { next = next ? std::min(*next, at) : at; };
    for (const Peer& peer : peers_)
      if (peer.call_again) also(*peer.call_again);
    for (const auto& link : links_)
      if (const auto until = reads_others_until(*link)) also(*until);
    itimerspec spec{};
    if (next) {
      const auto left =
          std::max<std::chrono::nanoseconds>(*next - steady_clock::now(), std::chrono::nanoseconds(1));
      spec.it_value.tv_sec = left.count() / 1'000'000'000;
      spec.it_value.tv_nsec = left.count() % 1'000'000'000;
    }
    timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }

  void look_at_time() {
    std::uint64_t ignored;
    if (read(timer_.get(), &ignored, sizeof ignored) < 0) return;
    const auto now = steady_clock::now();
    listener_.look_at_time(links_, now);
    for (Peer& peer : peers_) {
      if (!peer.call_again || *peer.call_again > now) continue;
      peer.call_again.reset();
      for (Link* link : peer.links) {
        if (!link->was_pushed_out()) continue;
        link->call_again(tcp_socket(*peer.address));
        watch(*link);
        connect_socket(*link, *peer.address);
      }
    }
    set_timer();
  }

  // LinkOwner

  bool proved(Link& link) override {
    if (!link.accepted) return true;
    if (link.number < 0 || link.number >= kMostConnections) return false;
    // The other side makes all its links to this mailbox for one of its endpoints.
    auto peer = std::ranges::find_if(peers_, [&](const Peer& each) {
      return each.id == link.other && !each.address && each.error.empty();
    });
    if (peer == peers_.end()) {
      new_peer(link.other);
      peer = peers_.end() - 1;
    }
    const auto number = static_cast<std::size_t>(link.number);
    peer->links.resize(std::max(peer->links.size(), number + 1));
    if (peer->links[number] != nullptr) return false;
    peer->links[number] = &link;
    link.peer = static_cast<int>(peer - peers_.begin());
    return true;
  }

  Incoming* begins(Link& link, const PartHeader& part) override {
    Incoming* message = nullptr;
    try {
      message = inbox_.take(link.peer, peers_[static_cast<std::size_t>(link.peer)].sender, part);
    } catch (const Error& error) {
      link.end(error.what());
    }
    if (message == nullptr) return nullptr;
    if (part.offset == 0 && part.length != part.bytes) {
      for (Link* other : peers_[static_cast<std::size_t>(link.peer)].links)
        if (other != nullptr) other->go_on();
    }
    return message;
  }

  void has_arrived(Incoming& message) override { inbox_.has_arrived(message); }

  /// Nothing is sent to or received from the peer any more; what has arrived as a whole can still be taken.
  void break_off(std::size_t index, std::string error) {
    Peer& peer = peers_[index];
    if (!peer.error.empty()) return;
    peer.error = std::move(error);
    peer.call_again.reset();
    for (Link* link : peer.links) {
      if (link == nullptr) continue;
      link->end(peer.error);
      link->fail_queued(peer.error.c_str());
    }
    inbox_.end(static_cast<int>(index), peer.error.c_str(), [&](const Incoming& message) {
      for (Link* link : peer.links)
        if (link != nullptr) link->forget(&message);
    });
    peer.links.clear();
  }

  /// Until when the other links are read, because the other side has ended this one; none: not any more.
  static std::optional<steady_clock::time_point> reads_others_until(const Link& ended) {
    if (!ended.other_side_ended()) return std::nullopt;
    const auto until = *ended.other_side_ended() + kLastData;
    return steady_clock::now() < until ? std::optional(until) : std::nullopt;
  }

  /// Whether `other` may still bring data that was sent before `ended` ended.
  static bool brings_more(const Link& other, const Link& ended) {
    if (other.waits_for_room()) return true;
    // A held link waits for the first part of its message, which comes over link 0 or not at all.
    const bool waits_in_vain = other.is_held() && ended.number == 0;
    return other.is_open() && !waits_in_vain && reads_others_until(ended);
  }

  /// Deals with the links that have ended.
  void sweep() {
    const auto over = [](const auto& link) { return link->has_ended() || link->was_pushed_out(); };
    if (std::ranges::none_of(links_, over)) return;
    const auto now = steady_clock::now();
    for (const auto& link : links_) {
      if (link->peer < 0 || !over(link)) continue;
      const auto index = static_cast<std::size_t>(link->peer);
      Peer& peer = peers_[index];
      if (!peer.error.empty()) continue;
      if (link->was_pushed_out() && now - peer.called < kCallsAgain) {
        if (!peer.call_again) peer.call_again = now + kCallAgainAfter;
        continue;
      }
      // Data over the other links counts: what has arrived, what waits for room, and what is on its way.
      bool waits = false;
      for (Link* other : peer.links) {
        if (other == nullptr || other == link.get()) continue;
        while (other->read_some()) {
        }
        waits |= brings_more(*other, *link);
      }
      if (waits) {
        if (link->has_ended()) ignore(*link);
        continue;
      }
      peer.broken_by_data = link->has_bad_data();
      break_off(index, link->trouble());
    }
    std::erase_if(links_, [&](const auto& link) {
      return link->has_ended() &&
             (link->peer < 0 || !peers_[static_cast<std::size_t>(link->peer)].error.empty());
    });
    set_timer();
    take_up();
  }

  const std::shared_ptr<TcpNetwork> network_;
  const LinkProof proof_;
  FileDescriptor events_, timer_, wake_;
  TcpListener listener_;
  std::string address_;
  std::vector<std::unique_ptr<Link>> links_;
  std::deque<Peer> peers_;  // They stay where they are.
  std::deque<Request> requests_;
  std::vector<Request*> free_;
  Inbox inbox_;
  unsigned turn_ = 0;
};

std::unique_ptr<Mailbox> TcpNetwork::open_mailbox() {
  return std::make_unique<TcpMailbox>(std::static_pointer_cast<TcpNetwork>(shared_from_this()));
}

}  // namespace

std::shared_ptr<Network> open_tcp_network(const NetworkOptions& options) {
  return std::make_shared<TcpNetwork>(options);
}

}  // namespace lockstep::collectives
