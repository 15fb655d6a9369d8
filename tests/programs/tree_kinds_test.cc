// SPDX-License-Identifier: Apache-2.0
// Each kind of tree through each transformation: as an argument, a result, a carry, a gradient.

#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/static.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

struct Pair {
  Array a, b;
  int n = 2;
};

class Parted {
 public:
  explicit Parted(Array a, Array b) : a_(std::move(a)), b_(std::move(b)) {}
  static void tree_parts(Parted& self, tree::Parts& part) { part("a", self.a_)("b", self.b_); }

 private:
  Array a_, b_;
};

/// A tree of each kind, with these two arrays.
template <class Tree>
Tree of(Array a, Array b);
template <>
Pair of(Array a, Array b) {
  return {a, b};
}
template <>
Parted of(Array a, Array b) {
  return Parted(a, b);
}
template <>
std::shared_ptr<Pair> of(Array a, Array b) {
  return std::make_shared<Pair>(Pair{a, b});
}
template <>
std::shared_ptr<const Pair> of(Array a, Array b) {
  return std::make_shared<const Pair>(Pair{a, b});
}
template <>
std::unordered_map<std::string, Array> of(Array a, Array b) {
  return {{"z", b}, {"c", a}};
}
template <>
std::map<int, Array> of(Array a, Array b) {
  return {{3, b}, {-3, a}};
}
using Either = std::variant<int, Array, std::vector<Array>>;
template <>
std::vector<Either> of(Array a, Array b) {
  return {a, 4, std::vector<Array>{b}};
}
template <>
std::tuple<std::optional<Pair>, std::array<std::shared_ptr<Parted>, 1>> of(Array a, Array b) {
  return {std::nullopt, {std::make_shared<Parted>(a, b)}};
}

template <class Tree>
class TreeKind : public ::testing::Test {};

using Kinds =
    ::testing::Types<Pair, Parted, std::shared_ptr<Pair>, std::shared_ptr<const Pair>,
                     std::unordered_map<std::string, Array>, std::map<int, Array>, std::vector<Either>,
                     std::tuple<std::optional<Pair>, std::array<std::shared_ptr<Parted>, 1>>>;
TYPED_TEST_SUITE(TreeKind, Kinds);

/// The two arrays' numbers.
template <class Tree>
std::vector<float> numbers(const Tree& tree) {
  std::vector<float> all;
  for (const Array& each : tree::leaves(tree)) {
    for (float number : each.to_host<float>()) all.push_back(number);
  }
  return all;
}

template <class Tree>
Tree doubled(const Tree& tree) {
  return tree::map([](const Array& x) { return x * 2.0; }, tree);
}

/// a² + 3 b, summed.
template <class Tree>
Array loss(const Tree& tree) {
  const std::vector<Array> both = tree::leaves(tree);
  return sum(both[0] * both[0]) + 3.0 * sum(both[1]);
}

