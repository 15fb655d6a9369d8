// SPDX-License-Identifier: Apache-2.0
// random::Key as an argument, a result and a carry of transformed functions.

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/random/random.h"

namespace lockstep {
namespace {

using random::Key;
using test::expect_equal;
using test::waves;

TEST(Keys, AreArgumentsAndResultsOfJit) {
  auto draw = jit([](const Key& key) {
    auto [next, drawn] = random::split<2>(key);
    return std::pair(next, random::normal(drawn, {4}));
  });
  const Key key = random::key(3);
  const auto [next, numbers] = draw(key);
  const auto [expected_next, drawn] = random::split<2>(key);
  expect_equal(next.data(), expected_next.data());
  expect_equal(numbers, random::normal(drawn, {4}));
}

TEST(Keys, AnArrayOfKeys_IsMappedAndScanned) {
  const Key keys = random::split(random::key(5), 3);
  const Array each = vmap([](const Key& key) { return random::uniform(key, {2}); })(keys);
  std::vector<Array> one_by_one;
  for (std::int64_t i = 0; i < 3; ++i) one_by_one.push_back(random::uniform(keys[i], {2}));
  expect_equal(each, stack(one_by_one));
  const auto [last, scanned] =
      scan([](const Array& carry, const Key& key) { return std::pair(carry + 1, random::uniform(key, {2})); },
           Array(0.f), keys);
  expect_equal(scanned, stack(one_by_one));
  EXPECT_EQ(last.item<float>(), 3);
}

TEST(Keys, CanBeACarry_AndHaveNoDerivative) {
  const auto [key, sum] = fori_loop(
      0, 3,
      [](const Array&, const std::pair<Key, Array>& carry) {
        auto [next, drawn] = random::split<2>(carry.first);
        return std::pair(next, carry.second + random::uniform(drawn));
      },
      std::pair(random::key(1), Array(0.f)));
  EXPECT_EQ(key.shape(), Shape());
  EXPECT_GT(sum.item<float>(), 0);
  const Array x = waves({3});
  const Array slope = grad([](const Array& x, const Key& key) {
    return lockstep::sum(x * random::normal(key, {3}));
  })(x, random::key(2));
  expect_equal(slope, random::normal(random::key(2), {3}));
}

TEST(Keys, OverDevices_AreSplitLikeOtherArrays) {
  const Mesh mesh = make_mesh({{"x", 4}});
  const Key keys = device_put(random::split(random::key(7), 8).data(), NamedSharding(mesh, P("x")));
  const Array drawn = jit(vmap([](const Key& key) { return random::normal(key, {3}); }))(keys);
  EXPECT_EQ(drawn.sharding().spec(), P("x"));
  expect_equal(
      drawn, vmap([](const Key& key) { return random::normal(key, {3}); })(random::split(random::key(7), 8)));
}

}  // namespace
}  // namespace lockstep
