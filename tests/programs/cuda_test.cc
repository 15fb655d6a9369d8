// SPDX-License-Identifier: Apache-2.0
// Computations as they go to GPUs: through a plugin that looks like CUDA's and computes on the CPU, and whole
// programs compiled for CUDA ahead of time. No GPU takes part.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/array/host_memory.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/optim/optim.h"
#include "lockstep/pjrt/test_cuda.h"
#include "lockstep/random/random.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/programs/test_gpus.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::on_gpus;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_processes;
using testing::say;

struct Perceptron {
  Array w1, b1, w2, b2;
};

Array loss(const Perceptron& p, const Array& x, const Array& y) {
  Array hidden = maximum(matmul(x, p.w1) + p.b1, 0);
  return mean(square(matmul(hidden, p.w2) + p.b2 - y));
}

/// Two processes with two devices each, whose plugin numbers them with gaps. Collectives stay within a
/// process, for which the axis "model" is made.
LOCKSTEP_CHILD(computes_on_gpus) {
  initialize();
  ASSERT_EQ(device_count(), 4);
  const int process = process_index();
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 2}});
  const NamedSharding parts(mesh, P("data", "model"));

  // Each process gives its rows, and runs its two of the four replicas.
  const std::vector<float> rows = {10.f * process, 10.f * process + 1, 10.f * process + 2,
                                   10.f * process + 3};
  Array x = make_array_from_process_local_data(parts, HostMemory(rows, {1, 4}));
  EXPECT_EQ(x.shape(), (Shape{2, 4}));
  Array y = jit([](Array x) { return 2 * x + 1; })(x);
  ASSERT_EQ(y.addressable_shards().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const Shard shard = y.addressable_shards()[i];
    const auto* values = static_cast<const float*>(shard.data);
    EXPECT_EQ(values, y.addressable_shards()[i].data) << "read once, and kept";
    EXPECT_EQ(values[0], 2 * rows[2 * i] + 1);
    EXPECT_EQ(values[1], 2 * rows[2 * i + 1] + 1);
  }

  Array sums = shard_map([](Array x) { return psum(x, "model"); },
                         {.mesh = mesh, .in_specs = {P("data", "model")}, .out_specs = {P("data")}})(x);
  const auto* sum = static_cast<const float*>(sums.addressable_shards()[1].data);
  EXPECT_EQ(sum[0], rows[0] + rows[2]);
  EXPECT_EQ(sum[1], rows[1] + rows[3]);
  Array places = shard_map(
      [](Array x) { return x + astype(10 * axis_index("data") + axis_index("model"), float32); },
      {.mesh = mesh, .in_specs = {P("data", "model")}, .out_specs = {P("data", "model")}})(zeros({2, 2}));
  EXPECT_EQ(static_cast<const float*>(places.addressable_shards()[1].data)[0], 10.f * process + 1);

  // A step that takes its parameters' memory over, many times without waiting.
  auto step = jit([](Array w, Array x) { return w + x; }, {.donate_argnums = {0}});
  Array w = x;
  for (int i = 0; i < 50; ++i) w = step(i == 0 ? jit([](Array x) { return x + 0; })(x) : w, x);
  w.block_until_ready();
  EXPECT_EQ(static_cast<const float*>(w.addressable_shards()[0].data)[1], 51 * rows[1]);

  // On this process's own devices.
  Array alone = device_put(array({1.f, 2.f, 3.f, 4.f}), SingleDeviceSharding(local_devices()[1]));
  EXPECT_EQ((alone * alone).to_host<float>(), (std::vector<float>{1, 4, 9, 16}));
  const Mesh local(local_devices(), {2}, {"i"});
  expect_equal(device_put(alone, NamedSharding(local, P("i"))), array({1.f, 2.f, 3.f, 4.f}));
  expect_equal(shard_map([](Array x) { return psum(x, "i"); },
                         {.mesh = local, .in_specs = {P("i")}, .out_specs = {P()}})(
                   device_put(alone, NamedSharding(local, P("i")))),
               array({4.f, 6.f}));
  // XLA's compiler for GPUs makes 90000 of it; the operands are converted first.
  const Array products =
      matmul(full({2, 5}, 100, int8), full({5, 3}, 90, int8), {.preferred_element_type = int32});
  EXPECT_EQ(products.to_host<std::int32_t>(), std::vector<std::int32_t>(6, 45000));
  // Of several updates of an element, a GPU may apply any as the last: all are made the same before.
  const Array to = array({2, 0, 2, 1, 2}), updates = array({1.f, 2.f, 3.f, 4.f, 5.f});
  const auto set = [&](Array updates) { return zeros({4}).at(to).set(updates); };
  EXPECT_EQ(jit(set)(updates).to_host<float>(), (std::vector<float>{2, 4, 5, 0}));
  EXPECT_EQ(grad([&](Array x) { return lockstep::sum(set(x)); })(updates).to_host<float>(),
            (std::vector<float>{0, 1, 0, 1, 1}));
  const Array twice = zeros({2, 3}).at(array({1, 1, 7})).set(array({1.f, 2.f, 3.f}, {3, 1}));
  EXPECT_EQ(twice.to_host<float>(), (std::vector<float>{0, 0, 0, 2, 2, 2}));
  say("computed");
  shutdown();
}

