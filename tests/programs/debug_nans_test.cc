// SPDX-License-Identifier: Apache-2.0
// debug_nans and debug_infs: which operation, at which line, made the first NaN.

#include <fmt/format.h>

#include "lockstep/array/disable_jit.h"
#include "lockstep/base/error.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/debug.h"
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

using test::error_of;
using test::line_mesh;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_processes;

/// That the call fails, and says that `operation` at line `line` of this file made the first one.
void expect_made_by(const std::string& operation, int line, const std::function<void()>& call) {
  EXPECT_THAT(error_of<FloatingPointError>(call),
              HasSubstr(fmt::format("the first was made by {} at debug_nans_test.cc:{}, in its result",
                                    operation, line)));
}

LOCKSTEP_CHILD(makes_nans) {
  initialize();
  const Array x = array({1.f, 0.f, -1.f, 2.f}), good = array({1.f, 2.f, 3.f, 4.f});

  // A function of jit: not the last operation, and not the line of jit.
  auto f = jit(
      [](Array x) {
        Array y = log(x);
        return sum(y * 2);
      },
      {.name = "loss"});
  const int log_line = __LINE__ - 4;
  EXPECT_NEAR(f(good).item<float>(), 2 * std::log(24.f), 1e-5);
  expect_made_by("log", log_line, [&] { f(x); });
  EXPECT_THAT(error_of<FloatingPointError>([&] { f(x); }),
              AllOf(HasSubstr("[debug_nans] loss (at debug_nans_test.cc:"), HasSubstr("gives a NaN"),
                    HasSubstr("f32[4]"), Not(HasSubstr("within"))));
  f(array({0.f, 0.f, 1.f, 1.f}));  // infinities only

  // An operation outside of jit.
  expect_made_by("log", __LINE__, [&] { log(x); });
  expect_made_by("div", __LINE__, [&] { x / x; });

  // A NaN that was in an argument was not made by the function.
  const Array given = [&] {
    const float nan = std::nanf("");
    return array({nan, 1.f});
  }();
  EXPECT_THAT(
      error_of<FloatingPointError>([&] { jit([](Array a, Array b) { return a + b; })(ones({2}), given); }),
      HasSubstr("none of its operations made it; argument array 1, f32[2], came with it"));
  EXPECT_EQ(jit([](Array a) { return where(isnan(a), 0.f, a); })(given).to_host<float>(),
            (std::vector<float>{0, 1}));

  // Backwards: sqrt at zero, whose derivative is infinite, times zero.
  auto root = [](Array x) { return sum(sqrt(x * 0.f)); };
  EXPECT_THAT(error_of<FloatingPointError>([&] { jit(grad(root))(good); }),
              AllOf(HasSubstr("made by mul at debug_nans_test.cc:"), HasSubstr("gives a NaN")));

  // Loops and choices, in time: the second round makes it, though its operation stands first in the body.
  int inner = 0;
  auto rounds = jit([&](Array x) {
    return scan(
               [&](Array c, Array x) {
                 Array y = sqrt(c);
                 inner = __LINE__ - 1;
                 return std::pair(c - 2,
                                  cond(
                                      x > 0, [](Array y) { return y; }, [](Array y) { return log(-y); }, y));
               },
               Array(1.f), x)
        .second;
  });
  const std::string in_scan = error_of<FloatingPointError>([&] { rounds(good); });
  EXPECT_THAT(
      in_scan,
      AllOf(HasSubstr(fmt::format("made by sqrt at debug_nans_test.cc:{}, in its result f32[]", inner)),
            HasSubstr("within scan at debug_nans_test.cc:")));
  EXPECT_THAT(error_of<FloatingPointError>([&] { rounds(array({-1.f})); }),
              AllOf(HasSubstr("made by log"), HasSubstr("within cond at"), HasSubstr("within scan at")));
  using Pair = std::pair<Array, Array>;
  auto falling = jit([](Array x) {
    return while_loop([](const Pair& c) { return c.second < 4; },
                      [](const Pair& c) { return Pair(log(c.first), c.second + 1); }, Pair(x, 0));
  });
  EXPECT_THAT(error_of<FloatingPointError>([&] { falling(test::number(2.f)); }),
              AllOf(HasSubstr("made by log"), HasSubstr("within while at")));

  // Functions with a derivative of their own, vmap, remat, complex numbers, small floats.
  auto own = custom_jvp([](Array x) { return log(x); },
                        [](std::tuple<Array> x, std::tuple<Array> t) {
                          return std::pair(log(std::get<0>(x)), std::get<0>(t));
                        });
  EXPECT_THAT(error_of<FloatingPointError>([&] { jit(vmap(remat(own)))(x); }), HasSubstr("made by log"));
  EXPECT_THAT(
      error_of<FloatingPointError>([&] { jit([](Array x) { return astype(x, complex64) / 0.f; })(0 * x); }),
      HasSubstr("made by div"));
  EXPECT_THAT(error_of<FloatingPointError>([&] { jit([](Array x) { return log(astype(x, bfloat16)); })(x); }),
              HasSubstr("bf16[4]"));

  // Printed text is not printed twice.
  ::testing::internal::CaptureStdout();
  EXPECT_THROW(jit([](Array x) {
                 debug::print("once");
                 return log(x);
               })(x),
               FloatingPointError);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "once\n");

  // Donated memory is still there after the error.
  Array donated = x * 1;
  EXPECT_THROW(jit([](Array x) { return log(x); }, {.donate_argnums = {0}})(donated), FloatingPointError);
  EXPECT_FALSE(donated.is_deleted());
  jit([](Array x) { return x * 2; }, {.donate_argnums = {0}})(donated);
  EXPECT_TRUE(donated.is_deleted());

  // Over devices.
  const Array split = device_put(x, NamedSharding(line_mesh(), P("x")));
  expect_made_by("log", log_line, [&] { f(split); });
  auto parts = shard_map(
      [](Array x) {
        Array total = psum(sum(sqrt(x)), "x");
        return x * total;
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  expect_made_by("sqrt", __LINE__ - 4, [&] { parts(split); });
  expect_made_by("sqrt", __LINE__ - 5, [&] {
    jit([&](Array x) {
      return scan([&](Array c, Array) { return std::pair(parts(c), c); }, x, zeros({2})).first;
    })(split);
  });
  auto everywhere = pmap([](Array x) { return psum(sqrt(x), "i"); });
  expect_made_by("sqrt", __LINE__ - 1, [&] { everywhere(x); });
  EXPECT_EQ(everywhere(good * good).to_host<float>(), (std::vector<float>(4, 10)));

  // Without jit each operation is looked at.
  DisableJit here;
  expect_made_by("log", log_line, [&] { f(x); });
}

TEST(DebugNans, TheFirstNan_IsAnErrorThatNamesItsOperationAndLine) {
  EXPECT_EQ(run_processes({.child = "makes_nans",
                           .env = {{"LOCKSTEP_DEBUG_NANS", "1"}, {"LOCKSTEP_NUM_CPU_DEVICES", "4"}}})[0]
                .exit_code,
            0);
}

LOCKSTEP_CHILD(makes_infinities) {
  initialize({.debug_infs = true});
  const Array x = array({1.f, 0.f});
  EXPECT_THAT(error_of<FloatingPointError>([&] { jit([](Array x) { return 2 + 1 / x; })(x); }),
              AllOf(HasSubstr("[debug_infs]"), HasSubstr("gives an infinity"), HasSubstr("made by div")));
  EXPECT_TRUE(std::isnan((x / x).to_host<float>()[1])) << "NaNs are not looked for";
}

TEST(DebugInfs, AnInfinity_IsAnError_AndANanIsNot) {
  EXPECT_EQ(run_processes({.child = "makes_infinities"})[0].exit_code, 0);
}

/// The last process alone has the number of which it comes.
LOCKSTEP_CHILD(one_process_makes_a_nan) {
  initialize({.debug_nans = true});
  const Mesh mesh = make_mesh({{"x", device_count()}});
  const auto last = static_cast<float>(process_index() + 1 == process_count() ? -1 : 1);
  const Array x =
      make_array_from_process_local_data(NamedSharding(mesh, P("x")), std::vector<float>{1, last}, {2});
  auto step = jit([](Array x) {
    Array y = sqrt(x);
    return y * 3;
  });
  const std::string line = fmt::format("made by sqrt at debug_nans_test.cc:{}", __LINE__ - 3);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(error_of<FloatingPointError>([&] { step(x); }),
                AllOf(HasSubstr(line), HasSubstr(fmt::format("process {} of 2", process_index()))));
    EXPECT_THAT(error_of<FloatingPointError>([&] { sqrt(x); }), HasSubstr("made by sqrt"));
  }
  auto parts = pmap([](Array x) { return log(x); });
  EXPECT_THAT(error_of<FloatingPointError>([&] { parts(array({last})); }), HasSubstr("made by log"));
  // The job goes on: nobody waits for anybody.
  EXPECT_EQ(jit([](Array x) { return sum(x); })(x).item<float>(), 2);
  testing::say("and now");
  step(x);
}

TEST(DebugNans, OnSeveralProcesses_AllThrowTheSameError) {
  for (const auto& result : run_processes(test::job("one_process_makes_a_nan", 2, 1))) {
    EXPECT_EQ(result.exit_code, 2) << "it ends by the error that is not caught";
    EXPECT_THAT(result.log.substr(result.log.find("and now")), HasSubstr("the first was made by sqrt at"));
  }
}

}  // namespace
}  // namespace lockstep
