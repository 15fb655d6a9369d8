// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/ops.h"

// Expected numbers are what JAX 0.10.2 gives.
namespace lockstep::random {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> integers(const Array& x) { return x.to_host<std::int32_t>(); }

TEST(Permutation, GivesJaxsValues) {
  const Key k = key(42);
  EXPECT_THAT(integers(permutation(k, 10)), ElementsAre(7, 4, 2, 5, 3, 6, 8, 9, 0, 1));
  EXPECT_THAT(integers(slice(permutation(k, 2000), {0}, {8})),
              ElementsAre(1474, 815, 539, 874, 1693, 84, 995, 1191));
  EXPECT_THAT(integers(permutation(k, reshape(arange(12), {4, 3}))),
              ElementsAre(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(integers(permutation(k, reshape(arange(8), {2, 4}), 1)), ElementsAre(2, 3, 0, 1, 6, 7, 4, 5));
  EXPECT_THROW(permutation(k, arange(3), 1), ShapeError);
}

TEST(Choice, GivesJaxsValues) {
  const Key k = key(42);
  const Array p = array({0.1f, 0.2f, 0.3f, 0.4f});
  EXPECT_THAT(integers(choice(k, 10, {5})), ElementsAre(4, 4, 1, 9, 9));
  EXPECT_THAT(integers(choice(k, 10, {5}, {.replace = false})), ElementsAre(7, 4, 2, 5, 3));
  EXPECT_THAT(integers(choice(k, 4, {6}, {.p = p})), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_THAT(integers(choice(k, 4, {3}, {.replace = false, .p = p})), ElementsAre(3, 2, 1));
  EXPECT_THAT(integers(choice(k, 10 * arange(10), {5})), ElementsAre(40, 40, 10, 90, 90));
}

TEST(Choice, TooManyDrawsOrTooFewProbabilities_AreAnError) {
  EXPECT_THROW(choice(key(1), 3, {4}, {.replace = false}), ShapeError);
  EXPECT_THROW(choice(key(1), 3, {4}, {.p = ones({2})}), ShapeError);
}

}  // namespace
}  // namespace lockstep::random
