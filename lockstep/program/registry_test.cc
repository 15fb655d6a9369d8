// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::ir {
namespace {

using namespace test;

void expect_close(const HostArray& got, const HostArray& want, double tolerance) {
  ASSERT_EQ(got.dtype, want.dtype);
  ASSERT_EQ(got.shape, want.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], want.values[i], tolerance * (1 + std::abs(want.values[i]))) << "element " << i;
  }
}

TEST(Registry, NamesAreUnique) {
  std::set<std::string> names;
  for (const Primitive* primitive : all_primitives()) {
    EXPECT_TRUE(names.insert(primitive->name).second) << primitive->name;
  }
}

TEST(Registry, EveryPrimitiveHasEveryRule) {
  for (const Primitive* primitive : all_primitives()) {
    SCOPED_TRACE(primitive->name);
    EXPECT_TRUE(primitive->shape);
    EXPECT_TRUE(primitive->sharding);
    EXPECT_TRUE(primitive->jvp);
    EXPECT_TRUE(primitive->transpose);
    EXPECT_TRUE(primitive->batching);
    EXPECT_TRUE(primitive->lower);
    EXPECT_TRUE(primitive->flops);
    EXPECT_NE(primitive->zero_padding, ZeroPadding::kUnsaid);
    EXPECT_TRUE(primitive->exchange);
  }
}

TEST(Registry, EveryPrimitiveThatStaysOnTheDevice_HasAnExample) {
  std::set<std::string> registered, shown;
  for (const Primitive* primitive : all_primitives()) {
    // Primitives that call the host need the runtime; debug_test.cc, callback_test.cc and ffi_call_test.cc in
    // lockstep/jit/ run them.
    const bool calls_host =
        primitive->has_effect || primitive == &pure_callback_p() || primitive == &ffi_call_p();
    if (!calls_host) registered.insert(primitive->name);
  }
  for (const Example& example : all_examples()) shown.insert(example.primitive->name);
  EXPECT_EQ(registered, shown);
}

TEST(Registry, EveryExample_AgreesWithItsShapeRule) {
  for (const Example& example : all_examples()) {
    Program program = program_of(example);
    SCOPED_TRACE(to_string(program));
    std::vector<HostArray> outputs = evaluate(program, example.inputs, example_axes());
    std::vector<Aval> avals = program.output_avals();
    ASSERT_EQ(outputs.size(), avals.size());
    for (std::size_t i = 0; i < avals.size(); ++i) {
      EXPECT_EQ(outputs[i].dtype, avals[i].dtype);
      EXPECT_EQ(outputs[i].shape, avals[i].shape);
    }
  }
}

/// The first half of each operand gives the first half of the result.
TEST(Registry, ElementwisePrimitives_OfASlice_GiveASliceOfTheResult) {
  AxisEnvScope axes(example_axes());
  std::set<std::string> shown;
  for (const Example& example : all_examples()) {
    if (!example.primitive->by_element || example.inputs[0].shape.empty()) continue;
    SCOPED_TRACE(example.primitive->name);
    const auto half = [](const Value& x) {
      Shape limit = x.aval().shape;
      limit[0] = (limit[0] + 1) / 2;
      return lax::slice(x, Shape(limit.size()), limit);
    };
    const std::vector<HostArray> results = evaluate(
        [&](std::span<const Value> values) {
          Builder& builder = values[0].builder();
          std::vector<Value> halves;
          for (const Value& value : values) halves.push_back(half(value));
          return std::vector{half(builder.emit(*example.primitive, example.params, values).front()),
                             builder.emit(*example.primitive, example.params, halves).front()};
        },
        example.inputs);
    shown.insert(example.primitive->name);
    expect_close(results[1], results[0], 1e-12);
  }
  EXPECT_GT(shown.size(), 40u);
}

/// Whether a test takes the number-th case: each third, unless it is long.
bool is_taken(int number) { return number % testing::rounds("LOCKSTEP_TEST_EXAMPLES_EVERY", 3, 1) == 0; }

