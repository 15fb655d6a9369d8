// SPDX-License-Identifier: Apache-2.0
// Tests that an option of a jitted function or a constraint acts wherever the call stands.

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/static.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Function = std::function<Array(const Array&)>;

/// A place that a call of `g`, which keeps shapes, may stand in: a function of the same argument.
struct Context {
  std::string name;
  std::function<Array(const Function& g, const Array& x)> call;
  std::string prefix = "";  ///< of the shape that g's operations have there, before that of the argument
};

Array times(const Function& g, const Array& x, int n) {
  Array y = x;
  for (int i = 0; i < n; ++i) y = g(y);
  return y;
}

std::vector<Context> contexts() {
  return {
      {"jit", [](const Function& g, const Array& x) { return g(x); }},
      {"jit in jit", [](const Function& g, const Array& x) { return jit([&](Array x) { return g(x); })(x); }},
      {"scan",
       [](const Function& g, const Array& x) {
         return scan([&](Array x, std::tuple<>) { return std::pair(g(x), std::tuple<>()); }, x,
                     std::tuple<>(), {.length = 2})
             .first;
       }},
      {"fori_loop",
       [](const Function& g, const Array& x) {
         return fori_loop(
             0, 2, [&](Array, Array x) { return g(x); }, x);
       }},
      {"while_loop",
       [](const Function& g, const Array& x) {
         return while_loop([](std::pair<Array, Array> s) { return s.first < 2; },
                           [&](std::pair<Array, Array> s) { return std::pair(s.first + 1, g(s.second)); },
                           std::pair(test::number(0), x))
             .second;
       }},
      {"cond",
       [](const Function& g, const Array& x) {
         return cond(
             sum(x) < 1e9, [&](Array x) { return g(x); }, [](Array x) { return x; }, x);
       }},
      {"remat", [](const Function& g, const Array& x) { return remat([&](Array x) { return g(x); })(x); }},
      {"custom_jvp",
       [](const Function& g, const Array& x) {
         return custom_jvp([&](Array x) { return g(x); },
                           [](std::tuple<Array> x, std::tuple<Array> t) {
                             return std::pair(std::get<0>(x), std::get<0>(t));
                           })(x);
       }},
      {"vmap",
       [](const Function& g, const Array& x) {
         return vmap([&](Array x) { return g(x); })(stack({x, x, x, x, x}, 0))[2];
       },
       "5,"},
      {"grad",
       [](const Function& g, const Array& x) {
         return value_and_grad([&](Array x) {
                  Array y = g(x);
                  return std::pair(sum(y * y), y);
                })(x)
             .first.second;
       }},
  };
}

/// How often the context calls g.
int calls(const Context& context) {
  return context.name == "scan" || context.name.find("loop") != std::string::npos ? 2 : 1;
}

/// The text of each device's program, after its values were compared with those of plain operations.
std::string partitioned(const Context& context, const Function& g, const Array& x) {
  auto f = jit([&](Array x) { return context.call(g, x); });
  expect_equal(f(x), times([](const Array& x) { return sin(x); }, x, calls(context)));
  return f.lower(x).partitioned;
}

class Options : public ::testing::Test {
 protected:
  /// In each context the sines are computed on parts of this shape.
  void expect_parts(const Function& g, const Shape& shape, const std::string& part) {
    const Array x = device_put(waves(shape), NamedSharding(line_mesh(), P()));
    for (const Context& context : contexts()) {
      SCOPED_TRACE(context.name);
      EXPECT_THAT(partitioned(context, g, x), HasSubstr("f32[" + context.prefix + part + "] = sin"));
    }
  }
  const NamedSharding rows_{line_mesh(), P("x")};
};

TEST_F(Options, InShardingsOfAnInnerCall_AreConstraintsInEveryContext) {
  const auto g = jit([](Array x) { return sin(x); }, {.in_shardings = {rows_}});
  expect_parts(g, {8, 3}, "2,3");
}

TEST_F(Options, OutShardingsOfAnInnerCall_AreConstraintsInEveryContext) {
  const auto g = jit([](Array x) { return sin(x); }, {.out_shardings = {rows_}});
  expect_parts(g, {8, 3}, "2,3");
}

