// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/test_faults.h"
#include "lockstep/checkpoint/test_races.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(Keep, EachRule_KeepsItsSteps_AndRemovesTheOthers) {
  // Saved in the order of their numbers, with and without a record of that.
  for (std::int64_t known : {0, 1}) {
    const std::vector<SavedStep> steps{
        {1, known, 0.9, ""},     {2, 2 * known, 0.1, ""}, {3, 3 * known, {}, ""}, {4, 4 * known, 0.3, ""},
        {5, 5 * known, 0.1, ""}, {6, 6 * known, NAN, ""}, {7, 7 * known, 0.7, ""}};
    EXPECT_THAT(to_remove({}, steps, 7), IsEmpty());
    EXPECT_THAT(to_remove({.last = 2}, steps, 7), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(to_remove({.every = 3}, steps, 7), ElementsAre(1, 2, 4, 5));
    EXPECT_THAT(to_remove({.best = 1}, steps, 7), ElementsAre(1, 2, 3, 4, 6));
    EXPECT_THAT(to_remove({.best = 2, .highest = true}, steps, 7), ElementsAre(2, 3, 4, 5, 6));
    EXPECT_THAT(to_remove({.last = 1, .every = 4, .best = 2}, steps, 7), ElementsAre(1, 3, 6));
    EXPECT_THAT(to_remove({.last = 1}, {}, 7), IsEmpty());
  }
}

TEST(Keep, TheNewestSteps_AreThoseSavedLast_WhateverTheirNumbers) {
  const std::vector<SavedStep> steps{{500, 1, {}, ""}, {600, 5, 0.5, ""}, {800, 2, {}, ""},
                                     {900, 3, {}, ""}, {950, 0, {}, ""},  {1000, 4, 0.5, ""}};
  EXPECT_THAT(to_remove({.last = 1}, steps, 600), ElementsAre(500, 800, 900, 950, 1000));
  EXPECT_THAT(to_remove({.last = 2}, steps, 600), ElementsAre(500, 800, 900, 950));
  EXPECT_THAT(to_remove({.last = 5}, steps, 600), ElementsAre(950));
  EXPECT_THAT(to_remove({.every = 1000}, steps, 900), ElementsAre(500, 800, 950));
  EXPECT_THAT(to_remove({.best = 1}, steps, 600), ElementsAre(500, 800, 900, 950, 1000));
}

TEST(Checkpointer, KeepsTheStepsOfItsRules_AndRestoresTheLatest) {
  TemporaryFolder folder;
  Checkpointer checkpoints(folder.path() / "run/", {.keep = {.last = 2, .every = 4}, .every = 2});
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  EXPECT_FALSE(checkpoints.restore_latest(Array(1)));
  for (int step = 1; step <= 9; ++step) {
    EXPECT_EQ(checkpoints.due(step), step % 2 == 0);
    checkpoints.save(step, full({4}, 1.0 * step));
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(4, 8, 9));
  const auto [step, x] = *checkpoints.restore_latest(zeros({4}));
  EXPECT_EQ(step, 9);
  EXPECT_EQ(x[0].item<float>(), 9);
  EXPECT_EQ(checkpoints.restore(4, zeros({4}))[0].item<float>(), 4);
  EXPECT_THAT(error_of<CheckpointError>([&] {
                checkpoints.save(9, zeros({4}));
                checkpoints.wait();
              }),
              HasSubstr("it exists already"));
}

TEST(Checkpointer, ASave_HoldsTheValuesOfItsCall_EvenIfTheArraysAreThenDonated) {
  for (std::uint64_t staging : {std::uint64_t{0}, std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    TemporaryFolder folder;
    Checkpointer checkpoints(folder.path() / "run", {.staging_bytes = staging});
    auto next = jit([](Array x) { return x + 1; }, {.donate_argnums = {0}});
    Array x = zeros({1 << 18});
    for (int step = 0; step < 8; ++step) {
      checkpoints.save(step, std::pair(x, std::int64_t{step}));
      x = next(x);
    }
    checkpoints.wait();
    for (int step = 0; step < 8; ++step) {
      const auto [y, number] = checkpoints.restore(step, std::pair(zeros({1 << 18}), std::int64_t{0}));
      EXPECT_EQ(max(y).item<float>(), step);
      EXPECT_EQ(min(y).item<float>(), step);
      EXPECT_EQ(number, step);
    }
  }
}

TEST(Checkpointer, AFailedWriteIsThrownByTheNextCall_AndTheStepsBeforeStay) {
  TemporaryFolder folder;
  Checkpointer checkpoints(folder.path() / "run");
  checkpoints.save(1, full({4}, 1));
  checkpoints.wait();
  {
    test::FaultyCalls calls(test::Fault::kEio, 3);
    storage::ScopedFileCalls scope(calls);
    checkpoints.save(2, full({4}, 2));
    EXPECT_THAT(error_of<CheckpointError>([&] { checkpoints.save(3, full({4}, 3)); }),
                HasSubstr("step-00000002"));
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1));
  checkpoints.save(3, full({4}, 3));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1, 3));
  EXPECT_THAT(leftovers(*storage::open_store(folder.path() / "run")), IsEmpty());
}

