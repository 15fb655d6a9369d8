// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/base/log_files.h"
#include "cli/run/failure_report.h"
#include "cli/trace/trace_file.h"
#include "lockstep/base/error.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// Tests of files that the tool writes in a folder in which another user has put something else before.

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

int mode_of(const fs::path& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? static_cast<int>(found.st_mode & 07777) : -1;
}

struct Place {
  const char* name;
  const char* planted;  ///< the path at which another user puts something
  bool is_new_folder;   ///< has another name if this one is taken
  bool is_folder;       ///< may belong to another user
  /// Writes below the folder, and returns the path of a file that was written.
  std::function<fs::path(const fs::path& folder)> write;
};

const std::vector<Place>& places() {
  const auto write_log = [](const fs::path& folder) {
    EXPECT_EQ(LogFiles(folder, {0}, 0, LogFiles::Earlier::kAll).write(0, "words"), std::nullopt);
    return folder / "process-0.log";
  };
  static const std::vector<Place> all = {
      {"a log", "process-0.log", false, false, write_log},
      {"the folder of logs", "logs", false, true,
       [=](const fs::path& folder) { return write_log(folder / "logs"); }},
      {"a report", "job.attempt-0", true, false,
       [](const fs::path& folder) {
         return write_failure_report(folder, {.job_id = "job", .words = "words"}) / "summary.txt";
       }},
      {"the folder of reports", "reports", false, true,
       [](const fs::path& folder) {
         return write_failure_report(folder / "reports", {.job_id = "job", .words = "words"}) / "summary.txt";
       }},
      {"a trace", "job.pftrace", false, false,
       [](const fs::path& folder) {
         TraceFile(folder / "job.pftrace").write([](std::ostream& out) { out << "words"; });
         return folder / "job.pftrace";
       }},
  };
  return all;
}

TEST(WrittenFiles, FilesOfAnotherUser_AreNotWrittenTo) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.name);
    testing::for_planted_files(place.planted, [&](const testing::PlantedFile& planted, const fs::path& path) {
      const bool writes =
          planted.words.empty() || place.is_new_folder || (place.is_folder && planted.name == "a folder");
      try {
        const fs::path written = place.write(path.parent_path());
        EXPECT_TRUE(writes);
        EXPECT_THAT(testing::read_file(written), HasSubstr("words"));
        EXPECT_EQ(mode_of(written), 0600);
        if (planted.words.empty() && place.is_folder) {
          EXPECT_EQ(mode_of(path), 0700);
        }
      } catch (const Error& error) {
        EXPECT_FALSE(writes) << error.what();
      }
    });
  }
}

TEST(WrittenFiles, AFolderThatTheUserHasLinked_IsWrittenTo) {
  for (const Place& place : places()) {
    SCOPED_TRACE(place.name);
    const testing::TemporaryFolder folder;
    fs::create_directory(folder.path() / "there");
    fs::create_directory_symlink("there", folder.path() / "here");
    const fs::path written = place.write(folder.path() / "here");
    EXPECT_THAT(testing::read_file(written), HasSubstr("words"));
    EXPECT_THAT(fs::canonical(written).string(), HasSubstr("/there/"));
  }
}

}  // namespace
}  // namespace lockstep::cli
