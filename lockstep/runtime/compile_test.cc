// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/collectives/handouts.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/runtime/shared_code.h"
#include "lockstep/testing/processes.h"

namespace lockstep::runtime {
namespace {

ir::LoweredProgram add_number(double number) {
  ir::Builder builder("add_number");
  ir::Value x = builder.input({float32, {4}});
  ir::Value y = ir::lax::add(x, ir::lax::full_like(x, number));
  return lower(builder.finish(std::span(&y, 1)), {});
}

ir::LoweredProgram add_one() { return add_number(1); }

/// The program's result for 1, 2, 3, 4, on the first local device.
std::vector<float> run(const pjrt::Executable& executable) {
  Runtime& runtime = Runtime::get();
  const pjrt::Device& device = runtime.pjrt_device(runtime.local_devices().front());
  const std::vector<float> values = {1, 2, 3, 4};
  const std::int64_t dims[] = {4};
  pjrt::Buffer input = runtime.client().buffer_from_host(values.data(), float32, dims, device);
  pjrt::Buffer* arguments[] = {&input};
  std::vector<float> result(4);
  executable.execute(std::span<pjrt::Buffer* const>(arguments), device)[0].to_host(result.data(), 16);
  return result;
}

LOCKSTEP_CHILD(compiles) {
  initialize();
  Mesh mesh = make_mesh({{"i", device_count()}});
  auto executable = compile(add_one(), mesh, "add_one");
  EXPECT_EQ(run(*executable), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(compile(add_one(), mesh, "add_one"), executable);
}

TEST(Compile, TheFirstProcessOfAHostCompiles_AndTheOthersRunItsCode) {
  for (const auto& result : testing::run_processes({.count = 3, .child = "compiles", .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
  }
}

LOCKSTEP_CHILD(compiles_and_looks_for_the_code) {
  initialize();
  Mesh mesh = make_mesh({{"i", device_count()}});
  CompileReport report;
  compile(add_one(), mesh, "add_one", &report);
  EXPECT_EQ(report.from,
            process_index() == 0 ? CompileReport::From::kCompiler : CompileReport::From::kProcess);
  Runtime& runtime = Runtime::get();
  runtime.coordination()->barrier("all have it", std::chrono::seconds(60));
  EXPECT_EQ(runtime.handouts().held().first, 0u) << "who gives it keeps it no longer";
  for (const auto& [key, value] : runtime.store()->get_directory("lockstep"))
    EXPECT_LT(value.size(), 1000u) << key << ": code does not go through the coordinator";
}

TEST(Compile, TheCodeIsHandedFromProcessToProcess_AndThenDropped) {
  for (const auto& result : testing::run_processes(
           {.count = 3, .child = "compiles_and_looks_for_the_code", .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
  }
}

LOCKSTEP_CHILD(is_given_forged_code) {
  initialize();
  Mesh mesh = make_mesh({{"i", device_count()}});
  Runtime& runtime = Runtime::get();
  if (process_index() == 0) {
    runtime.handouts().give(SharedCode::key(add_one()),
                            collectives::SealedBytes::copy_of(std::string(5000, 'x')), {1});
  } else {
    EXPECT_EQ(run(*compile(add_one(), mesh, "add_one")), (std::vector<float>{2, 3, 4, 5}));
  }
  runtime.coordination()->barrier("both are done", std::chrono::seconds(60));
}

TEST(Compile, CodeWithoutTheJobsSecret_IsNotRun) {
  const auto results =
      testing::run_processes({.count = 2, .child = "is_given_forged_code", .coordinator = true});
  EXPECT_EQ(results[1].exit_code, 0);
  EXPECT_THAT(results[1].log, ::testing::HasSubstr("was not made by a process that has the job's secret"));
}

LOCKSTEP_CHILD(compiles_without_a_secret) {
  initialize();
  CompileReport report;
  compile(add_one(), make_mesh({{"i", device_count()}}), "add_one", &report);
  EXPECT_EQ(report.from, CompileReport::From::kCompiler);
}

TEST(Compile, WithoutASecret_EachProcessCompilesForItself) {
  coordination::CoordinationServer server;
  server.start({.num_processes = 2});
  const auto number = [](int process) {
    return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(process)}};
  };
  for (const auto& result :
       testing::run_processes({.count = 2,
       .child = "compiles_without_a_secret",
       .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", server.address()}, {"LOCKSTEP_NUM_PROCESSES", "2"}},
       .env_of = number})) {
    EXPECT_EQ(result.exit_code, 0);
  }
}

LOCKSTEP_CHILD(compiles_in_threads) {
  initialize();
  constexpr int kThreads = 4, kPrograms = 5;
  const Mesh mesh = make_mesh({{"i", device_count()}});
  std::array<std::array<std::shared_ptr<pjrt::Executable>, kPrograms>, kThreads> all;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kPrograms; ++i) {
          const int number = (i + thread / 2) % kPrograms;
          all[thread][number] = compile(add_number(number), mesh, "add_number");
        }
      });
    }
  }
  for (int number = 0; number < kPrograms; ++number) {
    for (const auto& each : all) EXPECT_EQ(each[number], all[0][number]) << "compiled once";
    EXPECT_EQ(run(*all[0][number])[0], 1.f + number);
  }
  forget_compiled();
  const auto again = compile(add_number(0), mesh, "add_number");
  EXPECT_NE(again, all[0][0]);
  EXPECT_EQ(run(*all[0][0]), run(*again)) << "who holds a program that is forgotten goes on with it";
}

TEST(Compile, ThreadsThatNeedOneProgram_ShareIt) {
  EXPECT_EQ(testing::run_processes({.child = "compiles_in_threads"})[0].exit_code, 0);
}

LOCKSTEP_CHILD(only_process_one_compiles) {
  initialize();
  if (process_index() == 1) {
    EXPECT_EQ(run(*compile(add_one(), make_mesh({{"i", device_count()}}), "add_one")),
              (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(Compile, IfTheFirstProcessDoesNotCompile_TheOtherDoes) {
  for (const auto& result :
       testing::run_processes({.count = 2, .child = "only_process_one_compiles", .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
  }
}

TEST(Lower, Transposes_AreReportedUnlessADotProductAbsorbsThem) {
  ir::Builder builder("f");
  ir::Value x = builder.input({float32, {4, 8}});
  ir::Value transposed = ir::lax::transpose(x, {1, 0});
  ir::Value y = ir::lax::add(transposed, transposed);
  EXPECT_TRUE(lower(builder.finish(std::span(&y, 1)), {}).traits.transposes);

  ir::Builder with_dot("g");
  ir::Value a = with_dot.input({float32, {4, 8}});
  ir::Value b = ir::lax::dot_general(ir::lax::transpose(a, {1, 0}), a, {{1}, {0}, {}, {}});
  EXPECT_FALSE(lower(with_dot.finish(std::span(&b, 1)), {}).traits.transposes);
}

}  // namespace
}  // namespace lockstep::runtime
