// SPDX-License-Identifier: Apache-2.0
#include "cli/status/http_listener.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <vector>

#include "cli/status/http_access.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/keep_alive.h"

namespace lockstep::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kMostHeader = 16 * 1024;
constexpr std::chrono::seconds kUnread(300);  // until a reader that takes nothing is given up
constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kNothingElse[] = "default-src 'none'";

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

class HttpListener::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, StatusPageOptions options, std::function<Page(std::string_view)> page_at)
      : options_(std::move(options)), page_at_(std::move(page_at)), acceptor_(context), resting_(context) {
    const tcp::endpoint endpoint = find_endpoint(context);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(16, error);
    if (error)
      fail("cannot serve the status page at {} port {}: {} (--status-port 0 takes a free port)",
           options_.host, options_.port, error.message());
    const tcp::endpoint bound = acceptor_.local_endpoint();
    everywhere_ = bound.address().is_unspecified();
    names_ = {options_.host};
    if (everywhere_) names_.push_back(host_name());
    const std::string shown = everywhere_ ? host_name() : options_.host;
    url_ = fmt::format("http://{}:{}/{}", shown.find(':') == shown.npos ? shown : "[" + shown + "]",
                       bound.port(), options_.token.empty() ? "" : "?token=" + options_.token);
  }

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (self->closed_) return;
      // Such as that there are no descriptors left.
      if (error) return self->rest();
      keep_alive(socket.native_handle());
      limit_unread(socket.native_handle(), kUnread);
      self->begin(std::move(socket));
      self->accept();
    });
  }

  void close() {
    closed_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    resting_.cancel();
    for (const std::weak_ptr<Session>& each : sessions_)
      if (const auto session = each.lock()) session->close();
    sessions_.clear();
  }

  const std::string& url() const { return url_; }

 private:
  class Session : public std::enable_shared_from_this<Session> {
   public:
    Session(Impl& owner, tcp::socket socket) : owner_(owner.shared_from_this()), stream_(std::move(socket)) {}

    void read() {
      parser_.emplace();
      parser_->header_limit(kMostHeader);
      body_.reset();
      stream_.expires_after(std::chrono::seconds(kSilence));
      http::async_read_header(
          stream_, buffer_, *parser_,
          [self = shared_from_this()](error_code error, std::size_t) { self->answer(error); });
    }

    void close() {
      error_code ignored;
      stream_.socket().close(ignored);
    }

    std::chrono::steady_clock::time_point last_request() const { return last_request_; }

   private:
    void answer(error_code error) {
      last_request_ = std::chrono::steady_clock::now();
      if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return refuse(http::status::request_header_fields_too_large, "the request's header is too long\n");
      if (error && error.category() == http::make_error_code(http::error::bad_version).category() &&
          error != http::error::end_of_stream && error != http::error::partial_message)
        return refuse(http::status::bad_request, "expected an HTTP request\n");
      if (error) return close();
      const auto& request = parser_->get();
      const std::string_view target = view(request.target());
      const std::string_view path = path_of(target);
      if (!host_allowed(view(request[http::field::host]), owner_->names_, owner_->everywhere_))
        return refuse(http::status::forbidden,
                      "the request's Host is not a name of this server: use localhost, or "
                      "start the job with --status-host\n");
      // The page itself has nothing of the job: its script asks for that, with the token.
      if (path != "/" &&
          !has_token(target, view(request[http::field::authorization]), owner_->options_.token))
        return refuse(
            http::status::forbidden,
            "the token is missing or wrong: open the address that lockstep run has printed, or send "
            "'Authorization: Bearer TOKEN'\n");
      // Bytes that follow such a request are not read.
      if (request.method() != http::verb::get && request.method() != http::verb::head)
        return refuse(http::status::method_not_allowed, "only GET and HEAD are supported\n");
      if (!parser_->is_done()) return refuse(http::status::bad_request, "a request must not have a body\n");
      const Page page = owner_->page_at_(path);
      if (!page.text) {
        Page nothing{std::make_shared<const std::string>(
                         "there is no such page; the pages are /, /metrics and /status.json\n"),
                     kPlain, ""};
        return send(http::status::not_found, nothing, request.keep_alive());
      }
      send(http::status::ok, page, request.keep_alive());
    }

    void refuse(http::status status, std::string_view why) {
      send(status, {std::make_shared<const std::string>(why), kPlain, ""}, false);
    }

    void send(http::status status, const Page& page, bool keep) {
      body_ = page.text;
      response_ = {status, 11};
      response_.set(http::field::content_type, page.type);
      response_.set(http::field::cache_control, "no-store");
      response_.set(http::field::x_frame_options, "DENY");
      response_.set("X-Content-Type-Options", "nosniff");
      response_.set("Referrer-Policy", "no-referrer");
      response_.set("Content-Security-Policy", page.policy.empty() ? kNothingElse : page.policy);
      if (status == http::status::method_not_allowed) response_.set(http::field::allow, "GET, HEAD");
      const bool only_head = parser_->get().method() == http::verb::head;
      response_.body() =
          only_head ? beast::span<const char>() : beast::span<const char>(body_->data(), body_->size());
      response_.content_length(body_->size());
      response_.keep_alive(keep);
      serializer_.emplace(response_);
      serializer_->split(only_head);
      stream_.expires_after(std::chrono::seconds(3 * kSilence));
      const auto done = [self = shared_from_this(), keep](error_code error, std::size_t) {
        if (error || !keep || self->owner_->closed_) return self->finish();
        self->read();
      };
      if (only_head)
        http::async_write_header(stream_, *serializer_, done);
      else
        http::async_write(stream_, *serializer_, done);
    }

    // Further bytes from the client are read for a moment, so that it does not lose the answer.
    void finish() {
      error_code ignored;
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      stream_.expires_after(std::chrono::seconds(1));
      rest_.resize(4096);
      stream_.async_read_some(asio::buffer(rest_),
                              [self = shared_from_this()](error_code, std::size_t) { self->close(); });
    }

    const std::shared_ptr<Impl> owner_;
    beast::tcp_stream stream_;
    beast::flat_buffer buffer_{2 * kMostHeader};
    std::optional<http::request_parser<http::empty_body>> parser_;
    std::shared_ptr<const std::string> body_;
    http::response<http::span_body<const char>> response_;
    std::optional<http::response_serializer<http::span_body<const char>>> serializer_;
    std::string rest_;
    std::chrono::steady_clock::time_point last_request_ = std::chrono::steady_clock::now();
  };

  tcp::endpoint find_endpoint(asio::io_context& context) {
    error_code error;
    const auto address = asio::ip::make_address(options_.host, error);
    if (!error) return {address, static_cast<std::uint16_t>(options_.port)};
    tcp::resolver resolver(context);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), error);
    if (error || found.empty())
      fail("cannot serve the status page at {}: {}", options_.host,
           error ? error.message()
                 : std::string("the host name has no address: give --status-host an address of this host"));
    return found.begin()->endpoint();
  }

  void rest() {
    resting_.expires_after(std::chrono::milliseconds(200));
    resting_.async_wait([self = shared_from_this()](error_code) {
      if (!self->closed_) self->accept();
    });
  }

  void begin(tcp::socket socket) {
    std::erase_if(sessions_, [](const std::weak_ptr<Session>& each) { return each.expired(); });
    if (sessions_.size() >= kMost) {
      auto idlest = sessions_.end();
      for (auto at = sessions_.begin(); at != sessions_.end(); ++at)
        if (idlest == sessions_.end() || at->lock()->last_request() < idlest->lock()->last_request())
          idlest = at;
      idlest->lock()->close();
      sessions_.erase(idlest);
    }
    const auto session = std::make_shared<Session>(*this, std::move(socket));
    sessions_.push_back(session);
    session->read();
  }

  const StatusPageOptions options_;
  const std::function<Page(std::string_view)> page_at_;
  tcp::acceptor acceptor_;
  asio::steady_timer resting_;
  std::list<std::weak_ptr<Session>> sessions_;
  std::vector<std::string> names_;
  bool everywhere_ = false, closed_ = false;
  std::string url_;
};

HttpListener::HttpListener(asio::io_context& context, StatusPageOptions options,
                           std::function<Page(std::string_view path)> page_at)
    : impl_(std::make_shared<Impl>(context, std::move(options), std::move(page_at))) {
  impl_->accept();
}

HttpListener::~HttpListener() { close(); }

const std::string& HttpListener::url() const { return impl_->url(); }

void HttpListener::close() { impl_->close(); }

}  // namespace lockstep::cli
