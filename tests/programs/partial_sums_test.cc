// SPDX-License-Identifier: Apache-2.0
// Tests of how often, and with how many bytes, partial values are put together.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::ElementsAre;

Array whole(const Array& x) { return device_put(x, NamedSharding(line_mesh(), P())); }
Array rows(const Array& x) { return device_put(x, NamedSharding(line_mesh(), P("x"))); }

Array loss(Array w, Array x) { return mean(square(tanh(matmul(x, w)))); }

TEST(PartialSums, GradientsOfMicrobatches_AreSummedOverDevicesOnce) {
  auto accumulate = [](Array w, Array batches) {
    return scan([&](Array sum, Array batch) { return std::pair(sum + grad(loss)(w, batch), Array(0.)); },
                zeros_like(w), batches)
        .first;
  };
  const Array w = waves({8, 4}), batches = waves({5, 16, 8}, 3);
  const Array split = device_put(batches, NamedSharding(line_mesh(), P(none, "x")));
  auto jitted = jit(accumulate);
  expect_equal(jitted(whole(w), split), accumulate(w, batches));
  EXPECT_THAT(exchanges(jitted, whole(w), split), ElementsAre("1 x all-reduce of 128 B"));
  // The sum that it begins with counts once.
  auto from = [&](Array begin, Array w, Array batches) {
    return scan([&](Array sum, Array batch) { return std::pair(grad(loss)(w, batch) + sum, sum[0]); }, begin,
                batches);
  };
  auto from_jitted = jit(from);
  const auto expected = from(w * 2, w, batches), got = from_jitted(whole(w * 2), whole(w), split);
  expect_equal(got.first, expected.first);
  expect_equal(got.second, expected.second);
}

TEST(PartialSums, GradientsOfALoopsConstants_AreSummedOverDevicesAfterIt) {
  auto recurrent = [](Array w, Array h, Array xs) {
    auto last =
        scan([&](Array h, Array x) { return std::pair(tanh(matmul(h, w) + x), Array(0.)); }, h, xs).first;
    return mean(square(last));
  };
  const Array w = waves({8, 8}), h = waves({16, 8}, 2), xs = waves({6, 16, 8}, 3);
  auto jitted = jit(grad(recurrent));
  const Array split = device_put(xs, NamedSharding(line_mesh(), P(none, "x")));
  expect_equal(jitted(whole(w), rows(h), split), grad(recurrent)(w, h, xs));
  EXPECT_THAT(exchanges(jitted, whole(w), rows(h), split), ElementsAre("1 x all-reduce of 256 B"));
}

TEST(PartialSums, SumOfMatmulsOverASplitDimension_IsSummedOverDevicesOnce) {
  auto f = [](Array x, Array w, Array v) { return tanh(matmul(x, w) * 2 - matmul(x * x, v)); };
  const Array x = waves({4, 16}), w = waves({16, 8}, 2), v = waves({16, 8}, 3);
  const Array columns = device_put(x, NamedSharding(line_mesh(), P(none, "x")));
  auto jitted = jit(f);
  expect_equal(jitted(columns, rows(w), rows(v)), f(x, w, v));
  EXPECT_THAT(exchanges(jitted, columns, rows(w), rows(v)), ElementsAre("1 x all-reduce of 128 B"));
}

TEST(PartialSums, InNestedLoops_AreSummedOverDevicesAfterTheOutermost) {
  auto f = [](Array w, Array batches) {
    return fori_loop(
        0, 3,
        [&](Array, Array sum) {
          return scan(
                     [&](Array sum, Array batch) { return std::pair(sum + grad(loss)(w, batch), Array(0.)); },
                     sum, batches)
              .first;
        },
        zeros_like(w));
  };
  const Array w = waves({8, 4}), batches = waves({5, 16, 8}, 3);
  const Array split = device_put(batches, NamedSharding(line_mesh(), P(none, "x")));
  auto jitted = jit(f);
  expect_equal(jitted(whole(w), split), f(w, batches));
  EXPECT_THAT(exchanges(jitted, whole(w), split), ElementsAre("1 x all-reduce of 128 B"));
}

