// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/jit.h"

#include <cstring>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Scaled {
  Array x;
  double factor = 1;
};

TEST(Jit, TracesOnceForEachKindOfArguments) {
  int traces = 0;
  auto twice = jit([&](Array x) {
    ++traces;
    return x + x;
  });
  expect_equal(twice(waves({4})), 2 * waves({4}));
  expect_equal(twice(waves({4}, 3)), 2 * waves({4}, 3));
  EXPECT_EQ(traces, 1);
  twice(waves({8}));
  EXPECT_EQ(traces, 2) << "another shape";
  twice(astype(waves({4}), int32));
  EXPECT_EQ(traces, 3) << "another dtype";
  Array split = device_put(waves({4}), NamedSharding(line_mesh(), P("x")));
  expect_equal(twice(split), 2 * waves({4}));
  EXPECT_EQ(traces, 4) << "another sharding";
  twice(split);
  twice(waves({4}));
  EXPECT_EQ(traces, 4);
}

TEST(Jit, AnotherTreeOrStaticNumber_IsTracedAgain) {
  int traces = 0;
  auto total = jit([&](std::vector<Array> xs, Scaled scaled) {
    ++traces;
    Array sum = scaled.x * scaled.factor;
    for (const Array& x : xs) sum = sum + x;
    return sum;
  });
  Array one = ones({2});
  expect_equal(total(std::vector<Array>{one, one}, Scaled{one, 3}), 5 * ones({2}));
  expect_equal(total(std::vector<Array>{one}, Scaled{one, 3}), 4 * ones({2}));
  EXPECT_EQ(traces, 2);
  expect_equal(total(std::vector<Array>{one}, Scaled{one, 7}), 8 * ones({2}));
  EXPECT_EQ(traces, 3);
  total(std::vector<Array>{one}, Scaled{one, 3});
  EXPECT_EQ(traces, 3);
}

TEST(Jit, WithinAnother_GivesTheSame) {
  auto inner = jit([](Array x) { return std::pair(sin(x), 2.5); });
  auto outer = jit([&](Array x) { return inner(x).first + inner(x).second; });
  expect_equal(outer(waves({3})), sin(waves({3})) + 2.5);
}

TEST(Jit, CapturedArrays_AreUsed) {
  Array weights = device_put(waves({4, 2}), NamedSharding(line_mesh(), P("x")));
  auto apply = jit([&](Array x) { return matmul(x, weights); });
  Array x = device_put(waves({3, 4}, 2), NamedSharding(line_mesh(), P()));
  expect_equal(apply(x), matmul(waves({3, 4}, 2), waves({4, 2})));
}

TEST(Jit, DonatedArrays_AreDeleted_AndUsingThemNamesTheLine) {
  const int place = __LINE__ + 1;
  auto next = jit([](Array x, Array y) { return x + y; }, {.donate_argnums = {0}});
  Array x = ones({4}) + 0, y = ones({4}) + 0;
  expect_equal(next(x, y), 2 * ones({4}));
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(y.is_deleted());
  EXPECT_THAT(error_of<Error>([&] { x.to_host<float>(); }),
              AllOf(HasSubstr("donated to a computation"), HasSubstr(test::line("jit_test.cc", place))));
  EXPECT_THAT(error_of<Error>([&] { next(x, y); }), HasSubstr("donated"));
}

TEST(Jit, OutShardings_DetermineTheResultsShardings) {
  NamedSharding split(line_mesh(), P("x")), whole(line_mesh(), P());
  auto both = jit([](Array x) { return std::pair(x + 1, x * 2); }, {.out_shardings = {whole, split}});
  auto [plus, times] = both(device_put(waves({8}), split));
  EXPECT_TRUE(plus.sharding() == whole) << plus.to_string();
  EXPECT_TRUE(times.sharding() == split) << times.to_string();
  expect_equal(plus, waves({8}) + 1);
  expect_equal(times, waves({8}) * 2);
}

