// SPDX-License-Identifier: Apache-2.0
// Tests of the primitives' results, against the C++ library and written-out sums.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Elementwise, UnaryPrimitives_AgreeWithTheStandardLibrary) {
  const HostArray x = random({16}, -3, 3), positive = random({16}, 0.1, 4);
  struct Case {
    const Primitive& primitive;
    double (*expected)(double);
    const HostArray& input;
  };
  const Case cases[] = {
      {neg_p(), [](double v) { return -v; }, x},
      {sign_p(), [](double v) { return v > 0 ? 1.0 : -1.0; }, x},
      {abs_p(), [](double v) { return std::abs(v); }, x},
      {floor_p(), [](double v) { return std::floor(v); }, x},
      {ceil_p(), [](double v) { return std::ceil(v); }, x},
      {round_p(), [](double v) { return std::nearbyint(v); }, x},
      {exp_p(), [](double v) { return std::exp(v); }, x},
      {expm1_p(), [](double v) { return std::expm1(v); }, x},
      {log_p(), [](double v) { return std::log(v); }, positive},
      {log1p_p(), [](double v) { return std::log1p(v); }, positive},
      {tanh_p(), [](double v) { return std::tanh(v); }, x},
      {logistic_p(), [](double v) { return 1 / (1 + std::exp(-v)); }, x},
      {sqrt_p(), [](double v) { return std::sqrt(v); }, positive},
      {rsqrt_p(), [](double v) { return 1 / std::sqrt(v); }, positive},
      {sin_p(), [](double v) { return std::sin(v); }, x},
      {cos_p(), [](double v) { return std::cos(v); }, x},
  };
  Joined joined;
  for (const Case& c : cases) joined.want(joined.builder().emit(c.primitive, {}, joined.inputs({c.input})));
  const std::vector<HostArray> results = joined.run();
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    for (std::size_t k = 0; k < 16; ++k) {
      const double want = cases[i].expected(cases[i].input.values[k]);
      EXPECT_NEAR(results[i].values[k], want, 1e-12 * (1 + std::abs(want))) << cases[i].primitive.name;
    }
  }
}

TEST(Elementwise, BinaryPrimitives_AgreeWithTheStandardLibrary) {
  const HostArray x = random({16}, -3, 3), positive = random({16}, 0.5, 4, 2), y = random({16}, -3, 3, 3);
  const HostArray m = random({16}, 0, 1000, 4, DType::kI32), n = random({16}, 0, 5, 5, DType::kI32);
  HostArray negative = m;
  for (double& value : negative.values) value = -value;
  struct Case {
    const Primitive& primitive;
    double (*expected)(double, double);
    const HostArray &lhs, &rhs;
  };
  const Case cases[] = {
      {add_p(), [](double a, double b) { return a + b; }, x, y},
      {sub_p(), [](double a, double b) { return a - b; }, x, y},
      {mul_p(), [](double a, double b) { return a * b; }, x, y},
      {div_p(), [](double a, double b) { return a / b; }, x, y},
      {rem_p(), [](double a, double b) { return std::fmod(a, b); }, x, positive},
      {pow_p(), [](double a, double b) { return std::pow(a, b); }, positive, y},
      {max_p(), [](double a, double b) { return std::max(a, b); }, x, y},
      {min_p(), [](double a, double b) { return std::min(a, b); }, x, y},
      {logical_and_p(), [](double a, double b) { return double(int(a) & int(b)); }, m, n},
      {logical_or_p(), [](double a, double b) { return double(int(a) | int(b)); }, m, n},
      {logical_xor_p(), [](double a, double b) { return double(int(a) ^ int(b)); }, m, n},
      {shift_left_p(), [](double a, double b) { return double(int(a) << int(b)); }, m, n},
      {shift_right_logical_p(), [](double a, double b) { return double(int(unsigned(int(a)) >> int(b))); },
       negative, n},
      {shift_right_arithmetic_p(), [](double a, double b) { return double(int(a) >> int(b)); }, negative, n},
      {eq_p(), [](double a, double b) { return double(a == b); }, m, m},
      {ne_p(), [](double a, double b) { return double(a != b); }, m, m},
      {lt_p(), [](double a, double b) { return double(a < b); }, x, y},
      {le_p(), [](double a, double b) { return double(a <= b); }, m, m},
      {gt_p(), [](double a, double b) { return double(a > b); }, x, y},
      {ge_p(), [](double a, double b) { return double(a >= b); }, x, y},
  };
  Joined joined;
  for (const Case& c : cases) {
    joined.want(joined.builder().emit(c.primitive, {}, joined.inputs({c.lhs, c.rhs})));
  }
  const std::vector<HostArray> results = joined.run();
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    for (std::size_t k = 0; k < 16; ++k) {
      const double want = cases[i].expected(cases[i].lhs.values[k], cases[i].rhs.values[k]);
      EXPECT_NEAR(results[i].values[k], want, 1e-12 * (1 + std::abs(want))) << cases[i].primitive.name;
    }
  }
}

