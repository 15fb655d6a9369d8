// SPDX-License-Identifier: Apache-2.0
#include "cli/status/job_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "cli/base/job_socket.h"
#include "cli/status/http_access.h"
#include "cli/status/http_listener.h"
#include "cli/status/prometheus.h"
#include "cli/status/status_json.h"
#include "cli/status/status_page.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/passed_descriptor.h"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;
using nlohmann::json;

constexpr std::size_t kMostAskers = 8;
constexpr std::size_t kMostRequest = 64 * 1024;
constexpr std::size_t kMostPendingAnswer = std::size_t{256} << 20;  // bytes of an answer that nobody takes
constexpr std::chrono::seconds kSilence(10);                        // of one who asks and sends no line
constexpr std::chrono::seconds kUntaken(30);                        // of one who takes nothing of the answer

/// A connection on the socket: one request, and the answer to it.
class Asker : public std::enable_shared_from_this<Asker> {
 public:
  using Request = std::function<void(const json&, const std::shared_ptr<JobAnswer>&)>;

  Asker(const std::shared_ptr<asio::io_context>& context, stream_protocol::socket socket, Request request)
      : context_(context), socket_(std::move(socket)), timer_(*context), request_(std::move(request)) {}

  ~Asker() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  void read() {
    watch(kSilence);
    read_on();
  }

  // On the server's thread, as all but what says otherwise.
  void close() {
    gone_ = true;
    error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
  }

  bool gone() const { return gone_; }  // any thread

  void write(std::string text) {
    if (gone_) return;
    pending_bytes_ += text.size();
    if (pending_bytes_ > kMostPendingAnswer) return close();
    pending_.push_back(std::move(text));
    if (pending_.size() == 1) write_next();
  }

  void end() {
    ended_ = true;
    if (pending_.empty()) close();
  }

 private:
  /// The object that handlers hold: it passes a line to the server's thread, while there is one.
  class Answer : public JobAnswer {
   public:
    Answer(std::shared_ptr<asio::io_context> context, std::shared_ptr<Asker> asker)
        : context_(std::move(context)), asker_(std::move(asker)) {}
    ~Answer() override {
      asio::post(*context_, [asker = asker_] { asker->end(); });
    }
    void line(const json& line) override {
      if (asker_->gone()) return;
      asio::post(*context_,
                 [asker = asker_, text = to_text(line) + "\n"]() mutable { asker->write(std::move(text)); });
    }
    bool gone() const override { return asker_->gone(); }
    int take_descriptor() override { return asker_->descriptor_.exchange(-1); }

   private:
    const std::shared_ptr<asio::io_context> context_;  // outlives the asker
    const std::shared_ptr<Asker> asker_;
  };

  // Until the end of the line.
  void read_on() {
    socket_.async_wait(stream_protocol::socket::wait_read, [self = shared_from_this()](error_code error) {
      if (error || !self->receive()) return self->close();
      if (self->line_.find('\n') == std::string::npos) return self->read_on();
      self->timer_.cancel();
      self->take_line();
    });
  }

