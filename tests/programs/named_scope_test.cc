// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/named_scope.h"

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// sin within "outer/inner", then a product within "outer", then a sum within none.
Array scoped(const Array& x) {
  Array y;
  {
    auto outer = named_scope("outer");
    {
      auto inner = named_scope("inner");
      y = sin(x);
    }
    y = y * x;
  }
  return sum(y);
}

TEST(NamedScope, NamesItsOperationsInAllTexts_AndChangesNoValue) {
  const Array x = waves({4});
  const auto lowered = jit(scoped).lower(x);
  for (const std::string& text : {lowered.program, lowered.partitioned}) {
    EXPECT_THAT(text, AllOf(HasSubstr("sin a  # outer/inner\n"), HasSubstr("mul b a  # outer\n")));
    EXPECT_THAT(text, Not(ContainsRegex("reduce_sum[^\n]*#")));
  }
  EXPECT_THAT(lowered.as_text(), AllOf(HasSubstr(" loc(\"outer/inner/sine\")"),
                                       HasSubstr(" loc(\"outer/multiply\")"), Not(HasSubstr("reduce\")"))));
  expect_equal(jit(scoped)(x), sum(sin(x) * x));
  EXPECT_THAT(error_of<Error>([] { auto scope = named_scope(""); }),
              HasSubstr("[named_scope] expected a name"));
  const auto quoted = jit([](Array x) {
    auto scope = named_scope("a \"b\" \\c");
    return cos(x);
  });
  expect_equal(quoted(x), cos(x));
  EXPECT_THAT(quoted.lower(x).as_text(), HasSubstr(R"(loc("a \"b\" \\c/cosine"))"));
}

TEST(NamedScope, IsKeptByGradVmapAndLoops) {
  const Array x = waves({4}), rows = waves({3, 4});
  EXPECT_THAT(jit(grad(scoped)).lower(x).program, ContainsRegex("cos [a-z]+  # outer/inner\n"));
  expect_equal(jit(grad(scoped))(x), cos(x) * x + sin(x));
  EXPECT_THAT(jit(vmap(scoped)).lower(rows).program, HasSubstr("sin a  # outer/inner\n"));
  auto looped = jit([](Array x) {
    auto scope = named_scope("loop");
    return fori_loop(
        0, 3,
        [](Array, Array c) {
          auto scope = named_scope("step");
          return sin(c);
        },
        x);
  });
  EXPECT_THAT(looped.lower(x).program, ContainsRegex("sin [a-z]+  # loop/step\n"));
  EXPECT_THAT(looped.lower(x).as_text(), HasSubstr("loc(\"loop/step/sine\")"));
  expect_equal(looped(x), sin(sin(sin(x))));
  auto inner = jit([](Array x) { return cos(x); });
  const auto outer = jit([&](Array x) {
    auto scope = named_scope("caller");
    return inner(x);
  });
  EXPECT_THAT(outer.lower(x).program, HasSubstr("cos a  # caller\n"));
}

TEST(NamedScope, IsNamedForEachCollective) {
  const Array x = device_put(waves({8, 4}), NamedSharding(line_mesh(), P(nullptr, "x")));
  const auto lowered = jit([](Array x) {
                         auto scope = named_scope("head");
                         return sum(x, 1);
                       }).lower(x);
  EXPECT_THAT(lowered.explain(), ContainsRegex("at named_scope_test.cc:[0-9]+ in head\n"));
  EXPECT_THAT(lowered.partitioned, ContainsRegex("# all-reduce .* in head"));
}

TEST(NamedScope, OpenOutsideOfJit_IsNotInTheFunction) {
  const Array x = waves({4});
  auto f = jit([](Array x) { return sin(x) * 2; });
  const std::string text = f.lower(x).as_text();
  auto scope = named_scope("outside");
  EXPECT_EQ(jit([](Array x) { return sin(x) * 2; }).lower(x).as_text(), text);
  expect_equal(pmap([](Array x) { return x + 1; })(x), x + 1);
  expect_equal(f(x), 2 * sin(x));
}

}  // namespace
}  // namespace lockstep
