#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep::storage {

/// A value of an environment variable; none if it is empty, as the AWS tools have it.
std::optional<std::string> aws_variable(const Environment& environment, const std::string& name);

/// The files that the AWS tools keep in ~/.aws: profiles with their settings. They are read once; one that is
/// not there has no profiles.
class AwsConfig {
 public:
  /// The files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, or those in HOME. Throws
  /// StorageError where one is there and cannot be read or understood; the message names the line.
  explicit AwsConfig(const Environment& environment);

  /// The profile that AWS_PROFILE names, or "default".
  const std::string& profile() const { return profile_; }

  /// Whether AWS_PROFILE names it: then it has to be there.
  bool profile_is_named() const { return profile_is_named_; }

  bool has(const std::string& profile) const;

  /// A setting of the profile; where both files have it, that of the file of credentials. A setting of a
  /// block that is indented below another has the name "block.setting".
  std::optional<std::string> get(const std::string& profile, const std::string& setting) const;

  /// The endpoint of a service ("s3", "sts") that the chosen profile's services or the profile itself name.
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
