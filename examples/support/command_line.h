// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// The options of an example's command line. It hides CLI11, whose own header takes as long to compile as an
/// example.
class CommandLine {
 public:
  explicit CommandLine(std::string description);
  ~CommandLine();

  /// `--name VALUE`. The default is the variable's value, which `--help`
  /// shows.
  void option(const std::string& name, std::string& value, const std::string& description = "");
  void option(const std::string& name, int& value, const std::string& description = "");
  void option(const std::string& name, std::int64_t& value, const std::string& description = "");
  void option(const std::string& name, double& value, const std::string& description = "");

  /// Accepts one of these values.
  void option(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& description = "");

  /// True if it is given.
  void flag(const std::string& name, bool& value, const std::string& description = "");

  /// Parses the arguments, then calls `body`. Returns the exit status: also after --help and wrong arguments,
  /// which are both printed, and 1 for an exception, which is printed behind the program's name.
  template <class Body>
  int run(int argc, char** argv, Body body) {
    return run_erased(
        argc, argv, [](void* body) { (*static_cast<Body*>(body))(); }, &body);
  }

 private:
  int run_erased(int argc, char** argv, void (*call)(void* body), void* body);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};
