// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/url.h"

namespace lockstep::checkpoint {

/// Returns the call's result. Its StorageError becomes a CheckpointError.
template <class Call>
auto as_checkpoint_error(const Call& call) {
  try {
    return call();
  } catch (const StorageError& error) {
    fail<CheckpointError>("[checkpoint] {}", error.what());
  }
}

/// Throws CheckpointError, before anything is touched, for what storage::locate refuses. For all functions
/// that take a path or URL.
inline void check_url(const std::string& url) {
  as_checkpoint_error([&] { return storage::locate(url); });
}

/// As storage::split_url, but throws CheckpointError. For what is saved or exported, which needs a name.
inline std::pair<std::string, std::string> split_url(const std::string& url) {
  return as_checkpoint_error([&] { return storage::split_url(url); });
}

}  // namespace lockstep::checkpoint
