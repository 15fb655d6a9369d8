// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/storage/s3_client.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// A prefix of a bucket, "s3://bucket/prefix", on S3 or a server that speaks its protocol; docs/storage.md
/// describes endpoints and credentials. Blocks until the bucket has answered. Throws StorageError if it does
/// not answer, or may not be listed.
///
/// - A published folder consists of the files that its manifest names: the parts of attempts are in folders
/// in it, each under its nonce, and one of them becomes the folder's with the manifest.
/// - `publish` and `begin` need a server that honours If-None-Match: *; `begin` throws if it does not.
/// - A reader reads the object as it was when it was opened: if it is replaced meanwhile, reads throw.
/// - A writer uploads in the background and takes S3Options::bytes_under_way of memory, or two parts where
///   these are larger; parts grow from 16 MiB, so that an object may have 5 TiB.
std::unique_ptr<Store> open_object_store(const std::string& url, const S3Options& options = {});

/// One object by its URL; this needs no right to list its bucket.
std::unique_ptr<Reader> open_object(const std::string& url, const S3Options& options = {});

}  // namespace lockstep::storage
