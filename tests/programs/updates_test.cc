// SPDX-License-Identifier: Apache-2.0
// Updates that are computed of what they are written over: under jit as outside of it.

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::count;
using test::expect_equal;
using test::waves;
using Function = std::function<Array(const Array&)>;

struct Named {
  std::string name;
  Function function;
};

/// Ways to a vector of 8 or more numbers; XLA makes each in another shape or loop.
std::vector<Named> sources() {
  return {
      {"gather", [](const Array& x) { return x[remainder(arange(x.size()) * 3, x.size())]; }},
      {"cumsum", [](const Array& x) { return cumsum(x); }},
      {"argument", [](const Array& x) { return x; }},
      {"sin", [](const Array& x) { return sin(x); }},
      {"column",
       [](const Array& x) {
         return reshape(stack({x, x + 1.}, 1)[{slice(), 1}], {-1});
       }},
      {"transpose",
       [](const Array& x) {
         return reshape(transpose(reshape(x, {2, -1})), {-1});
       }},
      {"row",
       [](const Array& x) {
         return sum(stack({x, cos(x)}, 0), 0);
       }},
      {"update", [](const Array& x) { return cumsum(x).at(slice(2, none)).set(3.); }},
  };
}

/// Updates of v that read v elsewhere.
std::vector<Named> updates() {
  return {
      {"shifted on", [](const Array& v) { return v.at(slice(1, none)).set(sin(v[slice(none, -1)])); }},
      {"shifted back", [](const Array& v) { return v.at(slice(none, -1)).set(sin(v[slice(1, none)])); }},
      {"reversed", [](const Array& v) { return v.at(slice(1, none)).set(flip(v[slice(none, -1)])); }},
      {"added", [](const Array& v) { return v.at(slice(1, none)).add(2. * v[slice(none, -1)]); }},
      {"stencil",
       [](const Array& v) {
         return v.at(slice(1, -1))
             .set(v[slice(1, -1)] + 0.1 * (v[slice(2, none)] - 2. * v[slice(1, -1)] + v[slice(none, -2)]));
       }},
      {"less than half",
       [](const Array& v) {
         return v.at(slice(1, v.size() / 2)).set(sin(v[slice(none, v.size() / 2 - 1)]));
       }},
      {"strided",
       [](const Array& v) {
         return v.at(slice(4, none)).set(v[slice(none, none, 2)][slice(0, v.size() - 4)]);
       }},
      {"dynamic",
       [](const Array& v) {
         return dynamic_update_slice(v, 2. * dynamic_slice(v, {astype(v[0] * 0. + 1., int32)}, {4}), {2});
       }},
      {"one element", [](const Array& v) { return v.at(3).set(v[2] + v[4]).at(4).set(v[3]); }},
      {"places",
       [](const Array& v) {
         return v.at(array({1, 2, 3})).set(v[array({0, 1, 2})]);
       }},
      {"one place", [](const Array& v) { return v.at(array({3})).set(v[array({2})]); }},
      {"sums of all", [](const Array& v) { return v.at(slice(1, none)).set(cumsum(v)[slice(none, -1)]); }},
      {"in a loop",
       [](const Array& v) {
         return fori_loop(
             0, 3, [](Array, Array v) { return v.at(slice(1, none)).set(sin(v[slice(none, -1)])); }, v);
       }},
  };
}

TEST(Updates, UpdatesThatReadTheirOperand_ReadTheOldElements) {
  const std::vector<Named> sources = lockstep::sources();
  for (std::int64_t size : {8, 68}) {
    std::vector<Array> xs, values;
    for (const Named& source : sources) {
      xs.push_back(waves({size}, static_cast<int>(xs.size()) + 1));
      values.push_back(source.function(xs.back()));
    }
    for (const Named& update : updates()) {
      if (update.name == "strided" && size > 8) continue;
      // All sources in one program, each of an argument of its own: that compiles fast.
      const std::vector<Array> found = jit([&](std::vector<Array> xs) {
        for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = update.function(sources[i].function(xs[i]));
        return xs;
      })(xs);
      for (std::size_t i = 0; i < xs.size(); ++i) {
        SCOPED_TRACE(sources[i].name + ", " + update.name);
        expect_equal(found[i], update.function(values[i]));
      }
    }
  }
}

TEST(Updates, AStencilInTwoDimensions_ReadsTheOldElements) {
  const Array x = waves({6, 7});
  auto source = [](const Array& x) { return cumsum(x, 0)[array({0, 2, 1, 3, 5, 4})]; };
  auto smoothed = [](const Array& u) {
    return u.at({slice(1, -1), slice(1, -1)})
        .set(0.25 * (u[{slice(2, none), slice(1, -1)}] + u[{slice(none, -2), slice(1, -1)}] +
                     u[{slice(1, -1), slice(2, none)}] + u[{slice(1, -1), slice(none, -2)}]));
  };
  const Array once = smoothed(source(x));
  expect_equal(jit([&](Array x) { return smoothed(source(x)); })(x), once);
  expect_equal(jit([&](Array x) { return smoothed(smoothed(source(x))); })(x), smoothed(once));
  auto loss = [&](Array x) { return sum(sin(smoothed(source(x)))); };
  expect_equal(jit(grad(loss))(x), grad(loss)(x));
}

TEST(Updates, UpdatesWithOtherValues_AreNotComputedSeparately) {
  auto text = [](auto f) { return jit(f).lower(waves({8}), waves({7}, 2)).as_text(); };
  EXPECT_EQ(
      count(text([](Array x, Array y) { return cumsum(x).at(slice(1, none)).set(sin(y)); }), "computed"), 0u);
  EXPECT_EQ(count(text([](Array x, Array) { return cumsum(x).at(slice(1, none)).set(1.); }), "computed"), 0u);
  EXPECT_EQ(count(text([](Array x, Array y) {
                    return scan([](Array x, Array y) { return std::pair(x.at(0).set(y), y); }, x, y).first;
                  }),
                  "computed"),
            0u);
}

}  // namespace
}  // namespace lockstep
