// SPDX-License-Identifier: Apache-2.0
// Traced functions over the devices of several processes: what they give, and what happens when a process
// does something else, leaves or dies.

#include <signal.h>

#include "lockstep/array/multihost.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Processes;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

/// For each local device i, of global number n: {100 n, 100 n + 1, ... 100 n + 3}.
Array numbered() {
  std::vector<float> values;
  for (Device device : local_devices())
    for (int i = 0; i < 4; ++i) values.push_back(static_cast<float>(100 * device.id() + i));
  return array(values, {local_device_count(), 4});
}

/// The rows of the result, which has one for each local device, as `row` says of the device's number.
void expect_rows(const Array& result, const std::function<std::vector<float>(int)>& row) {
  std::vector<float> expected;
  for (Device device : local_devices())
    for (float value : row(device.id())) expected.push_back(value);
  EXPECT_EQ(result.to_host<float>(), expected);
}

LOCKSTEP_CHILD(collectives) {
  initialize();
  ASSERT_EQ(device_count(), 4);
  auto row = [](float base) { return std::vector<float>{base, base + 1, base + 2, base + 3}; };
  Array xs = numbered();
  expect_rows(pmap([](Array x) { return psum(x, "i"); })(xs), [&](int) {
    return std::vector<float>{600, 604, 608, 612};
  });
  expect_rows(pmap([](Array x) { return all_gather(sum(x), "i"); })(xs), [&](int) {
    return std::vector<float>{6, 406, 806, 1206};
  });
  expect_rows(pmap([](Array x) { return psum_scatter(x, "i"); })(xs),
              [&](int n) { return std::vector<float>{600.f + 4 * n}; });
  expect_rows(pmap([](Array x) {
                return ppermute(x, "i", {{0, 1}, {1, 2}, {2, 3}});
              })(xs),
              [&](int n) { return n == 0 ? std::vector<float>(4, 0) : row(100.f * (n - 1)); });
  expect_rows(pmap([](Array x) { return all_to_all(x, "i", 0, 0); })(xs), [&](int n) {
    return std::vector<float>{0.f + n, 100.f + n, 200.f + n, 300.f + n};
  });
}

class Collectives : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Collectives, GiveTheRightValues_OverOneOrSeveralProcesses) {
  for (const ProcessResult& result : run_processes(job("collectives", GetParam().first, GetParam().second)))
    EXPECT_EQ(result.exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Processes, Collectives,
                         ::testing::Values(std::pair(4, 1), std::pair(2, 2), std::pair(1, 4)),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "x" + std::to_string(info.param.second);
                         });

/// Says what the Error is that `action` ends with.
template <class E>
void say_error(const std::function<void()>& action) {
  try {
    action();
    say("nothing was thrown");
  } catch (const E& error) {
    say(std::string("as expected: ") + error.what());
  }
}

LOCKSTEP_CHILD(other_shape) {
  initialize();
  const std::int64_t columns = process_index() == 1 ? 5 : 4;
  say_error<DivergenceError>([&] {
    pmap([](Array x) { return psum(x, "i"); })(ones({1, columns})).block_until_ready();
  });
  std::_Exit(0);
}

LOCKSTEP_CHILD(other_program) {
  initialize();
  say_error<DivergenceError>([&] {
    if (process_index() == 1)
      pmap([](Array x) { return pmax(x, "i"); })(ones({1, 4})).block_until_ready();
    else
      pmap([](Array x) { return psum(x, "i"); })(ones({1, 4})).block_until_ready();
  });
  std::_Exit(0);
}

/// The last process has another mesh than the others.
LOCKSTEP_CHILD(has_a_mesh_of_its_own) {
  initialize();
  const std::string& way = testing::child_arguments().at(0);
  const bool differs = process_index() == process_count() - 1;
  std::vector<Device> all = devices();
  Shape shape = {device_count() / 2, 2};
  std::vector<std::string> names = {"x", "y"};
  if (way == "missing") shape = {device_count()}, names = {"x"};
  if (way == "order" && differs) std::swap(all[0], all[1]);
  if (way == "rotation" && differs) std::rotate(all.begin(), all.begin() + 1, all.end());
  if (way == "shape" && differs) std::swap(shape[0], shape[1]);
  if (way == "names" && differs) names[1] = "z";
  if (way == "missing" && differs) all.erase(all.begin()), --shape[0];
  const Mesh mesh(all, shape, names);
  say_error<Error>([&] {
    const P split = P::from_entries({names});
    const Array x = device_put(ones({static_cast<std::int64_t>(all.size()), 3}), NamedSharding(mesh, split));
    jit(shard_map(
        [&](Array part) {
          for (const std::string& axis : names) part = psum(part, axis);
          return part;
        },
        {.mesh = mesh, .in_specs = {split}, .out_specs = {P()}}))(x)
        .block_until_ready();
  });
  std::_Exit(0);
}

