// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep::storage {

/// The value of an environment variable; nullopt if it is empty, as in the AWS tools.
std::optional<std::string> aws_variable(const Environment& environment, const std::string& name);

/// The files of the AWS tools in ~/.aws: profiles with their settings. They are read once; a missing file has
/// no profiles.
class AwsConfig {
 public:
  /// Reads the files in AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE, or those in HOME. Throws
  /// StorageError, with the line, if one exists and cannot be read or parsed.
  explicit AwsConfig(const Environment& environment);

  /// The profile in AWS_PROFILE, or "default".
  const std::string& profile() const { return profile_; }

  /// Whether AWS_PROFILE is set: then the profile must exist.
  bool profile_is_named() const { return profile_is_named_; }

  bool has(const std::string& profile) const;

  /// A setting of the profile; the file of credentials takes precedence. A setting of an indented block has
  /// the name "block.setting".
  std::optional<std::string> get(const std::string& profile, const std::string& setting) const;

  /// The endpoint of a service ("s3", "sts") in the services of the chosen profile, or in the profile itself.
  std::optional<std::string> endpoint_of(const std::string& service) const;

  /// The paths of the files, for messages.
  const std::string& config_file() const { return config_file_; }
  const std::string& credentials_file() const { return credentials_file_; }

 private:
  using Sections = std::map<std::string, std::map<std::string, std::string>>;
  static Sections read(const std::string& path);

  std::string profile_ = "default";
  bool profile_is_named_ = false;
  std::string config_file_, credentials_file_;
  Sections config_, credentials_;
};

}  // namespace lockstep::storage