TEST(Checkpointer, RemovesOnlyWhatItWrote) {
  TemporaryFolder folder;
  const auto run = folder.path() / "run";
  Checkpointer checkpoints(run, {.keep = {.last = 1}});
  checkpoints.save(1, zeros({4}));
  checkpoints.wait();
  std::ofstream(run / "step-00000001/notes.txt") << "mine";
  std::filesystem::create_directory(run / "step-00000000");
  std::filesystem::create_directory(run / "other");
  checkpoints.save(2, zeros({4}));
  checkpoints.wait();
  EXPECT_FALSE(std::filesystem::exists(run / "step-00000001/manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(run / "step-00000001/notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(run / "step-00000000"));
  EXPECT_TRUE(std::filesystem::exists(run / "other"));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(2));
}

/// Rewrites the step's manifest, with its checksum.
void change_manifest(const std::filesystem::path& step, const std::function<void(Manifest&)>& change) {
  const std::string file = step / kManifestName;
  Manifest manifest = parse_manifest(storage::read_whole(*storage::open_file(file)), file);
  change(manifest);
  std::ofstream(file, std::ios::binary) << to_json(manifest);
}

TEST(Checkpointer, ASaveAfterAReturnToAnEarlierStep_IsKept_AndIsTheLatest) {
  TemporaryFolder folder;
  const auto run = folder.path() / "run";
  for (bool recorded : {true, false}) {
    std::filesystem::remove_all(run);
    {
      Checkpointer first(run);
      for (int step : {500, 800, 900, 1000}) first.save(step, full({4}, 1.0 * step));
    }
    for (std::int64_t step : published_steps(*storage::open_store(run)))
      if (!recorded) change_manifest(run / step_name(step), [](Manifest& manifest) { manifest.order = 0; });
    Checkpointer second(run, {.keep = {.last = 2}});
    EXPECT_EQ(second.latest(), 1000) << "of folders without a record the highest number";
    second.save(600, second.restore(500, zeros({4})) + 100);
    EXPECT_THAT(second.steps(), ElementsAre(600, 1000));
    EXPECT_EQ(second.latest(), 600);
    EXPECT_EQ(Checkpointer(run).restore_latest(zeros({4}))->first, 600);
  }
}

TEST(Checkpointer, AClockSetBack_DoesNotChangeTheOrderOfSteps) {
  TemporaryFolder folder;
  Job job = Job::current();
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  job.now = [&] { return now; };
  const ScopedJob scope(job);
  Checkpointer checkpoints(folder.path() / "run", {.keep = {.last = 2}});
  for (int step : {9, 5, 7, 3}) {
    checkpoints.save(step, zeros({4}));
    EXPECT_EQ(checkpoints.latest(), step);
    now -= std::chrono::hours(24);
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(3, 7));
}

TEST(Checkpointer, ALinkedStep_IsUnlinked_AndTheOtherRunStays) {
  TemporaryFolder folder;
  {
    Checkpointer base(folder.path() / "base");
    base.save(1000, full({4}, 5.0));
  }
  const auto run = folder.path() / "run", other = folder.path() / "base/step-00001000";
  std::filesystem::create_directory(run);
  std::filesystem::create_directory_symlink(other, run / "step-00001000");
  std::filesystem::create_directory_symlink(folder.path() / "base",
                                            run / "step-00000001.tmp-x-0123456789abcdef");
  Checkpointer checkpoints(run, {.keep = {.last = 1}});
  EXPECT_EQ(checkpoints.restore_latest(zeros({4}))->second[0].item<float>(), 5);
  checkpoints.save(1001, zeros({4}));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1001));
  EXPECT_EQ(restore(other, zeros({4}))[0].item<float>(), 5);
  EXPECT_THAT(leftovers(*storage::open_store(run)), IsEmpty());
}