/// A dtype that the shape rule lets pass must compile.
TEST(Registry, EveryDTypeThatAShapeRuleTakes_Compiles) {
  AxisEnvScope axes(example_axes());
  int taken = 0, refused = 0, number = 0;
  const std::vector<Example> examples = all_examples();
  for (const Primitive* primitive : all_primitives()) {
    SCOPED_TRACE(primitive->name);
    Joined joined;
    for (const Example& example : examples) {
      if (example.primitive != primitive) continue;
      for (DType dtype : {DType::kBool, DType::kI8, DType::kU8, DType::kBF16, DType::kF32, DType::kC64,
                          DType::kC128, DType::kF8E4M3FN, DType::kF8E5M2}) {
        ++number;
        if (!is_taken(number + number / 9)) continue;  // other three of the nine dtypes in each example
        std::vector<HostArray> inputs = example.inputs;
        for (HostArray& input : inputs) {
          if (input.dtype == DType::kF64 || input.dtype == DType::kI32) input.dtype = dtype;
        }
        std::vector<Value> values = joined.inputs(inputs, example.varying);
        try {
          joined.want(joined.builder().emit(*primitive, example.params, values));
          ++taken;
        } catch (const Error&) {
          ++refused;
        }
      }
    }
    if (joined.outputs().empty()) continue;
    Program program = joined.program();
    auto executable = compile(program, example_axes());
    const std::vector<Aval> avals = program.output_avals();
    ASSERT_EQ(executable->num_outputs(), avals.size());
    for (std::size_t i = 0; i < avals.size(); ++i) {
      EXPECT_EQ(executable->outputs()[i].dtype, avals[i].dtype) << i;
      EXPECT_EQ(executable->outputs()[i].dims, avals[i].shape) << i;
    }
  }
  EXPECT_GT(taken, 200);
  EXPECT_GT(refused, 100);
}

/// A NaN as a number that nothing gives, so that two of them are equal.
HostArray with_numbers_for_nans(HostArray array) {
  for (double& value : array.values)
    if (std::isnan(value)) value = 1e300;
  return array;
}

/// XLA computes the same of constants, while it compiles, as of arguments, for each dtype that is taken.
TEST(Registry, EveryPrimitive_ComputesTheSameForConstantsAndArguments) {
  AxisEnvScope axes(example_axes());
  const std::vector<Example> examples = all_examples();
  int compared = 0, number = 0;
  for (const Primitive* primitive : all_primitives()) {
    SCOPED_TRACE(primitive->name);
    Joined joined;
    std::vector<std::pair<std::size_t, std::size_t>> pairs;  // places of the results
    for (const Example& example : examples) {
      if (example.primitive != primitive) continue;
      for (DType dtype : {DType::kI32, DType::kF32, DType::kC64, DType::kC128}) {
        if (!is_taken(number++)) continue;
        std::vector<HostArray> inputs = example.inputs;
        for (HostArray& input : inputs) {
          if (input.dtype == DType::kF64) input.dtype = dtype;
          if (!is_inexact(input.dtype) && !input.values.empty())
            input.values[0] = std::min(1.0, std::floor(std::abs(input.values[0])));
          // A constant is one number, repeated.
          std::ranges::fill(input.values, input.values.empty() ? 0 : input.values[0]);
        }
        std::vector<Value> arguments = joined.inputs(inputs, example.varying), constants;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const double number = inputs[i].values.empty() ? 0 : inputs[i].values[0];
          constants.push_back(lax::full_like(arguments[i], number));
        }
        try {
          const std::size_t of_arguments =
              joined.want(joined.builder().emit(*primitive, example.params, arguments));
          const std::size_t end = joined.outputs().size();
          const std::size_t of_constants =
              joined.want(joined.builder().emit(*primitive, example.params, constants));
          for (std::size_t i = of_arguments; i < end; ++i)
            pairs.emplace_back(i, of_constants + i - of_arguments);
        } catch (const Error&) {
        }
      }
    }
    if (pairs.empty()) continue;
    const std::vector<HostArray> outputs = joined.run(example_axes());
    for (const auto& [of_arguments, of_constants] : pairs) {
      SCOPED_TRACE(name(outputs[of_arguments].dtype));
      expect_close(with_numbers_for_nans(outputs[of_constants]), with_numbers_for_nans(outputs[of_arguments]),
                   1e-5);
      ++compared;
    }
  }
  EXPECT_GT(compared, testing::long_tests() ? 250 : 200);
}

