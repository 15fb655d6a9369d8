// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/debug.h"

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::line_mesh;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

std::vector<std::string> lines_of(const std::function<void()>& action) {
  CaptureStdout();
  action();
  std::vector<std::string> lines;
  const std::string text = GetCapturedStdout();
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(DebugPrint, WritesLinesInProgramOrder_AlsoInLoops) {
  auto f = jit([](Array x) {
    debug::print("start {}", x);
    Array last = fori_loop(
        0, 2,
        [](Array i, Array c) {
          debug::print("step {}: {}", i, c);
          return c * 2;
        },
        x);
    debug::print("{{end}} {} {}", sum(last), array({1, 2}) + 0 * astype(sum(x), int32));
    return last;
  });
  EXPECT_EQ(lines_of([&] {
              f(array({1.f, 0.25f}));
            }),
            (Lines{"start [1. 0.25]", "step 0: [1. 0.25]", "step 1: [2. 0.5]", "{end} 5.0 [1 2]"}));
  EXPECT_EQ(lines_of([] {
              debug::print("outside {} {}", ones({2, 2}), 3);
            }),
            (Lines{"outside [[1. 1.] [1. 1.]] 3"}));
}

TEST(DebugPrint, UnderTransformations_PrintsTheValuesComputed) {
  auto f = [](Array x) {
    debug::print("x {}", x);
    return x * x;
  };
  EXPECT_EQ(lines_of([&] { grad(f)(Array(3.f)); }), (Lines{"x 3.0"}));
  EXPECT_EQ(lines_of([&] { vmap(f)(array({1.f, 2.f})); }), (Lines{"x 1.0", "x 2.0"}));
  EXPECT_EQ(lines_of([&] {
              jit([](Array x) {
                return cond(
                    x > 0.f,
                    [](Array x) {
                      debug::print("positive");
                      return x;
                    },
                    [](Array x) {
                      debug::print("negative");
                      return x;
                    },
                    x);
              })(Array(-1.f));
            }),
            (Lines{"negative"}));
}

TEST(DebugPrint, ASplitArray_IsPrintedOnce_AndUnderShardMapByEachDevice) {
  const Array x = device_put(array({1.f, 2.f, 3.f, 4.f}), NamedSharding(line_mesh(), P("x")));
  EXPECT_EQ(lines_of([&] {
              jit([](Array x) {
                debug::print("{}", x);
                return x + 1;
              })(x);
            }),
            (Lines{"[1. 2. 3. 4.]"}));
  EXPECT_THAT(lines_of([&] {
                shard_map(
                    [](Array x) {
                      debug::print("{}", x);
                      return x;
                    },
                    {line_mesh(), {P("x")}, {P("x")}})(x);
              }),
              UnorderedElementsAre("[1.]", "[2.]", "[3.]", "[4.]"));
}

TEST(DebugPrint, ManyElements_AreAbbreviated) {
  EXPECT_EQ(lines_of([] { debug::print("{}", arange(2000)); }), (Lines{"[0 1 2 ... 1997 1998 1999]"}));
}

TEST(DebugPrint, AFormatThatDoesNotFit_IsAnError) {
  EXPECT_THAT(
      error_of<ShapeError>([] { debug::print("{} {}", ones({})); }),
      AllOf(HasSubstr("the format \"{} {}\" has 2 places {} for 1 arrays"), HasSubstr("debug_test.cc:")));
  EXPECT_THAT(error_of<ShapeError>([] { debug::print("{:d}", ones({})); }),
              HasSubstr("expected a format with {} for each array, got \"{:d}\""));
}

TEST(CheckFinite, NansAndInfinities_AreCountedInAnError) {
  auto f = jit([](Array x) {
    debug::check_finite(log(x), "the logarithm");
    return x;
  });
  test::expect_equal(f(array({1.f, 2.f})), array({1.f, 2.f}));
  EXPECT_THAT(error_of<Error>([&] {
                f(array({1.f, -1.f, 0.f, 2.f}));
              }),
              AllOf(HasSubstr("[check_finite] the logarithm (f32[4]) has 1 NaN and 1 infinite values among "
                              "its 4 elements, the first at [1] (in process 0 of 1; at debug_test.cc:")));
  test::expect_equal(f(array({1.f, 2.f})), array({1.f, 2.f}));
  const Array split = device_put(array({1.f, 2.f, 3.f, -4.f}), NamedSharding(line_mesh(), P("x")));
  EXPECT_THAT(error_of<Error>([&] { f(split); }), HasSubstr("(f32[4]) has 1 NaN and 0 infinite"));
  EXPECT_THAT(error_of<Error>([&] {
                jit([](Array x) {
                  return fori_loop(
                      0, 3,
                      [](Array, Array x) {
                        debug::check_finite(sqrt(x), "the root");
                        return x - 1;
                      },
                      x);
                })(array({1.f, 2.f}));
              }),
              HasSubstr("[check_finite] the root (f32[2]) has 1 NaN"));
}

}  // namespace
}  // namespace lockstep