TEST(Checkpointer, ADamagedEarlierStep_PreventsNeitherRemovalNorLatest) {
  TemporaryFolder folder;
  const auto run = folder.path() / "run";
  Checkpointer checkpoints(run, {.keep = {.last = 1, .best = 1}});
  for (int step = 1; step <= 3; ++step) checkpoints.save(step, zeros({4}), 1.0 * step);
  checkpoints.wait();
  std::ofstream(run / "step-00000001/manifest.json") << "{";
  for (int step = 4; step <= 7; ++step) checkpoints.save(step, zeros({4}), 1.0 * step);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(1, 3, 7));
  EXPECT_EQ(checkpoints.latest(), 7);
  std::ofstream(run / "step-00000007/manifest.json") << "{";
  EXPECT_THAT(error_of<CheckpointError>([&] { checkpoints.latest(); }),
              HasSubstr("remove this one with: lockstep ckpt rm"));
  remove_checkpoint(*storage::open_store(run), step_name(7));
  EXPECT_EQ(checkpoints.latest(), 3);
}

TEST(Checkpointer, ALoopThatStopsAtADueStep_SavesItOnce) {
  TemporaryFolder folder;
  for (bool asynchronous : {true, false}) {
    Checkpointer checkpoints(folder.path() / (asynchronous ? "a" : "b"),
                             {.every = 100, .asynchronous = asynchronous});
    for (std::int64_t step = 1; step <= 1000; ++step) {
      const bool stop = step == 300;  // as preemption_point(step) says
      if (stop || checkpoints.due(step)) checkpoints.save(step, zeros({4}));
      if (stop) break;
    }
    checkpoints.wait();
    EXPECT_THAT(checkpoints.steps(), ElementsAre(100, 200, 300));
  }
}

TEST(Checkpointer, TheLongestTimeout_MeansNoLimit) {
  TemporaryFolder folder;
  constexpr auto kNone = std::chrono::milliseconds::max();
  save(folder.path() / "one", ones({4}), {.timeout = kNone});
  EXPECT_EQ(restore(folder.path() / "one", zeros({4}), {.timeout = kNone})[3].item<float>(), 1);
  Checkpointer checkpoints(folder.path() / "run", {.timeout = kNone});
  checkpoints.save(1, ones({4}));
  EXPECT_EQ(checkpoints.latest(), 1);
}

TEST(Save, ANameThatRestoreReadsAsAFile_IsRefused) {
  TemporaryFolder folder;
  for (const char* name : {"model.safetensors", "model.npz", "model.npy/"}) {
    EXPECT_THAT(error_of<CheckpointError>([&] { save(folder.path() / name, ones({4})); }),
                HasSubstr("as one file"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// ---- leftovers and removals ----

TEST(Leftovers, OfThisJobOrExpired_AreRemoved_AndNoOthers) {
  TemporaryFolder folder;
  const std::string run = folder.path() / "run";
  const auto store = storage::open_store(run, /*make=*/true);
  const std::time_t now = std::time(nullptr);
  const std::string long_id(60, 'x');
  const std::vector<std::pair<std::string, bool>> nonces{{new_nonce("mine.1", std::nullopt), false},
                                                         {new_nonce("mine.1", now + 1000), false},
                                                         {new_nonce("", now + 1000), true},
                                                         {new_nonce("", now - 10), false},
                                                         {new_nonce("mine_1", now + 1000), true},
                                                         {new_nonce("mine.1.2", std::nullopt), true},
                                                         {new_nonce(long_id + "a", now + 1000), true},
                                                         {"mine-0123456789abcdef", true}};
  std::vector<std::string> stay;
  for (const auto& [nonce, stays] : nonces) {
    store->begin(step_name(1), nonce);
    if (stays) stay.push_back(nonce);
  }
  Job job = Job::current();
  job.id = "mine.1";
  job.live = std::make_shared<LiveAttempts>();
  const LiveAttempt own(job.live,
                        store->begin(step_name(2), new_nonce("mine.1", now - 10)).folder.substr(18));
  const ScopedJob scope(job);
  const Checkpointer checkpoints(run);
  std::vector<std::string> found;
  for (const Leftover& each : leftovers(*store))
    if (each.attempt.folder.starts_with(step_name(1))) found.push_back(each.nonce);
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(stay));
  EXPECT_EQ(leftovers(*store).size(), stay.size() + 1) << "the running one of this process stays";
}

TEST(Removal, BegunByAnEarlierVersion_IsCompleted) {
  TemporaryFolder folder;
  const auto run = folder.path() / "run", step = run / "step-00000001";
  for (bool has_manifest : {true, false}) {
    for (const char* record : {"", "{", "whole"}) {
      std::filesystem::remove_all(run);
      save(step, zeros({4}));
      const bool whole_record = record == std::string("whole");
      if (whole_record)
        std::filesystem::copy_file(step / kManifestName, step / "manifest.json.removed");
      else
        std::ofstream(step / "manifest.json.removed") << record;
      if (!has_manifest) std::filesystem::remove(step / kManifestName);
      Checkpointer checkpoints(run);
      EXPECT_EQ(checkpoints.steps().size(), has_manifest && !whole_record ? 1u : 0u);
      EXPECT_EQ(std::filesystem::exists(step), has_manifest && !whole_record);
      EXPECT_FALSE(std::filesystem::exists(step / "manifest.json.removed"));
    }
  }
}

/// A disk on which nothing new can be written.
class FullDisk : public storage::FileCalls {
  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) == 0) return FileCalls::open(path, flags, mode);
    errno = ENOSPC;
    return -1;
  }
  ssize_t pwrite(int, const void*, std::size_t, off_t) override {
    errno = ENOSPC;
    return -1;
  }
};