TEST(Reduction, NoElements_GiveTheNeutralElement) {
  std::vector<HostArray> results = evaluate(
      [](auto x) {
        return std::vector{
            lax::reduce_sum(x[0], {0}), lax::reduce_prod(x[0], {0}), lax::reduce_max(x[0], {0}),
            lax::reduce_min(x[0], {0}), lax::reduce_and(x[1], {0}),  lax::reduce_or(x[1], {0}),
            lax::reduce_max(x[2], {0}), lax::reduce_min(x[2], {0}),  lax::reduce_max(x[3], {0}),
            lax::reduce_min(x[3], {0}), lax::reduce_and(x[2], {0})};
      },
      {filled(0, {0}), filled(0, {0}, DType::kBool), filled(0, {0}, DType::kI8),
       filled(0, {0}, DType::kU32)});
  std::vector<double> values;
  for (const HostArray& result : results) values.push_back(result.values.at(0));
  EXPECT_THAT(values, ElementsAre(0, 1, -kInf, kInf, 1, 0, -128, 127, 0, 4294967295.0, -1));
}

TEST(Reduction, OverSeveralDimensions_KeepsTheOthersInOrder) {
  HostArray x = filled(0, {2, 3, 2});
  std::iota(x.values.begin(), x.values.end(), 1);
  auto results = evaluate(
      [](auto v) {
        return std::vector{lax::reduce_sum(v[0], {0, 2}), lax::reduce_prod(v[0], {2}),
                           lax::reduce_min(v[0], {0}), lax::reduce_max(v[0], {0, 1})};
      },
      {x});
  EXPECT_THAT(results[0].values, ElementsAre(18, 26, 34));
  EXPECT_THAT(results[1].values, ElementsAre(2, 12, 30, 56, 90, 132));
  EXPECT_EQ(results[1].shape, (Shape{2, 3}));
  EXPECT_THAT(results[2].values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(results[3].values, ElementsAre(11, 12));
}

TEST(Reduction, MaxAndMinOfValuesWithNan_GiveNan) {
  auto results = evaluate(
      [](auto v) {
        return std::vector{lax::reduce_max(v[0], {0}), lax::reduce_min(v[0], {0})};
      },
      {HostArray{DType::kF64, {3}, {1, kNan, 2}}});
  EXPECT_TRUE(std::isnan(results[0].values[0]));
  EXPECT_TRUE(std::isnan(results[1].values[0]));
}

TEST(ArgMax, TakesTheFirstOfEqualElements_AndNanFirst) {
  auto places = [](const HostArray& rows) {
    auto results = evaluate(
        [](auto v) {
          return std::vector{lax::argmax(v[0], 1), lax::argmin(v[0], 1)};
        },
        {rows});
    EXPECT_EQ(results[0].dtype, DType::kI32);
    return std::pair(results[0].values, results[1].values);
  };
  auto [largest, smallest] = places({DType::kF64, {5, 4}, {1,     3,     3,     1,      //
                                                           1,     kNan,  5,     kNan,   //
                                                           -kInf, -kInf, -kInf, -kInf,  //
                                                           kInf,  kInf,  -kInf, 0,      //
                                                           2,     2,     2,     2}});
  EXPECT_THAT(largest, ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(smallest, ElementsAre(0, 1, 0, 2, 0));
  std::tie(largest, smallest) = places({DType::kU8, {2, 3}, {0, 0, 0, 7, 255, 255}});
  EXPECT_THAT(largest, ElementsAre(0, 1));
  EXPECT_THAT(smallest, ElementsAre(0, 0));
}

TEST(Reduction, WrongAxesAndDTypes_Throw) {
  EXPECT_THROW(trace({{DType::kF32, {2, 3}}}, [](auto v) { return std::vector{lax::reduce_sum(v[0], {2})}; }),
               ShapeError);
  EXPECT_THROW(trace({{DType::kF32, {2, 3}}},
                     [](auto v) {
                       return std::vector{lax::reduce_sum(v[0], {1, 0})};
                     }),
               ShapeError);
  EXPECT_THROW(trace({{DType::kF32, {0}}}, [](auto v) { return std::vector{lax::argmax(v[0], 0)}; }),
               ShapeError);
  EXPECT_THROW(trace({{DType::kBool, {2}}}, [](auto v) { return std::vector{lax::reduce_sum(v[0], {0})}; }),
               DTypeError);
  EXPECT_THROW(trace({{DType::kF32, {2}}}, [](auto v) { return std::vector{lax::reduce_or(v[0], {0})}; }),
               DTypeError);
}

/// The element of x at this index.
double element(const HostArray& x, const std::vector<std::int64_t>& index) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < index.size(); ++d) place = place * x.shape[d] + index[d];
  return x.values[static_cast<std::size_t>(place)];
}

