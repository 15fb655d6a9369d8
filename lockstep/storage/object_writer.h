// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/storage/s3_client.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// The size of part `number` of an upload, from 1, if the first has `first` bytes: such that 10,000 parts,
/// the limit of S3, hold 5 TiB.
std::uint64_t part_size(int number, std::uint64_t first);

/// A new object that is uploaded while it is written: in one request if it is smaller than a part, otherwise
/// in parts. It exists only after `finish` has returned.
std::unique_ptr<Writer> create_object(std::shared_ptr<S3Client> client, std::string key);

}  // namespace lockstep::storage