TEST(Removal, OnAFullDisk_Succeeds) {
  TemporaryFolder folder;
  save(folder.path() / "step-00000001", zeros({4}));
  FullDisk full;
  const storage::ScopedFileCalls scope(full);
  EXPECT_TRUE(remove_checkpoint(*storage::open_store(folder.path()), step_name(1)));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Removal, AForgedManifest_RemovesNothingOutsideItsFolder) {
  TemporaryFolder folder;
  const auto step = folder.path() / "run/step-00000001";
  std::ofstream(folder.path() / "victim") << "x";
  std::filesystem::create_directory(folder.path() / "elsewhere");
  std::ofstream(folder.path() / "elsewhere/victim") << "x";
  for (const char* name :
       {"../../victim", "/victim", "a/../../../victim", "..", ".", "", "a//b", "linked/victim"}) {
    save(step, zeros({4}));
    std::filesystem::create_directory_symlink(folder.path() / "elsewhere", step / "linked");
    change_manifest(step, [&](Manifest& manifest) { manifest.files.push_back({name, 1, 0, ""}); });
    if (name != std::string("linked/victim")) {
      EXPECT_THAT(error_of<CheckpointError>([&] { restore(step, zeros({4})); }), HasSubstr("names the file"))
          << name;
    }
    EXPECT_TRUE(remove_checkpoint(*storage::open_store(folder.path() / "run"), step_name(1)));
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "victim")) << name;
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "elsewhere/victim")) << name;
    EXPECT_FALSE(std::filesystem::exists(step / "part-00000-of-00001.safetensors")) << name;
    std::filesystem::remove_all(step);
  }
}

// ---- a failed save that nobody waits for ----

LOCKSTEP_CHILD(does_not_wait) {
  initialize();
  Checkpointer checkpoints(testing::child_arguments()[0]);
  checkpoints.save(1, ones({4}));
  checkpoints.wait();
  static test::FaultyCalls calls(test::Fault::kEio, 3);
  static storage::ScopedFileCalls scope(calls);
  checkpoints.save(2, ones({4}));
}

TEST(Checkpointer, AFailedSaveThatNobodyWaitsFor_EndsAllProcessesWithStatus1) {
  for (int processes : {1, 2}) {
    TemporaryFolder folder;
    for (const testing::ProcessResult& result : testing::run_processes({.count = processes,
                                                .child = "does_not_wait",
                                                .arguments = {folder.path() / "run"},
                                                .env = {{"LOCKSTEP_LOG", "error"}},
                                                .coordinator = processes > 1,
                                                .deadline = std::chrono::seconds(60)})) {
      EXPECT_EQ(result.exit_code, 1) << result.log;
      EXPECT_THAT(result.log, HasSubstr("its last save failed and it did not call wait()"));
    }
    EXPECT_THAT(published_steps(*storage::open_store(folder.path() / "run")), ElementsAre(1));
  }
}

TEST(Checkpointer, ARaceOfTwoWriters_HasExactlyOneWinner) {
  TemporaryFolder folder;
  const std::string run = folder.path() / "run";
  Checkpointer(run).wait();
  test::race_of_two_writers(run, 100);
}

TEST(Checkpointer, AFolderThatCannotBeMade_IsAnErrorAtOnce) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(error_of<CheckpointError>([&] { Checkpointer(folder.path() / "file/run"); }),
              HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace lockstep::checkpoint
