// SPDX-License-Identifier: Apache-2.0
// Collectives called by programs that XLA's CPU plugin compiled and runs, on two devices of this process.
#include "lockstep/collectives/ffi_handler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/registry.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/pjrt/buffer.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Fingerprint kProgram = 0xfedcba9876543210;  // Negative as an s64.

pjrt::Client& client() {
  static const auto client = [] {
    auto plugin = pjrt::Plugin::load(pjrt::find_plugin());
    for (const auto& [target, handler] : collective_handlers())
      plugin->register_ffi_handler(target, "Host", handler);
    return pjrt::Client::create(plugin, {{"cpu_device_count", std::int64_t{2}}, {"asynchronous", false}});
  }();
  return *client;
}

/// A custom call of the test's program.
std::string call(int index, const std::string& operands, const std::string& types,
                 const std::string& results) {
  return fmt::format(
      "stablehlo.custom_call @{}({}) {{api_version = 4 : i32, has_side_effect = true, backend_config = "
      "{{program = {} : i64, call = {} : i64}}}} : ({}) -> ({})\n",
      kCollectiveTarget, operands, static_cast<std::int64_t>(kProgram), index, types, results);
}

/// Sums over both devices, meets at a barrier, and gathers the sums.
std::string program_text() {
  const std::string token = "!stablehlo.token";
  return "module @sums { func.func public @main(%p: tensor<i32>, %x: tensor<3xf32>) -> (tensor<6xf32>, "
         "tensor<i32>) {\n"
         "%t0 = stablehlo.create_token : !stablehlo.token\n"
         "%a:2 = " +
         call(0, "%p, %x, %t0", "tensor<i32>, tensor<3xf32>, " + token, "tensor<3xf32>, " + token) +
         "%b = " + call(1, "%p, %a#1", "tensor<i32>, " + token, token) + "%c:3 = " +
         call(2, "%p, %a#0, %b", "tensor<i32>, tensor<3xf32>, " + token,
              "tensor<6xf32>, tensor<i32>, " + token) +
         "return %c#0, %c#1 : tensor<6xf32>, tensor<i32> } }";
}

ProgramCollectives plan() {
  ProgramCollectives plan{.program = kProgram, .name = "sums", .devices = {0, 1}, .collectives = {}};
  for (Kind kind : {Kind::kAllReduce, Kind::kBarrier, Kind::kAllGather}) {
    Collective c;
    c.kind = kind;
    c.count = kind == Kind::kBarrier ? 0 : 3;
    c.groups = {{0, 1}};
    plan.collectives.push_back(c);
  }
  return plan;
}

/// Runs the program as the device at `position`.
std::vector<float> run(const pjrt::Executable& program, int position, std::int32_t* chain = nullptr) {
  const pjrt::Device& device = *client().addressable_devices()[position];
  const float x[] = {1.0f + position, 10, 20};
  const std::int64_t dims[] = {3};
  pjrt::Buffer place = client().buffer_from_host(&position, int32, {}, device);
  pjrt::Buffer input = client().buffer_from_host(x, float32, dims, device);
  pjrt::Buffer* arguments[] = {&place, &input};
  auto outputs = program.execute(std::span<pjrt::Buffer* const>(arguments), device);
  std::vector<float> result(6);
  outputs[0].to_host(result.data(), sizeof(float) * 6);
  if (chain != nullptr) outputs[1].to_host(chain, sizeof *chain);
  return result;
}

class FfiHandlerTest : public ::testing::Test {
 protected:
  std::unique_ptr<World> world_ = local_world(2);
  std::unique_ptr<pjrt::Executable> program_ = client().compile(program_text());
};

TEST_F(FfiHandlerTest, CollectivesOfACompiledProgram_AreRun) {
  ProgramRegistry registry(*world_);
  auto registered = registry.register_program(plan());
  const auto again = registry.register_program(plan());
  registered.reset();
  for (int round = 0; round < 3; ++round) {
    for_each_local_device(*world_, [&](int device) {
      std::int32_t chain = -1;
      EXPECT_THAT(run(*program_, device, &chain), ElementsAre(3, 20, 40, 3, 20, 40));
      EXPECT_EQ(chain, 0);
    });
  }
  EXPECT_EQ(registry.take_pending_error(kProgram, 0), nullptr);
}

TEST_F(FfiHandlerTest, AnException_IsKeptForTheCallerOfTheLaunch) {
  ProgramRegistry registry(*world_);
  const auto registered = registry.register_program(plan());
  world_->abort(std::make_exception_ptr(PeerFailure("process 3 of 4 is gone")));
  EXPECT_THAT(message_of<PjrtError>([&] { run(*program_, 1); }), HasSubstr("process 3 of 4 is gone"));
  EXPECT_EQ(registry.take_pending_error(kProgram, 0), nullptr);
  const std::exception_ptr error = registry.take_pending_error(kProgram, 1);
  ASSERT_NE(error, nullptr);
  EXPECT_THROW(std::rethrow_exception(error), PeerFailure);
  EXPECT_EQ(registry.take_pending_error(kProgram, 1), nullptr);
}