TEST(Cuda, OneProgramForAll_RunsOnTheReplicasOfEachProcess) {
  for (const auto& result :
       run_processes({.count = 2, .child = "computes_on_gpus", .env = on_gpus(), .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("computed"));
  }
}

/// Two processes with two devices each, whose collectives are the plugin's own between all four.
LOCKSTEP_CHILD(meets_between_gpus) {
  initialize();
  const Mesh mesh = make_mesh({{"i", 4}});
  const NamedSharding split(mesh, P("i")), whole(mesh, P());
  const Array given = waves({16, 3});
  const Array x = device_put(given, split);
  const auto on_parts = [&](const std::function<Array(Array)>& f) {
    return device_put(jit(shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P("i")}}))(x),
                      whole);
  };
  const Array parts = reshape(given, {4, 4, 3});
  expect_equal(device_put(x, whole), given);
  expect_equal(on_parts([](Array part) { return psum(part, "i"); }), tile(sum(parts, 0), {4, 1}));
  expect_equal(on_parts([](Array part) { return pmax(part, "i"); }), tile(max(parts, 0), {4, 1}));
  expect_equal(on_parts([](Array part) { return pmin(part, "i"); }), tile(min(parts, 0), {4, 1}));
  expect_equal(on_parts([](Array part) { return psum_scatter(part, "i", {.tiled = true}); }), sum(parts, 0));
  expect_equal(on_parts([](Array part) {
                 return ppermute(part, "i", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
               }),
               roll(given, 4, 0));
  expect_equal(on_parts([](Array part) { return all_to_all(part, "i", 0, 0); }),
               reshape(swapaxes(parts, 0, 1), {16, 3}));
  // Several runs of one call, in a loop and in launches that nobody waits for.
  expect_equal(on_parts([](Array part) {
                 return fori_loop(
                     0, 5, [](Array, Array total) { return pvary(psum(total, "i") / 2, "i"); }, part);
               }),
               tile(sum(parts, 0) * 8, {4, 1}), 1e-4);
  auto step = jit(shard_map([](Array part) { return pmean(part, "i") + part; },
                            {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P("i")}}));
  Array y = x, expected = parts;
  for (int i = 0; i < 20; ++i) {
    y = step(y);
    expected = mean(expected, 0) + expected;
  }
  expect_equal(device_put(y, whole), reshape(expected, {16, 3}), 1e-4);

  // A training step that is split over all devices gives the losses of one device.
  const Mesh square = make_mesh({{"data", 2}, {"model", 2}});
  auto adam = optim::adam(1e-2);
  const auto losses = [&](bool over_all) {
    const auto at = [&](const Array& array, const PartitionSpec& spec) {
      return over_all ? device_put(array, NamedSharding(square, spec)) : array;
    };
    Perceptron p{at(waves({16, 32}), P(nullptr, "model")), at(zeros({32}), P("model")),
                 at(waves({32, 1}, 3), P("model")), at(zeros({1}), P())};
    auto state = adam.init(p);
    auto train = jit([&](Perceptron p, decltype(state) state, Array x, Array y) {
      auto [value, grads] = value_and_grad(loss)(p, x, y);
      auto [updates, next] = adam.update(grads, state);
      return std::tuple(optim::apply_updates(p, updates), next, value);
    });
    const Array in = at(waves({64, 16}, 5), P("data")), out = at(waves({64, 1}, 7), P("data"));
    std::vector<float> values;
    for (int i = 0; i < 5; ++i) {
      Array value;
      std::tie(p, state, value) = train(p, state, in, out);
      values.push_back(value.item<float>());
    }
    return values;
  };
  const std::vector<float> all = losses(true), one = losses(false);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(all[i], one[i], 1e-5) << "step " << i;
  EXPECT_LT(all.back(), all.front());
  say("met");
  shutdown();
}

