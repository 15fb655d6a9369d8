// SPDX-License-Identifier: Apache-2.0
// Functions of jit that run operation by operation.

#include "lockstep/array/disable_jit.h"

#include <fmt/format.h>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::HasSubstr;

/// The function's results, which must be the same with jit and without.
template <class F, class... Args>
auto both_ways(F&& function, const Args&... args) {
  auto jitted = jit(function);
  const auto expected = jitted(args...);
  DisableJit here;
  const auto found = jitted(args...);
  const std::vector<Array> a = tree::leaves(found), b = tree::leaves(expected);
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i]);
  return found;
}

TEST(DisableJit, AJittedFunction_IsCalledWithArraysInsteadOfTracers) {
  int calls = 0;
  std::vector<float> seen;
  auto f = jit(
      [&](Array x, Array scale) {
        ++calls;
        if (!x.is_tracer()) seen.push_back(sum(x).item<float>());
        return x * scale;
      },
      {.donate_argnums = {0}});
  const Array x = array({1.f, 2.f});
  {
    DisableJit here;
    for (int i = 0; i < 2; ++i) expect_equal(f(x, 3), array({3.f, 6.f}));
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(seen, (std::vector<float>{3, 3}));
    {
      DisableJit not_here(false);
      f(ones({2}), 3);
      f(ones({2}), 4);
    }
    EXPECT_EQ(calls, 3) << "traced once";
    EXPECT_FALSE(x.is_deleted()) << "nothing is donated";
    EXPECT_THAT(f.lower(x, 3).as_text(), HasSubstr("stablehlo.multiply"));
  }
  f(x, 3);
  EXPECT_TRUE(x.is_deleted());
}

TEST(DisableJit, LoopsAndBranches_RunAsPlainCpp) {
  std::vector<float> seen;
  auto look = [&](const Array& x) {
    if (!x.is_tracer()) seen.push_back(x.item<float>());
  };
  const Array xs = array({1.f, 2.f, 3.f});
  auto running = [&](Array xs) {
    return scan(
        [&](Array total, Array x) {
          look(x);
          return std::pair(total + x, std::pair(total * x, x));
        },
        Array(0.f), xs, {.reverse = true});
  };
  both_ways(running, xs);
  EXPECT_EQ(seen, (std::vector<float>{3, 2, 1}));
  seen.clear();
  auto doubling = [&](Array x) {
    return while_loop([](const Array& c) { return c < 10; },
                      [&](const Array& c) {
                        look(c);
                        return c * 2;
                      },
                      x);
  };
  both_ways(doubling, test::number(3.f));
  EXPECT_EQ(seen, (std::vector<float>{3, 6}));
  seen.clear();
  auto chosen = [&](Array x) {
    auto big = [&](Array x) {
      look(x);
      return x / 2;
    };
    const Array y = cond(
        x > 2, big, [](Array x) { return x * 2; }, x);
    return switch_(astype(y, int32), std::vector<std::function<Array(Array)>>(3, big), y);
  };
  both_ways(chosen, test::number(3.f));
  EXPECT_EQ(seen, (std::vector<float>{3, 1.5}));

  both_ways(
      [](Array x) {
        return fori_loop(
            1, 4, [](Array i, Array c) { return c * i; }, x);
      },
      xs);
  both_ways(
      [](Array x) {
        return fori_loop(
            Array(1), Array(4), [](Array i, Array c) { return c + i; }, x);
      },
      xs);
  both_ways([](Array x) { return map([](Array each) { return exp(each); }, x); }, xs);
  both_ways(
      [](Array x) {
        return scan([](Array c, Array x) { return std::pair(c, x * 2); }, x, zeros({0, 3}));
      },
      xs);
}

