#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Where the sockets of this user's jobs may be: $LOCKSTEP_SOCKET_DIR only, where that is set; else
/// $XDG_RUNTIME_DIR/lockstep, where there is such a folder, and /tmp/lockstep-UID. A launcher uses the first.
std::vector<std::filesystem::path> socket_folders();

/// Makes the folder, for this user only. Throws Error where it is another one's, open to others, or no
/// folder, and where the way to it leads over a link.
void make_socket_folder(const std::filesystem::path& folder);

/// A socket that listens in a folder under the name of a job, with the rights 0600. Its destructor removes
/// it.
class JobSocket {
 public:
  /// Throws Error where it cannot be made.
  JobSocket(const std::filesystem::path& folder, const std::string& job_id);
  ~JobSocket();
  JobSocket(const JobSocket&) = delete;
  JobSocket& operator=(const JobSocket&) = delete;

  /// It stays this object's.
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

/// The jobs of this user whose launchers answer on this host, by id. Sockets that launchers which were killed
/// have left are removed. Throws Error as make_socket_folder, but not for a folder that is not there.
std::vector<RunningJob> running_jobs();

/// The job whose id begins so, or the only one where `id` is empty. Throws Error, with what there is, where
/// there is none or several.
RunningJob find_job(const std::string& id);

/// A connection to a job's socket: one request, and its answer in lines.
class JobConnection {
 public:
  /// Throws Error where the launcher has gone.
  explicit JobConnection(const RunningJob& job);
  ~JobConnection();
  JobConnection(const JobConnection&) = delete;
  JobConnection& operator=(const JobConnection&) = delete;

  /// Sends a line, its end included.
  void send(std::string_view line);

  /// The next line without its end; nullopt where the answer has ended. Throws Error where none comes for so
  /// long.
  std::optional<std::string> line(std::chrono::milliseconds timeout);

 private:
  std::string job_;
  int descriptor_ = -1;
  std::string buffer_;
  std::size_t searched_ = 0;
};

}  // namespace lockstep::cli
