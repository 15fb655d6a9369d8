// SPDX-License-Identifier: Apache-2.0
// Programs for described devices, as a user writes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lockstep/lockstep.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "tests/plan/plans.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_processes;
using testing::say;

/// Hidden layers that are split over "tensor", on rows that are split over "data".
struct Layer {
  Array in, out;
};

Array loss(const Layer& layer, const Array& x) {
  return mean(square(matmul(maximum(matmul(x, layer.in), 0), layer.out)));
}

/// A step of training on the 16 devices of any topology.
LOCKSTEP_CHILD(trains_described) {
  initialize();
  ASSERT_EQ(device_count(), 16);
  EXPECT_EQ(process_index(), 0);
  EXPECT_EQ(process_count(), 4);
  EXPECT_EQ(local_device_count(), 4);
  const Mesh mesh = make_mesh({{"data", 4}, {"tensor", 4}});
  const NamedSharding rows(mesh, P("data"));
  const Layer layer{device_put(zeros({64, 256}), NamedSharding(mesh, P(nullptr, "tensor"))),
                    device_put(zeros({256, 64}), NamedSharding(mesh, P("tensor")))};
  auto step = jit(
      [](Layer layer, Array x) {
        auto [value, grads] = value_and_grad(loss)(layer, x);
        return std::tuple(Layer{layer.in - 0.1 * grads.in, layer.out - 0.1 * grads.out}, value);
      },
      {.donate_argnums = {0}});

  // Each process gives its own part of the batch, as where there are devices.
  // The four chips of a host are a square, and so in two rows of the mesh; a host's CPUs are in one.
  const std::int64_t parts = devices()[0].platform() == "cpu" ? 1 : 2;
  const std::vector<float> mine(static_cast<std::size_t>(parts) * 32 * 64);
  const Array x = make_array_from_process_local_data(rows, HostMemory(mine, {parts * 32, 64}));
  EXPECT_EQ(x.shape(), (Shape{128, 64}));
  auto [next, value] = step(layer, x);
  EXPECT_EQ(next.in.shape(), (Shape{64, 256}));
  EXPECT_EQ(next.in.sharding(), NamedSharding(mesh, P(nullptr, "tensor")));
  EXPECT_EQ(value.shape(), Shape());
  EXPECT_TRUE(layer.in.is_deleted()) << "it was donated";
  EXPECT_THAT(error_of<Error>([&] { step(layer, x); }), HasSubstr("donated"));
  value.block_until_ready();
  multihost::sync_global_devices("the same line");
  std::tie(next, value) = step(next, x);

  const auto computations = runtime::Runtime::get().plan().computations();
  ASSERT_EQ(computations.size(), 1u);
  EXPECT_EQ(computations[0]->calls, 2);
  EXPECT_EQ(computations[0]->num_devices, 16);
  EXPECT_EQ(computations[0]->does_not_fit, "");
  const auto& memory = computations[0]->memory;
  // A quarter of each weight, a quarter of the rows, and on CPU its place in the mesh; a TPU's tiles are
  // larger.
  const std::int64_t bytes = (64 * 64 + 64 * 64 + 32 * 64) * 4 + 4;
  if (devices()[0].platform() == "cpu")
    EXPECT_EQ(memory.arguments, bytes);
  else
    EXPECT_GE(memory.arguments, bytes);
  EXPECT_GE(memory.outputs, 2 * 64 * 64 * 4);
  EXPECT_GE(memory.aliased, 2 * 64 * 64 * 4);
  EXPECT_GE(computations[0]->peak_bytes(), memory.arguments);
  // Forwards and backwards of two products: 6 of m k n each, but for the first's operand's.
  EXPECT_NEAR(computations[0]->counted_flops, 2. * 5 * 32 * 64 * 64, 2e5);
  EXPECT_GT(runtime::Runtime::get().plan().operations(), 0);

  const std::string words = error_of<DescribedError>([&] { value.item<float>(); });
  EXPECT_THAT(words, AllOf(HasSubstr("plan_test.cc:"), HasSubstr("only described"), HasSubstr("f32[]")));
  error_of<DescribedError>([&] { next.in.addressable_shards(); });
  error_of<DescribedError>([&] { multihost::process_allgather(value); });
  say("planned");
}

/// Bytes by kind and axes.
std::map<std::string, std::int64_t> sent(const nlohmann::json& plan) {
  std::map<std::string, std::int64_t> sums;
  for (const auto& each : plan["computations"].at(0)["collectives"])
    sums[each["kind"].get<std::string>() + " over " + each["axes"].dump()] +=
        each["bytes"].get<std::int64_t>() * each["times"].get<std::int64_t>();
  return sums;
}

nlohmann::json train(const std::string& topology) {
  testing::Processes processes(
      {.count = 1,
       .child = "trains_described",
       .env = {{"LOCKSTEP_TOPOLOGY", topology}, {"LOCKSTEP_PLAN_FILE", "plan.json"}}});
  const auto result = processes.wait()[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("planned"));
  return test::plan_in(processes.folder(0));
}

