// SPDX-License-Identifier: Apache-2.0
// Operations for which XLA, LAPACK or oneDNN use several threads, between collectives of the devices of one
// process. An operation that waited for threads of XLA's pool would hang: they may all be in collectives,
// which wait for the operation's device.

#include <functional>
#include <string>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/nn/attention.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/fft.h"
#include "lockstep/ops/linalg.h"

namespace lockstep {
namespace {

using test::waves;

struct Operation {
  std::string name;
  std::function<Array(const Array&)> call;
  Shape shape = {384, 384};
};

Array convolved(const Array& pictures, const Array& kernels, std::int64_t groups, std::int64_t stride) {
  return nn::conv(
      pictures, kernels,
      {.window_strides = {stride, stride}, .padding = {{1, 1}, {1, 1}}, .feature_group_count = groups});
}

/// Positive definite.
Array heavy_diagonal(const Array& x) { return x + 400.f * eye(x.shape()[0]); }

std::vector<Operation> operations() {
  const Shape pictures = {16, 28, 28, 32}, kernels = {3, 3, 32, 32};
  const auto by_pictures = [=](std::int64_t groups, std::int64_t stride) {
    return [=](const Array& x) {
      return grad([=](const Array& x) {
        return sum(square(convolved(x, waves({3, 3, 32 / groups, 32}), groups, stride)));
      })(x);
    };
  };
  return {
      {"Product", [](const Array& x) { return matmul(x, x); }},
      {"ProductOfF64", [](const Array& x) { return matmul(astype(x, float64), astype(x, float64)); }},
      {"ProductOfBf16", [](const Array& x) { return matmul(astype(x, bfloat16), astype(x, bfloat16)); }},
      {"TransposedProduct",
       [](const Array& x) {
         return einsum("ij,ik->jk", {x, x});
       }},
      {"Products",
       [](const Array& x) {
         return einsum("bij,bkj->bik", {x, x});
       },
       {16, 128, 128}},
      {"MatrixVectorProduct", [](const Array& x) { return matmul(x, x[0]); }, {1024, 1024}},
      {"GroupsOfRows",
       [](const Array& x) {
         return ragged_dot(x, waves({2, 384, 384}, 3), array({100, 284}));
       }},
      {"Convolution", [=](const Array& x) { return convolved(x, waves(kernels, 2), 1, 1); }, pictures},
      {"ConvolutionOfOnePicture",
       [=](const Array& x) { return convolved(x, waves(kernels), 1, 1); },
       {1, 64, 64, 32}},
      {"StridedConvolutionsGradient", by_pictures(1, 2), pictures},
      {"GroupedConvolutionsGradient", by_pictures(32, 1), pictures},
      {"ConvolutionsGradientByKernels",
       [=](const Array& w) {
         return grad([=](const Array& w) { return sum(square(convolved(waves(pictures), w, 1, 1))); })(w);
       },
       kernels},
      {"MaxPoolsGradient",
       [](const Array& x) {
         return grad([](const Array& x) {
           return sum(square(nn::max_pool(x, {3, 3}, {.strides = {2, 2}})));
         })(x);
       },
       pictures},
      {"Attention", [](const Array& x) { return nn::dot_product_attention(x, x, x); }, {2, 256, 8, 32}},
      {"CumulativeSum", [](const Array& x) { return cumsum(x); }, {1 << 16}},
      {"TopK", [](const Array& x) { return top_k(x, 10).first; }},
      {"Transform", [](const Array& x) { return real(fft::fft2(x)); }},
      {"TransformOfReals", [](const Array& x) { return fft::irfft(fft::rfft(x)); }},
      {"Cholesky", [](const Array& x) { return linalg::cholesky(heavy_diagonal(matmul(x, x.T()))); }},
      {"Qr", [](const Array& x) { return linalg::qr(heavy_diagonal(x)).r; }},
      {"Eigenvalues", [](const Array& x) { return linalg::eigvalsh(x + x.T()); }, {160, 160}},
      {"SingularValues", [](const Array& x) { return linalg::svdvals(x); }, {160, 160}},
      {"Solve", [](const Array& x) { return linalg::solve(heavy_diagonal(x), x); }},
      {"Loop",
       [](const Array& x) {
         return fori_loop(
             0, 5, [](const Array&, const Array& y) { return y + matmul(y, y) / 384.f; }, x);
       }},
  };
}

class MultithreadedOperations : public ::testing::TestWithParam<Operation> {};

TEST_P(MultithreadedOperations, BetweenCollectivesOfOneProcess_FinishWithTheRightValue) {
  const auto& [name, call, shape] = GetParam();
  const Array x = waves(shape);
  const auto devices = static_cast<float>(local_device_count());
  const auto everywhere = pmap(
      [&, call = call](const Array& part) { return psum(call(psum(part / devices, "i")), "i") / devices; });
  const Array all = broadcast_to(x, [&] {
    Shape stacked = shape;
    stacked.insert(stacked.begin(), local_device_count());
    return stacked;
  }());
  const Array expected = astype(jit(call)(x), float64);
  const double largest = max(abs(expected)).item<double>();
  for (int i = 0; i < 6; ++i) {
    const Array error = max(abs(astype(everywhere(all)[0], float64) - expected));
    ASSERT_LT(error.item<double>(), 1e-4 * largest);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, MultithreadedOperations, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Lapack, InAProcessWithSeveralDevices_UsesOneThreadPerDevice) {
  if (!lapack::is_available()) GTEST_SKIP() << lapack::description();
  if (std::getenv("OPENBLAS_NUM_THREADS") != nullptr) GTEST_SKIP() << "OPENBLAS_NUM_THREADS is set";
  ASSERT_GT(local_device_count(), 1);
  EXPECT_THAT(lapack::description(), ::testing::HasSubstr("; 1 threads"));
}

}  // namespace
}  // namespace lockstep