TEST(Jit, ArgumentsWithOtherInShardings_AreRefused) {
  NamedSharding split(line_mesh(), P("x")), whole(line_mesh(), P());
  auto twice = jit([](Array x) { return x + x; }, {.in_shardings = {split}});
  expect_equal(twice(device_put(waves({8}), split)), 2 * waves({8}));
  EXPECT_THAT(
      error_of<ShardingError>([&] { twice(device_put(waves({8}), whole)); }),
      AllOf(HasSubstr("in_shardings asks for NamedSharding(Mesh(x=4), P('x'))"), HasSubstr("f32[8]")));
}

TEST(Jit, ArraysOverTwoMeshes_AreAnErrorThatNamesBoth) {
  Array a = device_put(waves({4}), NamedSharding(line_mesh(), P("x")));
  Array b = device_put(waves({4}), NamedSharding(square_mesh(), P("x")));
  auto add_both = jit([](Array x, Array y) { return x + y; });
  EXPECT_THAT(error_of<ShardingError>([&] { add_both(a, b); }),
              AllOf(HasSubstr("Mesh(x=4)"), HasSubstr("Mesh(x=2, y=2)"), HasSubstr("over one mesh")));
}

TEST(Jit, ASizeThatTheMeshDoesNotDivide_IsAnErrorWithTheNearestSizes) {
  EXPECT_THAT(error_of<ShardingError>([] {
                device_put(waves({6, 2}), NamedSharding(line_mesh(), P("x")));
              }),
              AllOf(HasSubstr("dimension 0"), HasSubstr("x"), HasSubstr("remainder"), HasSubstr("4"),
                    HasSubstr("8")));
  auto twice = jit([](Array x) { return x + x; }, {.in_shardings = {NamedSharding(line_mesh(), P("x"))}});
  EXPECT_THAT(error_of<ShardingError>([&] { twice(waves({6})); }),
              AllOf(HasSubstr("dimension 0"), HasSubstr("remainder 2")));
}

struct SplitMatmul {
  P left, right;
  std::string collective;  ///< in the partitioned text; empty: none
};

TEST(Jit, MatmulOfSplitMatrices_EqualsOneDevice_WithTheExpectedCollectivesOnly) {
  auto product = jit([](Array x, Array y) { return matmul(x, y); });
  Array x = waves({8, 12}), y = waves({12, 4}, 5), expected = matmul(x, y);
  const std::vector<std::string> all = {"psum", "all_gather", "psum_scatter", "all_to_all", "ppermute"};
  for (const SplitMatmul& split : {SplitMatmul{P("x"), P(), ""}, SplitMatmul{P(), P(nullptr, "x"), ""},
                                   SplitMatmul{P(nullptr, "x"), P("x"), "psum"}}) {
    Array left = device_put(x, NamedSharding(line_mesh(), split.left));
    Array right = device_put(y, NamedSharding(line_mesh(), split.right));
    expect_equal(product(left, right), expected);
    const std::string text = product.lower(left, right).partitioned;
    for (const std::string& collective : all) {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = text.find(" " + collective + "[", at)) != std::string::npos; ++at)
        ++count;
      EXPECT_EQ(count, collective == split.collective ? 1u : 0u) << collective << " in\n" << text;
    }
    if (split.collective == "psum") {
      EXPECT_THAT(text, HasSubstr("128 B")) << "8 * 4 floats";
    }
  }
}

struct Mlp {
  Array w1, b1, w2, b2;
};

