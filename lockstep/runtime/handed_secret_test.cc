// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/handed_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

cluster::Place place_of(int process) {
  cluster::Place place;
  place.cluster = "ompi";
  place.job_id = "ompi-node1-4711@1";
  place.coordinator_address = "127.0.0.1:61664";
  place.num_processes = 3;
  place.process_id = process;
  return place;
}

TEST(HandedSecret, IsTheSameInAllProcesses_AndReadableByTheirUserOnly) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "lockstep";
  {
    HandedSecret secrets[3];
    {
      std::vector<std::jthread> processes;
      for (const int process : {2, 1, 0}) {
        processes.emplace_back([&, process] {
          if (process == 0) std::this_thread::sleep_for(milliseconds(50));
          secrets[process] = HandedSecret(place_of(process), folder, std::chrono::seconds(60));
        });
      }
    }
    EXPECT_EQ(secrets[0].secret().size(), 32u);
    EXPECT_EQ(secrets[0].secret(), secrets[1].secret());
    EXPECT_EQ(secrets[0].secret(), secrets[2].secret());
    struct stat found {};
    ASSERT_EQ(stat(folder.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
    ASSERT_EQ(stat(fs::directory_iterator(folder)->path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0600u);
  }
  EXPECT_TRUE(fs::is_empty(folder)) << "it stays behind";
}

TEST(HandedSecret, AFolderThatOthersCanEnter_IsNotUsed) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "lockstep";
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::all);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(HandedSecret(place_of(0), folder, milliseconds(10)).secret(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("others can enter it"));
  EXPECT_EQ(HandedSecret(place_of(1), folder, milliseconds(10)).secret(), "");
}

TEST(HandedSecret, AProcessThatFindsNone_SaysWhereItLooked) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "lockstep";
  try {
    HandedSecret(place_of(1), folder, milliseconds(10));
    ADD_FAILURE() << "it has got one";
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("process 1 of 3"),
                                               ::testing::HasSubstr(folder.native()),
                                               ::testing::HasSubstr("LOCKSTEP_JOB_SECRET")));
  }
}

TEST(HandedSecret, IsMadeOnlyForJobsOnOneHostWithoutASecret) {
  EXPECT_TRUE(hands_secret(place_of(1), false));
  EXPECT_FALSE(hands_secret(place_of(1), true)) << "somebody else may hold the coordinator";
  const auto not_with = [](auto change) {
    cluster::Place place = place_of(1);
    change(place);
    return !hands_secret(place, false);
  };
  EXPECT_TRUE(not_with([](auto& place) { place.job_secret = "a secret of the job"; }));
  EXPECT_TRUE(not_with([](auto& place) { place.job_id.clear(); }));
  EXPECT_TRUE(not_with([](auto& place) { place.num_processes = 1; }));
  EXPECT_TRUE(not_with([](auto& place) { place.cluster = "explicit"; }));
  EXPECT_TRUE(not_with([](auto& place) { place.coordinator_address = "192.0.2.1:61664"; }));
}

}  // namespace
}  // namespace lockstep::runtime