TEST_F(Options, ShardingConstraints_HoldInEveryContext) {
  auto g = [this](const Array& x) { return sin(with_sharding_constraint(x, rows_)); };
  expect_parts(g, {8, 3}, "2,3");
}

TEST_F(Options, ShardingConstraintsThatDoNotDivide_HoldInEveryContext) {
  auto g = [this](const Array& x) { return sin(with_sharding_constraint(x, rows_)); };
  expect_parts(g, {6, 3}, "2,3");
}

TEST_F(Options, DonationOfAnInnerCall_IsIgnored) {
  const auto g = jit([](Array x) { return sin(x); }, {.donate_argnums = {0}});
  for (const Context& context : contexts()) {
    SCOPED_TRACE(context.name);
    const Array x = waves({8, 3});
    jit([&](Array x) { return context.call(g, x); })(x);
    expect_equal(x, waves({8, 3}));
  }
  const Array x = waves({8, 3});
  g(x);
  EXPECT_THAT(error_of<Error>([&] { x.to_host<float>(); }), HasSubstr("donated"));
}

TEST_F(Options, StaticArguments_AreConstantsInEveryContext) {
  const auto g =
      jit([](Array x, Static<int> n) { return times([](const Array& x) { return sin(x); }, x, *n); });
  for (const Context& context : contexts()) {
    SCOPED_TRACE(context.name);
    for (int n : {1, 3}) {
      const Array x = waves({8, 3});
      const Function g_n = [&](const Array& x) { return g(x, static_(n)); };
      expect_equal(jit([&](Array x) { return context.call(g_n, x); })(x),
                   times([](const Array& x) { return sin(x); }, x, n * calls(context)));
    }
  }
}

TEST_F(Options, UnderShardMapOverSomeAxes_ConstraintsUseTheOtherAxes) {
  const NamedSharding over_y(square_mesh(), P("y"));
  const auto inner = jit([](Array x) { return sin(x); }, {.in_shardings = {over_y}});
  const Function constrained = [&](const Array& x) { return sin(with_sharding_constraint(x, over_y)); };
  for (const Function& g : {Function(inner), constrained}) {
    auto f = jit(
        shard_map([&](Array x) { return g(x); },
                  {.mesh = square_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}, .axis_names = {"x"}}));
    const Array x = device_put(waves({8, 3}), NamedSharding(square_mesh(), P()));
    expect_equal(f(x), sin(x));
    EXPECT_THAT(f.lower(x).partitioned, HasSubstr("f32[2,3] = sin"));
  }
}

TEST_F(Options, ShardingsThatDoNotDivide_AreAnErrorInInnerCallsToo) {
  const auto in = jit([](Array x) { return sin(x); }, {.in_shardings = {rows_}});
  const auto out = jit([](Array x) { return sin(x); }, {.out_shardings = {rows_}});
  const Array x = waves({6, 3});
  for (const auto& g : {Function(in), Function(out)}) {
    EXPECT_THAT(error_of<ShardingError>([&] { g(x); }), HasSubstr("jit"));
    EXPECT_THAT(error_of<ShardingError>([&] { jit([&](Array x) { return g(x) + 1; })(x); }),
                AllOf(HasSubstr("jit"), HasSubstr("f32[6,3]")));
  }
}

TEST_F(Options, TooManyForTheArgumentsOrResults_AreAnError) {
  const Array x = waves({8, 3});
  auto sine = [](Array x) { return sin(x); };
  for (bool within : {false, true}) {
    auto call = [&](const auto& g) {
      return [&x, g, within] { within ? jit([&](Array x) { return g(x); })(x) : g(x); };
    };
    EXPECT_THAT(error_of<ShardingError>(call(jit(sine, {.in_shardings = {rows_, rows_}}))),
                AllOf(HasSubstr("in_shardings has 2 entries"), HasSubstr("1 arguments")));
    EXPECT_THAT(error_of<ShardingError>(call(jit(sine, {.out_shardings = {rows_, rows_}}))),
                AllOf(HasSubstr("out_shardings has 2 entries"), HasSubstr("1 results")));
    EXPECT_THAT(error_of<TraceError>(call(jit(sine, {.donate_argnums = {1}}))),
                HasSubstr("donate_argnums names argument 1"));
  }
}

}  // namespace
}  // namespace lockstep
