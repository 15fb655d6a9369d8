// SPDX-License-Identifier: Apache-2.0
// Tests that compiled programs are kept by use, and that processes need not forget the same ones.

#include "lockstep/base/kept.h"
#include "lockstep/base/options.h"

#include "lockstep/array/data.h"
#include "lockstep/jit/clear_caches.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::line_mesh;

class KeptCalls : public ::testing::Test {
 protected:
  ~KeptCalls() override { set_max_kept(options::kMaxCompiledPrograms.otherwise); }
};

TEST_F(KeptCalls, AfterClearCaches_CallsAreTracedAgain) {
  int traces = 0;
  auto twice = jit([&](Array x) {
    ++traces;
    return 2 * x;
  });
  auto everywhere = pmap([&](Array x) {
    ++traces;
    return psum(x, "i");
  });
  const Array x = test::waves({4});
  auto compiled = twice.lower(x).compile();
  for (int round = 1; round <= 2; ++round) {
    for (int i = 0; i < 2; ++i) {
      expect_equal(twice(x), 2 * x);
      expect_equal(everywhere(x), ones({4}) * sum(x));
    }
    EXPECT_EQ(traces, 2 * round);
    clear_caches();
  }
  expect_equal(compiled(x), 2 * x);
  expect_equal(x + x, 2 * x);
}

TEST_F(KeptCalls, BeyondTheBound_TheLeastRecentlyUsedAreTracedAgain) {
  set_max_kept(3);
  int traces = 0;
  auto twice = jit([&](Array x) {
    ++traces;
    return 2 * x;
  });
  auto call = [&](std::int64_t n) { expect_equal(twice(test::waves({n})), 2 * test::waves({n})); };
  for (std::int64_t n : {1, 2, 3}) call(n);
  EXPECT_EQ(traces, 3);
  call(1);
  call(4);
  EXPECT_EQ(traces, 4);
  call(1);
  EXPECT_EQ(traces, 4);
  call(2);
  EXPECT_EQ(traces, 5);
}

TEST_F(KeptCalls, UnusedTypes_AreForgottenByClearCaches_AndOthersStay) {
  const Array kept = ones({3, 1, 4, 1, 5});
  const internal::ArrayType* type = internal::data_of(kept)->type;
  for (std::int64_t n = 1; n < 100; ++n) zeros({n, 7});
  const std::size_t before = internal::num_kept_types();
  clear_caches();
  EXPECT_LT(internal::num_kept_types() + 90, before);
  EXPECT_EQ(internal::data_of(ones({3, 1, 4, 1, 5}))->type.get(), type);
}

/// A gradient, operations outside of a traced function and a pmap, with collectives, round after round; each
/// process forgets at other times.
LOCKSTEP_CHILD(forgets) {
  initialize();
  const Mesh mesh = make_mesh({{"x", device_count()}});
  const NamedSharding split(mesh, P("x"));
  auto loss = [](Array w, Array x) { return sum(square(x * w)); };
  auto step = jit([&](Array w, Array x, Array rate) { return w - rate * grad(loss)(w, x); });
  auto total = jit([](Array x) { return sum(x, 0); });
  auto mean_of = pmap([](Array x) { return pmean(x, "i"); });
  std::vector<float> values(static_cast<std::size_t>(device_count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Array x = device_put(array(values), split);
  Array w = device_put(test::number(1.f), NamedSharding(mesh, P()));
  double expected = 1, squares = 0, sum_of = 0;
  for (float value : values) {
    squares += value * value;
    sum_of += value;
  }
  for (int round = 0; round < 6; ++round) {
    w = step(w, x, 0.01 / (1 + round));
    expected -= 0.01 / (1 + round) * 2 * squares * expected;
    EXPECT_NEAR(w.item<float>(), expected, 1e-5);
    EXPECT_FLOAT_EQ(total(x).item<float>(), sum_of);
    EXPECT_FLOAT_EQ((sum(x + 1) * 2).item<float>(), 2 * (sum_of + device_count()));
    EXPECT_EQ(mean_of(ones({local_device_count()})).to_host<float>(),
              std::vector<float>(static_cast<std::size_t>(local_device_count()), 1));
    if (process_index() == 1 && round == 3) clear_caches();
    if (process_index() == 0 && round == 4) clear_caches();
  }
}

TEST(KeptPrograms, OneProcess_MayForgetProgramsThatAnotherKeeps) {
  for (const auto& result : testing::run_processes({.count = 2,
                            .child = "forgets",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}},
                            .env_of = [](int i) -> testing::Variables {
                              if (i == 0) return {};
                              return {{"LOCKSTEP_MAX_COMPILED_PROGRAMS", "1"}};
                            },
                            .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0);
  }
}

}  // namespace
}  // namespace lockstep