TYPED_TEST(TreeKind, WorksInEachTransformation) {
  using Tree = TypeParam;
  const Tree tree = of<Tree>(array({1.f, 2.f}), array({3.f, 4.f}));
  int traces = 0;
  auto twice = jit([&traces](Tree x) {
    ++traces;
    return doubled(x);
  });
  EXPECT_THAT(numbers(twice(tree)), ElementsAre(2, 4, 6, 8)) << "jit";
  EXPECT_THAT(numbers(twice(twice(tree))), ElementsAre(4, 8, 12, 16)) << "jit";
  EXPECT_EQ(traces, 1);
  EXPECT_THAT(numbers(twice.lower(tree).compile()(tree)), ElementsAre(2, 4, 6, 8)) << "lower";

  const auto [value, gradient] = value_and_grad(loss<Tree>)(tree);
  EXPECT_EQ(value.template item<float>(), 26);
  EXPECT_THAT(numbers(gradient), ElementsAre(2, 4, 3, 3)) << "value_and_grad";
  EXPECT_THAT(numbers(jit(grad(remat(loss<Tree>)))(tree)), ElementsAre(2, 4, 3, 3)) << "remat";
  EXPECT_EQ(jvp(loss<Tree>, std::tuple<Tree>(tree), std::tuple<Tree>(tree)).second.template item<float>(), 31)
      << "jvp";

  EXPECT_THAT(vmap(loss<Tree>)(tree).template to_host<float>(), ElementsAre(10, 16)) << "vmap";
  EXPECT_THAT(numbers(vmap(doubled<Tree>)(tree)), ElementsAre(2, 4, 6, 8)) << "vmap";

  auto step = [](Tree carry, Tree x) { return std::pair(doubled(carry), loss(x)); };
  const auto [last, losses] = scan(step, tree, tree);
  EXPECT_THAT(numbers(last), ElementsAre(4, 8, 12, 16)) << "scan";
  EXPECT_THAT(losses.template to_host<float>(), ElementsAre(10, 16)) << "scan";
  EXPECT_THAT(numbers(cond(
                  Array(true), [](Tree x) { return doubled(x); }, [](Tree x) { return x; }, tree)),
              ElementsAre(2, 4, 6, 8))
      << "cond";
  EXPECT_THAT(numbers(fori_loop(
                  0, 3, [](Array, Tree x) { return doubled(x); }, tree)),
              ElementsAre(8, 16, 24, 32))
      << "fori_loop";

  auto custom = custom_vjp(
      loss<Tree>, [](Tree x) { return std::pair(loss(x), x); },
      [](Tree x, Array cotangent) {
        return std::tuple(tree::map([&](const Array& each) { return each * cotangent; }, x));
      });
  EXPECT_THAT(numbers(grad(custom)(tree)), ElementsAre(1, 2, 3, 4)) << "custom_vjp";
  EXPECT_THAT(numbers(tree), ElementsAre(1, 2, 3, 4)) << "the tree that was given";
}

/// Calls of one function with each pair of arguments; how often it is traced.
template <class Tree>
int traces(const Tree& first, const Tree& second) {
  int count = 0;
  auto function = jit([&count](Tree tree) {
    ++count;
    Array total = zeros({});
    tree::for_each_leaf(std::as_const(tree), [&](const Array& x) { total = total + sum(x); });
    return total;
  });
  function(first);
  function(second);
  return count;
}

struct WithFunction {
  Array (*f)(const Operand&, DType);
  Array x;
};

TEST(TreeKindKey, DependsOnStructureAndStaticValues) {
  const Array x = ones({4}) + 0;
  using Shared = std::shared_ptr<Pair>;
  EXPECT_EQ(traces<Shared>(std::make_shared<Pair>(Pair{x, x}), std::make_shared<Pair>(Pair{x, x})), 1);
  EXPECT_EQ(traces<Shared>(std::make_shared<Pair>(Pair{x, x, 2}), std::make_shared<Pair>(Pair{x, x, 3})), 2);
  EXPECT_EQ(traces<Shared>(std::make_shared<Pair>(Pair{x, x}), nullptr), 2);
  EXPECT_EQ(traces<Either>(x, x + 1), 1);
  EXPECT_EQ(traces<Either>(x, std::vector<Array>{x}), 2);
  EXPECT_EQ(traces<Either>(3, 4), 2);
  using Map = std::unordered_map<int, Array>;
  EXPECT_EQ(traces<Map>({{1, x}, {2, x}, {3, x}}, {{3, x}, {2, x}, {1, x}}), 1);
  EXPECT_EQ(traces<Map>({{1, x}}, {{2, x}}), 2);
  EXPECT_EQ(traces(std::vector<bool>{true}, std::vector<bool>{false}), 2);
  EXPECT_EQ(traces(WithFunction{&astype, x}, WithFunction{&astype, x}), 1);
  EXPECT_EQ(traces(WithFunction{&astype, x}, WithFunction{nullptr, x}), 2);
  EXPECT_EQ(traces(static_(Shared()), static_(Shared())), 1);
}

}  // namespace
}  // namespace lockstep