TEST(Cuda, CollectivesBetweenProcesses_AreThePluginsOwn) {
  testing::Variables env = on_gpus();
  const testing::TemporaryFolder folder;
  env["GPU_ON_CPU_FOLDER"] = folder.path();
  for (const auto& result :
       run_processes({.count = 2, .child = "meets_between_gpus", .env = env, .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("met"));
  }
}

/// Process 1 launches the sum and the maximum in the other order; "later": after both did so in one order.
LOCKSTEP_CHILD(launches_in_another_order) {
  initialize();
  const std::string when = testing::child_arguments().at(0);
  const Mesh mesh = make_mesh({{"i", 4}});
  const Array x = device_put(waves({8}), NamedSharding(mesh, P("i")));
  const auto over = [&](auto f) {
    return jit(shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = {P()}}));
  };
  const auto total = over([](Array part) { return psum(part, "i"); });
  const auto most = over([](Array part) { return pmax(part, "i"); });
  const auto both = [&](bool swapped) {
    if (swapped) most(x);
    total(x);
    if (!swapped) most(x);
  };
  const bool swapped = process_index() == 1;
  if (when == "at first") {
    say("told: " + test::error_of<DivergenceError>([&] { both(swapped); }));
    say("again: " + test::error_of<DivergenceError>([&] { total(x); }));
    std::_Exit(0);
  }
  both(false);
  both(swapped);
  if (when == "at exit") std::exit(0);
  say("told: " + test::error_of<DivergenceError>([] { shutdown(); }));
  std::_Exit(0);
}

TEST(Cuda, ProcessesThatLaunchInAnotherOrder_GetADivergenceError) {
  for (const char* when : {"at first", "later", "at exit"}) {
    SCOPED_TRACE(when);
    testing::Variables env = on_gpus();
    const testing::TemporaryFolder folder;
    env["GPU_ON_CPU_FOLDER"] = folder.path();
    const bool at_exit = std::string_view(when) == "at exit";
    for (const auto& result : run_processes({.count = 2,
                              .child = "launches_in_another_order",
                              .arguments = {when},
                              .env = env,
                              .coordinator = true})) {
      EXPECT_EQ(result.exit_code, at_exit ? 1 : 0) << result.log;
      EXPECT_THAT(result.log,
                  AllOf(HasSubstr("the processes launch different programs: launch "),
                        HasSubstr(" over the mesh differs: process 0 of 2 launched "),
                        HasSubstr(", but process 1 of 2 launched "), HasSubstr("psum"), HasSubstr("pmax")));
    }
  }
}

