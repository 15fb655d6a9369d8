// SPDX-License-Identifier: Apache-2.0
// What the QR decomposition of a matrix whose rows are split moves.

#include <gmock/gmock.h>

#include <tuple>
#include <utility>

#include "lockstep/jit/grad.h"
#include "lockstep/ops/linalg.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::ElementsAre;

TEST(Tsqr, OfSplitRows_GathersOnlyTheFactorsR) {
  const std::int64_t blocks = line_mesh().size(), n = 3;
  const Array whole = waves({64 * blocks, n});
  const Array split = device_put(whole, NamedSharding(line_mesh(), P("x")));
  auto f = jit([blocks](const Array& x) {
    const linalg::QR qr = linalg::tsqr(x, blocks);
    return std::pair(qr.q, qr.r);
  });
  // The bound is the triangles, half of that.
  const std::string moved = "1 x all-gather of " + std::to_string(blocks * n * n * 4) + " B";
  EXPECT_THAT(exchanges(f, split), ElementsAre(moved));
  const auto [q, r] = f(split);
  EXPECT_EQ(q.sharding(), split.sharding());
  EXPECT_LT(max(abs(matmul(q, r) - whole)).item<float>(), 1e-5);
  EXPECT_LT(max(abs(matmul(transpose(q), q) - eye(n))).item<float>(), 1e-5);
}

TEST(Tsqr, AndSvdOfR_AreTheSvd_AndGatherNoMore) {
  const std::int64_t blocks = line_mesh().size(), n = 3;
  const Array whole = waves({64 * blocks, n});
  const Array split = device_put(whole, NamedSharding(line_mesh(), P("x")));
  auto f = jit([blocks](const Array& x) {
    const linalg::QR qr = linalg::tsqr(x, blocks);
    const linalg::SVD of_r = linalg::svd(qr.r);
    return std::tuple(matmul(qr.q, of_r.u), of_r.s, of_r.vh);
  });
  EXPECT_THAT(exchanges(f, split),
              ElementsAre("1 x all-gather of " + std::to_string(blocks * n * n * 4) + " B"));
  const auto [u, s, vh] = f(split);
  EXPECT_EQ(u.sharding(), split.sharding());
  EXPECT_LT(max(abs(matmul(u * s, vh) - whole)).item<float>(), 1e-5);
  EXPECT_LT(max(abs(matmul(transpose(u), u) - eye(n))).item<float>(), 1e-5);
  test::expect_equal(s, linalg::svdvals(whole));
}

TEST(Tsqr, Gradient_IsThatOfQr) {
  const Array x = waves({64, 3});
  auto loss = [](const Array& q, const Array& r) { return sum(power(abs(matmul(q, r * r)), 3)); };
  const Array by_blocks = grad([&](const Array& x) {
    const linalg::QR qr = linalg::tsqr(x, 4);
    return loss(qr.q, qr.r);
  })(x);
  const Array expected = grad([&](const Array& x) {
    const linalg::QR qr = linalg::qr(x);
    return loss(qr.q, qr.r);
  })(x);
  EXPECT_LT(max(abs(by_blocks - expected)).item<float>(), 1e-3 * max(abs(expected)).item<float>());
}

}  // namespace
}  // namespace lockstep
