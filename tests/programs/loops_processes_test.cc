// SPDX-License-Identifier: Apache-2.0
// Loops with collectives, and lines printed within them, over the devices of several processes.

#include "lockstep/coordination/server/server.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

/// Each step adds up over the devices: a scan, then a loop that ends when the sum is large, on all alike.
auto many_sums() {
  return pmap([](Array x) {
    Array total = scan(
                      [](Array total, Array x) {
                        Array next = 0.5f * psum(total + x, "i");
                        return std::pair(next, std::tuple<>());
                      },
                      zeros({}), x)
                      .first;
    auto [sum, steps] =
        while_loop([](const std::pair<Array, Array>& s) { return s.first < 1000.f; },
                   [](std::pair<Array, Array> s) { return std::pair(psum(s.first + 1, "i"), s.second + 1); },
                   std::pair(total, zeros({}, int32)));
    return std::tuple(total, sum, steps);
  });
}

LOCKSTEP_CHILD(loops_of_collectives) {
  initialize();
  const auto devices = static_cast<float>(device_count());
  for (int round = 0; round < 3; ++round) {
    std::vector<float> values;
    for (Device device : local_devices()) {
      for (int t = 0; t < 5; ++t) values.push_back(static_cast<float>(device.id() + t + round));
    }
    float total = 0;
    for (int t = 0; t < 5; ++t) {
      float next = 0;
      for (Device device : ::lockstep::devices()) next += total + static_cast<float>(device.id() + t + round);
      total = next / 2;
    }
    float sum = total;
    int steps = 0;
    for (; sum < 1000; ++steps) sum = devices * (sum + 1);
    auto [totals, sums, counts] = many_sums()(array(values, {local_device_count(), 5}));
    for (float each : totals.to_host<float>()) EXPECT_EQ(each, total);
    for (float each : sums.to_host<float>()) EXPECT_EQ(each, sum);
    for (std::int32_t each : counts.to_host<std::int32_t>()) EXPECT_EQ(each, steps);
  }
}

class Loops : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Loops, CollectivesInLoops_GiveTheRightValues) {
  for (const ProcessResult& result :
       run_processes(job("loops_of_collectives", GetParam().first, GetParam().second)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

INSTANTIATE_TEST_SUITE_P(Processes, Loops, ::testing::Values(std::pair(2, 1), std::pair(2, 2)),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "x" + std::to_string(info.param.second);
                         });

LOCKSTEP_CHILD(loops_of_other_lengths) {
  initialize();
  const std::int64_t steps = process_index() == 1 ? 5 : 4;
  try {
    pmap([](Array x) {
      return scan([](Array c, Array x) { return std::pair(psum(c + x, "i"), std::tuple<>()); }, zeros({}), x)
          .first;
    })(ones({1, steps}))
        .block_until_ready();
    say("nothing was thrown");
  } catch (const DivergenceError& error) {
    say(std::string("as expected: ") + error.what());
  }
  std::_Exit(0);
}

TEST(Loops, DifferentLengths_AreAnErrorOfBoth) {
  for (const ProcessResult& result : run_processes(job("loops_of_other_lengths", 2, 1))) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.log, AllOf(HasSubstr("as expected: "), HasSubstr("psum f32[] over i"),
                                  HasSubstr("process 0"), HasSubstr("process 1")));
  }
}

LOCKSTEP_CHILD(prints) {
  initialize();
  pmap([](Array x) {
    debug::print("mine {}", x);
    return psum(x, "i");
  })(array({static_cast<float>(process_index())}))
      .block_until_ready();
}

TEST(DebugPrint, WithoutALauncher_BeginsTheLineWithTheProcess) {
  int port = 0;
  {
    coordination::CoordinationServer probe;
    probe.start({});
    port = probe.port();
  }
  testing::ProcessesOptions options{
      .count = 2,
      .child = "prints",
      .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", "127.0.0.1:" + std::to_string(port)},
              {"LOCKSTEP_NUM_PROCESSES", "2"}},
      .env_of = [](int i) {
        return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}};
      }};
  const auto results = run_processes(options);
  EXPECT_THAT(results[0].log, HasSubstr("[process 0 of 2] mine 0.0\n"));
  EXPECT_THAT(results[1].log, HasSubstr("[process 1 of 2] mine 1.0\n"));
}

/// The launcher names it itself.
TEST(DebugPrint, UnderALauncher_PrintsTheLineUnchanged) {
  const auto results = run_processes(job("prints", 2, 1));
  for (int i : {0, 1})
    EXPECT_THAT(results[i].log, ::testing::ContainsRegex("(^|\n)mine " + std::to_string(i) + "\\.0\n"));
}

}  // namespace
}  // namespace lockstep
