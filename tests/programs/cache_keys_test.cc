// SPDX-License-Identifier: Apache-2.0
// Tests of what tells two calls of a function of jit or pmap apart, and what does not.

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/static.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/traced_function.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Scale {
  Array k;
};
struct Shift {
  Array k;
};
enum class Kind { kRound, kFlat };
template <class T>
struct With {
  Array x;
  T value;
};
template <class T>
With(Array, T) -> With<T>;

/// Two calls, one after the other, of a function that counts how often it is traced.
struct Case {
  const char* what;
  std::function<void()> first, second;
};

void expect_traces(const std::vector<Case>& cases, int& traces, int expected) {
  for (const Case& each : cases) {
    traces = 0;
    each.first();
    each.second();
    EXPECT_EQ(traces, expected) << each.what;
  }
}

/// The sum of all arrays, counted as a trace. The function of all cases.
auto counted_sum(int& traces) {
  return [&traces](const auto&... trees) {
    ++traces;
    Array total = zeros({});
    (tree::for_each_leaf(trees, [&](const Array& x) { total = total + sum(x); }), ...);
    return total;
  };
}

constexpr long double kThird = 1.0L / 3;

TEST(CacheKey, JitCallsThatDifferInOneThing_AreTracedTwice) {
  int traces = 0;
  auto make = [&](JitOptions options = {}) { return jit(counted_sum(traces), std::move(options)); };
  const Array x = ones({4}) + 0, y = x + 1;
  const Mesh mesh = line_mesh(), renamed = make_mesh({{"y", 4}});
  const NamedSharding split(mesh, P("x"));
  const auto f = [&](const auto&... arguments) { return [=, f = make()] { f(arguments...); }; };
  // Both calls of a case are of one function.
  const auto pair = [&](const char* what, const auto& a, const auto& b) -> Case {
    auto function = make();
    return {what, [=] { function(a); }, [=] { function(b); }};
  };
  expect_traces(
      {pair("aggregate with equal fields", Scale{x}, Shift{x}),
       pair("vector and array", std::vector<Array>{x, y}, std::array<Array, 2>{x, y}),
       pair("tuple and pair", std::tuple(x, y), std::pair(x, y)),
       pair("vector and optional", std::vector<Array>{x}, std::optional<Array>(x)),
       pair("size of a vector", std::vector<Array>{x}, std::vector<Array>{x, x}),
       pair("presence", std::optional<Array>(x), std::optional<Array>()),
       pair("key of a map", std::map<std::string, Array>{{"a", x}}, std::map<std::string, Array>{{"b", x}}),
       pair("shape", x, ones({5})),
       pair("dtype", x, astype(x, int32)),
       pair("weak type", ones({}) + 0, Array(1.0)),
       pair("sharding", device_put(x, split), x),
       pair("specification", device_put(x, split), device_put(x, NamedSharding(mesh, P()))),
       pair("axis names", device_put(x, split), device_put(x, NamedSharding(renamed, P("y")))),
       pair("device", x, device_put(x, SingleDeviceSharding(local_devices()[1]))),
       pair("whether it was placed", x, device_put(x, SingleDeviceSharding(local_devices()[0]))),
       pair("number in a tree", With{x, 1}, With{x, 2}),
       pair("sign of zero", With{x, 0.0}, With{x, -0.0}),
       pair("type of a number in a tree", With{x, 1}, With{x, 1.0}),
       pair("last bits of a long double", With{x, kThird},
            With{x, std::nextafter(kThird, std::numeric_limits<long double>::max())}),
       pair("text", With{x, std::string("a long text, ending in 1")},
            With{x, std::string("a long text, ending in 2")}),
       pair("where two texts part", std::pair(std::string("ab"), With{x, std::string("c")}),
            std::pair(std::string("a"), With{x, std::string("bc")})),
       pair("enum", With{x, Kind::kRound}, With{x, Kind::kFlat}),
       pair("static value", With{x, static_(std::vector<int>{1})}, With{x, static_(std::vector<int>{2})}),
       pair("kind of a number", 1, 1.0),
       pair("bool and number", 1, true)},
      traces, 2);

  // Functions of one type that differ in something of their own.
  expect_traces({{"captured array", f(x), f(x)},
                 {"options", [=, f = make()] { f(x); },
                  [=, f = make({.out_shardings = {SingleDeviceSharding(local_devices()[1])}})] { f(x); }},
                 {"donated or not", [=, f = make()] { f(x); },
                  [=, f = make({.donate_argnums = {0}})] { f(ones({4}) + 0); }}},
                traces, 2);
}

