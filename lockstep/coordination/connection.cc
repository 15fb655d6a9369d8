// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/keep_alive.h"
#include "lockstep/coordination/descriptor.h"
#include "lockstep/coordination/greeting.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kForConnecting(5000), kForGreeting(20000);
constexpr milliseconds kFirstPause(50), kLongestPause(500);  ///< Between two tries.

/// Whether the connection has not been ended by the other side, nor by gRPC.
bool is_alive(int socket) {
  pollfd ended{socket, POLLRDHUP, 0};
  return ::poll(&ended, 1, 0) == 0;
}

}  // namespace

Stubs::Stubs(std::shared_ptr<grpc::Channel> the_channel)
    : channel(std::move(the_channel)),
      coordination(xla::coordination::CoordinationService::NewStub(channel)),
      job(Job::NewStub(channel)) {}

class Connection::Impl {
 public:
  Impl(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : address_(address),
        identity_(identity),
        greets_(!identity.secret.empty() && !tls.given()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!greets_) stubs_.push_back(std::make_unique<Stubs>(open_channel(address, tls)));
  }

  ~Impl() {
    close();
    if (thread_.joinable()) thread_.join();
  }

  bool greets() const { return greets_; }

  void use(CallId id, bool waits, Then then) {
    Stubs* now = nullptr;
    {
      std::lock_guard lock(mutex_);
      now = connected();
      if (now == nullptr) {
        waiting_.push_back({id, waits, closed_, std::move(then)});
        changed_.notify_all();
        start_thread();
      }
    }
    if (now != nullptr) then(now, {});
  }

  bool cancel(CallId id) {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(waiting_, id, &Waiting::id);
    if (found == waiting_.end()) return false;
    found->cancelled = true;
    interrupt();
    return true;
  }