  // Not by asio, which would drop a descriptor that comes with the bytes. False at the end or an error.
  bool receive() {
    char bytes[4096];
    iovec part{bytes, sizeof(bytes)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    PassedDescriptor passed;
    passed.receive_with(message);
    const ssize_t got = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (const int descriptor = PassedDescriptor::received(message); descriptor >= 0) {
      if (const int before = descriptor_.exchange(descriptor); before >= 0) ::close(before);
    }
    line_.append(bytes, static_cast<std::size_t>(got));
    return got > 0 && line_.size() <= kMostRequest;
  }

  void take_line() {
    const auto context = context_.lock();
    if (context == nullptr) return;
    const auto answer = std::make_shared<Answer>(context, shared_from_this());
    const json request = try_parse_json(line_.substr(0, line_.find('\n')));
    request_(request, answer);
    // Hears when whoever asked goes away.
    socket_.async_read_some(asio::buffer(&rest_, 1),
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) self->close();
                            });
  }

  void write_next() {
    watch(kUntaken);
    asio::async_write(socket_, asio::buffer(pending_.front()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        self->timer_.cancel();
                        if (error) return self->close();
                        self->pending_bytes_ -= self->pending_.front().size();
                        self->pending_.pop_front();
                        if (!self->pending_.empty()) return self->write_next();
                        if (self->ended_) self->close();
                      });
  }

  // Closes when nothing happens for so long.
  void watch(std::chrono::seconds time) {
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->close();
    });
  }

  const std::weak_ptr<asio::io_context> context_;
  stream_protocol::socket socket_;
  asio::steady_timer timer_;
  const Request request_;
  std::string line_;
  std::atomic<int> descriptor_ = -1;
  std::deque<std::string> pending_;
  std::size_t pending_bytes_ = 0;
  bool ended_ = false;
  std::atomic<bool> gone_ = false;
  char rest_ = 0;
};

}  // namespace