TEST(Registry, EveryDType_ConvertsToEveryOther_AsConstantAndArgument) {
  const std::vector<DType> dtypes = {DType::kBool, DType::kI8,  DType::kI32, DType::kI64, DType::kU8,
                                     DType::kU32,  DType::kF32, DType::kF64, DType::kC64, DType::kC128};
  const double number = 3;
  Joined joined;
  std::vector<std::pair<std::string, double>> expected;
  for (DType from : dtypes) {
    const double in_from = from == DType::kBool ? number != 0 : number;
    const Value argument = joined.inputs({filled(in_from, {2, 3}, from)})[0];
    for (DType to : dtypes) {
      const double in_to = to == DType::kBool ? in_from != 0 : in_from;
      joined.want({lax::convert_element_type(argument, to),
                   lax::convert_element_type(lax::full_like(argument, in_from), to)});
      for (int i = 0; i < 2; ++i) expected.emplace_back(fmt::format("{} to {}", name(from), name(to)), in_to);
    }
  }
  const std::vector<HostArray> outputs = joined.run();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].values, std::vector<double>(6, expected[i].second)) << expected[i].first;
  }
}

/// The combination of two devices' results.
HostArray combined(const HostArray& a, const HostArray& b, ShardingRule::Combine how) {
  HostArray out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    switch (how) {
      case ShardingRule::Combine::kSum:
        out.values[i] = a.values[i] + b.values[i];
        break;
      case ShardingRule::Combine::kProduct:
        out.values[i] = a.values[i] * b.values[i];
        break;
      case ShardingRule::Combine::kMax:
        out.values[i] = std::max(a.values[i], b.values[i]);
        break;
      case ShardingRule::Combine::kMin:
        out.values[i] = std::min(a.values[i], b.values[i]);
        break;
      case ShardingRule::Combine::kNone:
        ADD_FAILURE() << "a factor of operands only needs a way to combine";
    }
  }
  return out;
}

/// The half of an array that device 0 or 1 has where a factor is split.
HostArray half(const HostArray& x, const std::vector<int>& factors, int factor, int device) {
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (factors[d] != factor) continue;
    const std::int64_t n = x.shape[d] / 2;
    return part(x, d, device * n, (device + 1) * n);
  }
  return x;
}

bool stands_in(const ShardingRule& rule, int factor) {
  auto has = [factor](const std::vector<int>& dims) { return std::ranges::find(dims, factor) != dims.end(); };
  return std::ranges::any_of(rule.operands, has) || std::ranges::any_of(rule.results, has);
}

/// One of two devices that each have half of a factor.
struct HalfDevice {
  Joined& joined;
  const Example& example;
  const ShardingRule& rule;
  int factor, device;
  const std::vector<HostArray>& results;  ///< of the whole