  bool is_connected() const {
    std::lock_guard lock(mutex_);
    const Stubs* const now = connected();
    return now != nullptr && (greets_ || now->channel->GetState(false) == GRPC_CHANNEL_READY);
  }

  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (Waiting& each : waiting_) each.cancelled = true;
    interrupt();
  }

 private:
  struct Waiting {
    CallId id;
    bool waits, cancelled;
    Then then;
  };

  /// The mutex must be held.
  Stubs* connected() const {
    if (!greets_) return stubs_.back().get();
    return socket_ && is_alive(socket_.get()) ? stubs_.back().get() : nullptr;
  }

  /// The mutex must be held.
  void interrupt() {
    changed_.notify_all();
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
  }

  /// The mutex must be held. It runs as long as somebody waits.
  void start_thread() {
    if (running_) return;
    if (thread_.joinable()) thread_.join();
    running_ = true;
    thread_ = std::thread([this] { connect(); });
  }

  void connect() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    milliseconds pause = kFirstPause;
    std::unique_lock lock(mutex_);
    while (true) {
      answer_cancelled(lock);
      if (waiting_.empty()) break;
      if (Stubs* const now = connected()) {
        answer(lock, now, {}, [](const Waiting&) { return true; });
        continue;
      }
      std::uint64_t ignored;
      if (::read(wake_.get(), &ignored, sizeof ignored) < 0) ignored = 0;
      lock.unlock();
      Descriptor socket;
      const Status status = try_once(socket);
      lock.lock();
      if (status.ok()) {
        keep(std::move(socket));
        pause = kFirstPause;
      } else if (status.code != Code::kCancelled) {
        answer(lock, nullptr, status,
               [&](const Waiting& each) { return !each.waits || status.service_error.has_value(); });
        changed_.wait_for(lock, pause, [this] {
          return std::ranges::any_of(waiting_,
                                     [](const Waiting& each) { return each.cancelled || !each.waits; });
        });
        pause = std::min(2 * pause, kLongestPause);
      }
    }
    running_ = false;
  }

  void answer_cancelled(std::unique_lock<std::mutex>& lock) {
    answer(lock, nullptr, Status::bare(Code::kCancelled, "the caller has gone"), &Waiting::cancelled);
  }

  template <class Whether>
  void answer(std::unique_lock<std::mutex>& lock, Stubs* stubs, const Status& status, Whether whether) {
    std::list<Waiting> answered;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto next = std::next(each);
      if (std::invoke(whether, *each)) answered.splice(answered.end(), waiting_, each);
      each = next;
    }
    if (answered.empty()) return;
    lock.unlock();
    for (Waiting& each : answered) each.then(stubs, status);
    answered.clear();
    lock.lock();
  }

  /// gRPC gets the connection; the mutex must be held. Calls still hold channels that have ended.
  void keep(Descriptor socket) {
    socket_ = Descriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!socket_) return;
    stubs_.push_back(std::make_unique<Stubs>(channel_over(socket.release())));
  }

  /// A connection whose other side has proved itself.
  Status try_once(Descriptor& socket) {
    std::string why;
    socket = Descriptor(connect_to(address_, kForConnecting, wake_.get(), &why));
    if (is_interrupted()) return Status::bare(Code::kCancelled, "");
    if (!socket) return Status::bare(Code::kUnavailable, why);
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_alive(socket.get());
    GreetingCall greeting(identity_, Whereabouts::own());
    const auto end = SteadyClock::now() + kForGreeting;
    char first_byte = 0;
    if (std::string first = greeting.first_bytes(); !send(socket.get(), first)) return broken(errno);
    while (greeting.missing() != 0) {
      char bytes[4096];
      pollfd polled[] = {{socket.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      const auto left = std::chrono::ceil<milliseconds>(end - SteadyClock::now());
      const int ready = ::poll(polled, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (ready < 0 && errno == EINTR) continue;
      if (polled[1].revents != 0) return Status::bare(Code::kCancelled, "");
      if (ready <= 0) {
        return Status::bare(Code::kUnavailable,
                            fmt::format("it accepts connections, but has not answered for {} s",
                                        kForGreeting.count() / 1000));
      }
      const ssize_t got = ::recv(socket.get(), bytes, std::min(greeting.missing(), sizeof bytes), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return broken(got < 0 ? errno : 0);
      if (first_byte == 0) first_byte = bytes[0];
      if (!send(socket.get(), greeting.receive({bytes, static_cast<std::size_t>(got)}))) return broken(errno);
    }
    const Status& result = greeting.result();
    if (result.ok() || result.service_error) return result;
    constexpr char kTlsAlert = 0x15, kTlsHandshake = 0x16;
    if (first_byte == kTlsAlert || first_byte == kTlsHandshake)
      return Status::bare(Code::kUnavailable, "it speaks TLS");
    return Status::of_service(
        Code::kPermissionDenied,
        fmt::format("who serves at {} cannot prove to have the job's secret ({}): it is another program's or "
                    "user's, or JAX's own coordinator, for which LOCKSTEP_JOB_SECRET must not be set",
                    address_.to_string(), result.message));
  }

  bool is_interrupted() const {
    pollfd polled{wake_.get(), POLLIN, 0};
    return ::poll(&polled, 1, 0) > 0;
  }

  static Status broken(int error) {
    return Status::bare(Code::kUnavailable,
                        fmt::format("the connection ended during the greeting{}{}", error != 0 ? ": " : "",
                                    error != 0 ? std::strerror(error) : ""));
  }

  /// What a greeting sends fits into a new socket.
  static bool send(int socket, const std::string& bytes) {
    return bytes.empty() ||
           ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  const HostPort address_;
  const Identity identity_;
  const bool greets_;
  const Descriptor wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  Descriptor socket_;                          ///< Another descriptor of the last channel's.
  std::vector<std::unique_ptr<Stubs>> stubs_;  ///< The last is in use.
  bool running_ = false, closed_ = false;
  std::thread thread_;
};

Connection::Connection(const HostPort& address, const Identity& identity, const TlsFiles& tls)
    : impl_(std::make_unique<Impl>(address, identity, tls)) {}
Connection::~Connection() = default;
bool Connection::greets() const { return impl_->greets(); }
void Connection::use(CallId id, bool waits, Then then) { impl_->use(id, waits, std::move(then)); }
bool Connection::cancel(CallId id) { return impl_->cancel(id); }
bool Connection::is_connected() const { return impl_->is_connected(); }
void Connection::close() { impl_->close(); }

}  // namespace lockstep::coordination