TEST(Jit, GradientStepOfSplitData_EqualsOneDevice) {
  auto loss = [](const Mlp& mlp, Array x, Array y) {
    Array hidden = tanh(matmul(x, mlp.w1) + mlp.b1);
    return mean(square(matmul(hidden, mlp.w2) + mlp.b2 - y));
  };
  auto step = jit([&](Mlp mlp, Array x, Array y) {
    auto [value, grads] = value_and_grad(loss)(mlp, x, y);
    return std::pair(tree::map([](Array p, Array g) { return p - 0.1 * g; }, mlp, grads), value);
  });
  Mlp mlp{waves({6, 8}), zeros({8}), waves({8, 3}, 2), zeros({3})};
  Array x = waves({16, 6}, 3), y = waves({16, 3}, 4);
  auto [alone, alone_loss] = step(mlp, x, y);
  NamedSharding rows(line_mesh(), P("x")), whole(line_mesh(), P());
  Mlp everywhere = tree::map([&](const Array& p) { return device_put(p, whole); }, mlp);
  auto [together, together_loss] = step(everywhere, device_put(x, rows), device_put(y, rows));
  expect_equal(together_loss, alone_loss);
  auto expected = tree::leaves(alone), actual = tree::leaves(together);
  for (std::size_t i = 0; i < expected.size(); ++i) expect_equal(actual[i], expected[i]);
}

TEST(Eager, OperationsOnSplitArrays_EqualOneDevice) {
  Array x = waves({8, 4}), split = device_put(x, NamedSharding(square_mesh(), P("x", "y")));
  expect_equal(exp(split) * 2, exp(x) * 2);
  expect_equal(sum(split, 0), sum(x, 0));
  expect_equal(transpose(split), transpose(x));
  EXPECT_EQ((split + 1).sharding().mesh(), square_mesh());
}

TEST(Errors, ShapeErrors_NameTheOperationBothShapesAndTheLine) {
  Array x = ones({3, 4}), y = ones({3, 4});
  int place = 0;
  auto wrong = jit([&](Array a, Array b) {
    place = __LINE__ + 1;
    return matmul(a, b);
  });
  std::string message = error_of<ShapeError>([&] { wrong(x, y); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("matmul"), HasSubstr("f32[3,4]"), HasSubstr(test::line("jit_test.cc", place))));
  message = error_of<ShapeError>([&] { add(ones({2}), ones({3})); });
  EXPECT_THAT(message, AllOf(HasSubstr("[2]"), HasSubstr("[3]"), HasSubstr("jit_test.cc:")));
}

TEST(Errors, WithinGradWithinJit_NameTheUsersLine) {
  int place = 0;
  auto loss = [&](Array w, Array x) {
    place = __LINE__ + 1;
    return sum(matmul(x, w));
  };
  auto step = jit([&](Array w, Array x) { return value_and_grad(loss)(w, x).second; });
  std::string message = error_of<ShapeError>([&] { step(ones({5, 2}), ones({3, 4})); });
  EXPECT_THAT(message, AllOf(HasSubstr("matmul"), HasSubstr("f32[3,4]"), HasSubstr("f32[5,2]"),
                             HasSubstr(test::line("jit_test.cc", place))));
}

TEST(Errors, ErrorsOfCollectivesAndTracing_SayWhatIsWrong) {
  EXPECT_THAT(error_of<ShardingError>([] { psum(ones({2}), "nowhere"); }),
              HasSubstr("outside of shard_map, pmap and vmap (at jit_test.cc:"));
  Array kept;
  jit([&](Array x) {
    kept = x;
    return x + 1;
  })(ones({2}));
  EXPECT_THAT(error_of<Error>([&] { jit([&](Array x) { return x + kept; })(ones({2})); }),
              HasSubstr("leaked"));
  auto reads = jit([](Array x) { return x * static_cast<double>(x.item<float>()); });
  EXPECT_THAT(error_of<TraceError>([&] { reads(ones({})); }), HasSubstr("being traced"));
}

