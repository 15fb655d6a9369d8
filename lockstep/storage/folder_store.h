// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// The folder with this path. Files are written without the page cache if the file system supports it
/// (O_DIRECT), and are durable when `finish` has returned; a published folder is durable when `publish` has
/// returned. An attempt is the folder "NAME.tmp-NONCE" beside the future folder. Throws StorageError if the
/// path is not a folder, or does not exist and `make` is false.
std::unique_ptr<Store> open_folder(const std::string& path, bool make);

/// One file.
std::unique_ptr<Reader> open_local_file(const std::string& path);

}  // namespace lockstep::storage
