// SPDX-License-Identifier: Apache-2.0
// Every primitive's derivative, transpose and batching, by way of the transforms, on the registry's examples.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/testing/rounds.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/jvp.h"
#include "lockstep/transforms/test_nested_examples.h"
#include "lockstep/transforms/vjp.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::transforms {
namespace {

using namespace test;

using Arrays = std::vector<HostArray>;

/// The examples of the registry's primitives and of those that hold programs.
std::vector<Example> every_example() {
  std::vector<Example> all = all_examples();
  for (Example& example : nested_examples()) all.push_back(std::move(example));
  return all;
}

std::vector<bool> inexact_inputs(const ir::Program& program) {
  std::vector<bool> wrt;
  for (const Aval& aval : program.input_avals()) wrt.push_back(is_inexact(aval.dtype));
  return wrt;
}

Arrays random_like(const std::vector<Aval>& avals, std::uint32_t seed) {
  Arrays out;
  for (const Aval& aval : avals) out.push_back(random(aval.shape, -1, 1, seed++, aval.dtype));
  return out;
}

std::vector<Aval> inexact_avals(const std::vector<Aval>& avals) {
  std::vector<Aval> out;
  for (const Aval& aval : avals) {
    if (is_inexact(aval.dtype)) out.push_back(aval);
  }
  return out;
}

Arrays joined_lists(Arrays a, const Arrays& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double dot(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

/// The example's inputs, moved by `by` along the tangents of those that are differentiated.
Arrays moved(const Example& example, const Arrays& tangents, double by) {
  Arrays out = example.inputs;
  std::size_t next = 0;
  for (HostArray& input : out) {
    if (!is_inexact(input.dtype)) continue;
    const HostArray& tangent = tangents[next++];
    for (std::size_t i = 0; i < input.values.size(); ++i) input.values[i] += by * tangent.values[i];
  }
  return out;
}

TEST(Derivatives, ForwardAndReverse_AgreeWithFiniteDifferences) {
  ir::AxisEnvScope axes(example_axes());
  int checked = 0;
  for (const Example& example : every_example()) {
    const ir::Program program = program_of(example);
    SCOPED_TRACE(to_string(program));
    const std::vector<bool> wrt = inexact_inputs(program);
    if (!example.has_derivative || std::ranges::find(wrt, true) == wrt.end()) continue;
    const Arrays tangents = random_like(inexact_avals(program.input_avals()), 100);
    const Arrays cotangents = random_like(inexact_avals(program.output_avals()), 200);

    Joined joined;
    auto add = [&](const ir::Program& which, const Arrays& inputs) {
      return joined.want(inline_program(joined.builder(), which, joined.inputs(inputs, example.varying)));
    };
    const std::size_t above = add(program, moved(example, tangents, example.step));
    const std::size_t below = add(program, moved(example, tangents, -example.step));
    const ir::Program forwards = jvp(program, wrt), backwards = vjp(program, wrt);
    const std::size_t n = program.outputs.size();
    const std::size_t pushed = add(forwards, joined_lists(example.inputs, tangents)) + n;
    // The cotangents of what does not vary do not vary; with one device on the axis that changes no number.
    std::vector<ir::Value> seeds = joined.inputs(example.inputs, example.varying);
    std::size_t next = 0;
    for (const Aval& aval : inexact_avals(program.output_avals())) {
      seeds.push_back(joined.inputs({cotangents[next++]}, aval.varying).front());
    }
    const std::size_t pulled = joined.want(inline_program(joined.builder(), backwards, seeds)) + n;
    const Arrays results = joined.run(example_axes());

    double forwards_product = 0, backwards_product = 0;
    next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!is_inexact(program.output_avals()[i].dtype)) continue;
      const HostArray &up = results[above + i], &down = results[below + i], &tangent = results[pushed + next];
      ASSERT_EQ(tangent.shape, up.shape);
      for (std::size_t k = 0; k < up.values.size(); ++k) {
        const double difference = (up.values[k] - down.values[k]) / (2 * example.step);
        ASSERT_NEAR(tangent.values[k], difference, example.tolerance * (1 + std::abs(difference)))
            << "element " << k;
      }
      forwards_product += dot(tangent, cotangents[next++]);
    }
    for (std::size_t i = 0; i < tangents.size(); ++i) {
      ASSERT_EQ(results[pulled + i].shape, tangents[i].shape);
      backwards_product += dot(results[pulled + i], tangents[i]);
    }
    EXPECT_NEAR(forwards_product, backwards_product, example.tolerance * (1 + std::abs(forwards_product)));
    ++checked;
  }
  EXPECT_GT(checked, 60);
}

TEST(Derivatives, EveryPrimitive_IsComparedWithFiniteDifferencesOrListed) {
  std::set<std::string> all, compared;
  for (const Example& example : every_example()) {
    all.insert(example.primitive->name);
    const std::vector<bool> wrt = inexact_inputs(program_of(example));
    if (example.has_derivative && std::ranges::count(wrt, true) > 0) compared.insert(example.primitive->name);
  }
  std::set<std::string> left;
  std::ranges::set_difference(all, compared, std::inserter(left, left.end()));
  const std::set<std::string> known = {
      // Nothing goes in or comes out that could be differentiated.
      "axis_index", "full", "iota", "threefry2x32", "bitcast_convert_type", "population_count", "clz",
      "logical_and", "logical_not", "logical_or", "logical_xor", "reduce_and", "reduce_or", "shift_left",
      "shift_right_arithmetic", "shift_right_logical", "gcd",
      // Not what a finite difference gives, by intent.
      "custom_jvp", "custom_vjp", "reduce_precision", "stop_gradient",
      // Backwards not at all, forwards beside the functions.
      "while", "pmax", "pmin",
      // Tangents that must keep a property (symmetric, complex): beside the operations, and against JAX's.
      "complex", "real", "imag", "complex_square", "eigh", "eig", "fft",
      // None, as in JAX.
      "schur", "complex_schur", "sqrtm", "geqrf", "householder_product"};
  EXPECT_EQ(left, known);
}

TEST(Derivatives, ACotangent_HasTheTypeOfItsValue) {
  ir::AxisEnvScope axes(example_axes());
  for (const Example& example : every_example()) {
    const ir::Program program = program_of(example);
    if (!example.has_derivative) continue;
    SCOPED_TRACE(to_string(program));
    const ir::Program backwards = vjp(program, inexact_inputs(program));
    std::vector<Aval> expected = program.output_avals();
    for (const Aval& aval : inexact_avals(program.input_avals())) expected.push_back(aval);
    EXPECT_EQ(backwards.output_avals(), expected) << to_string(backwards);
  }
}

TEST(Derivatives, PmaxAndPmin_AreRefused) {
  ir::AxisEnvScope axes(example_axes());
  for (const Example& example : every_example()) {
    if (example.primitive != &ir::pmax_p() && example.primitive != &ir::pmin_p()) continue;
    try {
      jvp(program_of(example), {true});
      ADD_FAILURE() << "no error";
    } catch (const TraceError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("[" + example.primitive->name + "] has no derivative"));
    }
  }
}

