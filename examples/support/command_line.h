#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The options of an example's command line. CLI11 is behind it: a header of its own takes as long to compile
/// as an example.
class CommandLine {
 public:
  explicit CommandLine(std::string description);
  ~CommandLine();

  /// `--name VALUE`; the value that stands in the variable is the one without the option, and `--help` shows
  /// it.
  void option(const std::string& name, std::string& value, const std::string& description = "");
  void option(const std::string& name, int& value, const std::string& description = "");
  void option(const std::string& name, std::int64_t& value, const std::string& description = "");
  void option(const std::string& name, double& value, const std::string& description = "");

  /// One of these values.
  void option(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& description = "");

  /// True where it is given.
  void flag(const std::string& name, bool& value, const std::string& description = "");

  /// Reads the arguments. The status to exit with, where the program is not to go on: after --help, or a
  /// mistake, both of which are printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
