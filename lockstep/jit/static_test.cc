#include "lockstep/jit/static.h"

#include <string>
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

TEST(Static, AnEqualValueFindsTheSameProgram_AnotherIsTraced) {
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

TEST(Static, StandsInTrees) {
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

}  // namespace
}  // namespace lockstep