TEST(Plan, ForCpus_HasTheCompiledStep_UntilAnElementIsRead) {
  const nlohmann::json plan = train("cpu:4x4");
  EXPECT_EQ(plan["devices"], 16);
  EXPECT_EQ(plan["hosts"], 4);
  EXPECT_THAT(plan["ended_at"].get<std::string>(), HasSubstr("plan_test.cc:"));
  ASSERT_EQ(plan["computations"].size(), 1u);
  const auto& collectives = plan["computations"][0]["collectives"];
  ASSERT_FALSE(collectives.empty());
  for (const auto& each : collectives) {
    // The last axis lies within a host of four.
    EXPECT_EQ(each["crosses_hosts"], each["axes"] != nlohmann::json{"tensor"}) << each;
    EXPECT_EQ(each["crosses_slices"], false);
  }
}

TEST(Plan, ForTpus_HasTheCollectivesOfAsManyCpus) {
  if (const std::string reason = test::no_tpu_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  const nlohmann::json tpus = train("v5e:4x4"), cpus = train("cpu:4x4");
  EXPECT_EQ(tpus["device_kind"], "TPU v5 lite");
  ASSERT_EQ(tpus["computations"].size(), 1u);
  EXPECT_EQ(sent(tpus), sent(cpus));
  const auto& cost = tpus["computations"][0]["cost"];
  EXPECT_GT(cost.at("optimal_seconds"), 0);
  EXPECT_GT(cost.at("flops"), 0);
  EXPECT_GT(cost.at("bytes accessed"), 0);
}

TEST(ShapeOf, CanBeLoweredAndCompiled_ButNotRun) {
  const Mesh mesh(local_devices(), {1}, {"data"});
  const Array x = shape_of({1 << 20, 1 << 20}, float32, NamedSharding(mesh, P("data")));
  EXPECT_EQ(x.shape(), (Shape{1 << 20, 1 << 20}));
  EXPECT_FALSE(x.is_deleted());
  auto mean_of = jit([](Array x) { return mean(x, 0); });
  const auto lowered = mean_of.lower(x);
  EXPECT_EQ(lowered.compile().cost().argument_bytes, std::int64_t{4} << 40) << "more than there is";
  EXPECT_THAT(error_of<DescribedError>([&] { mean_of(x); }), HasSubstr("f32[1048576,1048576]"));
  error_of<DescribedError>([&] { x + 1; });
  error_of<DescribedError>([&] { device_put(x, NamedSharding(mesh, P())).addressable_shards(); });

  const Array small = array({1.f, 2.f});
  EXPECT_EQ(shape_of(small).shape(), Shape{2});
  error_of<DescribedError>([&] { shape_of(small).to_host<float>(); });
  const Layer layer{zeros({4, 8}), zeros({8, 4})};
  const auto [value, grads] = jit([](Layer layer, Array x) {
                                return value_and_grad(loss)(layer, x);
                              }).eval_shape(layer, shape_of(zeros({16, 4})));
  EXPECT_EQ(value.shape(), Shape());
  EXPECT_EQ(grads.out.shape(), (Shape{8, 4}));
  error_of<DescribedError>([&] { value.item<float>(); });
}

TEST(Plan, AnUnknownTopology_ListsTheKnownOnes) {
  const auto refuse = [](const std::string& topology) {
    return run_processes({.child = "cannot_describe", .env = {{"LOCKSTEP_TOPOLOGY", topology}}})[0].log;
  };
  EXPECT_THAT(refuse("v9z:4x4"), AllOf(HasSubstr("'v9z:4x4' is not known"), HasSubstr("v5p:2x2x4"),
                                       HasSubstr("h100:16x8"), HasSubstr("cpu:64x4")));
  EXPECT_THAT(refuse("cpu:4"), HasSubstr("expected cpu:HOSTSxDEVICES"));
  EXPECT_THAT(refuse("cpu:0x4"), HasSubstr("expected cpu:HOSTSxDEVICES"));
  if (test::no_tpu_compiler().empty()) {
    EXPECT_THAT(refuse("v5e:3x5"), AllOf(HasSubstr("'v5e:3x5' is unknown to libtpu"),
                                         HasSubstr("it knows v2:4x4"), HasSubstr("v6e:4x4")));
  }
}

LOCKSTEP_CHILD(cannot_describe) {
  say(error_of<InitializationError>([] { initialize(); }));
}

/// Two computations, of which the second needs more than a device has: 2 arguments of 16 GiB.
LOCKSTEP_CHILD(is_too_large) {
  initialize();
  auto small = jit([](Array x) { return x + 1; });
  small(device_put(zeros({8}), SingleDeviceSharding(local_devices()[0])));
  const NamedSharding whole(make_mesh({{"all", device_count()}}), P());
  const Array x = device_put(zeros({65536, 65536}), whole);
  jit([](Array x) { return matmul(x, x); })(x);
  say("went on");
}

TEST(Plan, AProgramThatDoesNotFit_NamesTheExcessAndTheLargeArrays) {
  if (const std::string reason = test::no_tpu_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::string> words = {"plan", "--topology", "v5e:2x2", "--"};
  for (const std::string& word : testing::command_of_child("is_too_large")) words.push_back(word);
  const auto result = run_processes({.program = LOCKSTEP_TOOL, .arguments = words})[0];
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("went on"), HasSubstr("does not fit: "), HasSubstr("16.0 GiB"),
                    HasSubstr("f32[65536,65536]"), HasSubstr("dot_general"), HasSubstr("plan_test.cc:")));
}

}  // namespace
}  // namespace lockstep
