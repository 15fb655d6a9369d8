// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// The folders of the sockets of this user's jobs: only $LOCKSTEP_SOCKET_DIR, if it is set; else
/// $XDG_RUNTIME_DIR/lockstep, if that folder exists, /tmp/lockstep-UID, and those of this user that are named
/// /tmp/lockstep-UID-....
std::vector<std::filesystem::path> socket_folders();

/// Creates the folder for a launcher's socket: the first of these that can be used. If another user has taken
/// the names, a new one, /tmp/lockstep-UID-XXXXXX. Throws Error if there is none.
std::filesystem::path make_socket_folder();

/// Creates the folder, only for this user. Throws Error if it belongs to another user, is accessible for
/// others, or is not a folder, and if its path contains a link.
void make_socket_folder(const std::filesystem::path& folder);

/// A listening socket in that folder, with the job's name and permissions 0600. The destructor removes it.
class JobSocket {
 public:
  /// Throws Error if it cannot be made.
  explicit JobSocket(const std::string& job_id);
  ~JobSocket();
  JobSocket(const JobSocket&) = delete;
  JobSocket& operator=(const JobSocket&) = delete;

  /// Owned by this object.
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

struct RunningJob {
  std::string id;
  std::filesystem::path socket;
};

/// The jobs of this user whose launchers answer on this host, by id. Removes sockets of killed launchers.
/// Folders that make_socket_folder refuses are passed over; if it is $LOCKSTEP_SOCKET_DIR, that is an Error.
std::vector<RunningJob> running_jobs();

/// The job whose id begins with `id`, or the only job if `id` is empty. If there is none or several, throws
/// an Error that lists them.
RunningJob find_job(const std::string& id);

/// A connection to a job's socket: one request, and its answer in lines.
class JobConnection {
 public:
  /// Throws Error if the launcher is gone.
  explicit JobConnection(const RunningJob& job);
  ~JobConnection();
  JobConnection(const JobConnection&) = delete;
  JobConnection& operator=(const JobConnection&) = delete;

  /// Sends a line, including its end, and a duplicate of the descriptor if one is given.
  void send(std::string_view line, int descriptor = -1);

  /// The next line without its end; nullopt at the end of the answer. Throws Error after the timeout.
  std::optional<std::string> line(std::chrono::milliseconds timeout);
  static constexpr std::chrono::seconds kUntilAnswer{10};  ///< for a question that is answered at once

 private:
  std::string job_;
  int descriptor_ = -1;
  std::string buffer_;
  std::size_t searched_ = 0;
};

}  // namespace lockstep::cli
