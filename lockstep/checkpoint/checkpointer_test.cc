// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/test_faults.h"
#include "lockstep/checkpoint/test_races.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(Keep, EachRuleKeepsItsOwn) {
  using Metrics = std::map<std::int64_t, std::optional<double>>;
  const Metrics steps{{1, 0.9}, {2, 0.1}, {3, std::nullopt}, {4, 0.3}, {5, 0.1}, {6, NAN}, {7, 0.7}};
  EXPECT_THAT(to_remove({}, steps), IsEmpty());
  EXPECT_THAT(to_remove({.last = 2}, steps), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(to_remove({.every = 3}, steps), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(to_remove({.best = 1}, steps), ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(to_remove({.best = 2, .highest = true}, steps), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(to_remove({.last = 1, .every = 4, .best = 2}, steps), ElementsAre(1, 3, 6));
  EXPECT_THAT(to_remove({.last = 1}, {}), IsEmpty());
}

TEST(Checkpointer, KeepsWhatItShall_AndGivesTheNewest) {
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
              HasSubstr("it is there already"));
}

TEST(Checkpointer, ASaveIsOfTheMoment_ThoughTheArraysAreDonatedAtOnce) {
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

TEST(Checkpointer, OfTwoWriters_ExactlyOneWins) {
  TemporaryFolder folder;
  const std::string run = folder.path() / "run";
  Checkpointer(run).wait();
  test::race_of_two_writers(run, 100);
}

TEST(Checkpointer, AFolderThatCannotBeMade_IsSaidAtOnce) {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(error_of<CheckpointError>([&] { Checkpointer(folder.path() / "file/run"); }),
              HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace lockstep::checkpoint