TEST_F(FfiHandlerTest, AProgramNoLongerHeld_IsRefusedUntilRegisteredAgain) {
  ProgramRegistry registry(*world_);
  auto registered = registry.register_program(plan());
  registered.reset();
  EXPECT_THAT(message_of<PjrtError>([&] { run(*program_, 0); }), HasSubstr("which was not registered"));
  EXPECT_EQ(registry.take_pending_error(kProgram, 0), nullptr);
  registered = registry.register_program(plan());
  for_each_local_device(
      *world_, [&](int device) { EXPECT_THAT(run(*program_, device), ElementsAre(3, 20, 40, 3, 20, 40)); });
}

TEST_F(FfiHandlerTest, AProgramOrOperandThatIsNotPlanned_IsRefused) {
  const auto expect = [&](const std::string& what) {
    EXPECT_THAT(message_of<PjrtError>([&] { run(*program_, 0); }), HasSubstr(what));
  };
  expect("Lockstep is not initialized");
  ProgramRegistry registry(*world_);
  EXPECT_THROW(ProgramRegistry another(*world_), Error);
  expect("fedcba9876543210, which was not registered");
  ProgramCollectives other = plan();
  other.collectives[0].dtype = int32;
  const auto registered = registry.register_program(other);
  expect("its operand has 12 bytes of f32, but the plan says 12 bytes of i32");
}

TEST_F(FfiHandlerTest, UnplannedCountsPositionsAndIndices_AreRefused) {
  ProgramRegistry registry(*world_);
  ProgramCollectives other = plan();
  other.collectives[0].count = 4;
  const auto registered = registry.register_program(other);
  EXPECT_THAT(message_of<PjrtError>([&] { run(*program_, 0); }),
              HasSubstr("12 bytes of f32, but the plan says 16 bytes"));
  EXPECT_THAT(message_of<Error>([&] { registry.run(kProgram, 3, 0, {}, {}); }),
              HasSubstr("has 3 collectives"));
  EXPECT_THAT(message_of<Error>([&] { registry.run(kProgram, 0, 2, {}, {}); }),
              HasSubstr("a mesh of 2 devices"));
}

TEST_F(FfiHandlerTest, ACallWithoutANumber_RunsTheRegisteredProgram) {
  ProgramRegistry registry(*world_);
  const auto registered = registry.register_program(plan());
  for_each_local_device(*world_, [&](int device) {
    const float in[] = {1.0f + static_cast<float>(device), 10, 20};
    float out[3] = {};
    registry.run(registered, 0, device, {in, sizeof in, float32}, {out, sizeof out, float32});
    EXPECT_THAT(out, ElementsAre(3, 20, 40));
  });
  EXPECT_THAT(message_of<Error>([&] { registry.run(registered, 3, 1, {}, {}); }),
              HasSubstr("has 3 collectives"));
  EXPECT_EQ(registry.take_pending_error(kProgram, 0), nullptr);
  EXPECT_NE(registry.take_pending_error(kProgram, 1), nullptr);
  EXPECT_THAT(message_of<Error>([&] { registry.run(registered, 0, 2, {}, {}); }),
              HasSubstr("a mesh of 2 devices"));
}

TEST(ProgramRegistry, RefusesGroupsThatDoNotFitTheMesh) {
  auto world = local_world(2);
  ProgramRegistry registry(*world);
  ProgramCollectives program = plan();
  program.collectives[0].groups = {{0, 1}, {1}};
  EXPECT_THROW((void)registry.register_program(program), Error);
  program.collectives[0].groups = {{0, 2}};
  EXPECT_THROW((void)registry.register_program(program), Error);
  program.collectives[0].groups = {{0, 1}};
  program.collectives[0].op = ReduceOp::kMin;
  program.collectives[0].dtype = complex64;
  EXPECT_THROW((void)registry.register_program(program), DTypeError);
}

/// Each process of the job is a host with one device, and this is one of them.
TEST(ProgramRegistry, KeepsOnlyTheGroupsOfThisProcess) {
  constexpr int kProcesses = 10'000, kGroup = 8, kCollectives = 20;
  const testing::TemporaryFolder folder;
  FolderKeyValueStore store(folder.path());
  WorldOptions options{.process_index = 5000,
                       .process_count = kProcesses,
                       .interface = "lo",
                       .store = &store,
                       .job_id = "large",
                       .carries_data = false};
  ProgramCollectives program{.program = kProgram, .name = "large", .devices = {}, .collectives = {}};
  for (int process = 0; process < kProcesses; ++process) {
    options.device_process.push_back(process);
    options.process_host.push_back(std::to_string(process));
    program.devices.push_back(process);
  }
  for (int i = 0; i < kCollectives; ++i) {
    Collective c{.kind = Kind::kAllReduce, .count = 3};
    for (int first = 0; first < kProcesses; first += kGroup) {
      c.groups.emplace_back();
      for (int position = first; position < first + kGroup; ++position) c.groups.back().push_back(position);
    }
    program.collectives.push_back(std::move(c));
  }
  const auto world = World::create(options);
  ProgramRegistry registry(*world);
  const auto registered = registry.register_program(program);
  EXPECT_EQ(registry.kept_groups(kProgram), kCollectives);
  EXPECT_THAT(message_of<Error>([&] { registry.run(kProgram, 0, 3, {}, {}); }),
              HasSubstr("in no group of collective 0, or of another process"));
}

}  // namespace
}  // namespace lockstep::collectives
