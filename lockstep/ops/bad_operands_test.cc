// SPDX-License-Identifier: Apache-2.0
// Tests that operands that do not fit an operation are refused when it is traced, with the operation, what
// was given, and the user's line.

#include "lockstep/array/trace.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::HasSubstr;

struct Bad {
  std::function<void()> use;
  std::vector<std::string> said;  ///< the operation in brackets, what was given, besides the place
};

class BadOperands : public ::testing::Test {
 protected:
  Trace trace{"bad"};
  Array x = of(DType::kF32, {2, 3}), y = of(DType::kF32, {4, 5}), vector = of(DType::kF32, {3}),
        cube = of(DType::kF32, {2, 3, 4}), square = of(DType::kF32, {3, 3}), scalar = of(DType::kF32, {}),
        ints = of(DType::kI32, {2, 3}), bools = of(DType::kBool, {2, 3}), complexes = of(DType::kC64, {2, 3}),
        empty = of(DType::kF32, {0, 3});

  Array of(DType dtype, Shape shape) { return trace.input({dtype, std::move(shape), false, {}}); }

  template <class E>
  void expect_said(const std::vector<Bad>& all) {
    for (const Bad& each : all) {
      SCOPED_TRACE(each.said.front() + " " + each.said.back());
      const std::string message = error_of<E>(each.use);
      EXPECT_THAT(message, HasSubstr("bad_operands_test.cc:"));
      for (const std::string& part : each.said) EXPECT_THAT(message, HasSubstr(part));
    }
  }
};

