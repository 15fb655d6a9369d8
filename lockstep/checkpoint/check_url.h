// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/storage/url.h"

namespace lockstep::checkpoint {

/// Throws CheckpointError, before anything is touched, for what storage::locate refuses. For all functions
/// that take a path or URL.
inline void check_url(const std::string& url) {
  try {
    storage::locate(url);
  } catch (const StorageError& error) {
    fail<CheckpointError>("[checkpoint] {}", error.what());
  }
}

}  // namespace lockstep::checkpoint
