// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lockstep/base/fail.h"

namespace lockstep {

ScratchFolder::ScratchFolder(const std::string& prefix) {
  std::string name = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    fail("cannot make a folder like {}: {}; set TMPDIR to a folder that can be written", name,
         std::strerror(errno));
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep
