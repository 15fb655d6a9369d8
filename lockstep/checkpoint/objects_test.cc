// SPDX-License-Identifier: Apache-2.0
// Checkpoints in an object store, a real one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/checkpoint/checkpointer.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/test_races.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/storage/test_s3_server.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::map<std::string, Array> objects_tree(std::uint64_t seed) {
  const Mesh mesh = make_mesh({{"x", device_count()}});
  return {{"rows", lockstep::test::made(DType::kF32, {512, 1024}, NamedSharding(mesh, P("x")), seed)},
          {"all", lockstep::test::made(DType::kBF16, {100, 3}, NamedSharding(mesh, P()), seed)}};
}

LOCKSTEP_CHILD(saves_to_objects) {
  initialize();
  Checkpointer checkpoints(testing::child_arguments()[0], {.keep = {.last = 2}});
  for (int step = 1; step <= 4; ++step)
    checkpoints.save(step, objects_tree(static_cast<std::uint64_t>(step)));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(3, 4));
  const auto [step, tree] = *checkpoints.restore_latest(objects_tree(9));
  EXPECT_EQ(step, 4);
  for (const auto& [path, array] : tree) EXPECT_TRUE(lockstep::test::is_made(array, 4)) << path;
  EXPECT_THAT(error_of<CheckpointError>([&] {
                checkpoints.save(4, objects_tree(4));
                checkpoints.wait();
              }),
              HasSubstr("it exists already"));
}

LOCKSTEP_CHILD(races_in_objects) {
  initialize();
  lockstep::test::race_of_two_writers(testing::child_arguments()[0],
                                      std::stoi(testing::child_arguments()[1]));
}

TEST(Objects, AJobSavesRestoresAndRemoves_AndOneOfTwoWritersWins) {
  const storage::TestS3Server server(LOCKSTEP_S3_SERVER);
  if (!server.reason().empty()) GTEST_SKIP() << server.reason();
  auto run = [&](const std::string& child, int processes, std::vector<std::string> arguments) {
    testing::Variables variables = server.variables();
    variables["LOCKSTEP_LOG"] = "warning";
    for (const testing::ProcessResult& result : testing::run_processes({.count = processes,
                                                .child = child,
                                                .arguments = std::move(arguments),
                                                .env = variables,
                                                .coordinator = processes > 1,
                                                .deadline = std::chrono::seconds(120)}))
      EXPECT_EQ(result.exit_code, 0) << result.log;
  };
  run("saves_to_objects", 4, {server.url() + "/job"});
  run("races_in_objects", 1, {server.url() + "/races", "20"});
}

}  // namespace
}  // namespace lockstep::checkpoint
