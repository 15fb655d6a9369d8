// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>  // tcp_info with its later fields
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/keep_alive.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/identity/greeting.h"
#include "lockstep/coordination/server/http_refusal.h"

namespace lockstep::coordination {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryAgain(50);  ///< For want of descriptors.
// The kernel's for a stranger of the server, so that it cannot read megabytes before they are counted; and
// later.
constexpr int kStrangersBuffer = 32 << 10, kBuffer = 4 << 20;

constexpr std::chrono::milliseconds kCounts(10);        ///< What strangers have sent.
constexpr std::chrono::milliseconds kServerCloses(10);  ///< What was ended, as a rule.

/// The port and the address as a text that is the same for a socket here and in gRPC's form.
std::string name_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return fmt::format("{}:{}", text, ntohs(v6.sin6_port));
}

std::string name_of_peer(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? name_of(address) : "";
}

std::string name_of(std::string peer) {
  if (const auto scheme = peer.find(':'); scheme != std::string::npos) peer.erase(0, scheme + 1);
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    if (const auto at = peer.find(bracket); at != std::string::npos) peer.erase(at, std::strlen(bracket));
  }
  // A link-local address is followed by its interface.
  if (const auto zone = peer.find('%'); zone != std::string::npos) peer.erase(zone, peer.rfind(':') - zone);
  return peer;
}

/// The bytes that have come over the connection, read or not.
std::uint64_t received(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

/// Ends the connection at once, and drops what has come and nobody has read; the descriptor's other owners
/// see its end.
void break_off(int socket) {
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  ::connect(socket, &nowhere, sizeof nowhere);
}

void set_buffer(int socket, int bytes) { ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); }

std::size_t most_strangers(const Limits& limits) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  return std::clamp<std::size_t>(descriptors.rlim_cur / 8, 4,
                                 std::max<std::size_t>(limits.most_strangers, 4));
}

/// A connection whose other side has not proved yet what it is.
class Visitor {
 public:
  enum class State { kWaits, kIsLetIn, kIsForServer, kIsOver };

  Visitor(FileDescriptor socket, const Gate& gate, const Limits& limits, SteadyClock::time_point now)
      : socket_(std::move(socket)), gate_(&gate), greeting_(gate), most_(limits.strangers_bytes), came_(now) {
    wait_for(kFirstBytes);
  }

  int socket() const { return socket_.get(); }
  int release() {
    wait_for(1);
    return socket_.release();
  }
  SteadyClock::time_point came() const { return came_; }
  bool has_spoken() const { return says_ != Says::kNothing; }

