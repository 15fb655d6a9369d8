#pragma once

#include <memory>
#include <string>

#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// The folder of this path. Files are written past the system's cache where the file system can
/// (O_DIRECT), and are there for good when `finish` has returned; a published folder is, when `publish` has.
/// An attempt is the folder "NAME.tmp-NONCE" beside the one that it is to become. Throws StorageError where
/// the path is no folder or, unless `make` says so, is missing.
std::unique_ptr<Store> open_folder(const std::string& path, bool make);

/// One file.
std::unique_ptr<Reader> open_local_file(const std::string& path);

}  // namespace lockstep::storage
