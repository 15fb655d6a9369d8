// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/array/trace.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/testing/errors.h"

// Every expected value is what JAX 0.10.2 gives (jax_threefry_partitionable, its default).
namespace lockstep::random {
namespace {

using ::testing::ElementsAre;

template <class T = std::uint32_t>
std::vector<T> values(const Array& x) {
  return x.to_host<T>();
}

std::vector<std::uint32_t> values(const Key& key) { return values(key.data()); }

std::vector<float> as_floats(const Array& x) { return values<float>(astype(x, float32)); }

Key test_key() { return key(42); }

template <class T>
concept IsAdded = requires(const T& x) {
  x + 1;
};
static_assert(IsAdded<Array> && !IsAdded<Key>);

/// Within a few units in the last place of an f32.
void expect_few_ulp(const Array& x, const std::vector<float>& expected) {
  const std::vector<float> found = values<float>(x);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i])) << i;
}

TEST(Random, Keys_EqualJaxs) {
  EXPECT_THAT(values(test_key()), ElementsAre(0, 42));
  EXPECT_THAT(values(key(0x123456789abcdef0)), ElementsAre(305419896u, 2596069104u));
  EXPECT_THAT(values(random::split(test_key(), 3)),
              ElementsAre(1832780943u, 270669613u, 64467757u, 2916123636u, 2465931498u, 255383827u));
  auto [first, second] = random::split<2>(test_key());
  EXPECT_THAT(values(first), ElementsAre(1832780943u, 270669613u));
  EXPECT_THAT(values(second), ElementsAre(64467757u, 2916123636u));
  EXPECT_THAT(values(fold_in(test_key(), 7)), ElementsAre(2547012911u, 1371500959u));
  EXPECT_THAT(values(fold_in(test_key(), index(array({7}), 0))), ElementsAre(2547012911u, 1371500959u));
  EXPECT_THAT(values(fold_in(test_key(), 4000000000)), ElementsAre(4151844817u, 2174040936u));
}

TEST(Random, AnArrayOfKeys_HasAShapeAndIsIndexed) {
  const Key keys = random::split(test_key(), 3);
  EXPECT_EQ(test_key().shape(), Shape());
  EXPECT_EQ(keys.shape(), (Shape{3}));
  EXPECT_EQ(key_data(keys).shape(), (Shape{3, 2}));
  EXPECT_THAT(values(keys[0]), ElementsAre(1832780943u, 270669613u));
  EXPECT_THAT(values(keys[-1]), ElementsAre(2465931498u, 255383827u));
  EXPECT_THAT(values(index(keys, 1)), ElementsAre(64467757u, 2916123636u));
  EXPECT_EQ(values<float>(uniform(key_data(keys[1]), {2})),
            values<float>(uniform(wrap_key_data(keys[1].data()), {2})))
      << "the words of a key are taken for it";
  for (const std::function<void()>& wrong :
       {std::function<void()>([&] { index(keys, 3); }), std::function<void()>([&] { keys[3]; })}) {
    EXPECT_THAT(lockstep::testing::error_of<ShapeError>(wrong), ::testing::HasSubstr("random_test.cc:"));
  }
  EXPECT_THAT(
      lockstep::testing::error_of<ShapeError>([&] { index(test_key(), 0); }),
      ::testing::HasSubstr("[random::Key] expected several keys, got one, u32[2] (at random_test.cc:"));
  EXPECT_FALSE(Key().valid());
}

TEST(Random, Bits_EqualJaxs) {
  EXPECT_THAT(values(bits(test_key(), {2, 3})),
              ElementsAre(2098992034u, 2919706841u, 2646866425u, 2409546199u, 1935504149u, 2516274904u));
  EXPECT_THAT(values<std::uint8_t>(bits(test_key(), {5}, uint8)), ElementsAre(162, 217, 249, 215, 21));
  EXPECT_THAT(values<std::uint16_t>(bits(test_key(), {5}, uint16)),
              ElementsAre(5026, 12505, 63993, 49623, 29461));
  EXPECT_THAT(values<std::uint64_t>(bits(test_key(), {3}, uint64)),
              ElementsAre(7871734211187709741u, 276886910877598708u, 10591095138341673235u));
  EXPECT_THAT(values(bits(test_key(), {})), ElementsAre(2098992034u));
  EXPECT_EQ(sum(bits(key(7), {1000})).item<std::uint32_t>(), 1750710964u);
  EXPECT_THAT(values(reshape(bits(key(7), {10, 100}), {1000})), values(bits(key(7), {1000})));
  EXPECT_TRUE(values(bits(key(7), {0, 3})).empty());
}

TEST(Random, Uniform_EqualsJaxs) {
  EXPECT_THAT(values<float>(uniform(test_key(), {5})),
              ElementsAre(0x1.f470480000000p-2f, 0x1.5c0e600000000p-1f, 0x1.3b87f00000000p-1f,
                          0x1.1f3d800000000p-1f, 0x1.cd75c80000000p-2f));
  expect_few_ulp(uniform(test_key(), {5}, float32, -3, 2.5),
                 {-0x1.3f96740000000p-2f, 0x1.7a4f100000000p-1f, 0x1.8ed7500000000p-2f, 0x1.5e92000000000p-4f,
                  -0x1.0afc1a0000000p-1f});
  EXPECT_THAT(as_floats(uniform(test_key(), {5}, float16)),
              ElementsAre(0x1.38p-4f, 0x1.86p-3f, 0x1.f38p-1f, 0x1.838p-1f, 0x1.ccp-2f));
  EXPECT_THAT(as_floats(uniform(test_key(), {5}, bfloat16)),
              ElementsAre(0x1.44p-1f, 0x1.bp-1f, 0x1.fp-1f, 0x1.acp-1f, 0x1.4p-4f));
  EXPECT_THAT(values<double>(uniform(test_key(), {3}, float64)),
              ElementsAre(0x1.b4f8123c40884p-2, 0x1.ebd996d6e8400p-7, 0x1.25f641d41e71ap-1));
}

