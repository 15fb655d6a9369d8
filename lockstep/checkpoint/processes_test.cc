// SPDX-License-Identifier: Apache-2.0
// Checkpoints of jobs of several processes: other numbers of them, and processes that fail while they save.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "lockstep/array/device_put.h"
#include "lockstep/array/multihost.h"
#include "lockstep/checkpoint/checkpointer.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/test_faults.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/storage/test_store.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using testing::child_arguments;
using testing::child_index;
using testing::error_of;
using ::testing::HasSubstr;
using testing::ProcessesOptions;
using testing::run_processes;
using testing::TemporaryFolder;

using Tree = std::map<std::string, Array>;

ProcessesOptions job(const std::string& child, int processes, int devices_each,
                     std::vector<std::string> arguments) {
  return {.count = processes,
          .child = child,
          .arguments = std::move(arguments),
          .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices_each)}, {"LOCKSTEP_LOG", "warning"}},
          .coordinator = true,
          .deadline = std::chrono::seconds(120)};
}

void expect_success(const std::vector<testing::ProcessResult>& results) {
  for (const testing::ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// Six ways to spread an array over all devices of the job, however many these are.
std::map<std::string, NamedSharding> six_shardings() {
  const std::int64_t count = device_count();
  const Mesh line = make_mesh({{"x", count}});
  const Mesh grid = make_mesh({{"x", count % 2 == 0 ? 2 : 1}, {"y", -1}});
  return {{"replicated", NamedSharding(line, P())},
          {"rows", NamedSharding(line, P("x"))},
          {"columns", NamedSharding(line, P(nullptr, "x"))},
          {"both", NamedSharding(grid, P("x", "y"))},
          {"some rows", NamedSharding(grid, P("x"))},
          {"depth", NamedSharding(grid, P(nullptr, nullptr, {"y", "x"}))}};
}

constexpr std::uint64_t kSeed = 7;
const Shape kShape{16, 24, 64};

Tree six_arrays() {
  Tree tree;
  for (const auto& [name, sharding] : six_shardings())
    tree[name] = lockstep::test::made(DType::kF32, kShape, sharding, kSeed);
  tree["small"] = lockstep::test::made(DType::kI8, {16, 8, 16}, six_shardings().at("rows"), kSeed);
  return tree;
}

LOCKSTEP_CHILD(saves_six) {
  initialize();
  save(child_arguments()[0], six_arrays());
}

LOCKSTEP_CHILD(restores_six) {
  initialize();
  const auto shardings = six_shardings();
  for (std::size_t i = 0; i < child_arguments().size(); ++i) {
    for (const auto& [name, sharding] : shardings) {
      RestoreOptions options;
      options.map = false;
      options.sharding = [&, &sharding = sharding](const std::string&) { return sharding; };
      Tree like;
      for (const auto& [from, unused] : shardings) like[from] = Array();
      options.partial = true;
      const Tree restored = restore(child_arguments()[i], like, options);
      for (const auto& [from, array] : restored)
        EXPECT_TRUE(lockstep::test::is_made(array, kSeed))
            << from << " onto " << name << " of " << child_arguments()[i];
    }
  }
}

TEST(Processes, ASaveOfAnyNumberOfProcesses_IsRestoredByAnyOther) {
  TemporaryFolder folder;
  std::vector<std::string> urls;
  for (int processes : {1, 2, 4, 8}) {
    urls.push_back(folder.path() / std::to_string(processes));
    expect_success(run_processes(job("saves_six", processes, processes == 8 ? 1 : 2, {urls.back()})));
    std::uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(urls.back())) bytes += file.file_size();
    EXPECT_LT(bytes, 6u * 16 * 24 * 64 * 4 + (256u << 10)) << "each byte is written once";
  }
  for (int processes : {1, 2, 4, 8})
    expect_success(run_processes(job("restores_six", processes, processes == 1 ? 4 : 1, urls)));
}

LOCKSTEP_CHILD(saves_six_large) {
  initialize();
  Tree tree;
  for (const auto& [name, sharding] : six_shardings())
    tree[name] = lockstep::test::made(DType::kF32, {64, 64, 64}, sharding, kSeed);
  save(child_arguments()[0], tree);
}

TEST(Processes, Writers_WriteAboutEquallyManyBytes) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  expect_success(run_processes(job("saves_six_large", 4, 1, {url})));
  std::vector<std::uintmax_t> bytes;
  for (const auto& file : std::filesystem::directory_iterator(url))
    if (file.path().extension() == ".safetensors") bytes.push_back(file.file_size());
  ASSERT_EQ(bytes.size(), 4u);
  EXPECT_LT(*std::ranges::max_element(bytes), *std::ranges::min_element(bytes) + (64 << 10));
}