  /// Computes its results. `exchange` gets the value for the other device, and a function of both values.
  using Exchange =
      std::function<Value(const Value& x, const std::function<Value(const Value&, const Value&)>&)>;
  std::vector<Value> compute(const Exchange& exchange) const {
    std::vector<HostArray> inputs;
    std::vector<Shape> input_shapes, result_shapes;
    const auto how = rule.factors[static_cast<std::size_t>(factor)].combine;
    for (std::size_t i = 0; i < example.inputs.size(); ++i) {
      inputs.push_back(half(example.inputs[i], rule.operands[i], factor, device));
      if (device == 1 && std::ranges::find(rule.addends, i) != rule.addends.end() &&
          (how == ShardingRule::Combine::kSum || how == ShardingRule::Combine::kProduct)) {
        std::ranges::fill(inputs.back().values, how == ShardingRule::Combine::kSum ? 0 : 1);
      }
      input_shapes.push_back(inputs.back().shape);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      result_shapes.push_back(half(results[i], rule.results[i], factor, device).shape);
    OpParams params =
        rule.localize ? rule.localize(example.params, input_shapes, result_shapes) : example.params;
    const std::vector<Value> values = joined.inputs(inputs, example.varying);
    if (!rule.write) return joined.builder().emit(*example.primitive, params, values);
    const std::vector<Value> whole = joined.inputs(example.inputs, example.varying);
    auto number = [&](std::int64_t n, DType dtype) { return lax::full(values[0], Scalar::of(n), dtype, {}); };
    PartPlaces places;
    places.is_split = [&](int which) { return which == factor; };
    places.num_parts = [](int) { return 2; };
    places.number = [&](int, DType dtype) { return number(device, dtype); };
    places.start = [&](int which, DType dtype) {
      return number(device * rule.factors[static_cast<std::size_t>(which)].size / 2, dtype);
    };
    places.window = [&](const Value& part, std::size_t dimension, int, const PartWindows& windows,
                        const std::optional<Value>& fill) {
      const auto i = static_cast<std::size_t>(std::ranges::find(values, part) - values.begin());
      Value x = whole.at(i);
      std::int64_t begin = windows.first + device * windows.step;
      if (windows.wraps) {
        const std::int64_t size = x.aval().shape[dimension];
        begin = (begin % size + size) % size;
        const Value twice[] = {x, x};
        x = lax::concatenate(std::span<const Value>(twice), static_cast<std::int64_t>(dimension));
      }
      const Aval& aval = x.aval();
      std::vector<std::int64_t> low(aval.shape.size()), high = low, none = low;
      low[dimension] = -begin;
      high[dimension] = begin + windows.count - aval.shape[dimension];
      return lax::pad(x, fill ? *fill : lax::full(part, Scalar::of(7), aval.dtype, {}), low, high, none);
    };
    places.permute = [&](const Value& x, int, const std::vector<std::pair<int, int>>& pairs) {
      EXPECT_THAT(pairs, ::testing::ElementsAre(::testing::Pair(0, 1), ::testing::Pair(1, 0)));
      return exchange(x,
                      [&](const Value& first, const Value& second) { return device == 0 ? second : first; });
    };
    places.all_to_all = [&](const Value& x, std::size_t split, std::size_t concat, int) {
      return exchange(x, [&](const Value& first, const Value& second) {
        const auto own_half = [&](const Value& from) {
          std::vector<std::int64_t> begin(from.aval().shape.size()), end = from.aval().shape;
          begin[split] = device * (end[split] / 2);
          end[split] = begin[split] + end[split] / 2;
          return lax::slice(from, begin, end);
        };
        const Value both[] = {own_half(first), own_half(second)};
        return lax::concatenate(std::span<const Value>(both), static_cast<std::int64_t>(concat));
      });
    };
    places.all_gather = [&](const Value& x, std::size_t dimension, int) {
      return exchange(x, [&](const Value& first, const Value& second) {
        const Value both[] = {first, second};
        return lax::concatenate(std::span<const Value>(both), static_cast<std::int64_t>(dimension));
      });
    };
    places.all_reduce = [&](const Value& x, ShardingRule::Combine combine, int) {
      return exchange(x, [&](const Value& first, const Value& second) {
        EXPECT_NE(combine, ShardingRule::Combine::kNone);
        return combine == ShardingRule::Combine::kMax   ? lax::max(first, second)
               : combine == ShardingRule::Combine::kMin ? lax::min(first, second)
                                                        : lax::add(first, second);
      });
    };
    return rule.write(params, values, places);
  }
};

/// Adds to `joined` what a device does that has half of a factor, and gives the place of its first result.
std::size_t add_half(Joined& joined, const Example& example, const ShardingRule& rule, int factor, int device,
                     const std::vector<HostArray>& whole) {
  std::vector<Value> given[2];  // by each device, in each exchange
  const auto compute = [&](std::size_t self) {
    const std::size_t other = 1 - self;
    std::size_t exchanges = 0;
    const HalfDevice half{joined, example, rule, factor, static_cast<int>(self), whole};
    return half.compute([&](const Value& x, const auto& together) {
      const std::size_t number = exchanges++;
      // What it gives is right if all exchanges before are known.
      if (number == given[self].size() && number <= given[other].size()) given[self].push_back(x);
      if (number >= given[self].size() || number >= given[other].size()) return together(x, x);
      return together(given[0][number], given[1][number]);
    });
  };
  std::size_t known;
  do {
    known = given[0].size() + given[1].size();
    compute(0);
    compute(1);
  } while (given[0].size() + given[1].size() > known);
  return joined.want(compute(static_cast<std::size_t>(device)));
}

/// For each factor, two devices that each have half of it get, together, what one gets that has all.
void expect_splits_agree(const Example& example, const ShardingRule& rule, int& splits) {
  const std::vector<HostArray> whole = evaluate(program_of(example), example.inputs, example_axes());
  AxisEnvScope axes(example_axes());
  Joined joined;
  struct Split {
    int factor;
    std::size_t first[2];
  };
  std::vector<Split> tried;
  for (int factor = 0; factor < static_cast<int>(rule.factors.size()); ++factor) {
    if (rule.factors[static_cast<std::size_t>(factor)].size % 2 != 0 || !stands_in(rule, factor)) continue;
    tried.push_back({factor,
                     {add_half(joined, example, rule, factor, 0, whole),
                      add_half(joined, example, rule, factor, 1, whole)}});
  }
  if (tried.empty()) return;
  const std::vector<HostArray> results = joined.run(example_axes());
  for (const Split& split : tried) {
    SCOPED_TRACE("factor " + std::to_string(split.factor));
    ++splits;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const HostArray &first = results[split.first[0] + i], &second = results[split.first[1] + i];
      const auto& factors = rule.results[i];
      if (std::ranges::find(factors, split.factor) != factors.end()) {
        expect_close(first, half(whole[i], factors, split.factor, 0), example.tolerance);
        expect_close(second, half(whole[i], factors, split.factor, 1), example.tolerance);
      } else {
        const ShardingRule::Factor& of = rule.factors[static_cast<std::size_t>(split.factor)];
        if (of.is_completed) expect_close(first, second, 0);
        expect_close(of.is_completed ? first : combined(first, second, of.combine), whole[i],
                     example.tolerance);
      }
    }
  }
}

