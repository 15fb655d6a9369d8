// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/static.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::waves;

/// Neither an aggregate nor a tree.
class Powers {
 public:
  explicit Powers(std::vector<int> all) : all_(std::move(all)) {}
  const std::vector<int>& all() const { return all_; }
  bool operator==(const Powers&) const = default;

 private:
  std::vector<int> all_;
};

TEST(Static, AnEqualValue_UsesTheSameProgram_AndAnotherIsTraced) {
  int traces = 0;
  auto sum_of_powers = jit([&](Array x, Static<Powers> powers) {
    ++traces;
    Array sum = zeros(x.shape());
    for (int power : powers->all()) {
      Array term = ones(x.shape());
      for (int i = 0; i < power; ++i) term = term * x;
      sum = sum + term;
    }
    return sum;
  });
  Array x = waves({3});
  expect_equal(sum_of_powers(x, static_(Powers({1, 2}))), x + x * x);
  expect_equal(sum_of_powers(x, static_(Powers({1, 2}))), x + x * x);
  EXPECT_EQ(traces, 1);
  expect_equal(sum_of_powers(x, static_(Powers({3}))), x * x * x);
  EXPECT_EQ(traces, 2);
}

TEST(Static, CanBeAPartOfATree) {
  struct Layer {
    Array w;
    Static<std::string> activation;
  };
  auto apply = jit([](Layer layer, Array x) {
    Array y = x * layer.w;
    return *layer.activation == "tanh" ? tanh(y) : y;
  });
  Array w = waves({3}), x = waves({3}, 2);
  expect_equal(apply(Layer{w, static_(std::string("tanh"))}, x), tanh(x * w));
  expect_equal(apply(Layer{w, static_(std::string("none"))}, x), x * w);
}

TEST(Static, AValue_MayHoldOtherStaticsOrBeMoveOnly) {
  struct Outer {
    Static<std::string> name;
    bool operator==(const Outer& other) const {
      return *name == *other.name;
    }  // uses the other type's values
  };
  const auto a = static_(Outer{static_(std::string("a"))}), b = static_(Outer{static_(std::string("b"))});
  EXPECT_EQ(a.id, static_(Outer{static_(std::string("a"))}).id);
  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(*b->name, "b");

  const auto moved = static_(std::make_unique<int>(3));
  EXPECT_EQ(**moved, 3);
  EXPECT_NE(moved.id, static_(std::make_unique<int>(3)).id);  // pointers, not what they point to
}

TEST(Static, EqualValuesOfSeveralThreads_HaveTheSameId) {
  struct Number {
    int value;
    bool operator==(const Number&) const = default;
  };
  std::vector<std::vector<std::uint64_t>> ids(4);
  std::vector<std::jthread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 200; ++i) mine.push_back(static_(Number{i}).id);
    });
  }
  threads.clear();
  for (const auto& each : ids) EXPECT_EQ(each, ids[0]);
  EXPECT_EQ(std::set(ids[0].begin(), ids[0].end()).size(), 200U);
}

}  // namespace
}  // namespace lockstep
