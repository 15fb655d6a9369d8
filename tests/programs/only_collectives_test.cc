// SPDX-License-Identifier: Apache-2.0
// Programs that only do collectives run without being compiled: the same elements as those that are.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using test::line_mesh;
using test::waves;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Array bits(const Array& x) {
  return info(x.dtype()).kind == DTypeKind::kComplex ? real(x) : astype(x, float64);
}

/// `body` alone, and with a computation beside it, which XLA compiles.
template <class Body>
void expect_same(const Body& body, const Array& x, const PartitionSpec& out) {
  const auto alone = jit(shard_map(body, {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {out}}));
  const auto compiled = jit(shard_map(
      [&](Array part) { return std::pair(body(part), sum(astype(part, float32), {.keepdims = true})); },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {out, P("x")}}));
  const Array expected = compiled(x).first;
  for (int round = 0; round < 3; ++round) {
    const Array got = alone(x);
    EXPECT_EQ(got.dtype(), expected.dtype());
    EXPECT_EQ(got.sharding().to_string(), expected.sharding().to_string());
    test::expect_equal(bits(got), bits(expected), 0);
  }
}

TEST(OnlyCollectives, EveryKindAndDType_GivesTheSameAsCompiled) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI8, DType::kU32,
                            DType::kI64, DType::kC64, DType::kF8E5M2}) {
    SCOPED_TRACE(info(dtype).name);
    const Array x = astype(waves({16, 12}) * 9, dtype);
    const bool is_real = info(dtype).kind != DTypeKind::kComplex;
    expect_same([](Array a) { return all_gather(a, "x", {.tiled = true}); }, x, P("x"));
    expect_same([](Array a) { return all_gather(a, "x", {.axis = 1, .tiled = true}); }, x, P("x"));
    expect_same([](Array a) { return all_to_all(a, "x", 0, 0); }, x, P("x"));
    expect_same([](Array a) { return all_to_all(a, "x", 1, 0); }, x, P("x"));
    expect_same([](Array a) { return ppermute(a, "x", {{0, 1}, {1, 3}}); }, x, P("x"));
    if (dtype == DType::kF8E5M2) continue;
    expect_same([](Array a) { return psum(a, "x"); }, x, P());
    expect_same([](Array a) { return psum_scatter(a, "x", {.tiled = true}); }, x, P("x"));
    if (is_real) expect_same([](Array a) { return pmax(a, "x"); }, x, P());
    // A collective of another one's result, which is not an output itself.
    expect_same([](Array a) { return all_gather(psum(a, "x"), "x", {.tiled = true}); }, x, P("x"));
  }
}

TEST(OnlyCollectives, SeveralInputsWithReshapes_GiveTheRightElements) {
  const auto f = jit(shard_map(
      [](Array a, Array b) {
        return std::tuple(psum(reshape(b, {2, 6}), "x"), psum(a, "x"),
                          reshape(all_gather(b, "x", {.tiled = true}), {3, 16}));
      },
      {.mesh = line_mesh(), .in_specs = {P("x"), P("x")}, .out_specs = {P(), P(), P("x")}}));
  const Array a = waves({8}), b = waves({16, 3}, 3);
  const auto [b_sum, a_sum, all] = f(a, b);
  test::expect_equal(b_sum, reshape(sum(reshape(b, {4, 4, 3}), {0}), {2, 6}));
  test::expect_equal(a_sum, sum(reshape(a, {4, 2}), {0}));
  test::expect_equal(slice(all, {0, 0}, {3, 16}), reshape(b, {3, 16}));
}

/// An operand is not written: not if it is also a result, given twice, or a view.
TEST(OnlyCollectives, LeaveTheirOperandsUnchanged) {
  const auto f = jit(shard_map([](Array a) { return std::pair(a, psum(a, "x")); },
                               {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x"), P()}}));
  const auto twice = jit(shard_map(
      [](Array a) {
        const Array s = psum(a, "x");
        return std::pair(s, s);
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P(), P()}}));
  const Array x = waves({8, 2}), before = x * 1;
  test::expect_equal(f(x).first, before, 0);
  const auto [first, second] = twice(x);
  test::expect_equal(first, second, 0);
  test::expect_equal(x, before, 0);
}

TEST(OnlyCollectives, DonatedArguments_AreDeleted) {
  const auto f = jit(shard_map([](Array a) { return psum(a, "x"); },
                               {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}}),
                     {.donate_argnums = {0}});
  Array x = device_put(waves({8, 2}), NamedSharding(line_mesh(), P("x")));
  const Array expected = sum(reshape(x, {4, 2, 2}), {0});
  test::expect_equal(f(x), expected);
  EXPECT_TRUE(x.is_deleted());
}

TEST(OnlyCollectives, CanBeSavedAndLoaded) {
  const auto f = jit(shard_map([](Array a) { return psum(a, "x"); },
                               {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}}));
  const Array x = device_put(waves({8, 2}), NamedSharding(line_mesh(), P("x")));
  const Array expected = f(x);
  const auto lowered = f.lower(x);
  const auto compiled = lowered.compile();
  test::expect_equal(compiled(x), expected, 0);
  EXPECT_EQ(compiled.cost().argument_bytes, 16);
  EXPECT_EQ(compiled.cost().output_bytes, 16);
  EXPECT_EQ(compiled.cost().temporary_bytes, 0);
  test::expect_equal(load_executable<Array>(compiled.serialize())(x), expected, 0);
  test::expect_equal(f(x), expected, 0);
}

LOCKSTEP_CHILD(only_sums) {
  initialize();
  const auto f =
      pmap([](Array a, Array b) { return std::pair(psum(a, "i"), psum(b, "i")); }, {.axis_name = "i"});
  f(ones({4, 3}), ones({4, 5}));
}

TEST(OnlyCollectives, AreNotCompiled) {
  EXPECT_THAT(
      testing::run_processes({.child = "only_sums",
                              .env = {{"LOCKSTEP_LOG_COMPILES", "1"}, {"LOCKSTEP_NUM_CPU_DEVICES", "4"}}})[0]
          .log,
      ContainsRegex("\\[pmap\\] [^\n]*lowered in [0-9.]+ s, not compiled, because it only does "
                    "collectives; on each device 32 B of arguments, 32 B of results"));
}

/// An option is for the compiler, which alone knows it.
TEST(OnlyCollectives, WithCompilerOptions_AreCompiled) {
  const auto f = jit(shard_map([](Array a) { return psum(a, "x"); },
                               {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}}),
                     {.compiler_options = {{"xla_no_such_option", true}}});
  EXPECT_THROW(f(waves({8, 2})), PjrtError);
}

}  // namespace
}  // namespace lockstep