/// A primitive that says that it is linear gives sums for sums; one that only moves elements also gives the
/// largest for the largest.
TEST(Registry, APrimitiveDeclaredLinear_IsAdditive) {
  std::set<std::string> seen;
  for (const Example& example : all_examples()) {
    const Program program = program_of(example);
    SCOPED_TRACE(to_string(program));
    const Linear& linear = example.primitive->linear;
    for (std::vector<std::size_t> group : linear.together) {
      if (group.empty()) {
        group.resize(example.inputs.size());
        std::iota(group.begin(), group.end(), std::size_t{0});
      }
      auto is_float = [&](std::size_t i) { return info(example.inputs[i].dtype).kind == DTypeKind::kFloat; };
      if (!std::ranges::all_of(group, is_float) || program.output_avals().size() != 1) continue;
      std::vector<HostArray> some = example.inputs, others = example.inputs, sums = example.inputs,
                             largest = example.inputs;
      for (std::size_t i : group) {
        for (std::size_t k = 0; k < sums[i].values.size(); ++k) {
          some[i].values[k] = static_cast<double>(static_cast<int>(7 * k + 3 * i) % 11 - 5);
          others[i].values[k] = static_cast<double>(static_cast<int>(5 * k + i) % 13 - 6);
          sums[i].values[k] = some[i].values[k] + others[i].values[k];
          largest[i].values[k] = std::max(some[i].values[k], others[i].values[k]);
        }
      }
      const HostArray of_some = evaluate(program, some, example_axes())[0],
                      of_others = evaluate(program, others, example_axes())[0];
      expect_close(evaluate(program, sums, example_axes())[0],
                   combined(of_some, of_others, ShardingRule::Combine::kSum), 1e-5);
      if (linear.moves)
        expect_close(evaluate(program, largest, example_axes())[0],
                     combined(of_some, of_others, ShardingRule::Combine::kMax), 0);
      seen.insert(example.primitive->name);
    }
  }
  for (const Primitive* primitive : all_primitives())
    EXPECT_EQ(seen.contains(primitive->name), !primitive->linear.together.empty()) << primitive->name;
}

TEST(Registry, ShardingRules_AgreeWithTheWholeComputation) {
  int splits = 0, number = 0;
  for (const Example& example : all_examples()) {
    if (!is_taken(number++)) continue;
    Program program = program_of(example);
    const std::vector<Aval> inputs = program.input_avals(), outputs = program.output_avals();
    ShardingRule rule = example.primitive->sharding(inputs, outputs, example.params);
    SCOPED_TRACE(to_string(program) + rule.to_string());
    ASSERT_EQ(rule.operands.size(), inputs.size());
    ASSERT_EQ(rule.results.size(), outputs.size());
    auto expect_sizes = [&](const std::vector<int>& factors, const Aval& aval) {
      ASSERT_EQ(factors.size(), aval.shape.size());
      for (std::size_t d = 0; d < factors.size(); ++d) {
        if (factors[d] == ShardingRule::kWhole) continue;
        const std::int64_t size = rule.factors.at(static_cast<std::size_t>(factors[d])).size;
        ASSERT_EQ(aval.shape[d] % size, 0) << "dimension " << d;
      }
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_sizes(rule.operands[i], inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i) expect_sizes(rule.results[i], outputs[i]);
    expect_splits_agree(example, rule, splits);
  }
  EXPECT_GT(splits, testing::long_tests() ? 100 : 50);
}

}  // namespace
}  // namespace lockstep::ir
