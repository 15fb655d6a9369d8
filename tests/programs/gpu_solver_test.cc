// SPDX-License-Identifier: Apache-2.0
// Decompositions on GPUs. A plugin that looks like CUDA's and computes on the CPU takes the place of GPUs,
// and OpenBLAS that of cuSOLVER.

#include <dlfcn.h>

#include <cmath>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/random/random.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "tests/programs/test_gpus.h"

namespace lockstep {
namespace {

using test::on_gpus;
using ::testing::HasSubstr;
using testing::run_processes;

Array of_rows(const Array& x) { return swapaxes(x, -1, -2); }

/// The largest difference of two arrays.
double apart(const Array& a, const Array& b) {
  return astype(max(abs(astype(a, DType::kF64) - astype(b, DType::kF64))), DType::kF64).item<double>();
}

void decompose(const Array& x, double tolerance) {
  SCOPED_TRACE(fmt::format("{} of {}", to_string(x.shape()), name(x.dtype())));
  const std::int64_t rank = static_cast<std::int64_t>(x.shape().size());
  const std::int64_t m = x.shape()[static_cast<std::size_t>(rank - 2)], n = x.shape().back(),
                     k = std::min(m, n);
  const auto [u, s, vh] = linalg::svd(x);
  EXPECT_LT(apart(matmul(u * expand_dims(s, -2), vh), x), tolerance);
  EXPECT_LT(apart(matmul(of_rows(u), u), broadcast_to(eye(k, k, x.dtype()), matmul(of_rows(u), u).shape())),
            tolerance);
  EXPECT_LT(apart(linalg::svdvals(x), s), tolerance);
  const auto [q, r] = linalg::qr(x);
  EXPECT_LT(apart(matmul(q, r), x), tolerance);
  EXPECT_LT(apart(triu(r), r), 1e-30);
  EXPECT_LT(apart(matmul(of_rows(q), q), broadcast_to(eye(k, k, x.dtype()), matmul(of_rows(q), q).shape())),
            tolerance);
  const auto [p, l, upper] = linalg::lu(x);
  EXPECT_LT(apart(matmul(p, matmul(l, upper)), x), tolerance);
  EXPECT_LT(apart(tril(l), l), 1e-30);
  if (m != n) return;
  const Array symmetric = x + of_rows(x);
  const auto [w, v] = linalg::eigh(symmetric);
  EXPECT_LT(apart(matmul(v * expand_dims(w, -2), of_rows(v)), symmetric), tolerance);
  EXPECT_LT(apart(matmul(linalg::inv(x + 3 * eye(n, n, x.dtype())), x + 3 * eye(n, n, x.dtype())),
                  broadcast_to(eye(n, n, x.dtype()), x.shape())),
            tolerance);
}

LOCKSTEP_CHILD(decomposes_on_gpus) {
  initialize();
  for (const Shape& shape : {Shape{5, 5}, Shape{3, 4, 4}, Shape{2, 6, 3}, Shape{2, 3, 6}, Shape{1, 1}})
    decompose(random::normal(random::key(7), shape, DType::kF32), 1e-4);
  for (const Shape& shape : {Shape{3, 4, 4}, Shape{2, 2, 7, 5}})
    decompose(random::normal(random::key(7), shape, DType::kF64), 1e-10);
  // Many small matrices are decomposed by one call.
  const auto calls_for = [](const Shape& shape) {
    static const int* const calls = static_cast<const int*>(
        dlsym(dlopen("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD), "calls_of_cublas_on_cpu"));
    const int before = *calls;
    const Array x = random::normal(random::key(9), shape, DType::kF64);
    decompose(x, 1e-10);
    block_until_ready(linalg::lu(x).p);
    return *calls > before;
  };
  EXPECT_TRUE(calls_for({9, 2, 2}));
  EXPECT_TRUE(calls_for({2, 40, 40}));
  EXPECT_TRUE(calls_for({2, 40, 20}));
  EXPECT_FALSE(calls_for({2, 300, 290}));
  const std::string text = jit([](Array x) { return linalg::svd(x).u; }).lower(zeros({4, 3})).as_text();
  EXPECT_THAT(text, HasSubstr("lockstep_cusolver"));
  // A matrix of one pair of equal rows; one that is not finite does not converge, and the others do.
  decompose(reshape(array({1.f, 2.f, 1.f, 2.f}), {2, 2}), 1e-5);
  const Array two = reshape(array({2.f, 1.f, 1.f, 2.f, NAN, 1.f, 1.f, 2.f}), {2, 2, 2});
  const std::vector<float> w = linalg::eigh(two).eigenvalues.to_host<float>();
  EXPECT_NEAR(w[0], 1, 1e-6);
  EXPECT_NEAR(w[1], 3, 1e-6);
  EXPECT_TRUE(std::isnan(w[2]) && std::isnan(w[3]));
  EXPECT_EQ(linalg::svdvals(zeros({3, 0, 4})).shape(), (Shape{3, 0}));
  // In derivatives, and split over devices.
  const Array x = random::normal(random::key(8), {4, 3, 3}, DType::kF64);
  const auto f = [](Array x) { return sum(linalg::svdvals(x)); };
  const auto [u, s, vh] = linalg::svd(x);
  EXPECT_LT(apart(grad(f)(x), matmul(u, vh)), 1e-10);
  EXPECT_LT(apart(jit([](Array x) { return linalg::svdvals(x); })(
                      device_put(x, NamedSharding(make_mesh({{"x", 2}}), P("x")))),
                  s),
            1e-12);
  // By the host's LAPACK.
  const Array w_of = linalg::eigvals(x);
  EXPECT_LT(apart(real(sum(w_of, -1)), trace(x, 0, 1, 2)), 1e-10);
  shutdown();
}

TEST(GpuSolver, Decompositions_GiveTheirMatrices) {
  if (!lapack::is_available()) GTEST_SKIP() << lapack::description();
  for (const auto& process : run_processes({.count = 1, .child = "decomposes_on_gpus", .env = on_gpus()}))
    EXPECT_EQ(process.exit_code, 0) << process.log;
}

LOCKSTEP_CHILD(decomposes_large_matrices_on_gpus) {
  initialize();
  for (const Shape& shape : {Shape{1030, 1025}, Shape{1025, 1030}}) {
    const Array x = random::normal(random::key(7), shape, DType::kF32);
    const auto [u, s, vh] = linalg::svd(x);
    EXPECT_LT(apart(matmul(u * expand_dims(s, -2), vh), x), 1e-3) << to_string(shape);
  }
  shutdown();
}

TEST(GpuSolver, LargeMatrices_AreDecomposedByQrIterations) {
  if (!lapack::is_available()) GTEST_SKIP() << lapack::description();
  for (const auto& process :
       run_processes({.count = 1, .child = "decomposes_large_matrices_on_gpus", .env = on_gpus()}))
    EXPECT_EQ(process.exit_code, 0) << process.log;
}

}  // namespace
}  // namespace lockstep