TEST(Lowered, CanBeCompiledAndCalled_AndHasItsCost) {
  auto multiply = jit([](Array a, Array b) { return matmul(a, b); });
  Array a = device_put(waves({8, 16}), NamedSharding(line_mesh(), P(nullptr, "x")));
  Array b = device_put(waves({16, 4}, 2), NamedSharding(line_mesh(), P("x")));
  auto lowered = multiply.lower(a, b);
  EXPECT_THAT(lowered.as_text(), HasSubstr("stablehlo.dot_general"));
  ASSERT_EQ(lowered.communication().size(), 1u);
  EXPECT_EQ(lowered.communication()[0].bytes, 8 * 4 * 4);
  EXPECT_EQ(lowered.cost().flops, 2 * 8 * 4 * 4 + 8 * 4) << "the product of the parts, and their sum";
  EXPECT_EQ(lowered.cost().communicated_bytes, 8 * 4 * 4);
  EXPECT_EQ(lowered.cost().argument_bytes, 0) << "the compiler says it";
  auto compiled = lowered.compile();
  EXPECT_GE(compiled.cost().argument_bytes, 4 * (8 * 4 + 4 * 4));
  EXPECT_EQ(lowered.cost().argument_bytes, compiled.cost().argument_bytes);
  expect_equal(compiled(a, b), matmul(waves({8, 16}), waves({16, 4}, 2)));
  EXPECT_THAT(error_of<TraceError>([&] {
                compiled(waves({8, 16}), waves({16, 4}));
              }),
              AllOf(HasSubstr("jit_test.cc"), HasSubstr("lowered for arguments of other shapes")));
}

TEST(Lowered, ExplainsEachCollective) {
  auto function = jit([](Array a, Array b) { return slice(matmul(a, b), {1, 0}, {5, 4}); });
  Array a = device_put(waves({8, 16}), NamedSharding(line_mesh(), P("x")));
  Array b = device_put(waves({16, 4}, 2), NamedSharding(line_mesh(), P("x")));
  auto lowered = function.lower(a, b);
  ASSERT_EQ(lowered.communication().size(), 2u);
  EXPECT_THAT(
      lowered.explain(),
      AllOf(
          HasSubstr("all-gather 256 B over x (4 devices) at jit_test.cc:"),
          HasSubstr("operand 1 of dot_general, f32[16,4], goes from P('x') to P(); this way a device "
                    "receives 192 B; not taken: operand 0 from P('x') to P(None, 'x') (96 B)"),
          HasSubstr("operand 0 of slice, f32[8,4], goes from P('x') to P(); this way a device receives 96 B; "
                    "not taken: elements of others' parts of operand 0 (32 B)")));
}

TEST(Creation, OverASharding_GivesEachDeviceItsPart) {
  const NamedSharding rows(make_mesh({{"x", 4}}), P("x"));
  for (const DType dtype : {float32, int8, bfloat16, complex64, bool_}) {
    const Array x = full({8, 3}, 1, dtype, rows);
    EXPECT_EQ(x.sharding(), Sharding(rows));
    EXPECT_EQ(x.dtype(), dtype);
    const std::vector<Shard> shards = x.addressable_shards();
    ASSERT_EQ(shards.size(), 4u);
    const Array part = ones({2, 3}, dtype);
    for (const Shard& shard : shards) {
      EXPECT_EQ(shard.shape, (Shape{2, 3}));
      EXPECT_EQ(
          std::memcmp(shard.data, part.addressable_shards()[0].data, static_cast<std::size_t>(part.nbytes())),
          0);
    }
  }
  EXPECT_EQ(full({4}, 0.1, float64, rows).to_host<double>(), std::vector<double>(4, 0.1));
  EXPECT_EQ(zeros({4}, int32, rows).to_host<std::int32_t>(), std::vector<std::int32_t>(4));
  EXPECT_EQ(sum(jit([&] { return ones({8}, float32, rows); })()).item<float>(), 8);
  EXPECT_THAT(error_of<ShardingError>([&] { zeros({6}, float32, rows); }), HasSubstr("[full]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                full({4}, array({1.f, 2.f}), float32, rows);
              }),
              HasSubstr("[full] expected a number or a scalar"));
}

}  // namespace
}  // namespace lockstep
