// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/direct_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/test_nested_examples.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::transforms {
namespace {

using test::HostArray;
using test::trace;
using ::testing::HasSubstr;
using ::testing::Not;
using Integers = std::vector<std::int64_t>;

const Aval kSquare{DType::kF64, {6, 6}};

ir::Value zero_of(const ir::Value& x) { return ir::lax::full(x, ir::Scalar::of(0.0), x.aval().dtype, {}); }

ir::Value padded(const ir::Value& x, Integers low, Integers high) {
  return ir::lax::pad(x, zero_of(x), std::move(low), std::move(high), Integers(x.aval().shape.size()));
}

/// u plus its four neighbours; p is u with a cell more on each side.
ir::Value stencil(const ir::Value& u, const ir::Value& p) {
  const std::int64_t n = u.aval().shape[0], m = u.aval().shape[1];
  auto at = [&](std::int64_t i, std::int64_t j) { return ir::lax::slice(p, {i, j}, {i + n, j + m}); };
  ir::Value sum = ir::lax::add(u, at(0, 1));
  for (const auto& [i, j] : {std::pair(2, 1), std::pair(1, 0), std::pair(1, 2)})
    sum = ir::lax::add(sum, at(i, j));
  return sum;
}

ir::Value five_points(const ir::Value& u) { return stencil(u, padded(u, {1, 1}, {1, 1})); }

TEST(DirectSlices, SlicesOfAPad_BecomePadsWithTheOperandsShape) {
  const ir::Program program = trace({kSquare}, [](auto v) { return std::vector{five_points(v[0])}; });
  EXPECT_EQ(ir::to_string(direct_slices(program)),
            "f(a:f64[6,6])\n"
            "  b:f64[] = full[value=0.0 dtype=f64 shape=[] weak_type=false]\n"
            "  c:f64[6,6] = pad[low=[1,0] high=[-1,0] interior=[0,0]] a b\n"
            "  d:f64[6,6] = add a c\n"
            "  e:f64[6,6] = pad[low=[-1,0] high=[1,0] interior=[0,0]] a b\n"
            "  f:f64[6,6] = add d e\n"
            "  g:f64[6,6] = pad[low=[0,1] high=[0,-1] interior=[0,0]] a b\n"
            "  h:f64[6,6] = add f g\n"
            "  i:f64[6,6] = pad[low=[0,-1] high=[0,1] interior=[0,0]] a b\n"
            "  j:f64[6,6] = add h i\n"
            "  return j\n");
}

TEST(DirectSlices, Equations_KeepTheirCallSites) {
  constexpr CallSite kStencil{"heat.cc", 7, "step"}, kCall{"heat.cc", 20, "main"};
  const ir::Program program = trace({kSquare}, [&](auto v) {
    const CallSiteScope site(kStencil);
    return std::vector{ir::lax::neg(five_points(v[0]))};
  });
  const CallSiteScope call(kCall);
  for (const ir::Equation& equation : direct_slices(program).equations)
    EXPECT_EQ(equation.site.line, kStencil.line) << equation.primitive->name;
}

/// As shard_map writes it: the neighbours' rows are concatenated, the columns padded.
ir::Value with_halo(const ir::Value& u) {
  const ir::Value row = ir::lax::slice(u, {0, 0}, {1, u.aval().shape[1]});
  const ir::Value parts[] = {row, u, row};
  return stencil(u, padded(ir::lax::concatenate(std::span<const ir::Value>(parts), 0), {0, 1}, {0, 1}));
}

TEST(DirectSlices, SlicesOfAPaddedConcatenation_ComputeNoPaddedArray) {
  const ir::Program program = trace({kSquare}, [](auto v) { return std::vector{with_halo(v[0])}; });
  EXPECT_THAT(ir::to_string(program), HasSubstr("f64[8,8]"));
  EXPECT_THAT(ir::to_string(direct_slices(program)), Not(HasSubstr("f64[8,")));
}

TEST(DirectSlices, SlicesOfASumOfPads_BecomeSumsOfPads) {
  const ir::Program program =
      vjp(trace({kSquare}, [](auto v) { return std::vector{five_points(v[0])}; }), {true});
  EXPECT_THAT(ir::to_string(program), HasSubstr("f64[8,8]"));
  EXPECT_THAT(ir::to_string(direct_slices(program)), Not(HasSubstr("f64[8,8]")));
}

TEST(DirectSlices, LoopBodies_AreRewritten) {
  const ir::Program program = trace({kSquare}, [](auto v) { return test::five_steps(v[0], five_points); });
  EXPECT_THAT(ir::to_string(program), HasSubstr("f64[8,8]"));
  EXPECT_THAT(ir::to_string(direct_slices(program)), Not(HasSubstr("f64[8,8]")));
}

TEST(DirectSlices, AnArrayThatIsUsedWhole_IsUnchanged) {
  using Make = ir::Value (*)(const ir::Value& p, const ir::Value& part);
  const Make uses[] = {
      [](const ir::Value& p, const ir::Value& part) {
        return ir::lax::add(part, ir::lax::slice(p, {2, 2}, {8, 8}, {1, 1}));
      },
      [](const ir::Value& p, const ir::Value&) { return p; },                // a result
      [](const ir::Value& p, const ir::Value&) { return ir::lax::neg(p); },  // another use
      [](const ir::Value& p, const ir::Value&) {
        return ir::lax::slice(p, {0, 0}, {8, 8}, {2, 2});
      }  // every second
  };
  for (const Make& use : uses) {
    const ir::Program program = trace({kSquare}, [&](auto v) {
      const ir::Value p = padded(v[0], {1, 1}, {1, 1});
      const ir::Value part = ir::lax::neg(ir::lax::slice(p, {0, 0}, {6, 6}));
      return std::vector{part, use(p, part)};
    });
    const bool is_only_sliced = &use == &uses[0];
    EXPECT_EQ(ir::to_string(direct_slices(program)) == ir::to_string(program), !is_only_sliced);
  }
  // A slice that is multiplied as a matrix has to be in memory.
  const ir::Program product = trace({kSquare}, [&](auto v) {
    const ir::Value part = ir::lax::slice(padded(v[0], {1, 1}, {1, 1}), {0, 0}, {6, 6});
    return std::vector{ir::lax::dot_general(part, v[0], {{1}, {0}, {}, {}})};
  });
  EXPECT_EQ(ir::to_string(direct_slices(product)), ir::to_string(product));
}

constexpr int kResults = 3;

/// Programs of pads, concatenations and sums that are sliced, for the generated test.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::vector<ir::Value> operator()(std::span<const ir::Value> inputs) {
    std::vector<ir::Value> wide(inputs.begin(), inputs.end()), results;
    for (int step = 0; step < 5; ++step) wide.push_back(any(wide));
    for (int k = 0; k < kResults; ++k) {
      const ir::Value x = one_of(wide);
      Integers start, limit;
      for (std::int64_t size : x.aval().shape) {
        start.push_back(below(size));
        limit.push_back(start.back() + 1 + below(size - start.back()));
      }
      const ir::Value part = ir::lax::slice(x, start, limit);
      results.push_back(ir::lax::mul(part, ir::lax::full_like(part, 3)));
    }
    return results;
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_()) % n; }
  ir::Value one_of(const std::vector<ir::Value>& all) {
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }

  ir::Value any(const std::vector<ir::Value>& all) {
    const ir::Value x = one_of(all), y = one_of(all);
    const Shape &shape = x.aval().shape, &other = y.aval().shape;
    switch (below(4)) {
      case 0:
        if (shape == other) return ir::lax::add(x, y);
        [[fallthrough]];
      case 1: {
        const auto d = static_cast<std::size_t>(below(2));
        if (shape[1 - d] == other[1 - d]) {
          const ir::Value parts[] = {x, y, x};
          return ir::lax::concatenate(std::span<const ir::Value>(parts), static_cast<std::int64_t>(d));
        }
        [[fallthrough]];
      }
      default: {
        Integers low, high;
        for (std::int64_t size : shape) {
          low.push_back(below(4) - 1);
          high.push_back(std::max<std::int64_t>(below(4) - 1, 1 - size - low.back()));
        }
        const ir::Value fill =
            ir::lax::full(x, ir::Scalar::of(static_cast<double>(below(3))), x.aval().dtype, {});
        return ir::lax::pad(x, fill, low, high, {below(8) == 0 ? 1 : 0, 0});
      }
    }
  }

  std::mt19937 random_;
};

TEST(DirectSlices, RandomPrograms_KeepTheirValues) {
  const std::vector<HostArray> inputs = {test::random({5, 4}, -9, 9, 1), test::random({5, 4}, -9, 9, 2)};
  test::Joined joined;  // all in one, which compiles faster
  const std::vector<ir::Value> values = joined.inputs(inputs);
  int changed = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const ir::Program program = trace(test::avals_of(inputs), Generator(seed));
    const ir::Program direct = direct_slices(program);
    changed += ir::to_string(direct) != ir::to_string(program) ? 1 : 0;
    joined.want(inline_program(joined.builder(), program, values));
    joined.want(inline_program(joined.builder(), direct, values));
  }
  EXPECT_GT(changed, 4);
  const std::vector<HostArray> results = joined.run();
  for (std::size_t i = 0; i < results.size(); i += i % kResults == kResults - 1 ? kResults + 1 : 1) {
    EXPECT_EQ(results[i].shape, results[i + kResults].shape);
    EXPECT_EQ(results[i].values, results[i + kResults].values) << "result " << i;
  }
}

}  // namespace
}  // namespace lockstep::transforms