TEST(PartialSums, ReductionsOfSplitArrays_MoveNothingLarge) {
  auto finite = [](Array x) { return all(isfinite(x)); };
  const Array x = waves({64, 8});
  auto jitted = jit(finite);
  EXPECT_TRUE(jitted(rows(x)).item<bool>());
  EXPECT_THAT(exchanges(jitted, rows(x)), ElementsAre());
  auto product = jit([](Array x) { return prod(x, 0); });
  expect_equal(product(rows(x)), prod(x, 0));
  EXPECT_THAT(exchanges(product, rows(x)), ElementsAre("1 x all-gather of 128 B"));
}

TEST(PartialSums, GradientsOfALookup_MoveTheTableAndNotTheBatch) {
  auto f = [](Array table, Array ids) { return sum(square(take(table, ids, 0))); };
  const Array table = waves({16, 4}), ids = remainder(arange(64), Array(16));
  auto jitted = jit(grad(f));
  expect_equal(jitted(whole(table), rows(ids)), grad(f)(table, ids));
  EXPECT_THAT(exchanges(jitted, whole(table), rows(ids)), ElementsAre("1 x all-reduce of 256 B"));
}

TEST(PartialSums, LookupsInASplitTable_MoveOnlyTheRowsLookedUp) {
  auto f = [](Array table, Array ids) { return sin(take(table, ids, 0)); };
  const Array table = waves({64, 4}), ids = remainder(arange(8) * 11, Array(64));
  auto jitted = jit(f);
  expect_equal(jitted(rows(table), whole(ids)), f(table, ids));
  EXPECT_THAT(exchanges(jitted, rows(table), whole(ids)), ElementsAre("1 x all-reduce of 128 B"));
  // Out of bounds is out of the whole table's.
  const Array beyond = array({0, 63, 64, -1, -65, 1000, 17, 16});
  expect_equal(where(isnan(jitted(rows(table), whole(beyond))), 7., 0.),
               where(isnan(f(table, beyond)), 7., 0.));

  auto loss = [](Array table, Array ids) { return sum(square(take(table, ids, 0))); };
  auto gradient = jit(grad(loss), {.out_shardings = {NamedSharding(line_mesh(), P("x"))}});
  expect_equal(gradient(rows(table), whole(ids)), grad(loss)(table, ids));
  EXPECT_THAT(exchanges(gradient, rows(table), whole(ids)), ElementsAre("1 x all-reduce of 128 B"));
}

TEST(PartialSums, CrossEntropyOverASplitVocabulary_MovesNumbersOfEachToken) {
  auto f = [](Array logits, Array labels) {
    Array chosen = take_along_axis(logits, expand_dims(labels, 1), 1);
    return mean(logsumexp(logits, 1) - reshape(chosen, labels.shape()));
  };
  const Array logits = waves({16, 32}), labels = remainder(arange(16) * 5, Array(32));
  const Array split = device_put(logits, NamedSharding(line_mesh(), P(none, "x")));
  auto gradient = jit(value_and_grad(f));
  const auto expected = value_and_grad(f)(logits, labels), got = gradient(split, whole(labels));
  expect_equal(got.first, expected.first);
  expect_equal(got.second, expected.second);
  for (const auto& line : gradient.lower(split, whole(labels)).communication()) EXPECT_LE(line.bytes, 64);
}

TEST(PartialSums, PartsOfASplitDimension_AreReadAndWrittenInPlace) {
  const Array cache = waves({32, 4}), update = waves({3, 4}, 2);
  auto write = [](Array cache, Array update, Array at) {
    return lockstep::dynamic_update_slice(cache, update, {at, Array(0)});
  };
  auto read = [](Array cache, Array at) { return lockstep::dynamic_slice(cache, {at, Array(0)}, {3, 4}); };
  auto write_jitted = jit(write);
  auto read_jitted = jit(read);
  for (int at : {0, 6, 7, 14, 29, 31, -3, 100}) {
    expect_equal(write_jitted(rows(cache), whole(update), Array(at)), write(cache, update, Array(at)));
    expect_equal(read_jitted(rows(cache), Array(at)), read(cache, Array(at)));
  }
  EXPECT_THAT(exchanges(write_jitted, rows(cache), whole(update), Array(3)), ElementsAre());
  EXPECT_THAT(exchanges(read_jitted, rows(cache), Array(3)), ElementsAre("1 x all-reduce of 48 B"));
}

}  // namespace
}  // namespace lockstep