LOCKSTEP_CHILD(saves_what_differs) {
  initialize();
  const std::string url = child_arguments()[0];
  const int me = process_index();
  auto error = [&](const auto& tree) { return error_of<CheckpointError>([&] { save(url, tree); }); };
  EXPECT_THAT(error(std::map<std::string, std::int64_t>{{"seed", me}}),
              HasSubstr("the value [\"seed\"] of process 0 is different on process 1 of 2"));
  EXPECT_THAT(error(Tree{{"local", full({3}, me)}}),
              HasSubstr("[\"local\"] is on devices of one process only, and has different elements on "
                        "process 1 of 2 than on process 0"));
  EXPECT_THAT(error(Tree{{me == 0 ? "a" : "b", full({3}, 1)}}),
              HasSubstr("process 1 of 2 saves a different tree than process 0"));
  Array gone = ones({2});
  if (me == 1) gone.delete_();
  EXPECT_THAT(error_of<Error>([&] { save(url, gone); }), HasSubstr("deleted"));
  save(url, Tree{{"local", full({3}, 1)}});
}

TEST(Processes, ATreeThatDiffersBetweenProcesses_IsAnErrorOnAll) {
  TemporaryFolder folder;
  expect_success(run_processes(job("saves_what_differs", 2, 1, {folder.path() / "saved"})));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

/// A stage of a pipeline: an array on the devices of process i alone.
Array stage(int i, std::uint64_t seed) {
  std::vector<Device> own;
  for (Device device : devices())
    if (device.process_index() == i) own.push_back(device);
  const Mesh mesh(own, {std::ssize(own)}, {"x"});
  return lockstep::test::made(DType::kF32, {8, 1000}, NamedSharding(mesh, P("x")), seed);
}

struct Pipeline {
  std::vector<Array> stages;
  Array own, all;
};

Pipeline pipeline(std::uint64_t seed) {
  Pipeline tree;
  for (int i = 0; i < process_count(); ++i)
    tree.stages.push_back(stage(i, seed + static_cast<std::uint64_t>(i)));
  tree.own = full({3, 70'000}, static_cast<double>(seed));
  tree.all = lockstep::test::made(DType::kI32, {60, 64}, six_shardings().at("rows"), seed);
  return tree;
}

LOCKSTEP_CHILD(saves_stages) {
  initialize();
  const std::string run = child_arguments()[0];
  const auto me = static_cast<std::uint64_t>(process_index());
  for (std::uint64_t staging : {std::uint64_t{0}, std::uint64_t{20'000}, std::uint64_t{1} << 30}) {
    Checkpointer checkpoints(run + "/" + std::to_string(staging), {.staging_bytes = staging});
    checkpoints.save(1, pipeline(40));
    const auto [step, back] = *checkpoints.restore_latest(pipeline(0));
    EXPECT_TRUE(lockstep::test::is_made(back.stages[me], 40 + me));
    EXPECT_TRUE(lockstep::test::is_made(back.all, 40));
    EXPECT_EQ(back.own.to_host<float>(), std::vector<float>(210'000, 40));
  }
  // The processes disagree on who has the array.
  EXPECT_THAT(
      error_of<CheckpointError>([&] {
        save(run + "/x", Tree{{"w", stage(me == 2 ? 0 : 1, 1)}});
      }),
      HasSubstr("[\"w\"] is on devices of process 1 according to process 0, and on those of process 0 "
                "according to process 2 of 3"));
  save(run + "/forever", pipeline(41), {.timeout = std::chrono::milliseconds::max()});
}

LOCKSTEP_CHILD(donates_before_it_saves) {
  initialize();
  const std::string url = child_arguments()[0];
  auto next = jit([](Array x) { return x + 1; }, {.donate_argnums = {0}});
  const auto me = static_cast<std::size_t>(process_index());
  for (std::uint64_t staging : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
    const std::string place = url + "/" + std::to_string(staging);
    Staging memory;
    std::optional<Saving> saving;
    {
      Pipeline tree = pipeline(40);
      saving.emplace(Job::current(), place, contents_of(tree::tree_ref(tree)), SavingOptions{});
      saving->stage(memory, staging);
      tree.stages[me] = next(tree.stages[me]);
      tree.own = next(tree.own);
      tree.all = next(tree.all);
    }
    saving->run();
    const Pipeline back = restore(place, pipeline(0));
    EXPECT_TRUE(lockstep::test::is_made(back.stages[me], 40 + me));
    EXPECT_TRUE(lockstep::test::is_made(back.all, 40));
    EXPECT_EQ(back.own.to_host<float>(), std::vector<float>(210'000, 40));
  }
}

TEST(Processes, ArraysDonatedBeforeTheSaveRuns_AreSaved) {
  TemporaryFolder folder;
  expect_success(run_processes(job("donates_before_it_saves", 3, 2, {folder.path() / "run"})));
}

TEST(Processes, ArraysOfOneProcess_AreSavedByIt_AndRestored) {
  TemporaryFolder folder;
  const std::string run = folder.path();
  expect_success(run_processes(job("saves_stages", 3, 2, {run})));
  for (const char* name : {"0/step-00000001", "20000/step-00000001", "1073741824/step-00000001"}) {
    const Numbers numbers = restore_numbers(run + "/" + name);
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(numbers.arrays.at(fmt::format("stages[{}]", i)).bytes,
                lockstep::test::expected_bytes({8, 1000}, whole({8, 1000}), DType::kF32, 40 + i));
    }
    EXPECT_EQ(numbers.arrays.at("own").elements<float>(), std::vector<float>(210'000, 40));
  }
}

LOCKSTEP_CHILD(saves_to_places) {
  initialize();
  const auto me = static_cast<std::size_t>(process_index());
  const auto x = lockstep::test::made(DType::kF32, {64, 64}, six_shardings().at("rows"), 1);
  if (child_arguments().size() == 4) ::setenv("AWS_ENDPOINT_URL_S3", child_arguments()[2 + me].c_str(), 1);
  EXPECT_THAT(error_of<CheckpointError>([&] { save(child_arguments()[me], x); }),
              HasSubstr("but process 1 of 2, which saves to"));
}

TEST(Processes, DifferentUrls_AreRefused_AndLeaveNothing) {
  TemporaryFolder folder;
  const std::string url = folder.path();
  for (const char* name : {"/0", "/1"}) std::filesystem::create_directory(url + name);
  expect_success(run_processes(job("saves_to_places", 2, 1, {url + "/0/step", url + "/1/step"})));
  for (const char* name : {"/0", "/1"}) EXPECT_TRUE(std::filesystem::is_empty(url + name));

  storage::FakeBucket here, there;
  auto in_buckets = [&](const std::vector<std::string>& arguments) {
    ProcessesOptions options = job("saves_to_places", 2, 1, arguments);
    options.env["AWS_ENDPOINT_URL_S3"] = here.server.url();
    options.env["AWS_ACCESS_KEY_ID"] = "AKIDTHEFAKEONE1234";
    options.env["AWS_SECRET_ACCESS_KEY"] = "a-secret-that-nobody-tells";
    expect_success(run_processes(options));
    EXPECT_TRUE(here.s3.objects.empty());
    EXPECT_TRUE(there.s3.objects.empty());
  };
  in_buckets({"s3://bucket/run-0/step", "s3://bucket/run-1/step"});
  in_buckets({"s3://bucket/run/step", "s3://bucket/run/step", here.server.url(), there.server.url()});
}

// ---- faults ----

/// Saved as this step: other elements for each.
Tree processes_tree(std::int64_t step) {
  const Mesh mesh = make_mesh({{"x", device_count()}});
  const auto seed = static_cast<std::uint64_t>(step);
  return {{"rows", lockstep::test::made(DType::kF32, {64, 32}, NamedSharding(mesh, P("x")), seed)},
          {"all", lockstep::test::made(DType::kI16, {100, 3}, NamedSharding(mesh, P()), seed + 1)},
          {"local", full({2}, static_cast<double>(step))}};
}

/// The first part of the step that is wrong; "" if it is whole.
std::string wrong_with(const std::string& url, std::int64_t step) {
  const Numbers numbers = restore_numbers(url + "/" + step_name(step));
  auto is = [&](const std::string& path, DType dtype, const Shape& shape, std::uint64_t seed) {
    return numbers.arrays.at(path).bytes == lockstep::test::expected_bytes(shape, whole(shape), dtype, seed);
  };
  const auto seed = static_cast<std::uint64_t>(step);
  if (!is("[\"rows\"]", DType::kF32, {64, 32}, seed)) return "rows";
  if (!is("[\"all\"]", DType::kI16, {100, 3}, seed + 1)) return "all";
  return "";
}

LOCKSTEP_CHILD(saves_until_killed) {
  initialize();
  const std::string url = child_arguments()[0];
  const int victim = std::stoi(child_arguments()[1]), at = std::stoi(child_arguments()[2]);
  Checkpointer checkpoints(url, {.keep = {.last = 2}});
  const std::int64_t first = checkpoints.latest().value_or(0) + 1;
  checkpoints.save(first, processes_tree(first));
  checkpoints.wait();
  testing::say("saved " + std::to_string(first));
  lockstep::test::FaultyCalls calls(
      child_index() == victim ? lockstep::test::Fault::kKill : lockstep::test::Fault::kNone, at);
  storage::ScopedFileCalls scope(calls);
  checkpoints.save(first + 1, processes_tree(first + 1));
  checkpoints.wait();
  testing::say("saved " + std::to_string(first + 1));
}

TEST(Processes, KilledAtAnyFileOperation_LeaveTheStepBeforeOrTheNewOne) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "run";
  const auto store = [&] { return storage::open_store(url); };
  for (int victim : {0, 2}) {
    int kills = 0;
    for (int at = 0;; ++at) {
      testing::Processes processes(
          job("saves_until_killed", 4, 1, {url, std::to_string(victim), std::to_string(at)}));
      processes.wait();
      const bool killed = processes.wait(victim).signal == SIGKILL;
      std::int64_t acknowledged = 0;
      for (int i = 0; i < 4; ++i) {
        const std::string log = processes.log(i);
        for (std::size_t from = 0; (from = log.find("saved ", from)) != log.npos; ++from)
          acknowledged = std::max<std::int64_t>(acknowledged, std::atoll(log.c_str() + from + 6));
      }
      const std::vector<std::int64_t> steps = published_steps(*store());
      ASSERT_FALSE(steps.empty());
      EXPECT_GE(steps.back(), acknowledged) << "a save that was acknowledged is lost";
      for (std::int64_t step : steps) EXPECT_EQ(wrong_with(url, step), "") << "step " << step;
      if (!killed) break;
      ++kills;
    }
    EXPECT_GE(kills, victim == 0 ? 12 : 3);
  }
}

LOCKSTEP_CHILD(saves_with_errors) {
  initialize();
  const std::string url = child_arguments()[0];
  CheckpointerOptions options;
  options.keep.last = 1;
  Checkpointer checkpoints(url, options);
  std::int64_t step = 1, good = 1;
  checkpoints.save(step, processes_tree(step));
  checkpoints.wait();
  for (lockstep::test::Fault fault : {lockstep::test::Fault::kEio, lockstep::test::Fault::kEnospc,
                                      lockstep::test::Fault::kEintr, lockstep::test::Fault::kShort}) {
    for (int victim : {0, 3}) {
      for (int at = 0;; ++at) {
        ++step;
        lockstep::test::FaultyCalls calls(child_index() == victim ? fault : lockstep::test::Fault::kNone, at);
        storage::ScopedFileCalls scope(calls);
        std::string error;
        try {
          checkpoints.save(step, processes_tree(step));
          checkpoints.wait();
          good = step;
        } catch (const CheckpointError& failed) {
          error = failed.what();
        }
        const Array happened = multihost::broadcast_one_to_all(Array(static_cast<int>(calls.happened())),
                                                               child_index() == victim);
        if (happened.item<std::int32_t>() == 0) {
          EXPECT_EQ(error, "");
          break;
        }
        const std::string which =
            fmt::format("fault {} of process {} at call {}", static_cast<int>(fault), victim, at);
        if (fault == lockstep::test::Fault::kEintr || fault == lockstep::test::Fault::kShort) {
          EXPECT_EQ(error, "") << which;
        } else if (!error.empty()) {
          EXPECT_THAT(error, HasSubstr(fmt::format("process {} of 4", victim))) << which;
          EXPECT_THAT(
              error, HasSubstr(fault == lockstep::test::Fault::kEio ? "Input/output error" : "No space left"))
              << which;
        }
        multihost::assert_equal(Array(static_cast<int>(std::hash<std::string>()(error) & 0xffff)), which);
        // After the rename the folder is there, and whole, though the save may have thrown.
        const std::vector<std::int64_t> steps = checkpoints.steps();
        EXPECT_TRUE(std::ranges::find(steps, good) != steps.end()) << which;
        if (child_index() != 0) continue;
        for (std::int64_t each : steps) EXPECT_EQ(wrong_with(url, each), "") << which;
        // Each would make the next save longer.
        for (const auto& entry : std::filesystem::directory_iterator(url))
          if (entry.path().filename() != step_name(good)) std::filesystem::remove_all(entry.path());
      }
    }
  }
}

TEST(Processes, AnErrorAtAnyFileOperation_IsReportedByAll_AndLosesNothing) {
  TemporaryFolder folder;
  expect_success(run_processes(job("saves_with_errors", 4, 1, {folder.path() / "run"})));
}

LOCKSTEP_CHILD(misses_a_save) {
  initialize();
  if (process_index() == 2) {
    multihost::sync_global_devices("late");
    return;
  }
  SaveOptions options;
  options.timeout = std::chrono::seconds(2);
  EXPECT_THAT(error_of<Error>([&] { save(child_arguments()[0], ones({2}), options); }),
              HasSubstr("1 of 3 processes have not reported within 2 s: 2; see their logs"));
  multihost::sync_global_devices("late");
}

TEST(Processes, AProcessThatMissesASave_IsNamed) {
  TemporaryFolder folder;
  expect_success(run_processes(job("misses_a_save", 3, 1, {folder.path() / "saved"})));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep::checkpoint