TEST_F(BadOperands, ShapesThatDoNotFit_AreShapeErrors) {
  expect_said<ShapeError>({
      {[&] { x + y; }, {"[add]", "f32[2,3]", "f32[4,5]"}},
      {[&] { x == y; }, {"[equal]", "f32[2,3]", "f32[4,5]"}},
      {[&] { where(bools, x, y); }, {"[where]", "bool[2,3]", "f32[4,5]"}},
      {[&] { clamp(y, x, 1); }, {"[clamp]", "f32[4,5]", "f32[2,3]"}},
      {[&] { hypot(x, y); }, {"[hypot]", "f32[2,3]", "f32[4,5]"}},
      {[&] { xlogy(x, y); }, {"[xlogy]", "f32[2,3]", "f32[4,5]"}},
      {[&] { complex(x, y); }, {"[complex]", "f32[2,3]", "f32[4,5]"}},
      {[&] { array_split(x, 0); }, {"[array_split]", "0"}},
      {[&] { matmul(x, y); }, {"[matmul]", "f32[2,3]", "f32[4,5]"}},
      {[&] { matmul(x, scalar); }, {"[matmul]", "f32[]"}},
      {[&] { dot(x, y); }, {"[dot]", "f32[2,3]", "f32[4,5]"}},
      {[&] { inner(x, y); }, {"[tensordot]", "f32[2,3]", "f32[4,5]"}},
      {[&] { vdot(x, y); }, {"[tensordot]", "f32[6]", "f32[20]"}},
      {[&] { tensordot(x, y, 1); }, {"[tensordot]", "f32[2,3]", "f32[4,5]"}},
      {[&] { tensordot(x, y, 3); }, {"[tensordot]", "f32[2,3]", "3"}},
      {[&] { kron(x, vector); }, {"[kron]", "f32[2,3]", "f32[3]"}},
      {[&] {
         einsum("ij,jk->ik", {x, y});
       },
       {"[einsum]", "ij,jk->ik", "j"}},
      {[&] { einsum("ijk->ij", {x}); }, {"[einsum]", "f32[2,3]"}},
      {[&] { einsum("ij->iz", {x}); }, {"[einsum]", "z"}},
      {[&] { einsum("ij,jk", {x}); }, {"[einsum]", "ij,jk"}},
      {[&] { linalg::cholesky(x); }, {"[linalg::cholesky]", "f32[2,3]"}},
      {[&] { linalg::inv(x); }, {"[linalg::inv]", "f32[2,3]"}},
      {[&] { linalg::det(x); }, {"[linalg::det]", "f32[2,3]"}},
      {[&] { linalg::slogdet(x); }, {"[linalg::slogdet]", "f32[2,3]"}},
      {[&] { linalg::eigh(x); }, {"[linalg::eigh]", "f32[2,3]"}},
      {[&] { linalg::qr(vector); }, {"[linalg::qr]", "f32[3]"}},
      {[&] { linalg::svd(vector); }, {"[linalg::svd]", "f32[3]"}},
      {[&] { linalg::solve(square, y); }, {"[linalg::solve]", "f32[3,3]", "f32[4,5]"}},
      {[&] { linalg::triangular_solve(square, y); }, {"[linalg::triangular_solve]", "f32[3,3]", "f32[4,5]"}},
      {[&] { linalg::matrix_power(x, 2); }, {"[linalg::matrix_power]", "f32[2,3]"}},
      {[&] {
         reshape(x, {4, 2});
       },
       {"[reshape]", "f32[2,3]", "[4,2]"}},
      {[&] {
         reshape(x, {-1, 4});
       },
       {"[reshape]", "f32[2,3]", "[-1,4]"}},
      {[&] {
         broadcast_to(x, {2, 4});
       },
       {"[broadcast_to]", "f32[2,3]", "[2,4]"}},
      {[&] {
         concatenate({x, y});
       },
       {"[concatenate]", "f32[2,3]", "f32[4,5]"}},
      {[&] {
         stack({x, y});
       },
       {"[stack]", "f32[2,3]", "f32[4,5]"}},
      {[&] { split(x, 2, 1); }, {"[split]", "f32[2,3]", "2"}},
      {[&] { squeeze(x, 0); }, {"[squeeze]", "f32[2,3]"}},
      {[&] {
         pad(x, {{1, 1}});
       },
       {"[pad]", "f32[2,3]"}},
      {[&] {
         slice(x, {0, 0}, {3, 3});
       },
       {"[slice]", "f32[2,3]"}},
      {[&] {
         dynamic_slice(x, {0.5, 0}, {1, 1});
       },
       {"[dynamic_slice]", "whole numbers", "f32[]"}},
      {[&] {
         dynamic_slice(x, {0, 0}, {3, 3});
       },
       {"[dynamic_slice]", "f32[2,3]"}},
      {[&] {
         dynamic_update_slice(x, y, {0, 0});
       },
       {"[dynamic_update_slice]", "f32[2,3]", "f32[4,5]"}},
      {[&] { diag(cube); }, {"[diag]", "f32[2,3,4]"}},
      {[&] { tril(vector); }, {"[tril]", "f32[3]"}},
      {[&] {
         meshgrid({x, vector});
       },
       {"[meshgrid]", "f32[2,3]"}},
      {[&] { repeat(x, -1); }, {"[repeat]", "-1"}},
      {[&] { repeat(x, of(DType::kI32, {4}), {.total_repeat_length = 6, .axis = 0}); },
       {"[repeat]", "f32[2,3]", "i32[4]"}},
      {[&] {
         tile(x, {-1, 2});
       },
       {"[tile]", "-1"}},
      {[&] { x[5]; }, {"f32[2,3]", "5"}},
      {[&] {
         x[{0, 0, 0}];
       },
       {"f32[2,3]"}},
      {[&] { x.at(0).set(y); }, {"f32[4,5]"}},
      {[&] { take_along_axis(x, of(DType::kI32, {3}), 0); }, {"[take_along_axis]", "f32[2,3]", "i32[3]"}},
      {[&] { searchsorted(x, y); }, {"[searchsorted]", "f32[2,3]"}},
      {[&] { top_k(x, 7); }, {"[top_k]", "f32[2,3]", "7"}},
      {[&] { segment_sum(x, of(DType::kI32, {5}), 2); }, {"[segment_sum]", "f32[2,3]", "i32[5]"}},
      {[&] { bincount(ints, 4, vector); }, {"[bincount]", "i32[2,3]", "f32[3]"}},
      {[&] {
         lexsort({x, y});
       },
       {"[lexsort]", "f32[2,3]", "f32[4,5]"}},
      {[&] { average(x, y); }, {"[average]", "f32[2,3]", "f32[4,5]"}},
      {[&] { cov(cube); }, {"[cov]", "f32[2,3,4]"}},
  });
}

