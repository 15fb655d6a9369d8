// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/array/device_put.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void say_values(const std::string& name, const Array& x) {
  std::string line = "said " + name;
  for (const Shard& shard : x.addressable_shards()) {
    const auto* values = static_cast<const float*>(shard.data);
    for (std::int64_t i = 0; i < num_elements(shard.shape); ++i) line += fmt::format(" {:a}", values[i]);
  }
  testing::say(line);
}

/// A gradient through a loop with collectives, donation, printing and a check that fails; all that it gives
/// is said.
LOCKSTEP_CHILD(does_everything) {
  initialize();
  const Mesh mesh = make_mesh({{"i", device_count()}});
  const NamedSharding rows(mesh, P("i"));
  const Array host = reshape(arange(32, DType::kF32), {8, 4});
  Array x = device_put(host, rows), w = device_put(host * 0.01f, rows);
  auto loss = [](const Array& w, const Array& x) {
    auto step = [&](const Array& total, const Array& row) {
      return std::pair(tanh(total + sum(w, {0}) * row), row);
    };
    return sum(scan(step, zeros({4}), x).first) + sum(square(w));
  };
  auto update = jit(
      [&](Array w, Array x) {
        auto [value, gradient] = value_and_grad(loss)(w, x);
        debug::print("said loss {}", value);
        return std::tuple(w - 0.1f * gradient, value, matmul(x, transpose(w)));
      },
      {.donate_argnums = {0}, .name = "update"});
  const auto lowered = update.lower(w, x);
  const auto cost = lowered.compile().cost();
  testing::say(fmt::format("said texts {} {}", digest(lowered.as_text()), lowered.explain()));
  testing::say(fmt::format("said cost {} {} {} {} {} {}", cost.flops, cost.bytes_accessed,
                           cost.communicated_bytes, cost.argument_bytes, cost.output_bytes,
                           cost.temporary_bytes));
  for (int i = 0; i < 3; ++i) {
    auto [updated, value, product] = update(w, x);
    EXPECT_TRUE(w.is_deleted());
    w = updated;
    say_values("weights", w);
    say_values("value", value);
    say_values("product", product);
  }
  auto logarithm = jit([](Array x) {
    debug::check_finite(x, "x");
    return log(x);
  });
  say_values("finite", logarithm(host + 1));
  try {
    say_values("not finite", logarithm(host / 0));
    ADD_FAILURE() << "a check should have failed";
  } catch (const Error& error) {
    testing::say(fmt::format("said {}", error.what()));
  }
}

/// The lines that a process printed, and how it got its programs.
struct Account {
  std::vector<std::string> said;
  int compiled = 0, loaded = 0, taken = 0;
};

Account account_of(const testing::ProcessResult& result) {
  EXPECT_EQ(result.exit_code, 0);
  Account account;
  std::istringstream lines(result.log);
  for (std::string line; std::getline(lines, line);) {
    if (auto at = line.find("said "); at != line.npos) account.said.push_back(line.substr(at));
    account.compiled += line.find(" compiled ") != line.npos;
    account.loaded += line.find(" from the compilation cache in ") != line.npos;
    account.taken += line.find(" from process 0 in ") != line.npos;
  }
  return account;
}

std::vector<Account> run(const std::string& child, int count, bool job, testing::Variables env) {
  env["LOCKSTEP_LOG"] = "debug";
  std::vector<Account> accounts;
  for (const auto& result :
       testing::run_processes({.count = count, .child = child, .env = std::move(env), .coordinator = job}))
    accounts.push_back(account_of(result));
  return accounts;
}

int files_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(CompilationCache, AHit_ComputesWhatAMissComputes) {
  testing::TemporaryFolder folder;
  const testing::Variables cached = {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()}};
  const Account without = run("does_everything", 1, false, {})[0];
  const Account miss = run("does_everything", 1, false, cached)[0];
  const Account hit = run("does_everything", 1, false, cached)[0];
  EXPECT_GT(without.said.size(), 15u);
  EXPECT_EQ(miss.said, without.said);
  EXPECT_EQ(hit.said, without.said);
  EXPECT_GT(miss.compiled, 2);
  EXPECT_EQ(miss.loaded, 0);
  EXPECT_EQ(hit.compiled, 0);
  EXPECT_EQ(hit.loaded, miss.compiled);
  EXPECT_EQ(files_in(folder.path()), miss.compiled);
}