TEST(Cuda, WithoutARecorder_ADivergenceErrorCountsTheLaunches) {
  testing::Variables env = on_gpus();
  const testing::TemporaryFolder folder;
  env["GPU_ON_CPU_FOLDER"] = folder.path();
  env["LOCKSTEP_RECORDER"] = "0";
  for (const auto& result : run_processes({.count = 2,
                            .child = "launches_in_another_order",
                            .arguments = {"at first"},
                            .env = env,
                            .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_THAT(result.log, AllOf(HasSubstr("process 0 of 2 has made 1 launches over these devices; the last "
                                            "new program was jit@cuda_test.cc"),
                                  HasSubstr(", but process 1 of 2 has made 1 launches")));
  }
}

LOCKSTEP_CHILD(reads_what_failed) {
  initialize();
  Array x = array({1.f, 2.f});
  setenv("GPU_ON_CPU_RESULTS", "fail", 1);
  Array y = x + x;
  auto error = [](const std::function<void()>& read) { return test::error_of<PjrtError>(read); };
  EXPECT_THAT(error([&] { y.block_until_ready(); }), HasSubstr("the device gave up"));
  EXPECT_THAT(error([&] { y.to_host<float>(); }), HasSubstr("the device gave up"));
  EXPECT_THAT(error([&] { y.addressable_shards(); }), HasSubstr("the device gave up"));
  unsetenv("GPU_ON_CPU_RESULTS");
}

TEST(Cuda, AComputationThatFailsLater_ThrowsWhenItIsWaitedFor) {
  for (int processes : {1, 2}) {
    for (const auto& result : run_processes({.count = processes,
                              .child = "reads_what_failed",
                              .env = on_gpus(),
                              .coordinator = processes > 1}))
      EXPECT_EQ(result.exit_code, 0);
  }
}

/// Process 1 ends; process 0 waits for what its device cannot finish without it.
LOCKSTEP_CHILD(waits_in_vain) {
  initialize();
  Array x = array({1.f, 2.f});
  setenv("GPU_ON_CPU_RESULTS", "never", 1);
  Array y = x + x;
  say("launched");
  if (process_index() == 1) {
    while (!std::filesystem::exists("go")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::exit(3);
  }
  const std::string error = test::error_of<PeerFailure>([&] { y.block_until_ready(); });
  EXPECT_THAT(error, AllOf(HasSubstr("process 1"), HasSubstr("exit status 3")));
  EXPECT_EQ(testing::first_line(test::error_of<PeerFailure>([&] { y.to_host<float>(); })),
            testing::first_line(error));
  say("told");
  std::_Exit(0);
}

TEST(Cuda, WaitingForADeviceThatWaitsForADeadProcess_IsAPeerFailure) {
  testing::Processes processes({.count = 2, .child = "waits_in_vain", .env = on_gpus(), .coordinator = true});
  for (int i : {0, 1}) processes.wait_for_line(i, "launched");
  std::ofstream(processes.folder(1) / "go") << "go";
  const auto results = processes.wait();
  EXPECT_EQ(results[0].exit_code, 0);
  EXPECT_THAT(results[0].log, HasSubstr("told"));
}

void write(const std::string& name, const std::string& stablehlo) {
  EXPECT_THAT(stablehlo, Not(HasSubstr("custom_call")));
  std::ofstream(name + ".mlir") << stablehlo;
}

/// Lowers programs for eight devices with StableHLO's collectives, runs them on CPU, and writes their texts.
LOCKSTEP_CHILD(lowers_for_eight) {
  initialize();
  const Mesh mesh = make_mesh({{"data", 4}, {"model", 2}});
  const NamedSharding rows(mesh, P("data"));

  auto total = jit([&](Array x) {
    return shard_map(
        [](Array x) {
          return psum(x, {"data", "model"});
        },
        {.mesh = mesh, .in_specs = {P({"data", "model"})}, .out_specs = {P()}})(x);
  });
  Array numbers = device_put(arange(64, float32), NamedSharding(mesh, P({"data", "model"})));
  write("psum", total.lower(numbers).stablehlo);
  EXPECT_EQ(total(numbers).to_host<float>()[0], 0 + 8 + 16 + 24 + 32 + 40 + 48 + 56);

  auto product = jit([](Array a, Array b) { return matmul(a, b); });
  Array a = device_put(waves({32, 16}), NamedSharding(mesh, P("data", "model"))),
        b = device_put(waves({16, 24}, 2), NamedSharding(mesh, P("model")));
  write("dot", product.lower(a, b).stablehlo);
  expect_equal(product(a, b), matmul(waves({32, 16}), waves({16, 24}, 2)));

  auto adam = optim::adam(1e-2);
  const NamedSharding columns(mesh, P(nullptr, "model")), split(mesh, P("model")), whole(mesh, P());
  Perceptron p{device_put(waves({16, 32}), columns), device_put(zeros({32}), split),
               device_put(waves({32, 1}, 3), split), device_put(zeros({1}), whole)};
  auto state = adam.init(p);
  auto step = jit(
      [&](Perceptron p, decltype(state) state, Array x, Array y) {
        auto [value, grads] = value_and_grad(loss)(p, x, y);
        auto [updates, next] = adam.update(grads, state);
        return std::tuple(optim::apply_updates(p, updates), next, value);
      },
      {.donate_argnums = {0, 1}});
  Array x = device_put(waves({64, 16}, 5), rows), y = device_put(waves({64, 1}, 7), rows), first, last;
  write("train", step.lower(p, state, x, y).stablehlo);
  std::tie(p, state, first) = step(p, state, x, y);
  for (int i = 0; i < 10; ++i) std::tie(p, state, last) = step(p, state, x, y);
  EXPECT_LT(last.item<float>(), first.item<float>());
}

TEST(Cuda, ProgramsWithStableHloCollectives_RunAndCompileForH100s) {
  testing::Processes lowering(
      {.count = 1,
       .child = "lowers_for_eight",
       .env = {{"LOCKSTEP_NATIVE_COLLECTIVES", "1"}, {"LOCKSTEP_NUM_CPU_DEVICES", "8"}}});
  EXPECT_EQ(lowering.wait()[0].exit_code, 0);
  if (const std::string reason = pjrt::no_cuda_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  const auto topology = pjrt::h100s(2, 4);
  for (const std::string name : {"psum", "dot", "train"}) {
    SCOPED_TRACE(name);
    std::ifstream file(lowering.folder(0) / (name + ".mlir"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(text, HasSubstr("stablehlo.all_reduce"));
    EXPECT_NO_THROW(topology->compile(text, pjrt::on_all(*topology)));
  }
}

}  // namespace
}  // namespace lockstep