TEST(Processes, WithDifferentMeshes_FailAtOnce_NamingTheOneThatDiffers) {
  for (const char* way : {"order", "rotation", "shape", "names", "missing"}) {
    ProcessesOptions options = job("has_a_mesh_of_its_own", 3, 2);
    options.arguments = {way};
    for (const ProcessResult& result : run_processes(options)) {
      EXPECT_THAT(result.log, AllOf(HasSubstr("as expected: "), HasSubstr("process 2 of 3"))) << way;
      EXPECT_LT(result.ended_after, testing::kAtOnce) << way;
    }
  }
}

/// Two processes with two devices each.
LOCKSTEP_CHILD(maps_other_axes) {
  initialize();
  Array xs = numbered();  // [2, 4]
  Array whole = array({1.f, 2.f, 3.f, 4.f});
  auto [columns, total] = pmap([](Array x, Array whole) { return std::tuple(x + whole, psum(sum(x), "i")); },
                               {.in_axes = {0, std::nullopt}, .out_axes = {1, std::nullopt}})(xs, whole);
  expect_rows(transpose(columns), [](int n) {
    const auto base = static_cast<float>(100 * n);
    return std::vector<float>{base + 1, base + 3, base + 5, base + 7};
  });
  EXPECT_EQ(total.item<float>(), 4 * 6 + 400 * 6);
  Array turned = pmap([](Array x) { return 2 * x; }, {.in_axes = {1}})(transpose(xs));
  expect_rows(turned, [](int n) {
    const auto base = static_cast<float>(200 * n);
    return std::vector<float>{base, base + 2, base + 4, base + 6};
  });
  std::vector<Device> firsts;
  for (Device device : devices())
    if (device.local_hardware_id() == 0) firsts.push_back(device);
  EXPECT_EQ(pmap([](Array x) { return psum(x, "i"); }, {.devices = firsts})(ones({1})).to_host<float>(),
            std::vector<float>{2});
  EXPECT_THAT(test::error_of<ShardingError>(
                  [&] { pmap([](Array x) { return x; }, {.out_axes = {std::nullopt}})(xs); }),
              HasSubstr("differs between the devices"));
  EXPECT_THAT(test::error_of<ShardingError>([&] { pmap([](Array x) { return x; }, {.in_axes = {1}})(xs); }),
              HasSubstr("a dimension 1 of 2"));
}

TEST(Pmap, OverOtherAxesAndSomeDevices_GivesTheRightRows) {
  for (const ProcessResult& result : run_processes(job("maps_other_axes", 2, 2)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// Two processes with two devices each.
LOCKSTEP_CHILD(shard_maps) {
  initialize();
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});  // y within a process
  const P both = P({"x", "y"});
  auto put = [&](const Array& a, P spec) { return device_put(a, NamedSharding(mesh, spec)); };
  auto everywhere = [](const Array& a) { return multihost::process_allgather(a); };
  auto over = [&](auto function, P out) {
    return shard_map(function, {.mesh = mesh, .in_specs = {both}, .out_specs = {out}});
  };
  const Array x = test::waves({8, 3}), xs = put(x, both);
  auto rows = [&](std::int64_t first, std::int64_t count) {
    return slice(x, {first, 0}, {first + count, 3});
  };

  test::expect_equal(everywhere(over(
                         [](Array a) {
                           return psum(a, {"x", "y"});
                         },
                         P())(xs)),
                     rows(0, 2) + rows(2, 2) + rows(4, 2) + rows(6, 2));
  test::expect_equal(everywhere(over([](Array a) { return psum(a, "x"); }, P("y"))(xs)),
                     rows(0, 4) + rows(4, 4));
  auto turn = [](Array a) { return ppermute(a, {"x", "y"}, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}); };
  test::expect_equal(everywhere(over(turn, both)(xs)), concatenate({rows(6, 2), rows(0, 6)}, 0));

  // Gradients outside and inside are those of one process.
  const Array w = test::waves({3, 2}, 2);
  auto whole = [](Array x, Array w) { return mean(square(tanh(matmul(x, w)))); };
  auto split = [&](Array x, Array w) {
    return shard_map(
        [](Array a, Array w) {
          return pmean(mean(square(tanh(matmul(a, w)))), {"x", "y"});
        },
        {.mesh = mesh, .in_specs = {both, P()}, .out_specs = {P()}})(x, w);
  };
  auto [value, outside] = jit(value_and_grad<0, 1>(split))(xs, put(w, P()));
  auto [expected, gradients] = value_and_grad<0, 1>(whole)(x, w);
  test::expect_equal(everywhere(value), expected);
  test::expect_equal(everywhere(std::get<0>(outside)), std::get<0>(gradients));
  test::expect_equal(everywhere(std::get<1>(outside)), std::get<1>(gradients));
  auto inside = shard_map(
      [](Array a, Array w) {
        return grad([&](Array w) { return mean(square(tanh(matmul(a, w)))); })(w) / 4.0;
      },
      {.mesh = mesh, .in_specs = {both, P()}, .out_specs = {P()}});
  test::expect_equal(everywhere(inside(xs, put(w, P()))), std::get<1>(gradients));

  auto mapped = pmap(
      [](Array a, Array w) {
        return pmean(grad([&](Array w) { return mean(square(tanh(matmul(a, w)))); })(w), "i");
      },
      {.in_axes = {0, std::nullopt}, .out_axes = {std::nullopt}});
  test::expect_equal(mapped(reshape(rows(4 * process_index(), 4), {2, 2, 3}), w), std::get<1>(gradients));

  // Manual along x, which is between the processes; y is left to the partitioner.
  auto partly =
      shard_map([](Array a, Array w) { return psum(matmul(transpose(a), tanh(matmul(a, w))), "x"); },
                {.mesh = mesh, .in_specs = {P("x"), P()}, .out_specs = {P()}, .axis_names = {"x"}});
  test::expect_equal(everywhere(jit(partly)(put(x, both), put(w, P(nullptr, "y")))),
                     matmul(transpose(x), tanh(matmul(x, w))));
}