TEST(Derivatives, StopGradient_GivesZeros) {
  ir::Program program =
      trace({{DType::kF64, {2}}}, [](auto x) { return std::vector{ir::lax::stop_gradient(x[0])}; });
  Arrays results = evaluate(vjp(program, {true}), {filled(3, {2}), filled(1, {2})});
  EXPECT_EQ(results[0].values, (std::vector<double>{3, 3}));
  EXPECT_EQ(results[1].values, (std::vector<double>{0, 0}));
}

/// Which inputs are batched: all, and each alone.
std::vector<std::vector<bool>> batchings(std::size_t n) {
  std::vector<std::vector<bool>> all = {std::vector<bool>(n, true)};
  for (std::size_t i = 0; n > 1 && i < n; ++i) {
    all.emplace_back(n, false);
    all.back()[i] = true;
  }
  return all;
}

TEST(Batching, AgreesWithALoop) {
  ir::AxisEnvScope axes(example_axes());
  constexpr std::int64_t kSize = 3;
  const int every = lockstep::testing::rounds("LOCKSTEP_TEST_EXAMPLES_EVERY", 2, 1);
  int checked = 0, number = 0;
  for (const Example& example : every_example()) {
    if (number++ % every != 0) continue;
    const ir::Program program = program_of(example);
    SCOPED_TRACE(to_string(program));
    if (example.inputs.empty()) continue;
    Joined joined;
    struct Case {
      std::size_t mapped, looped;
    };
    std::vector<Case> cases;
    for (const std::vector<bool>& batched : batchings(example.inputs.size())) {
      Arrays stacked = example.inputs;
      for (std::size_t i = 0; i < stacked.size(); ++i) {
        if (!batched[i]) continue;
        // Each example is the one before, turned by one element or made larger.
        HostArray& x = stacked[i];
        std::vector<double> row = x.values;
        for (std::int64_t k = 1; k < kSize; ++k) {
          if (example.any_numbers)
            std::ranges::rotate(row, row.begin() + 1);
          else
            for (double& value : row) value *= 1.25;
          x.values.insert(x.values.end(), row.begin(), row.end());
        }
        x.shape.insert(x.shape.begin(), kSize);
      }
      const ir::Program mapped = vmap(program, batched, {kSize});
      Case c;
      c.mapped =
          joined.want(inline_program(joined.builder(), mapped, joined.inputs(stacked, example.varying)));
      c.looped = joined.outputs().size();
      for (std::int64_t k = 0; k < kSize; ++k) {
        Arrays one = stacked;
        for (std::size_t i = 0; i < one.size(); ++i) {
          if (batched[i]) one[i] = at(stacked[i], k);
        }
        joined.want(inline_program(joined.builder(), program, joined.inputs(one, example.varying)));
      }
      cases.push_back(c);
    }
    const Arrays results = joined.run(example_axes());
    for (const Case& c : cases) {
      const std::size_t n = program.outputs.size();
      for (std::size_t i = 0; i < n; ++i) {
        const HostArray& mapped = results[c.mapped + i];
        ASSERT_EQ(mapped.shape.at(0), kSize);
        for (std::int64_t k = 0; k < kSize; ++k) {
          const HostArray want = results[c.looped + static_cast<std::size_t>(k) * n + i], got = at(mapped, k);
          ASSERT_EQ(got.shape, want.shape);
          for (std::size_t e = 0; e < want.values.size(); ++e) {
            ASSERT_NEAR(got.values[e], want.values[e], 1e-12 * (1 + std::abs(want.values[e])));
          }
        }
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, lockstep::testing::long_tests() ? 100 : 60);
}

}  // namespace
}  // namespace lockstep::transforms
