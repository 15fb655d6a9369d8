// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/s3_endpoint.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/storage/uri.h"

namespace lockstep::storage {

std::string s3_region(const Environment& environment, const AwsConfig& config) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (auto region = aws_variable(environment, name)) return *region;
  }
  return config.get(config.profile(), "region").value_or("");
}

S3Endpoint s3_endpoint(const Environment& environment, const AwsConfig& config, const std::string& bucket,
                       const std::string& region) {
  std::string given, from;
  if (aws_variable(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").value_or("") != "true") {
    for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
      if (!given.empty()) continue;
      given = aws_variable(environment, name).value_or("");
      from = name;
    }
    if (given.empty()) {
      given = config.endpoint_of("s3").value_or("");
      from = "endpoint_url in " + config.config_file();
    }
  }
  S3Endpoint endpoint;
  if (!given.empty()) {
    const auto colon = given.find("://");
    const auto host = colon + 3;
    endpoint.scheme = given.substr(0, std::min(colon, given.size()));
    if (colon == given.npos || (endpoint.scheme != "http" && endpoint.scheme != "https") ||
        host >= given.size() || given[host] == '/' || given.find_first_of("?#@ ") != given.npos) {
      fail<StorageError>("{} is \"{}\"; expected http://HOST:PORT or https://HOST", from, given);
    }
    while (given.ends_with('/')) given.pop_back();
    const auto path = std::min(given.find('/', host), given.size());
    endpoint.host = given.substr(host, path - host);
    // As it is signed: without the port that HTTP clients leave out.
    const std::string usual = endpoint.scheme == "https" ? ":443" : ":80";
    if (endpoint.host.ends_with(usual)) endpoint.host.resize(endpoint.host.size() - usual.size());
    endpoint.path = given.substr(path) + "/" + bucket;
    return endpoint;
  }
  const std::string domain =
      fmt::format("s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
  const bool in_host = std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
  });
  endpoint.host = in_host ? bucket + "." + domain : domain;
  endpoint.path = in_host ? "" : "/" + bucket;
  return endpoint;
}

}  // namespace lockstep::storage