TEST(ShardMap, OverTwoProcesses_EqualsOneProcess) {
  for (const ProcessResult& result : run_processes(job("shard_maps", 2, 2)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

TEST(Divergence, InShape_IsAnErrorOfBothThatNamesBothShapes) {
  for (const ProcessResult& result : run_processes(job("other_shape", 2, 1))) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.log, AllOf(HasSubstr("as expected: "), HasSubstr("[4]"), HasSubstr("[5]"),
                                  HasSubstr("process 0"), HasSubstr("process 1")));
  }
}

TEST(Divergence, InProgram_IsAnErrorOfBothThatNamesBothPrograms) {
  for (const ProcessResult& result : run_processes(job("other_program", 2, 1))) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.log, AllOf(HasSubstr("as expected: "), HasSubstr("psum"), HasSubstr("pmax"),
                                  HasSubstr("process 0"), HasSubstr("process 1")));
  }
}

LOCKSTEP_CHILD(leaves_early) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  total(ones({1}));
  if (process_index() == 1) return;
  say_error<PeerFailure>([&] { total(ones({1})); });
}

LOCKSTEP_CHILD(leaves_early_uncaught) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  total(ones({1}));
  if (process_index() == 1) return;
  [&]() noexcept { total(ones({1})); }();
}

TEST(EarlyLeaver, IsNamedByThoseWhoWaitForIt) {
  auto results = run_processes(job("leaves_early", 2, 1));
  EXPECT_FALSE(results[0].timed_out);
  EXPECT_FALSE(results[1].timed_out);
  EXPECT_THAT(results[0].log,
              AllOf(HasSubstr("as expected: process 1 (host "),
                    HasSubstr(") left the job early: process 0 waited for it in psum f32[] over i")));
  EXPECT_THAT(results[1].log,
              HasSubstr(") left the job early: process 0 waited for it in psum f32[] over i"));
}

TEST(EarlyLeaver, WithAnUncaughtError_EndsAllAtOnce) {
  auto results = run_processes(job("leaves_early_uncaught", 2, 1));
  EXPECT_FALSE(results[0].timed_out);
  EXPECT_FALSE(results[1].timed_out);
  EXPECT_NE(results[0].exit_code, 0);
  for (int i : {0, 1}) EXPECT_THAT(results[i].log, HasSubstr("process 1 (host ")) << i;
  EXPECT_THAT(results[0].log, HasSubstr(") left the job early: process 0 waited for it in psum"));
  EXPECT_LT(results[1].ended_after - results[0].ended_after, testing::kAtOnce);
}

LOCKSTEP_CHILD(adds_forever) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  total(ones({1}));
  say("adding");
  for (;;) total(ones({1}));
}

TEST(KilledProcess, EndsTheOthersWithAClearLine) {
  Processes processes(job("adds_forever", 4, 1));
  for (int i = 0; i < 4; ++i) processes.wait_for_line(i, "adding");
  processes.kill(2, SIGKILL);
  auto results = processes.wait();
  EXPECT_EQ(results[2].signal, SIGKILL);
  for (int i : {0, 1, 3}) {
    EXPECT_FALSE(results[i].timed_out) << i;
    EXPECT_NE(results[i].exit_code, 0) << i;
    EXPECT_THAT(results[i].log, HasSubstr("process 2")) << i;
    auto after = results[i].ended_after - results[2].ended_after;
    std::printf("process %d ended %d ms after the kill\n", i, static_cast<int>(after.count()));
    EXPECT_LT(after, testing::kAtOnce) << i;
  }
}

/// Not what an uncaught error does in a test's child, which the harness catches: what it does in a program.
LOCKSTEP_CHILD(does_not_catch) {
  initialize();
  auto total = pmap([](Array x) { return psum(x, "i"); });
  total(ones({1}));
  if (process_index() == 1) std::_Exit(7);
  [&]() noexcept { total(ones({1})); }();
}

TEST(PeerFailure, Uncaught_EndsTheProcessWithAClearLine) {
  auto results = run_processes(job("does_not_catch", 2, 1));
  EXPECT_EQ(results[1].exit_code, 7);
  EXPECT_FALSE(results[0].timed_out);
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_THAT(results[0].log, HasSubstr("process 1"));
}

}  // namespace
}  // namespace lockstep
