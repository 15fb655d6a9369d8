// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/decompositions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/test_evaluate.h"

// Without LAPACK decompositions are composed of other operations: what they give then is what they give with
// it.
namespace lockstep::ir {
namespace {

using namespace test;
using ::testing::HasSubstr;

void expect_close(const HostArray& got, const HostArray& want, double tolerance) {
  ASSERT_EQ(got.shape, want.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i)
    EXPECT_NEAR(got.values[i], want.values[i], tolerance) << "element " << i;
}

/// Some matrices among which rows change places, and one is singular.
HostArray matrices(Shape shape, DType dtype) {
  HostArray x = random(std::move(shape), -1, 1, 31, dtype);
  x.values[0] = 0;
  return x;
}

HostArray squared(HostArray x) {
  for (double& value : x.values) value *= value;
  return x;
}

TEST(Decompositions, WithoutLapack_GiveWhatLapackGives) {
  if (!lapack::is_available()) GTEST_SKIP() << lapack::description();
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    SCOPED_TRACE(name(dtype));
    const double tolerance = dtype == DType::kF64 ? 1e-9 : 2e-4;
    for (const Shape& shape : {Shape{3, 5, 5}, Shape{2, 5, 3}, Shape{2, 3, 5}, Shape{1, 1}}) {
      const HostArray x = matrices(shape, dtype);
      // Columns of q, u and v may have the other sign.
      const Program program = trace({x.aval()}, [](std::span<const Value> in) {
        std::vector<Value> out = lax::lu(in[0]);
        for (const Value& part : lax::svd(in[0])) out.push_back(part);
        out.push_back(lax::svd(in[0], false)[0]);
        for (const Value& part : lax::qr(in[0])) out.push_back(part);
        return out;
      });
      const std::vector<HostArray> with = evaluate(program, {x}), without = evaluate(program, {x}, {}, false);
      for (std::size_t i = 0; i < with.size(); ++i) {
        SCOPED_TRACE(i);
        const bool any_sign = i == 3 || i == 5 || i > 6;
        expect_close(any_sign ? squared(without[i]) : without[i], any_sign ? squared(with[i]) : with[i],
                     tolerance);
      }
    }
    HostArray positive = random({2, 4, 4}, -0.2, 0.2, 32, dtype);
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t row = i % 16 / 4, column = i % 4;
      if (row == column) positive.values[i] = 1 + static_cast<double>(row);
      if (row > column) positive.values[i] = positive.values[i / 16 * 16 + column * 4 + row];
    }
    const HostArray right = random({2, 4, 3}, -1, 1, 33, dtype), left = random({2, 3, 4}, -1, 1, 34, dtype);
    const Program program = trace(avals_of({positive, right, left}), [](std::span<const Value> in) {
      std::vector<Value> out = {lax::cholesky(in[0]), lax::eigh(in[0])[1]};
      for (int bits = 0; bits < 16; ++bits) {
        const bool from_left = bits & 1;
        out.push_back(lax::triangular_solve(in[0], in[from_left ? 1 : 2],
                                            {from_left, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0}));
      }
      return out;
    });
    const std::vector<HostArray> inputs = {positive, right, left}, with = evaluate(program, inputs),
                                 without = evaluate(program, inputs, {}, false);
    for (std::size_t i = 0; i < with.size(); ++i) {
      SCOPED_TRACE(i);
      expect_close(without[i], with[i], tolerance);
    }
  }
}

TEST(Decompositions, GeqrfAndHouseholderProduct_GiveQr) {
  for (const Shape& shape : {Shape{3, 5, 5}, Shape{2, 5, 3}, Shape{1, 1}}) {
    const HostArray x = matrices(shape, DType::kF64);
    const Program program = trace({x.aval()}, [](std::span<const Value> in) {
      const std::vector<Value> steps = lax::geqrf(in[0]);
      const Value q = lax::householder_product(steps[0], steps[1]);
      const Value r =
          matrices::upper_part(matrices::part(steps[0], 0, matrices::columns(q), 0, matrices::columns(q)));
      return std::vector<Value>{matrices::product(q, r), matrices::product(matrices::transposed(q), q),
                                matrices::eye(r)};
    });
    for (const bool lapack : {true, false}) {
      if (lapack && !lapack::is_available()) continue;
      SCOPED_TRACE(lapack ? "by LAPACK" : "without LAPACK");
      const std::vector<HostArray> found = evaluate(program, {x}, {}, lapack);
      expect_close(found[0], x, 1e-12);
      expect_close(found[1], found[2], 1e-12);
    }
  }
}

TEST(Decompositions, FewerReflectionsThanColumns_GiveOrthonormalColumns) {
  const HostArray x = matrices({2, 5, 2}, DType::kF64);
  const Program program = trace({x.aval()}, [](std::span<const Value> in) {
    const std::vector<Value> steps = lax::geqrf(in[0]);
    const Value more = lax::pad(steps[0], lax::full(in[0], Scalar::of(0.0), DType::kF64, {}), {0, 0, 0},
                                {0, 0, 3}, {0, 0, 0});
    const Value q = lax::householder_product(more, steps[1]);
    return std::vector<Value>{matrices::product(matrices::transposed(q), q), matrices::eye(q)};
  });
  for (const bool lapack : {true, false}) {
    if (lapack && !lapack::is_available()) continue;
    const std::vector<HostArray> found = evaluate(program, {x}, {}, lapack);
    expect_close(found[0], found[1], 1e-12);
  }
}

TEST(Decompositions, CholeskyOfAnIndefiniteMatrix_IsNan) {
  const HostArray x{DType::kF32, {2, 2}, {1, 2, 2, 1}};
  for (const bool lapack : {true, false}) {
    const Program program =
        trace({x.aval()}, [](std::span<const Value> in) { return std::vector{lax::cholesky(in[0])}; });
    EXPECT_TRUE(std::isnan(evaluate(program, {x}, {}, lapack)[0].values[0])) << lapack;
  }
}

TEST(Decompositions, ThatOnlyLapackComputes_AreAnErrorWithoutIt) {
  const Aval x = {DType::kF32, {3, 3}};
  LowerOptions options;
  options.lapack = false;
  const auto lowered = [&](const Function& function) {
    try {
      lower(trace({x}, function), options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(lowered([](std::span<const Value> in) { return lax::eig(in[0]); }),
              HasSubstr("[linalg::eig] is computed by LAPACK only"));
  EXPECT_THAT(lowered([](std::span<const Value> in) { return lax::schur(in[0]); }),
              HasSubstr("install OpenBLAS on every host (Debian: libopenblas0-pthread)"));
}

TEST(Decompositions, OtherDTypesAndShapes_AreRefused) {
  Builder builder;
  const Value complex = builder.input({DType::kC128, {3, 3}}), whole = builder.input({DType::kI32, {3, 3}}),
              tall = builder.input({DType::kF32, {4, 3}}), vector = builder.input({DType::kF32, {4}});
  EXPECT_THROW(lax::eig(complex), DTypeError);
  EXPECT_THROW(lax::sqrtm(complex), DTypeError);
  EXPECT_THROW(lax::lu(whole), DTypeError);
  EXPECT_THROW(lax::schur(tall), ShapeError);
  EXPECT_THROW(lax::svd(vector), ShapeError);
}

}  // namespace
}  // namespace lockstep::ir
