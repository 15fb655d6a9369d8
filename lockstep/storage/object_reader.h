// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/storage/s3_client.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// An object for reading; null if none has this key. Large reads are split into concurrent ranges.
std::unique_ptr<Reader> find_object(std::shared_ptr<S3Client> client, const std::string& key);

}  // namespace lockstep::storage
