#pragma once

#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/storage/aws_config.h"

namespace lockstep::storage {

/// "s3://bucket/key", taken apart.
struct S3Url {
  std::string bucket;
  std::string key;  ///< without slashes at its end; "" for the whole bucket
};

/// Throws StorageError if the text is no such URL.
S3Url parse_s3_url(const std::string& url);

/// Where a bucket is.
struct S3Endpoint {
  std::string scheme = "https";
  std::string host;  ///< with a port where it is not the scheme's own
  std::string path;  ///< before the key, encoded: "", "/bucket", "/base/bucket"
};

/// The region that AWS_REGION, AWS_DEFAULT_REGION or the profile says; "" where none does.
std::string s3_region(const Environment& environment, const AwsConfig& config);

/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint, with the bucket in the path; otherwise
/// that of AWS in the region, with the bucket in the host's name where TLS allows it. Throws StorageError
/// where an endpoint is no URL.
S3Endpoint s3_endpoint(const Environment& environment, const AwsConfig& config, const std::string& bucket,
                       const std::string& region);

}  // namespace lockstep::storage