TEST_F(BadOperands, AxesThatDoNotExist_AreShapeErrors) {
  expect_said<ShapeError>({
      {[&] { sum(x, 2); }, {"[sum]", "2", "f32[2,3]"}},
      {[&] {
         sum(x, {.axis = {0, 0}});
       },
       {"[sum]", "axis 0 is named twice"}},
      {[&] { mean(x, -3); }, {"[mean]", "-3", "f32[2,3]"}},
      {[&] { var(x, 2); }, {"[var]", "2", "f32[2,3]"}},
      {[&] { argmax(x, 2); }, {"[argmax]", "2", "f32[2,3]"}},
      {[&] { logsumexp(x, 2); }, {"[logsumexp]", "2", "f32[2,3]"}},
      {[&] { nansum(x, {.axis = 2}); }, {"[sum]", "2", "f32[2,3]"}},
      {[&] { sort(x, 2); }, {"[sort]", "2", "f32[2,3]"}},
      {[&] { cumsum(x, 2); }, {"[cumsum]", "2", "f32[2,3]"}},
      {[&] { flip(x, 2); }, {"[flip]", "2", "f32[2,3]"}},
      {[&] { roll(x, 1, 2); }, {"[roll]", "2", "f32[2,3]"}},
      {[&] { take(x, ints, 2); }, {"[take]", "2", "f32[2,3]"}},
      {[&] { median(x, 2); }, {"[median]", "2", "f32[2,3]"}},
      {[&] {
         transpose(x, {0, 2});
       },
       {"[transpose]", "f32[2,3]"}},
      {[&] { swapaxes(x, 0, 2); }, {"[swapaxes]", "2", "f32[2,3]"}},
      {[&] { expand_dims(x, 4); }, {"[expand_dims]", "4", "f32[2,3]"}},
      {[&] {
         concatenate({x, x}, 2);
       },
       {"[concatenate]", "2", "f32[2,3]"}},
      {[&] { diagonal(x, 0, 0, 2); }, {"[diagonal]", "2", "f32[2,3]"}},
      {[&] { linalg::norm(x, {.axis = 2}); }, {"[sum]", "2", "f32[2,3]"}},
  });
}

TEST_F(BadOperands, DTypesThatAnOperationDoesNotTake_AreDTypeErrors) {
  expect_said<DTypeError>({
      {[&] { bitwise_and(x, 1); }, {"[bitwise_and]", "f32"}},
      {[&] { bitwise_not(x); }, {"[bitwise_not]", "f32"}},
      {[&] { left_shift(x, 1); }, {"[left_shift]", "f32"}},
      {[&] { gcd(x, x); }, {"[gcd]", "f32"}},
      {[&] { ldexp(x, x); }, {"[ldexp]", "f32"}},
      {[&] { floor(complexes); }, {"[floor]", "c64"}},
      {[&] { erf(complexes); }, {"[erf]", "c64"}},
      {[&] { digamma(complexes); }, {"[digamma]", "c64"}},
      {[&] { complex(complexes, complexes); }, {"[complex]", "c64"}},
      {[&] {
         linalg::cholesky(of(DType::kC64, {3, 3}));
       },
       {"[linalg::cholesky]", "c64"}},
      {[&] {
         linalg::eigh(of(DType::kC64, {3, 3}));
       },
       {"[linalg::eigh]", "c64"}},
      {[&] { argmax(complexes); }, {"[argmax]", "c64"}},
      {[&] { take(x, x); }, {"[take]", "f32"}},
      {[&] { x[bools]; }, {"[index]", "use where, or nonzero with a size"}},
      {[&] { ints.at(0).set(0.5); }, {"i32"}},
      {[&] { one_hot(x, 3); }, {"[one_hot]", "f32"}},
      {[&] { bincount(x, 3); }, {"[bincount]", "f32"}},
      {[&] { segment_sum(x, vector, 2); }, {"[segment_sum]", "f32[3]"}},
      {[&] { repeat(x, vector, {.total_repeat_length = 6, .axis = 1}); }, {"[repeat]", "f32[3]"}},
      {[&] { power(ints, -1); }, {"[power]", "i32", "-1"}},
  });
}

TEST_F(BadOperands, NoElementsWhereSomeAreNeeded_AreShapeErrors) {
  expect_said<ShapeError>({
      {[&] { max(empty, 0); }, {"[max]", "f32[0,3]"}},
      {[&] { min(empty); }, {"[min]", "f32[0,3]"}},
      {[&] { argmax(empty, 0); }, {"[argmax]", "f32[0,3]"}},
      {[&] { argmin(empty, 0); }, {"[argmin]", "f32[0,3]"}},
      {[&] { ptp(empty); }, {"[min]", "f32[0,3]"}},
      {[&] { nanmax(empty, {.axis = 0}); }, {"[max]", "f32[0,3]"}},
      {[&] { median(empty, 0); }, {"[median]", "f32[0,3]"}},
      {[&] { concatenate({}); }, {"[concatenate]"}},
      {[&] { stack({}); }, {"[stack]"}},
  });
}

}  // namespace
}  // namespace lockstep
