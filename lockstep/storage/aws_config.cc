// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/aws_config.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// The line without a comment, which begins with a blank and "#" or ";".
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 1; i < line.size(); ++i) {
    if ((line[i] == '#' || line[i] == ';') && (line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.substr(0, i);
  }
  return line;
}

/// "default" of "[default]", "a" of "[profile a]", "services b" of "[services b]".
std::string section_name(std::string name) {
  name = std::string(trimmed(name));
  for (std::string_view kind : {"profile", "services", "sso-session"}) {
    if (!name.starts_with(kind) || name.size() <= kind.size() ||
        kBlanks.find(name[kind.size()]) == kBlanks.npos)
      continue;
    std::string rest(trimmed(std::string_view(name).substr(kind.size())));
    if (rest.size() >= 2 && (rest.front() == '"' || rest.front() == '\'') && rest.back() == rest.front())
      rest = rest.substr(1, rest.size() - 2);
    return kind == "profile" ? rest : std::string(kind) + " " + rest;
  }
  return name;
}

std::string path_of(const Environment& environment, const char* variable, const std::string& name) {
  const auto home = aws_variable(environment, "HOME");
  auto given = aws_variable(environment, variable);
  if (!given) return home ? *home + "/.aws/" + name : "";
  if (given->starts_with("~/") && home) return *home + given->substr(1);
  return *given;
}

}  // namespace

std::optional<std::string> aws_variable(const Environment& environment, const std::string& name) {
  auto value = environment.get(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

AwsConfig::Sections AwsConfig::read(const std::string& path) {
  Sections sections;
  if (path.empty()) return sections;
  errno = 0;
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return sections;
    fail<StorageError>("cannot read the AWS settings in {}: {}", path, std::strerror(errno));
  }
  std::map<std::string, std::string>* section = nullptr;
  std::string block;
  std::size_t number = 0;
  for (std::string raw; std::getline(file, raw);) {
    ++number;
    const std::string line(trimmed(without_comment(raw)));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      if (line.back() != ']') fail<StorageError>("{}:{}: a section without ]", path, number);
      section = &sections[section_name(line.substr(1, line.size() - 2))];
      block.clear();
      continue;
    }
    const auto equals = line.find('=');
    const bool indented = raw.front() == ' ' || raw.front() == '\t';
    if (section == nullptr || (equals == line.npos && !indented))
      fail<StorageError>("{}:{}: neither a [section] nor a NAME = VALUE of one", path, number);
    if (equals == line.npos) continue;  // a value that goes on over lines: none that is used here does
    const std::string name(trimmed(line.substr(0, equals))), value(trimmed(line.substr(equals + 1)));
    if (indented && !block.empty()) {
      (*section)[block + "." + name] = value;
    } else {
      (*section)[name] = value;
      block = value.empty() ? name : "";
    }
  }
  return sections;
}

AwsConfig::AwsConfig(const Environment& environment)
    : config_file_(path_of(environment, "AWS_CONFIG_FILE", "config")),
      credentials_file_(path_of(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials")),
      config_(read(config_file_)),
      credentials_(read(credentials_file_)) {
  if (auto name = aws_variable(environment, "AWS_PROFILE")) {
    profile_ = *name;
    profile_is_named_ = true;
  }
}

bool AwsConfig::has(const std::string& profile) const {
  return config_.count(profile) > 0 || credentials_.count(profile) > 0;
}

std::optional<std::string> AwsConfig::get(const std::string& profile, const std::string& setting) const {
  for (const Sections* sections : {&credentials_, &config_}) {
    const auto section = sections->find(profile);
    if (section == sections->end()) continue;
    const auto value = section->second.find(setting);
    if (value != section->second.end() && !value->second.empty()) return value->second;
  }
  return std::nullopt;
}

std::optional<std::string> AwsConfig::endpoint_of(const std::string& service) const {
  if (auto services = get(profile_, "services")) {
    if (auto endpoint = get("services " + *services, service + ".endpoint_url")) return endpoint;
  }
  return get(profile_, "endpoint_url");
}

}  // namespace lockstep::storage