TEST(Random, Randint_EqualsJaxs) {
  EXPECT_THAT(values<std::int32_t>(randint(test_key(), {6}, -5, 100)), ElementsAre(94, 49, 76, -1, 84, 19));
  EXPECT_THAT(values<std::uint8_t>(randint(test_key(), {6}, 0, 256, uint8)),
              ElementsAre(196, 18, 183, 193, 141, 107));
  // Integers of fewer than 32 bits draw as many random bits as those of 32.
  EXPECT_THAT(values<std::int8_t>(randint(test_key(), {6}, -128, 128, int8)),
              ElementsAre(68, -110, 55, 65, 13, -21));
  EXPECT_THAT(values<std::int16_t>(randint(test_key(), {6}, -30000, 30000, int16)),
              ElementsAre(22644, 10914, 28071, -7631, -4291, -28581));
  EXPECT_THAT(values<std::uint16_t>(randint(test_key(), {6}, 0, 65536, uint16)),
              ElementsAre(13508, 45074, 33975, 48321, 49805, 40299));
  EXPECT_THAT(values<std::int8_t>(randint(key(80), {3}, 3, 117, int8)), ElementsAre(40, 24, 73));
  EXPECT_THAT(values<std::int8_t>(randint(test_key(), {2}, 5, 5, int8)), ElementsAre(5, 5));
  EXPECT_THAT(values<std::int32_t>(randint(test_key(), {6}, -2147483648, 2147483647)),
              ElementsAre(977810628, 1236381714, -1367112521, -1019495231, -1671904627, -1277190805));
  EXPECT_THAT(values<std::int64_t>(randint(test_key(), {4}, -1000000000000, 1000000000000, int64)),
              ElementsAre(464050701877, -395020523842, 848944880791, -449936457681));
  EXPECT_THAT(values<std::int32_t>(randint(test_key(), {2}, 5, 5)), ElementsAre(5, 5));
  EXPECT_THAT(values<std::int32_t>(randint(test_key(), {6}, array({-5}), 100)),
              ElementsAre(94, 49, 76, -1, 84, 19));
}

TEST(Random, Bernoulli_EqualsJaxs) {
  EXPECT_THAT(values<std::uint8_t>(bernoulli(test_key(), 0.3, {12})),
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0));
}

TEST(Random, Normal_AgreesWithJax) {
  expect_few_ulp(
      normal(test_key(), {2, 4}),
      {-0x1.cfbe2a0000000p-6f, 0x1.de57d00000000p-2f, 0x1.2eccc20000000p-2f, 0x1.3a76480000000p-3f,
       -0x1.fc09d60000000p-4f, 0x1.bc42340000000p-3f, -0x1.70dd720000000p+0f, 0x1.8300120000000p-1f});
  EXPECT_THAT(as_floats(normal(test_key(), {4}, bfloat16)),
              ElementsAre(0x1.6p-2f, 0x1.04p+0f, 0x1.e4p+0f, 0x1.f8p-1f));
  Array many = normal(key(3), {100000});
  EXPECT_NEAR(mean(many).item<float>(), -0x1.bae6860000000p-19f, 1e-6);
  EXPECT_NEAR(std_(many).item<float>(), 0x1.0170720000000p+0f, 1e-5);
  expect_few_ulp(truncated_normal(test_key(), -2, 2, {6}),
                 {-0x1.baa3680000000p-6f, 0x1.c70bc40000000p-2f, 0x1.20a4620000000p-2f, 0x1.2c0c6a0000000p-3f,
                  -0x1.e4cfde0000000p-4f, 0x1.a7bf1c0000000p-3f});
}

TEST(Random, GumbelAndCategorical_AgreeWithJax) {
  expect_few_ulp(gumbel(test_key(), {5}),
                 {0x1.561c940000000p-2f, 0x1.e76f180000000p-1f, 0x1.7378be0000000p-1f, 0x1.18a9f00000000p-1f,
                  0x1.d07f1e0000000p-3f});
  Array logits = array({{0.f, 1.f, 2.f, 3.f}, {3.f, 2.f, 1.f, 0.f}, {0.f, 0.f, 0.f, 0.f}});
  EXPECT_THAT(values<std::int32_t>(categorical(test_key(), logits)), ElementsAre(3, 0, 3));
}

TEST(Random, InvalidKeysDTypesAndShapes_AreErrorsAtTheUsersLine) {
  EXPECT_THROW(uniform(array({1, 2}), {3}), DTypeError);
  try {
    uniform(random::split(test_key(), 4), {3});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("random_test.cc:"));
  }
  EXPECT_THROW(uniform(test_key(), {3}, int32), DTypeError);
  EXPECT_THROW(uniform(test_key(), {-3}), ShapeError);
  EXPECT_THROW(bits(test_key(), {3}, int32), DTypeError);
  EXPECT_THROW(randint(test_key(), {3}, 0.5, 1), DTypeError);
  EXPECT_THROW(truncated_normal(test_key(), 1, 1), Error);
}

}  // namespace
}  // namespace lockstep::random
