// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/libcurl.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "lockstep/base/trusted_file.h"
#include "lockstep/storage/http.h"
#include "lockstep/storage/store.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/isolation.h"

namespace lockstep::storage {
namespace {

/// Puts an empty file in the place of each libcurl, in this process's view only. Returns "" or why it cannot.
std::string hide_libcurl() {
  std::vector<std::string> paths = library_paths("libcurl.so.4");
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    paths.push_back(std::string(folder) + "/libcurl.so.4");
  const std::string empty = std::filesystem::temp_directory_path() / "empty";
  std::ofstream{empty};
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) continue;
    if (mount(empty.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) return "cannot hide " + path;
  }
  return "";
}

TEST(LibCurl, WhenMissing_TheErrorSaysWhatToInstall) {
  if (geteuid() != 0) GTEST_SKIP() << "only root hides a file";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, which has not loaded it
  EXPECT_EXIT(
      {
        std::string reason = testing::isolate();
        if (reason.empty()) reason = hide_libcurl();
        if (!reason.empty()) std::cerr << reason;
        std::cerr << testing::error_of<StorageError>(
            [] { HttpClient().send({.url = "http://127.0.0.1:1/"}); });
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "cannot be loaded: .*Install it \\(Debian: libcurl4\\)");
}

}  // namespace
}  // namespace lockstep::storage
