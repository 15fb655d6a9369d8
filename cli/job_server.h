#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/job_view.h"

namespace lockstep::cli {

/// The answer to a request on the job's socket: lines of JSON, as many as it takes. May be used by any
/// thread, also after the server has gone. It ends with its last owner.
class JobAnswer {
 public:
  virtual ~JobAnswer() = default;
  virtual void line(const nlohmann::json& line) = 0;

  /// Whoever asked has gone, or takes nothing: further lines are dropped.
  virtual bool gone() const = 0;
};

/// The page that a browser shows, and what else is asked for by HTTP.
struct StatusPageOptions {
  int port = 0;                    ///< 0: any that is free.
  std::string host = "127.0.0.1";  ///< The address or name to listen at, and which `Host` may name too.
  std::string token;               ///< Empty: none is asked for.
};

struct JobServerOptions {
  std::string job_id;
  std::optional<StatusPageOptions> page;
};

/// Answers those who ask about a running job: on its socket (job_socket.h), and by HTTP where there is a
/// page. It has one thread, which reads what was published last, so that nobody who asks delays the job;
/// those who send or take nothing are dropped after some seconds, and there are never more than a few.
///
/// A request on the socket is one line, {"request": NAME, ...}. "job" and "status" are known from the
/// beginning.
class JobServer {
 public:
  /// Starts the thread; signals should be blocked before. Throws Error where the page's port cannot be had.
  /// Where the socket cannot be made, `trouble` says why.
  explicit JobServer(JobServerOptions options);
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  /// Empty where there is a socket.
  const std::string& trouble() const;

  /// "http://127.0.0.1:8080/?token=..."; empty where there is no page.
  const std::string& url() const;

  void publish(std::shared_ptr<const JobView> view);

  using Handler =
      std::function<void(const nlohmann::json& request, const std::shared_ptr<JobAnswer>& answer)>;

  /// Who answers requests of this name: called on the server's thread, where it must not block, or with
  /// `in_loop` by `work`. What takes its time keeps the answer.
  void answer(const std::string& name, Handler handler, bool in_loop = false);

  /// What the launcher polls for reading before `work`.
  int descriptor() const;
  /// Calls the handlers of the requests that have come for the launcher's loop.
  void work();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
