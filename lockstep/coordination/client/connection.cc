// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/connection.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/coordination/client/proved_socket.h"
#include "lockstep/coordination/protocol/wire.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;

/// Whether the connection has not been ended by the other side, nor by gRPC.
bool is_alive(int socket) {
  pollfd ended{socket, POLLRDHUP, 0};
  return ::poll(&ended, 1, 0) == 0;
}

}  // namespace

class Connection::Impl {
 public:
  Impl(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : address_(address),
        identity_(identity),
        greets_(!identity.secret.empty() && !tls.given()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!greets_) channels_.push_back(open_channel(address, tls));
  }

  ~Impl() {
    close();
    if (thread_.joinable()) thread_.join();
  }

  bool greets() const { return greets_; }

  void use(CallId id, bool waits, Then then) {
    Channel now;
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
    const Channel now = connected();
    return now != nullptr && (greets_ || now->GetState(false) == GRPC_CHANNEL_READY);
  }

  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (Waiting& each : waiting_) each.cancelled = true;
    interrupt();
  }

 private:
  using Channel = std::shared_ptr<grpc::Channel>;
  struct Waiting {
    CallId id;
    bool waits, cancelled;
    Then then;
  };

  /// The mutex must be held.
  Channel connected() const {
    if (!greets_) return channels_.back();
    return socket_ && is_alive(socket_.get()) ? channels_.back() : nullptr;
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
    milliseconds pause(kFirstPause);
    std::unique_lock lock(mutex_);
    while (true) {
      answer_cancelled(lock);
      if (waiting_.empty()) break;
      if (const Channel now = connected()) {
        answer(lock, now, {}, [](const Waiting&) { return true; });
        continue;
      }
      std::uint64_t ignored;
      if (::read(wake_.get(), &ignored, sizeof ignored) < 0) ignored = 0;
      lock.unlock();
      FileDescriptor socket;
      const Status status = connect_proved(address_, identity_, wake_.get(), socket);
      lock.lock();
      if (status.ok()) {
        keep(std::move(socket));
        pause = milliseconds(kFirstPause);
      } else if (status.code != Code::kCancelled) {
        answer(lock, nullptr, status,
               [&](const Waiting& each) { return !each.waits || status.service_error.has_value(); });
        changed_.wait_for(lock, pause, [this] {
          return std::ranges::any_of(waiting_,
                                     [](const Waiting& each) { return each.cancelled || !each.waits; });
        });
        pause = std::min(2 * pause, milliseconds(kLongestPause));
      }
    }
    running_ = false;
  }

  void answer_cancelled(std::unique_lock<std::mutex>& lock) {
    answer(lock, nullptr, Status::bare(Code::kCancelled, "the caller has gone"), &Waiting::cancelled);
  }

  template <class Whether>
  void answer(std::unique_lock<std::mutex>& lock, const Channel& channel, const Status& status,
              Whether whether) {
    std::list<Waiting> answered;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto next = std::next(each);
      if (std::invoke(whether, *each)) answered.splice(answered.end(), waiting_, each);
      each = next;
    }
    if (answered.empty()) return;
    lock.unlock();
    for (Waiting& each : answered) each.then(channel, status);
    answered.clear();
    lock.lock();
  }

  /// gRPC gets the connection; the mutex must be held. Calls still hold channels that have ended.
  void keep(FileDescriptor socket) {
    socket_ = FileDescriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!socket_) return;
    channels_.push_back(channel_over(socket.release()));
  }

  const HostPort address_;
  const Identity identity_;
  const bool greets_;
  const FileDescriptor wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  FileDescriptor socket_;          ///< another descriptor of the last channel's
  std::vector<Channel> channels_;  ///< the last is in use
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