/// Steps to the next index in row-major order; false after the last.
bool next(std::vector<std::int64_t>& index, const Shape& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// dot_general as its definition says.
HostArray written_out(const HostArray& lhs, const HostArray& rhs, const DotGeneralParams& p,
                      const Shape& result) {
  HostArray out = filled(0, result);
  Shape contracted;
  for (std::int64_t d : p.lhs_contracting) contracted.push_back(lhs.shape[static_cast<std::size_t>(d)]);
  std::vector<std::int64_t> index(result.size(), 0);
  std::size_t place = 0;
  do {
    std::vector<std::int64_t> l(lhs.shape.size(), -1), r(rhs.shape.size(), -1), sum(contracted.size(), 0);
    do {
      std::ranges::fill(l, -1);
      std::ranges::fill(r, -1);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        l[static_cast<std::size_t>(p.lhs_contracting[i])] = sum[i];
        r[static_cast<std::size_t>(p.rhs_contracting[i])] = sum[i];
      }
      std::size_t from = 0;
      for (std::size_t i = 0; i < p.lhs_batch.size(); ++i, ++from) {
        l[static_cast<std::size_t>(p.lhs_batch[i])] = r[static_cast<std::size_t>(p.rhs_batch[i])] =
            index[from];
      }
      for (std::int64_t& i : l) i = i < 0 ? index[from++] : i;
      for (std::int64_t& i : r) i = i < 0 ? index[from++] : i;
      out.values[place] += element(lhs, l) * element(rhs, r);
    } while (next(sum, contracted));
    ++place;
  } while (next(index, result));
  return out;
}