TEST(DisableJit, TransformedFunctions_AreComputedOperationByOperation) {
  auto layer = [](Array w, Array x) {
    auto step = [w](Array h, Array x) {
      Array next = cond(
          sum(h) > 0, [](Array a) { return tanh(a); }, [](Array a) { return sin(a); }, matmul(w, h) + x);
      return std::pair(next, sum(next));
    };
    auto [last, sums] = scan(step, zeros({3}), x);
    return sum(square(last)) + sum(sums);
  };
  const Array w = waves({3, 3}), x = waves({4, 3}, 2);
  both_ways(value_and_grad(layer), w, x);
  both_ways(value_and_grad(remat(layer)), w, x);
  both_ways(vmap([&](Array x) { return grad(layer)(w, x); }), waves({2, 4, 3}, 3));
  both_ways([&](Array w) { return jvp([&](Array w) { return layer(w, x); }, std::tuple(w), std::tuple(w)); },
            w);
  both_ways(
      [](Array x) {
        auto collatz = [](Array n) {
          return while_loop([](const std::pair<Array, Array>& c) { return c.first > 1.5f; },
                            [](const std::pair<Array, Array>& c) {
                              return std::pair(where(c.first < 8, c.first / 2, c.first - 3), c.second + 1);
                            },
                            std::pair(n, n * 0));
        };
        return vmap(collatz)(x);
      },
      array({3.f, 20.f, 1.f}));
  auto clipped = custom_jvp([](Array x) { return exp(x); },
                            [](std::tuple<Array> x, std::tuple<Array> t) {
                              const Array y = exp(std::get<0>(x));
                              return std::pair(y, minimum(y, 1.f) * std::get<0>(t));
                            });
  both_ways(grad([&](Array x) { return sum(clipped(x)); }), waves({4}));
  // Outside of jit, too.
  DisableJit here;
  expect_equal(grad([](Array x) { return sum(x * x); })(x), 2 * x);
}

TEST(DisableJit, OverDevices_PartsAndConstraintsEqualThoseWithJit) {
  const NamedSharding rows(line_mesh(), P("x")), columns(line_mesh(), P(nullptr, "x"));
  const Array x = device_put(waves({8, 4}), rows), w = device_put(waves({4, 4}, 5), columns);
  both_ways(
      [&](Array x, Array w) {
        Array h = with_sharding_constraint(tanh(matmul(x, w)), columns);
        return std::pair(h, mean(h, {0}));
      },
      x, w);
  // The function of a shard_map sees single devices: its operations are one program.
  auto normalized = shard_map(
      [](Array x) {
        const Array total = psum(sum(x * x), "x");
        return std::pair(x / sqrt(total), total);
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x"), P()}});
  both_ways(
      [&](Array x) {
        auto [y, total] = normalized(x * 2);
        auto [z, again] = normalized(y + 1);
        return std::tuple(z * total, again);
      },
      x);
  both_ways(value_and_grad([&](Array x) { return sum(exp(normalized(x).first)); }), x);
  auto everywhere = pmap([](Array x) { return psum(x, "i"); });
  const Array expected = everywhere(waves({4, 2}));
  DisableJit here;
  expect_equal(everywhere(waves({4, 2})), expected);
}

TEST(DisableJit, Errors_NameTheUsersLine) {
  DisableJit here;
  auto f = jit([](Array x) { return while_loop([](Array x) { return x; }, [](Array x) { return x; }, x); });
  EXPECT_THAT(
      test::error_of<TraceError>([&] { f(ones({2})); }),
      HasSubstr("[while_loop] expected a condition that is a bool scalar, got f32[2] (at disable_jit_test"));
}

LOCKSTEP_CHILD(trains_without_jit) {
  initialize();
  const NamedSharding rows(make_mesh({{"x", device_count()}}), P("x"));
  const Array x = device_put(waves({8, 4}), rows);
  Array w = waves({4}, 3);
  auto step = jit([](Array w, Array x) {
    auto loss = [&](Array w) {
      return mean(square(scan([](Array c, Array r) { return std::pair(c * 0.5f + r, c); }, w, x).first));
    };
    auto [value, gradient] = value_and_grad(loss)(w);
    return std::pair(value, w - 0.1f * gradient);
  });
  for (int i = 0; i < 2; ++i) {
    auto [value, next] = step(w, x);
    testing::say(fmt::format("loss {:.5f}", value.item<float>()));
    w = next;
  }
}

TEST(DisableJit, OnSeveralProcesses_GivesTheSameLosses) {
  std::string expected;
  for (const char* disabled : {"0", "1"}) {
    auto options = test::job("trains_without_jit", 2, 2);
    options.env["LOCKSTEP_DISABLE_JIT"] = disabled;
    options.env["LOCKSTEP_LOG"] = "warning";
    for (const auto& result : testing::run_processes(options)) {
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_THAT(result.log, HasSubstr("loss "));
      if (expected.empty()) expected = result.log;
      EXPECT_EQ(result.log, expected);
    }
  }
}

}  // namespace
}  // namespace lockstep