class JobServer::Impl {
 public:
  explicit Impl(JobServerOptions options)
      : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), acceptor_(*context_), resting_(*context_) {
    if (event_ < 0) fail("cannot make an eventfd: {}", std::strerror(errno));
    try {
      if (options.page) {
        http_.emplace(*context_, *options.page, [this](std::string_view path) { return page_at(path); });
        url_ = http_->url();
      }
    } catch (...) {
      close(event_);
      throw;
    }
    try {
      open_socket(options.job_id);
    } catch (const Error& error) {
      trouble_ = error.what();
    }
    answer(
        "job",
        [this](const json&, const std::shared_ptr<JobAnswer>& to) { to->line(to_json(*view(), false)); },
        false);
    answer(
        "status", [this](const json&, const std::shared_ptr<JobAnswer>& to) { to->line(to_json(*view())); },
        false);
    thread_ = std::thread([this] { context_->run(); });
  }

  ~Impl() {
    socket_.reset();  // nobody new finds it
    asio::post(*context_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      resting_.cancel();
      if (http_) http_->close();
      for (const std::weak_ptr<Asker>& each : askers_)
        if (const auto asker = each.lock()) asker->close();
      context_->stop();
    });
    thread_.join();
    close(event_);
  }

  const std::string& trouble() const { return trouble_; }
  const std::string& url() const { return url_; }

  void publish(std::shared_ptr<const JobView> view) {
    const std::lock_guard lock(mutex_);
    view_ = std::move(view);
  }

  void answer(const std::string& name, Handler handler, bool in_loop) {
    const std::lock_guard lock(mutex_);
    handlers_[name] = {std::move(handler), in_loop};
  }

  int descriptor() const { return event_; }

  void work() {
    std::uint64_t count = 0;
    if (read(event_, &count, sizeof(count)) < 0) return;
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard lock(mutex_);
      calls.swap(calls_);
    }
    for (const auto& call : calls) call();
  }

 private:
  struct Entry {
    Handler handler;
    bool in_loop = false;
  };

  std::shared_ptr<const JobView> view() {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  void open_socket(const std::string& job_id) {
    // Sockets that killed launchers left do no harm, but they would accumulate.
    running_jobs();
    socket_.emplace(job_id);
    const int own = fcntl(socket_->descriptor(), F_DUPFD_CLOEXEC, 3);
    if (own < 0) fail("cannot duplicate a descriptor: {}", std::strerror(errno));
    acceptor_.assign(stream_protocol(), own);
    accept();
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, stream_protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Such as that there are no descriptors left.
        resting_.expires_after(std::chrono::milliseconds(200));
        resting_.async_wait([this](error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      begin(std::move(socket));
      accept();
    });
  }

  void begin(stream_protocol::socket socket) {
    std::erase_if(askers_, [](const std::weak_ptr<Asker>& each) {
      const auto asker = each.lock();
      return asker == nullptr || asker->gone();
    });
    if (askers_.size() >= kMostAskers) {
      if (const auto oldest = askers_.front().lock()) oldest->close();
      askers_.pop_front();
    }
    const auto asker = std::make_shared<Asker>(
        context_, std::move(socket),
        [this](const json& request, const std::shared_ptr<JobAnswer>& to) { handle(request, to); });
    askers_.push_back(asker);
    asker->read();
  }

  void handle(const json& request, const std::shared_ptr<JobAnswer>& to) {
    const std::string name = request.is_object() ? request.value("request", json()).is_string()
                                                       ? request["request"].get<std::string>()
                                                       : std::string()
                                                 : std::string();
    std::unique_lock lock(mutex_);
    const auto found = handlers_.find(name);
    if (found == handlers_.end()) {
      std::string known;
      for (const auto& [each, entry] : handlers_) known += (known.empty() ? "" : ", ") + each;
      lock.unlock();
      return to->line({{"error", fmt::format("this launcher knows no request '{}', only {}", name, known)}});
    }
    const Handler handler = found->second.handler;
    if (!found->second.in_loop) {
      lock.unlock();
      if (view() == nullptr) return to->line({{"error", "the job has not begun"}});
      return call(handler, request, to);
    }
    calls_.push_back([handler, request, to] { call(handler, request, to); });
    lock.unlock();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
  }

  static void call(const Handler& handler, const json& request, const std::shared_ptr<JobAnswer>& to) {
    try {
      handler(request, to);
    } catch (const std::exception& error) {
      to->line({{"error", error.what()}});
    }
  }

  // The same view is put into words once.
  Page page_at(std::string_view path) {
    if (path == "/") return {status_page(), "text/html; charset=utf-8", status_page_policy()};
    if (path != "/metrics" && path != "/status.json") return {};
    const std::shared_ptr<const JobView> now = view();
    if (now == nullptr) return {};
    Rendered& rendered = path == "/metrics" ? metrics_ : status_;
    if (rendered.of != now) {
      rendered.text = std::make_shared<const std::string>(path == "/metrics" ? prometheus_text(*now)
                                                                             : to_text(to_json(*now)) + "\n");
      rendered.of = now;
    }
    return {rendered.text,
            path == "/metrics" ? "text/plain; version=0.0.4; charset=utf-8" : "application/json", ""};
  }

  struct Rendered {
    std::shared_ptr<const JobView> of;
    std::shared_ptr<const std::string> text;
  };

  std::mutex mutex_;
  std::shared_ptr<const JobView> view_;  // under the mutex, as the next two
  std::map<std::string, Entry> handlers_;
  std::vector<std::function<void()>> calls_;  // for `work`

  const int event_;
  std::string url_, trouble_;
  std::optional<JobSocket> socket_;
  const std::shared_ptr<asio::io_context> context_ = std::make_shared<asio::io_context>(1);
  const asio::executor_work_guard<asio::io_context::executor_type> work_{context_->get_executor()};
  stream_protocol::acceptor acceptor_;
  asio::steady_timer resting_;
  std::list<std::weak_ptr<Asker>> askers_;
  std::optional<HttpListener> http_;
  Rendered status_, metrics_;
  std::thread thread_;
};

JobServer::JobServer(JobServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
JobServer::~JobServer() = default;
const std::string& JobServer::trouble() const { return impl_->trouble(); }
const std::string& JobServer::url() const { return impl_->url(); }
void JobServer::publish(std::shared_ptr<const JobView> view) { impl_->publish(std::move(view)); }
void JobServer::answer(const std::string& name, Handler handler, bool in_loop) {
  impl_->answer(name, std::move(handler), in_loop);
}
int JobServer::descriptor() const { return impl_->descriptor(); }
void JobServer::work() { impl_->work(); }

}  // namespace lockstep::cli
