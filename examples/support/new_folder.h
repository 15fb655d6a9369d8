// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lockstep/lockstep.h>

#include <filesystem>
#include <string>

/// Throws Error unless a new folder can have this name: called before the work for it is done.
inline void check_new_folder(const std::string& out) {
  const std::string what = "--out '" + out + "' is no new folder: ";
  if (out.empty()) throw lockstep::Error(what + "name the folder to write");
  if (std::filesystem::exists(out))
    throw lockstep::Error(what + out + " exists already; name another one, or remove it");
}