TEST(DotGeneral, RandomDimensions_EqualTheSumInLoops) {
  std::mt19937 bits(7);
  auto below = [&bits](std::size_t n) { return static_cast<std::size_t>(bits() % n); };
  struct Case {
    HostArray lhs, rhs;
    DotGeneralParams params;
  };
  std::vector<Case> cases;
  Joined joined;
  for (std::uint32_t i = 0; i < 24; ++i) {
    const std::size_t batch = below(3), contracting = below(3), lhs_free = below(3), rhs_free = below(3);
    Case c;
    std::vector<std::int64_t> l(batch + contracting + lhs_free), r(batch + contracting + rhs_free);
    std::iota(l.begin(), l.end(), 0);
    std::iota(r.begin(), r.end(), 0);
    std::ranges::shuffle(l, bits);
    std::ranges::shuffle(r, bits);
    Shape lhs(l.size()), rhs(r.size());
    for (std::int64_t& size : lhs) size = 1 + static_cast<std::int64_t>(below(3));
    for (std::int64_t& size : rhs) size = 1 + static_cast<std::int64_t>(below(3));
    for (std::size_t k = 0; k < batch + contracting; ++k) {
      rhs[static_cast<std::size_t>(r[k])] = lhs[static_cast<std::size_t>(l[k])];
      (k < batch ? c.params.lhs_batch : c.params.lhs_contracting).push_back(l[k]);
      (k < batch ? c.params.rhs_batch : c.params.rhs_contracting).push_back(r[k]);
    }
    c.lhs = random(lhs, -1, 1, 2 * i);
    c.rhs = random(rhs, -1, 1, 2 * i + 1);
    std::vector<Value> v = joined.inputs({c.lhs, c.rhs});
    joined.want({lax::dot_general(v[0], v[1], c.params)});
    cases.push_back(std::move(c));
  }
  const std::vector<HostArray> results = joined.run();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const HostArray want = written_out(cases[i].lhs, cases[i].rhs, cases[i].params, results[i].shape);
    for (std::size_t k = 0; k < want.values.size(); ++k) {
      ASSERT_NEAR(results[i].values[k], want.values[k], 1e-12) << "case " << i;
    }
  }
}

TEST(DotGeneral, SizesThatDoNotFit_NameBothDimensionsAndShapes) {
  try {
    trace({{DType::kF32, {4, 8}}, {DType::kF32, {6, 2}}}, [](auto v) {
      return std::vector{lax::dot_general(v[0], v[1], {{1}, {0}, {}, {}})};
    });
    ADD_FAILURE() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[dot_general] expected contracting dimensions of one size, got 8 "
                                        "(dimension 1 of lhs f32[4,8]) and 6 (dimension 0 of rhs f32[6,2])"));
  }
}

TEST(DotGeneral, InvalidDimensions_ThrowShapeError) {
  auto dot = [](DotGeneralParams p) {
    trace({{DType::kF32, {4, 8}}, {DType::kF32, {8, 4}}},
          [&](auto v) { return std::vector{lax::dot_general(v[0], v[1], p)}; });
  };
  EXPECT_NO_THROW(dot({{1}, {0}, {}, {}}));
  EXPECT_THROW(dot({{2}, {0}, {}, {}}), ShapeError);
  EXPECT_THROW(dot({{1}, {0}, {1}, {1}}), ShapeError);
  EXPECT_THROW(dot({{1, 0}, {0}, {}, {}}), ShapeError);
}

TEST(Threefry, KnownInputs_GiveTheKnownAnswers) {
  constexpr double kOnes = 0xffffffff;
  auto words = [](std::vector<double> values) { return HostArray{DType::kU32, {3}, std::move(values)}; };
  auto results = evaluate(
      [](auto v) {
        auto [x, y] = lax::threefry2x32(v[0], v[1], v[2], v[3]);
        return std::vector{x, y};
      },
      {words({0, kOnes, 0x13198a2e}), words({0, kOnes, 0x03707344}), words({0, kOnes, 0x243f6a88}),
       words({0, kOnes, 0x85a308d3})});
  EXPECT_THAT(results[0].values, ElementsAre(0x6b200159, 0x1cb996fc, 0xc4923a9c));
  EXPECT_THAT(results[1].values, ElementsAre(0x99ba4efe, 0xbb002be7, 0x483df7a0));
}

}  // namespace
}  // namespace lockstep::ir
