// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/status/job_view.h"

namespace lockstep::cli {

/// The answer to a request on the job's socket: any number of lines of JSON. May be used by any thread, also
/// after the server is gone. Ends with its last owner.
class JobAnswer {
 public:
  virtual ~JobAnswer() = default;
  virtual void line(const nlohmann::json& line) = 0;

  /// The client is gone, or does not read: further lines are dropped.
  virtual bool gone() const = 0;

  /// The descriptor that came with the request; the caller then owns it. -1 if there is none, or if it has
  /// been taken.
  virtual int take_descriptor() = 0;
};

/// Options for the page that a browser shows, and for other HTTP requests.
struct StatusPageOptions {
  int port = 0;                    ///< 0: any free port
  std::string host = "127.0.0.1";  ///< the address or name at which to listen, which is also allowed as
                                   ///< `Host`
  std::string token;               ///< empty: not required
};

struct JobServerOptions {
  std::string job_id;
  std::optional<StatusPageOptions> page;
};

/// Answers requests about a running job: on its socket (job_socket.h), and by HTTP if there is a page. It has
/// one thread, which reads the last published state, so that requests do not delay the job. Clients that do
/// not send or read are dropped after some seconds, and their number is limited.
///
/// A request on the socket is one line, {"request": NAME, ...}. "job" and "status" are always supported.
class JobServer {
 public:
  /// Starts the thread; signals should be blocked before. Throws Error if the page's port is not available.
  /// If the socket cannot be made, `trouble` has the reason.
  explicit JobServer(JobServerOptions options);
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  /// Empty if there is a socket.
  const std::string& trouble() const;

  /// "http://127.0.0.1:8080/?token=..."; empty if there is no page.
  const std::string& url() const;

  void publish(std::shared_ptr<const JobView> view);

  using Handler =
      std::function<void(const nlohmann::json& request, const std::shared_ptr<JobAnswer>& answer)>;

  /// Sets the handler of requests with this name: it is called on the server's thread, where it must not
  /// block, or, with `in_loop`, by `work`. A handler that needs time keeps the answer.
  void answer(const std::string& name, Handler handler, bool in_loop = false);

  /// The descriptor that the launcher polls for reading before `work`.
  int descriptor() const;
  /// Calls the handlers of the requests for the launcher's loop.
  void work();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
