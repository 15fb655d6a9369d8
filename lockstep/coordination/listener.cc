// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/listener.h"

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
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_alive.h"
#include "lockstep/base/log.h"

namespace lockstep::coordination {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryAgain(50);      ///< For want of descriptors.
constexpr std::chrono::milliseconds kCounts(10);        ///< What strangers have sent.
constexpr std::chrono::milliseconds kServerCloses(10);  ///< What was ended, as a rule.

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

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

std::size_t most_strangers(const Limits& limits) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  return std::clamp<std::size_t>(descriptors.rlim_cur / 8, 4,
                                 std::max<std::size_t>(limits.most_strangers, 4));
}

}  // namespace

class Listener::Impl {
 public:
  Impl(const HostPort& address, const Limits& limits)
      : limits_(limits), most_(most_strangers(limits)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    bind(address);
  }
  ~Impl() { stop(); }

  int port() const { return port_; }

  void start(Take take) {
    take_ = std::move(take);
    thread_ = std::thread([this] { listen(); });
  }

  void let_in(const std::function<std::string()>& peer) {
    if (count_ == 0) return;
    const std::string name = name_of(peer());
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(strangers_, name, &Stranger::name);
    if (found == strangers_.end()) return;
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
    listening_.clear();
    std::lock_guard also(mutex_);
    strangers_.clear();
    count_ = 0;
  }

 private:
  struct Stranger {
    std::string name;
    Descriptor socket;  ///< Another descriptor of what the server has.
    SteadyClock::time_point came;
    int servers = -1;  ///< The descriptor that the server has, as long as it is `what`.
    std::pair<dev_t, ino_t> what;
  };

  /// What the descriptor stands for; zeros if it is closed. Its owner is not disturbed, and may close it
  /// meanwhile: the thread sanitizer, which knows fstat, would take that for a race.
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
    Descriptor socket(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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
      const bool accepts = see_to_strangers(now, look_again);
      polled.assign({{wake_.get(), POLLIN, 0}});
      for (const Descriptor& each : listening_) polled.push_back({accepts ? each.get() : -1, POLLIN, 0});
      int patience = -1;
      if (look_again != SteadyClock::time_point::max()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(look_again - now);
        patience = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000));
      }
      if (::poll(polled.data(), polled.size(), patience) < 0) continue;
      for (std::size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0 && !stop_) accept(listening_[i - 1].get());
      }
    }
  }

  /// Closes late connections, and forgets those that are gone. Returns whether another one may be accepted;
  /// sets the time of the next look.
  bool see_to_strangers(SteadyClock::time_point now, SteadyClock::time_point& look_again) {
    std::lock_guard lock(mutex_);
    for (auto each = strangers_.begin(); each != strangers_.end();) {
      pollfd gone{each->socket.get(), 0, 0};
      const bool greedy = received(each->socket.get()) > limits_.strangers_bytes;
      if (greedy) break_off(each->socket.get());
      const bool late = greedy || now - each->came >= limits_.silence;
      each = late || ::poll(&gone, 1, 0) > 0 ? end(each) : std::next(each);
    }
    std::erase_if(ending_, [](const Stranger& each) { return what_is(each.servers) != each.what; });
    if (!strangers_.empty()) look_again = now + kCounts;
    if (accept_again_ > now) {
      look_again = std::min(look_again, accept_again_);
      return false;
    }
    if (ending_.size() >= most_) {
      look_again = now + kServerCloses;
      return false;
    }
    if (strangers_.size() < most_) return true;
    const auto may_go = strangers_.front().came + limits_.least_time;
    if (may_go > now) look_again = may_go;
    return may_go <= now;
  }

  /// The next one.
  std::list<Stranger>::iterator end(std::list<Stranger>::iterator which) {
    ::shutdown(which->socket.get(), SHUT_RDWR);
    which->socket = Descriptor();
    ending_.push_back(std::move(*which));
    const auto next = strangers_.erase(which);
    count_ = strangers_.size();
    return next;
  }

  void accept(int listening) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Descriptor socket(
        ::accept4(listening, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    Descriptor another(socket ? ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0) : -1);
    const bool short_of =
        !another && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
    {
      std::lock_guard lock(mutex_);
      const auto now = SteadyClock::now();
      if (short_of && strangers_.empty()) {
        logging::warning("the coordinator cannot let anybody in, for want of descriptors or memory");
        accept_again_ = now + kTryAgain;
      } else if (short_of && strangers_.front().came + limits_.least_time > now) {
        accept_again_ = strangers_.front().came + limits_.least_time;
      } else if (short_of || (another && strangers_.size() >= most_)) {
        end(strangers_.begin());
      }
      if (!another) return;
      strangers_.push_back(
          {name_of(address), std::move(another), SteadyClock::now(), socket.get(), what_is(socket.get())});
      count_ = strangers_.size();
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_alive(socket.get());
    take_(socket.release());
  }

  const Limits limits_;
  const std::size_t most_;
  const Descriptor wake_;
  std::vector<Descriptor> listening_;
  int port_ = 0;
  Take take_;
  std::atomic<bool> stop_ = false;
  std::mutex stopping_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::list<Stranger> strangers_;  ///< In the order in which they came.
  std::list<Stranger> ending_;     ///< That the server has not closed yet.
  std::atomic<std::size_t> count_ = 0;
  SteadyClock::time_point accept_again_{};  ///< Of the thread.
};

Listener::Listener(const HostPort& address, const Limits& limits)
    : impl_(std::make_unique<Impl>(address, limits)) {}
Listener::~Listener() = default;
int Listener::port() const { return impl_->port(); }
void Listener::start(Take take) { impl_->start(std::move(take)); }
void Listener::let_in(const std::function<std::string()>& peer) { impl_->let_in(peer); }
bool Listener::is_stranger(const std::function<std::string()>& peer) const {
  return impl_->is_stranger(peer);
}
void Listener::stop() { impl_->stop(); }

}  // namespace lockstep::coordination
