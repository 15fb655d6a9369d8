// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/signal.h"

#include <complex>
#include <numbers>
#include <vector>

#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"

// Values and derivatives are compared with JAX's in tests/golden; here is what is refused.
namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::floats;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Against the sums of the definition; f64 and c128 to the digits of f64.
TEST(Fft, F64_GivesC128) {
  constexpr int kN = 12;
  std::vector<double> numbers;
  for (int i = 0; i < kN; ++i) numbers.push_back(std::sin(1.7 * i) + 0.25 * i);
  std::vector<std::complex<double>> expected(kN);
  for (int k = 0; k < kN; ++k)
    for (int i = 0; i < kN; ++i)
      expected[k] += numbers[i] * std::polar(1.0, -2 * std::numbers::pi * ((i * k) % kN) / kN);
  const Array x = array(numbers), all = array(expected);
  const auto far = [](const Array& a, const Array& b) { return max(abs(a - b)).item<double>(); };
  EXPECT_EQ(fft::fft(x).dtype(), complex128);
  EXPECT_LT(far(fft::fft(x), all), 1e-13);
  EXPECT_LT(far(fft::rfft(x), all[slice(0, kN / 2 + 1)]), 1e-13);
  EXPECT_EQ(fft::irfft(fft::rfft(x)).dtype(), float64);
  EXPECT_LT(far(fft::irfft(fft::rfft(x)), x), 1e-14);
  EXPECT_LT(far(fft::ifft(fft::fft(x, {.norm = "ortho"}), {.norm = "ortho"}), astype(x, complex128)), 1e-14);
  EXPECT_LT(far(fft::fft(x), astype(fft::fft(astype(x, float32)), complex128)), 1e-4);
  EXPECT_EQ(fft::fft(astype(x, float32)).dtype(), complex64);
}

TEST(Transforms, ArgumentsThatDoNotFit_AreErrorsThatSayWhy) {
  const Array x = zeros({4, 6}), z = zeros({4, 6}, complex64);
  EXPECT_THAT(error_of<DTypeError>([&] { fft::rfft(z); }),
              HasSubstr("[fft::rfft] expected real numbers, got c64[4,6]"));
  EXPECT_THAT(error_of<ShapeError>([&] { fft::fft(x, {.n = 0}); }),
              HasSubstr("[fft::fft] expected lengths of at least 1, got 0 along axis 1 of f32[4,6]"));
  EXPECT_THAT(error_of<ShapeError>([] { fft::irfft(zeros({1}, complex64)); }),
              HasSubstr("[fft::irfft] expected lengths of at least 1, got 0"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                fft::fftn(x, {.axes = {{0, -2}}});
              }),
              HasSubstr("[fft::fftn] expected each axis once, got [0, 0]"));
  EXPECT_THAT(error_of<ShapeError>([&] { fft::fft2(x, {.s = {{3}}}); }),
              HasSubstr("[fft::fft2] expected a length for each axis, got 1 for 2 axes"));
  EXPECT_THAT(error_of<ShapeError>([] { fft::fft2(zeros({4}), {.axes = {{0}}}); }),
              HasSubstr("[fft::fft2] expected 2 axes to transform along, got 1"));
  EXPECT_THAT(error_of<Error>([&] { fft::ifft(z, {.norm = "half"}); }),
              HasSubstr("[fft::ifft] expected the norm backward, ortho or forward, got \"half\""));
  EXPECT_THROW(fft::fftfreq(0), ShapeError);
  EXPECT_THROW(fft::fftshift(x, {{2}}), ShapeError);
}

TEST(Samples, ThatDoNotFit_AreErrorsAtTheUsersLine) {
  EXPECT_THAT(error_of<ShapeError>([] { convolve(zeros({3}), zeros({0})); }),
              AllOf(HasSubstr("[convolve] expected two vectors that are not empty, got f32[3] and f32[0]"),
                    HasSubstr("signal_test.cc:")));
  EXPECT_THAT(error_of<Error>([] { correlate(ones({3}), ones({2}), "all"); }),
              HasSubstr("[correlate] expected the mode full, same or valid, got \"all\""));
  EXPECT_THAT(error_of<ShapeError>([] { interp(1.f, zeros({3}), zeros({4})); }),
              HasSubstr("[interp] expected two vectors of one size, got f32[3] and f32[4]"));
  EXPECT_THAT(error_of<Error>([] { interp(1.f, zeros({3}), zeros({3}), {.left = 1, .period = 2}); }),
              HasSubstr("without left and right"));
  EXPECT_THAT(error_of<ShapeError>([] {
                digitize(1.f, zeros({2, 2}));
              }),
              HasSubstr("[digitize] expected bins of one dimension, got f32[2,2]"));
  EXPECT_THAT(error_of<ShapeError>([] { histogram(zeros({3}), zeros({1})); }),
              HasSubstr("[histogram] expected at least two edges"));
  EXPECT_THAT(error_of<ShapeError>([] { histogram(zeros({3}), 0); }),
              HasSubstr("[histogram] expected at least one bin, got 0"));
  EXPECT_THAT(error_of<ShapeError>([] { histogram(zeros({3}), 2, {.weights = zeros({2})}); }),
              HasSubstr("[histogram] expected weights of the shape of f32[3], got f32[2]"));
  EXPECT_THAT(error_of<ShapeError>([] {
                ragged_dot(zeros({4, 3}), zeros({2, 3, 5}), zeros({3}, int32));
              }),
              HasSubstr("[ragged_dot] expected [m,k], [groups,k,n] and [groups]"));
  EXPECT_THROW(frexp(zeros({2}, complex64)), DTypeError);
}

TEST(Samples, EdgeCases_GiveNumPysValues) {
  expect_close(interp(array({-1.f, 0.f, 1.f}), array({0.f}), array({7.f})), {7, 7, 7});
  auto [counts, edges] = histogram(array({2.f, 2.f}), 2);
  expect_close(counts, {0, 2});
  expect_close(edges, {1.5, 2, 2.5});
  // No elements: the bins are those from 0 to 1.
  expect_close(histogram(zeros({0}), 2).second, {0, 0.5, 1});
  expect_close(frexp(array({6.f, -8.f})).first, {0.75f, -0.5f});
}

}  // namespace
}  // namespace lockstep
