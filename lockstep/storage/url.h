// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::storage {

/// The place that a path or URL names, in a file system or in an object store.
struct Location {
  bool is_object = false;
  std::string scheme;       ///< of an object store, in lower case: "s3"
  std::string path;         ///< in a file system
  std::string bucket, key;  ///< in an object store; the key without trailing slashes, "" for the whole bucket
};

/// Every path or URL that a user gives passes through here. Throws StorageError, without touching anything,
/// for
/// - an empty text, and one with a NUL byte;
/// - a URL of another scheme than file and those of schemes.h, in upper or lower case, so that it is never a
///   local path; the same holds for "SCHEME:/...", which is left of a URL that was handled as a path,
///   "s3:..." and "file:...", but "./SCHEME:/..." is a path;
/// - a file's URL with another host than localhost;
/// - an object's URL without a valid bucket, or with a key of more than 1024 bytes, that is not UTF-8 or has
///   "." or ".." between slashes.
/// Nothing is percent-decoded.
Location locate(std::string_view url);

/// The path in a file system. Throws StorageError as `locate` does, and for object stores.
std::string local_path(std::string_view url);

/// For messages: as `shown` (lockstep/base/text.h) makes it, in at most 300 bytes.
std::string printable(std::string_view url);

}  // namespace lockstep::storage
