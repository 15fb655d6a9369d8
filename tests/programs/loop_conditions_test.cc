// SPDX-License-Identifier: Apache-2.0
// Loops whose condition, predicate or index reads what the devices have only parts of.

#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::expect_equal;
using test::line_mesh;
using test::number;
using test::square_mesh;
using ::testing::ElementsAre;

/// 32 multiples of 1/32: every order of adding them gives the same sum, 15.5.
Array table() { return reshape(arange(32.) / 32., {8, 4}); }

/// Expects of the function, jitted, what it gives on one device, however the table is split.
template <class F>
void expect_same_over_devices(F f) {
  const Array expected = f(table());
  for (const PartitionSpec& spec : {P("x"), P(none, "x"), P("x", "y"), P("y", "x"), P({"x", "y"})}) {
    const Mesh mesh = spec == P("x") || spec == P(none, "x") ? line_mesh() : square_mesh();
    SCOPED_TRACE(to_string(spec));
    expect_equal(jit(f)(device_put(table(), NamedSharding(mesh, spec))), expected);
  }
}

TEST(LoopConditions, ThatReadASumOfTheBody_SeeTheSumOverAllDevices) {
  auto below = [](Array s) -> Array { return max(s) < 60.; };
  expect_same_over_devices([&](Array x) -> Array {
    return while_loop(
        below, [&](Array s) -> Array { return s + sum(x); }, number(0.F));
  });
  expect_same_over_devices([&](Array x) -> Array {
    return while_loop(
        below, [&](Array s) -> Array { return sum(x) + (s + sum(x)); }, number(3.F));
  });
  expect_same_over_devices([&](Array x) -> Array {
    return while_loop(
        below, [&](Array s) -> Array { return s + sum(x, 0); }, zeros({4}));
  });
  expect_same_over_devices([&](Array x) -> Array {
    return while_loop(
        below, [&](Array s) -> Array { return s + matmul(transpose(x), x); }, zeros({4, 4}));
  });
}

TEST(LoopConditions, ThatReadOneOfTwoSums_SeeTheSumOverAllDevices) {
  struct State {
    Array read, other;
  };
  expect_same_over_devices([](Array x) -> Array {
    const State end = while_loop([](const State& s) -> Array { return s.read < 60.; },
                                 [&](const State& s) {
                                   return State{s.read + sum(x), s.other + sum(x * x)};
                                 },
                                 State{number(0.F), number(1.F)});
    return end.read * 1000 + end.other;
  });
  // With a collective in the body: the devices leave the loop together.
  expect_same_over_devices([](Array x) -> Array {
    return while_loop([](const State& s) -> Array { return s.read < 60.; },
                      [&](const State& s) {
                        return State{s.read + sum(x * x), max(x + s.other * 0.5)};
                      },
                      State{number(0.F), number(1.F)})
        .read;
  });
}

TEST(LoopConditions, OfNestedLoops_SeeTheSumOverAllDevices) {
  auto inner = [](Array x, Array s) -> Array {
    return fori_loop(
        0, 2, [&](Array, Array s) -> Array { return s + sum(x); }, s);
  };
  expect_same_over_devices([&](Array x) -> Array {
    return while_loop([](Array s) -> Array { return s < 60.; }, [&](Array s) -> Array { return inner(x, s); },
                      number(0.F));
  });
  expect_same_over_devices([&](Array x) -> Array {
    return fori_loop(
        0, 3,
        [&](Array i, Array s) -> Array {
          return while_loop([i](Array s) -> Array { return s < 60. * (i + 1); },
                            [&](Array s) -> Array { return s + sum(x); }, s);
        },
        number(0.F));
  });
}

TEST(LoopConditions, UnderDerivativesAndVmap_SeeTheSumOverAllDevices) {
  auto f = [](Array scale, Array x) -> Array {
    return while_loop([](Array s) -> Array { return s < 60.; },
                      [&](Array s) -> Array { return s + scale * sum(x); }, number(0.F));
  };
  expect_same_over_devices([&](Array x) -> Array {
    return jvp([&](Array scale) { return f(scale, x); }, std::tuple(number(1.F)), std::tuple(number(1.F)))
        .second;
  });
  expect_same_over_devices([&](Array x) -> Array {
    return vmap([&](Array scale) { return f(scale, x); })(array(std::vector<float>{1, 2, 5}));
  });
}

TEST(LoopConditions, ThatReadACounter_LeaveOneAllReduceAfterTheLoop) {
  struct State {
    Array step, total;
  };
  auto f = [](Array x) -> Array {
    return while_loop([](const State& s) -> Array { return s.step < 5; },
                      [&](const State& s) {
                        return State{s.step + 1, s.total + sum(x, 0)};
                      },
                      State{number(0), zeros({4})})
        .total;
  };
  auto jitted = jit(f);
  const Array split = device_put(table(), NamedSharding(line_mesh(), P("x")));
  expect_equal(jitted(split), f(table()));
  EXPECT_THAT(exchanges(jitted, split), ElementsAre("1 x all-reduce of 16 B"));
}

}  // namespace
}  // namespace lockstep