TEST(CompilationCache, OneProcessOfAJobCompiles_AndNoneOfTheNextJob) {
  testing::TemporaryFolder folder;
  const testing::Variables cached = {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()},
                                     {"LOCKSTEP_NUM_CPU_DEVICES", "2"}};
  const auto miss = run("does_everything", 2, true, cached);
  const auto hit = run("does_everything", 2, true, cached);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hit[i].said, miss[i].said) << i;
    EXPECT_EQ(hit[i].compiled, 0) << i;
    EXPECT_EQ(hit[i].loaded, miss[i].compiled + miss[i].taken + miss[i].loaded) << i;
  }
  EXPECT_GT(miss[0].compiled, 2);
  EXPECT_GT(miss[1].taken + miss[1].loaded, 0);
}

TEST(CompilationCache, AProcessWithoutTheFolder_CompilesForItself) {
  testing::TemporaryFolder folder;
  const std::string path = folder.path();
  auto start = [&](bool both) {
    std::vector<Account> accounts;
    for (const auto& result : testing::run_processes({.count = 2,
                              .child = "does_everything",
                              .env = {{"LOCKSTEP_LOG", "debug"}},
                              .env_of = [&](int i) -> testing::Variables {
                                if (i == 1 && !both) return {};
                                return {{"LOCKSTEP_COMPILATION_CACHE_DIR", path}};
                              },
                              .coordinator = true}))
      accounts.push_back(account_of(result));
    return accounts;
  };
  const auto miss = start(true);
  const auto hit = start(false);
  EXPECT_EQ(hit[0].compiled, 0);
  EXPECT_GT(hit[1].compiled, 0);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(hit[i].said, miss[i].said) << i;
}

TEST(CompilationCache, ProcessesThatStartAtOnceOnAnEmptyFolder_AgreeAndLeaveItWhole) {
  testing::TemporaryFolder folder;
  const testing::Variables cached = {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()}};
  const auto all = run("does_everything", 4, false, cached);
  for (const Account& one : all) EXPECT_EQ(one.said, all[0].said);
  const Account after = run("does_everything", 1, false, cached)[0];
  EXPECT_EQ(after.said, all[0].said);
  EXPECT_EQ(after.compiled, 0);
  EXPECT_EQ(after.loaded, files_in(folder.path()));
}

TEST(CompilationCache, ADamagedEntry_IsCompiledAgainAndReplaced) {
  testing::TemporaryFolder folder;
  const testing::Variables cached = {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()}};
  const Account miss = run("does_everything", 1, false, cached)[0];
  for (const auto& entry : fs::directory_iterator(folder.path())) fs::resize_file(entry, 100);
  const Account damaged = run("does_everything", 1, false, cached)[0];
  EXPECT_EQ(damaged.said, miss.said);
  EXPECT_EQ(damaged.compiled, miss.compiled);
  EXPECT_EQ(run("does_everything", 1, false, cached)[0].compiled, 0);
}

LOCKSTEP_CHILD(adds_one) {
  initialize();
  say_values("sum", jit([](Array x) { return x + 1; }, {.name = "add"})(zeros({4})));
}

TEST(CompilationCache, ChangedNprocOrXlaFlags_GiveAnotherEntry) {
  testing::TemporaryFolder folder;
  testing::Variables cached = {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()}};
  EXPECT_GT(run("adds_one", 1, false, cached)[0].compiled, 0);
  EXPECT_EQ(run("adds_one", 1, false, cached)[0].compiled, 0);
  cached["NPROC"] = "7";
  EXPECT_GT(run("adds_one", 1, false, cached)[0].compiled, 0);
  cached["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true";
  EXPECT_GT(run("adds_one", 1, false, cached)[0].compiled, 0);
  EXPECT_EQ(run("adds_one", 1, false, cached)[0].compiled, 0);
}

TEST(CompilationCache, AFolderThatCannotBeMade_IsOnlyAWarning) {
  const auto result = testing::run_processes(
      {.child = "adds_one", .env = {{"LOCKSTEP_COMPILATION_CACHE_DIR", "/proc/no/such"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              HasSubstr("[compilation cache] the folder /proc/no/such is not used: it cannot be made"));
  EXPECT_THAT(result.log, HasSubstr("said sum"));
}

TEST(CompilationCache, ACompilationBelowTheMinimumTime_IsNotKept) {
  testing::TemporaryFolder folder;
  run("adds_one", 1, false,
      {{"LOCKSTEP_COMPILATION_CACHE_DIR", folder.path()},
       {"LOCKSTEP_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "600"}});
  EXPECT_EQ(files_in(folder.path()), 0);
}

}  // namespace
}  // namespace lockstep