TEST(CacheKey, JitCallsWithEqualKeys_AreTracedOnce) {
  int traces = 0;
  const Array x = ones({4}) + 0, y = x + 1;
  const auto pair = [&](const char* what, const auto& a, const auto& b) -> Case {
    auto function = jit(counted_sum(traces));
    return {what, [=] { function(a); }, [=] { function(b); }};
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_traces(
      {pair("values", x, y), pair("array in an aggregate", Scale{x}, Scale{y}),
       pair("a mesh made twice", device_put(x, NamedSharding(line_mesh(), P("x"))),
            device_put(y, NamedSharding(line_mesh(), P("x")))),
       pair("entries of none at a spec's end", device_put(x, NamedSharding(line_mesh(), P("x"))),
            device_put(x, NamedSharding(line_mesh(), P("x", nullptr)))),
       pair("equal number in a tree", With{x, 3}, With{y, 3}),
       pair("nan in a tree", With{x, nan}, With{x, nan}),
       pair("equal text", With{x, std::string("a")}, With{x, std::string("a")}),
       pair("equal static value", With{x, static_(std::vector<int>{1})},
            With{x, static_(std::vector<int>{1})}),
       pair("integers", 1, 2), pair("widths of an integer", 1, 2L), pair("floating numbers", 0.1, 0.2f),
       pair("bools", true, false), pair("a number and an Array of one", 1.5, Array(2.5))},
      traces, 1);
}

TEST(CacheKey, PmapCalls_HaveTheSameKeysAsJitCalls) {
  int traces = 0;
  const Array x = ones({4, 2}) + 0, y = x + 1;
  const auto pair = [&](const char* what, const auto& a, const auto& b) -> Case {
    auto function = pmap(counted_sum(traces));
    return {what, [=] { function(a); }, [=] { function(b); }};
  };
  expect_traces({pair("aggregate with equal fields", Scale{x}, Shift{x}),
                 pair("vector and array", std::vector<Array>{x, y}, std::array<Array, 2>{x, y}),
                 pair("shape", x, ones({4, 3})), pair("dtype", x, astype(x, int32)),
                 pair("number in a tree", With{x, 1}, With{x, 2}),
                 pair("sharding", x, device_put(x, NamedSharding(line_mesh(), P("x"))))},
                traces, 2);
  expect_traces({pair("values", x, y), pair("equal number in a tree", With{x, 3}, With{y, 3})}, traces, 1);
  auto times = pmap([&](Array x, Array k) {
    ++traces;
    return x * k;
  });
  traces = 0;
  expect_equal(times(x, 2.0), 2 * x);
  expect_equal(times(x, 3.0), 3 * x);
  EXPECT_EQ(traces, 1) << "numbers";
}

TEST(CacheKey, TheTypesOfTheArguments_ArePartOfTheKey) {
  struct Apply {
    Array operator()(const Scale& scale, const Array& x) const { return scale.k * x; }
    Array operator()(const Shift& shift, const Array& x) const { return shift.k + x; }
  };
  auto f = jit([](auto layer, Array x) { return Apply()(layer, x); });
  EXPECT_EQ(f(Scale{test::number(3.f)}, test::number(5.f)).item<float>(), 15);
  EXPECT_EQ(f(Shift{test::number(3.f)}, test::number(5.f)).item<float>(), 8);
  auto g = pmap([](auto layer, Array x) { return Apply()(layer, x); });
  expect_equal(g(Scale{3 * ones({4})}, 5 * ones({4})), 15 * ones({4}));
  expect_equal(g(Shift{3 * ones({4})}, 5 * ones({4})), 8 * ones({4}));
}

TEST(Jit, LowerWithinATracedFunction_DoesNotAffectTheOuterCall) {
  std::function<void()> within;
  auto minus = jit([&](Array x, Array y) {
    if (within) std::exchange(within, nullptr)();
    return x - y;
  });
  const Array x = 5 * ones({4}), y = 2 * ones({4}), one = ones({8}), zero = zeros({8});
  within = [&] { minus.lower(one, zero); };
  expect_equal(minus(x, y), 3 * ones({4}));
  expect_equal(minus(one, zero), one);
}

TEST(Jit, ACapturedArrayOnOtherDevices_IsMovedOnce) {
  Array weights = test::waves({4, 2});
  auto apply = jit([&](Array x) { return matmul(x, weights); });
  const Array x = device_put(test::waves({4, 4}, 2), NamedSharding(line_mesh(), P("x")));
  const Array expected = matmul(test::waves({4, 4}, 2), test::waves({4, 2}));
  expect_equal(apply(x), expected);
  weights.delete_();
  expect_equal(apply(x), expected);
}

/// A line is warned of once, however often and by whomever it is compiled.
TEST(Jit, LargeValueThatEveryDeviceComputes_IsWarnedOfOnce) {
  const auto transformed = [](Array x) { return fft::rfft(x); };
  const Array x = device_put(zeros({1 << 18}), NamedSharding(line_mesh(), P("x")));
  const auto warnings = [&](const JitOptions& options) {
    ::testing::internal::CaptureStderr();
    jit(transformed, options).lower(x);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warnings({.name = "wide"}),
              AllOf(HasSubstr("[jit] wide: fft at cache_keys_test.cc:"),
                    HasSubstr("each of the 4 devices along x computes the same 1.0 MiB of c64[131073]")));
  EXPECT_EQ(warnings({.name = "wide"}), "");
  EXPECT_EQ(warnings({.name = "wide", .combine_threshold_bytes = 0}), "");
}

TEST(Jit, CompiledForTheFifthTimeWithinAHundredCalls_WarnsOnceAndSaysWhatDiffers) {
  auto twice = jit([](Array x, Array y) { return x.shape() == y.shape() ? x + y : x; }, {.name = "twice"});
  auto warnings = [&](std::int64_t from, std::int64_t to) {
    ::testing::internal::CaptureStderr();
    for (std::int64_t n = from; n < to; ++n) twice(ones({4}), ones({n}));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings(1, 5), "");
  EXPECT_THAT(warnings(5, 6), AllOf(HasSubstr("[jit] twice (made at cache_keys_test.cc:"),
                                    HasSubstr("compiled for the fifth time within 5 calls: argument 1: "
                                              "f32[5] was f32[4], in the most similar earlier compilation")));
  EXPECT_EQ(warnings(6, 20), "");

  auto seldom = jit([](Array x) { return x + 1; });
  ::testing::internal::CaptureStderr();
  for (std::int64_t n = 1; n < 8; ++n)
    for (int i = 0; i < 25; ++i) seldom(ones({n}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace lockstep
