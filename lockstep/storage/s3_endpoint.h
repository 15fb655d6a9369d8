// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/storage/aws_config.h"

namespace lockstep::storage {

/// The location of a bucket.
struct S3Endpoint {
  std::string scheme = "https";
  std::string host;  ///< with a port, unless it is the scheme's default
  std::string path;  ///< before the key, encoded: "", "/bucket", "/base/bucket"
};

/// The region from AWS_REGION, AWS_DEFAULT_REGION or the profile; "" if there is none.
std::string s3_region(const Environment& environment, const AwsConfig& config);

/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint, with the bucket in the path; otherwise
/// AWS's endpoint of the region, with the bucket in the host's name if TLS allows it. Throws StorageError if
/// an endpoint is not a URL.
S3Endpoint s3_endpoint(const Environment& environment, const AwsConfig& config, const std::string& bucket,
                       const std::string& region);

}  // namespace lockstep::storage
