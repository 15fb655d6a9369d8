// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lockstep/base/fail.h"

namespace lockstep::testing {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    fail("[testing] cannot make a folder like {}: {}; set TMPDIR to a folder that can be written", name,
         std::strerror(errno));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::testing