  /// Reads what has come, and answers.
  State go_on() {
    char bytes[4096];
    if (says_ == Says::kNothing) {
      const ssize_t there = ::recv(socket(), bytes, kFirstBytes, MSG_PEEK);
      if (there < 0 && (errno == EAGAIN || errno == EINTR)) return State::kWaits;
      if (there < static_cast<ssize_t>(kFirstBytes)) return State::kIsOver;
      const std::string_view first(bytes, kFirstBytes);
      wait_for(1);
      if (begins_http2(first)) {
        if (gate_->accepts_unproved()) return State::kIsForServer;
        Caller caller;
        refusal_.emplace(*gate_->refusal(std::nullopt, {}, caller));
        says_ = Says::kHttp;
      } else if (begins_greeting(first)) {
        says_ = Says::kGreeting;
      } else {
        says_ = Says::kFarewell;
        if (!send(greeting_refusal(
                "this is a coordinator of Lockstep, and the first bytes are not a greeting")))
          return State::kIsOver;
        ::shutdown(socket(), SHUT_WR);
      }
    }
    const std::size_t wanted = says_ == Says::kGreeting ? greeting_.missing() : sizeof bytes;
    const ssize_t got = ::recv(socket(), bytes, std::min(wanted, sizeof bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return State::kWaits;
    if (got <= 0) return State::kIsOver;
    total_ += static_cast<std::size_t>(got);
    if (total_ > most_) return State::kIsOver;
    const std::string_view some(bytes, static_cast<std::size_t>(got));
    bool is_refused = false;
    if (says_ == Says::kGreeting) {
      if (!send(greeting_.receive(some))) return State::kIsOver;
      if (greeting_.missing() != 0) return State::kWaits;
      if (greeting_.proved()) return State::kIsLetIn;
      is_refused = true;
    } else if (says_ == Says::kHttp) {
      if (!send(refusal_->receive(some))) return State::kIsOver;
      is_refused = refusal_->is_over();
    }
    if (is_refused) {
      // If it were closed now, bytes that are still on their way would destroy the answer.
      says_ = Says::kFarewell;
      ::shutdown(socket(), SHUT_WR);
    }
    return State::kWaits;
  }

 private:
  enum class Says { kNothing, kGreeting, kHttp, kFarewell };

  /// poll() reports the socket once this many bytes are there, or it has ended.
  void wait_for(int bytes) { ::setsockopt(socket(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes); }

  /// Sends a short text: it fits into the socket, or the other side does not read.
  bool send(const std::string& bytes) {
    return bytes.empty() || ::send(socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                                static_cast<ssize_t>(bytes.size());
  }

  FileDescriptor socket_;
  const Gate* gate_;
  GreetingAnswer greeting_;
  std::optional<HttpRefusal> refusal_;
  std::size_t most_, total_ = 0;
  SteadyClock::time_point came_;
  Says says_ = Says::kNothing;
};

}  // namespace

class Listener::Impl {
 public:
  Impl(const HostPort& address, const Limits& limits, const Gate* gate)
      : limits_(limits),
        gate_(gate),
        most_(most_strangers(limits)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    bind(address);
  }
  ~Impl() { stop(); }

  int port() const { return port_; }

  void start(Take take) {
    take_ = std::move(take);
    thread_ = std::thread([this] { listen(); });
    if (gate_ == nullptr || gate_->accepts_unproved()) giving_ = std::thread([this] { give_strangers(); });
  }

  void let_in(const std::function<std::string()>& peer) {
    if (count_ == 0) return;
    const std::string name = name_of(peer());
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(strangers_, name, &Stranger::name);
    if (found == strangers_.end()) return;
    if (gate_ != nullptr) set_buffer(found->socket.get(), kBuffer);
    strangers_.erase(found);
    count_ = strangers_.size();
  }

  bool is_stranger(const std::function<std::string()>& peer) const {
    if (count_ == 0) return false;
    const std::string name = name_of(peer());
    std::lock_guard lock(mutex_);
    return std::ranges::find(strangers_, name, &Stranger::name) != strangers_.end();
  }

  void stop() {
    std::lock_guard lock(stopping_);
    if (!thread_.joinable()) return;
    stop_ = true;
    wake();
    thread_.join();
    if (giving_.joinable()) {
      {
        std::lock_guard also(mutex_);
        more_to_give_.notify_all();
      }
      giving_.join();
    }
    to_give_.clear();
    listening_.clear();
    visitors_.clear();
    std::lock_guard also(mutex_);
    strangers_.clear();
    count_ = 0;
  }

 private:
  struct Stranger {
    std::string name;
    FileDescriptor socket;  ///< Another descriptor of what the server has.
    SteadyClock::time_point came;
    int servers = -1;  ///< The descriptor that the server has, as long as it is `what`.
    std::pair<dev_t, ino_t> what;
  };

  /// The file that the descriptor stands for; zeros if it is closed. The thread sanitizer would report a race
  /// of fstat with the owner, which may close the descriptor meanwhile.
  static std::pair<dev_t, ino_t> what_is(int descriptor) {
    struct stat found {};
    return ::fstatat(descriptor, "", &found, AT_EMPTY_PATH) == 0 ? std::pair(found.st_dev, found.st_ino)
                                                                 : std::pair(dev_t{}, ino_t{});
  }

  void bind(const HostPort& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const bool everywhere = address.host == "::";
    const std::string port = std::to_string(address.port);
    std::string why;
    if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); error == 0) {
      const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
      port_ = address.port;
      for (const addrinfo* each = found; each != nullptr && why.empty(); each = each->ai_next)
        why = bind_one(*each);
    }
    if (listening_.empty() && everywhere) return bind({"0.0.0.0", address.port});  // A host without IPv6.
    if (!listening_.empty() && why.empty()) return;
    if (why.empty()) why = why_not_bindable(address);
    fail<InitializationError>("the coordinator cannot listen at {}: {}", address.to_string(),
                              why.empty() ? "the system does not say why" : why);
  }

  /// Why the job cannot use the port; "" if it can, or if the address does not belong to this host.
  std::string bind_one(const addrinfo& info) {
    FileDescriptor socket(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return "";
    const int on = 1, off = 0;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_storage own{};
    std::memcpy(&own, info.ai_addr, info.ai_addrlen);
    if (info.ai_family == AF_INET6) {
      auto& v6 = reinterpret_cast<sockaddr_in6&>(own);
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      v6.sin6_port = htons(static_cast<std::uint16_t>(port_));
    } else {
      reinterpret_cast<sockaddr_in&>(own).sin_port = htons(static_cast<std::uint16_t>(port_));
    }
    socklen_t size = info.ai_addrlen;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), size) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0) {
      return errno == EADDRINUSE
                 ? "the port is in use; choose another one, or port 0 to let the system pick one"
                 : "";
    }
    size = sizeof own;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(info.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(own).sin_port);
    listening_.push_back(std::move(socket));
    return "";
  }

  void wake() {
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
  }

  void listen() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::vector<pollfd> polled;
    while (!stop_) {
      const auto now = SteadyClock::now();
      auto look_again = SteadyClock::time_point::max();
      see_to_strangers(now, look_again);
      const bool accepts = may_accept(now, look_again);
      polled.assign({{wake_.get(), POLLIN, 0}});
      for (const FileDescriptor& each : listening_) polled.push_back({accepts ? each.get() : -1, POLLIN, 0});
      for (const Visitor& each : visitors_) polled.push_back({each.socket(), POLLIN, 0});
      int patience = -1;
      if (look_again != SteadyClock::time_point::max()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(look_again - now);
        patience = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
      }
      if (::poll(polled.data(), polled.size(), patience) < 0) continue;
      auto each = polled.begin() + 1 + static_cast<std::ptrdiff_t>(listening_.size());
      for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++each)
        visitor = each->revents != 0 ? go_on(visitor) : std::next(visitor);
      for (std::size_t i = 0; i < listening_.size(); ++i) {
        if (polled[i + 1].revents != 0 && !stop_) accept(listening_[i].get());
      }
    }
  }

  /// The next one.
  std::list<Visitor>::iterator go_on(std::list<Visitor>::iterator visitor) {
    const Visitor::State state = visitor->go_on();
    if (state == Visitor::State::kWaits) return std::next(visitor);
    if (state == Visitor::State::kIsLetIn) take_(visitor->release());
    if (state == Visitor::State::kIsForServer) give(FileDescriptor(visitor->release()), visitor->came());
    return visitors_.erase(visitor);
  }

  /// Closes late connections, and forgets those that are gone.
  void see_to_strangers(SteadyClock::time_point now, SteadyClock::time_point& look_again) {
    std::erase_if(visitors_, [&](const Visitor& each) { return now - each.came() >= limits_.silence; });
    if (!visitors_.empty()) look_again = visitors_.front().came() + limits_.silence;
    std::lock_guard lock(mutex_);
    for (auto each = strangers_.begin(); each != strangers_.end();) {
      pollfd gone{each->socket.get(), 0, 0};
      const bool greedy = received(each->socket.get()) > limits_.strangers_bytes;
      if (greedy) break_off(each->socket.get());
      const bool late = greedy || now - each->came >= limits_.silence;
      each = late || ::poll(&gone, 1, 0) > 0 ? end(each) : std::next(each);
    }
    std::erase_if(ending_, [](const Stranger& each) { return what_is(each.servers) != each.what; });
    if (!strangers_.empty()) look_again = std::min(look_again, now + kCounts);
  }

  /// Whether another connection may be accepted; sets the time of the next look.
  bool may_accept(SteadyClock::time_point now, SteadyClock::time_point& look_again) {
    if (accept_again_ > now) {
      look_again = std::min(look_again, accept_again_);
      return false;
    }
    std::lock_guard lock(mutex_);
    if (ending_.size() >= most_) {
      look_again = std::min(look_again, now + kServerCloses);
      return false;
    }
    if (visitors_.size() + strangers_.size() < most_) return true;
    const SteadyClock::time_point may_go = first_to_go();
    if (may_go > now) look_again = std::min(look_again, may_go);
    return may_go <= now;
  }

  /// When the first stranger may be closed so that others come in; the mutex must be held.
  SteadyClock::time_point first_to_go() const {
    auto first = SteadyClock::time_point::max();
    if (!strangers_.empty()) first = strangers_.front().came + limits_.least_time;
    if (!visitors_.empty()) first = std::min(first, visitors_.front().came() + limits_.least_time);
    const auto silent = first_silent();
    if (silent != visitors_.end()) first = std::min(first, silent->came() + limits_.least_silence);
    return first;
  }

  std::list<Visitor>::const_iterator first_silent() const {
    return std::ranges::find(visitors_, false, &Visitor::has_spoken);
  }

  /// Closes one that may go; the mutex must be held.
  void make_room(SteadyClock::time_point now) {
    if (const auto silent = first_silent();
        silent != visitors_.end() && silent->came() + limits_.least_silence <= now) {
      visitors_.erase(silent);
    } else if (!visitors_.empty() &&
               (strangers_.empty() || visitors_.front().came() <= strangers_.front().came)) {
      visitors_.pop_front();
    } else if (!strangers_.empty()) {
      end(strangers_.begin());
    }
  }

  /// The next one.
  std::list<Stranger>::iterator end(std::list<Stranger>::iterator which) {
    ::shutdown(which->socket.get(), SHUT_RDWR);
    which->socket = FileDescriptor();
    ending_.push_back(std::move(*which));
    const auto next = strangers_.erase(which);
    count_ = strangers_.size();
    return next;
  }

  void accept(int listening) {
    const auto now = SteadyClock::now();
    FileDescriptor socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (is_short_of(errno)) wait_for_room(now);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      if (visitors_.size() + strangers_.size() >= most_) make_room(now);
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_alive(socket.get());
    if (gate_ == nullptr) return give(std::move(socket), now);
    visitors_.emplace_back(std::move(socket), *gate_, limits_, now);
    go_on(std::prev(visitors_.end()));  // As a rule it has spoken already.
  }

  static bool is_short_of(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  }

  /// There are no descriptors.
  void wait_for_room(SteadyClock::time_point now) {
    std::lock_guard lock(mutex_);
    if (visitors_.empty() && strangers_.empty()) {
      logging::warning(
          "the coordinator can accept no connection: it has too few descriptors (ulimit -n) or too little "
          "memory");
      accept_again_ = now + kTryAgain;
    } else if (const auto may_go = first_to_go(); may_go > now) {
      accept_again_ = may_go;
    } else {
      make_room(now);
    }
  }

  /// The server gets it, and it remains a stranger until a call is accepted.
  void give(FileDescriptor socket, SteadyClock::time_point came) {
    FileDescriptor another(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!another) return wait_for_room(SteadyClock::now());
    if (gate_ != nullptr) set_buffer(socket.get(), kStrangersBuffer);
    {
      std::lock_guard lock(mutex_);
      strangers_.push_back(
          {name_of_peer(socket.get()), std::move(another), came, socket.get(), what_is(socket.get())});
      count_ = strangers_.size();
      to_give_.push_back(std::move(socket));
      more_to_give_.notify_all();
    }
  }

  /// On a thread of its own: the server reads what there is of a stranger before it returns, while the
  /// listener must count it.
  void give_strangers() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock lock(mutex_);
    while (true) {
      more_to_give_.wait(lock, [this] { return stop_ || !to_give_.empty(); });
      if (stop_) return;
      FileDescriptor socket = std::move(to_give_.front());
      to_give_.pop_front();
      lock.unlock();
      take_(socket.release());
      lock.lock();
    }
  }

  const Limits limits_;
  const Gate* const gate_;
  const std::size_t most_;
  const FileDescriptor wake_;
  std::vector<FileDescriptor> listening_;
  int port_ = 0;
  Take take_;
  std::atomic<bool> stop_ = false;
  std::mutex stopping_;
  std::thread thread_, giving_;

  mutable std::mutex mutex_;
  std::list<Stranger> strangers_;  ///< Of the server, in the order in which they came.
  std::list<Stranger> ending_;     ///< That the server has not closed yet.
  std::list<FileDescriptor> to_give_;
  std::condition_variable more_to_give_;
  std::atomic<std::size_t> count_ = 0;

  // Used only by `thread_`, while it runs:
  std::list<Visitor> visitors_;  ///< In the order in which they came.
  SteadyClock::time_point accept_again_{};
};

Listener::Listener(const HostPort& address, const Limits& limits, const Gate* gate)
    : impl_(std::make_unique<Impl>(address, limits, gate)) {}
Listener::~Listener() = default;
int Listener::port() const { return impl_->port(); }
void Listener::start(Take take) { impl_->start(std::move(take)); }
void Listener::let_in(const std::function<std::string()>& peer) { impl_->let_in(peer); }
bool Listener::is_stranger(const std::function<std::string()>& peer) const {
  return impl_->is_stranger(peer);
}
void Listener::stop() { impl_->stop(); }

}  // namespace lockstep::coordination
