// SPDX-License-Identifier: Apache-2.0
// Any public function may be called from several threads: functions of jit and pmap, operations, lower,
// clear_caches and the reading of arrays, from four at a time.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "lockstep/base/kept.h"
#include "lockstep/base/options.h"
#include "lockstep/jit/clear_caches.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
};
[[maybe_unused]] const auto* const two_devices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

constexpr int kThreads = 4, kRounds = 12;

/// work(thread, round) in each round, on all threads at once.
void on_threads(const std::function<void(int, int)>& work) {
  std::barrier start(kThreads);
  std::vector<std::exception_ptr> errors(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        start.arrive_and_wait();
        try {
          for (int round = 0; round < kRounds; ++round) work(thread, round);
        } catch (...) {
          errors[static_cast<std::size_t>(thread)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void expect_all(const Array& x, float value) {
  EXPECT_EQ(x.to_host<float>(), std::vector<float>(static_cast<std::size_t>(x.size()), value));
}

TEST(Threads, CallOneJittedFunction_WithOldAndNewShapes) {
  std::atomic<int> traces = 0;
  auto affine = jit([&](Array x, Array k) {
    ++traces;
    return x * k + 1;
  });
  on_threads([&](int thread, int round) {
    const std::int64_t n = 1 + round % 4;
    expect_all(affine(ones({n}), 2.0 + thread), static_cast<float>(3 + thread));
  });
  EXPECT_LE(traces, 4 * kThreads);
  EXPECT_GE(traces, 4);
}

TEST(Threads, CallOnePmappedFunction_WithCollectives) {
  auto mean_of = pmap([w = ones({1})](Array x) { return pmean(x, "i") * w; });
  on_threads([&](int, int round) { expect_all(mean_of(ones({2, 1 + round % 3 * 2})), 1); });
}

TEST(Threads, CallFunctionsAtOnce_WhileCachesAreClearedAndBounded) {
  set_max_kept(3);
  auto twice = jit([](Array x) { return x + x; });
  auto total = pmap([](Array x) { return psum(x, "i"); });
  const Array shared = full({8}, 3.f);
  on_threads([&](int thread, int round) {
    const std::int64_t n = 1 + (thread + round) % 5;
    switch ((thread + round) % 4) {
      case 0:
        expect_all(twice(ones({n})), 2);
        break;
      case 1:
        expect_all(total(ones({2, n})), 2);
        break;
      case 2:
        expect_all(exp(zeros({n})) * 4 + shared[0], 7);
        break;
      default:
        EXPECT_NE(twice.lower(ones({n})).as_text(), "");
        clear_caches();
    }
    expect_all(shared, 3);
    EXPECT_EQ(shared.addressable_shards().size(), 1u);
    EXPECT_EQ(shared[thread].item<float>(), 3);
  });
  set_max_kept(options::kMaxCompiledPrograms.otherwise);
}

/// Each device has a thread for the collectives that its programs start early.
TEST(Threads, CallFunctions_WithOverlappedCollectives) {
  const Mesh mesh = make_mesh({{"x", 2}});
  const auto f = jit(shard_map(
                         [](Array x) {
                           const Array sums = psum(x, "x"), largest = pmax(x * 2, "x");
                           const Array y = matmul(x, matmul(transpose(x), x));
                           return pvary(sums + largest, "x") + y;
                         },
                         {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P("x")}}),
                     {.combine_threshold_bytes = 0, .overlap_threshold_bytes = 1});
  on_threads([&](int thread, int round) {
    // Rows of 8 equal numbers k: sums 2k, largest 2k, and the product of three matrices 32 k^3.
    const auto k = static_cast<float>(1 + (thread + round) % 3);
    expect_all(f(ones({8, 8}) * k), 4 * k + 32 * k * k * k);
  });
}

}  // namespace
}  // namespace lockstep
