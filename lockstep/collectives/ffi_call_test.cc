// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/ffi_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace lockstep::collectives {
namespace {

using ::testing::Each;

/// XLA's side of a call: its threads are what a test makes of the tasks.
class Xla {
 public:
  explicit Xla(std::int64_t threads) : threads_(threads) {
    api_.struct_size = sizeof api_;
    api_.XLA_FFI_ThreadPool_NumThreads = [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      *args->num_threads = of(args->ctx).threads_;
      return nullptr;
    };
    api_.XLA_FFI_ThreadPool_Schedule = [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      Xla& xla = of(args->ctx);
      if (xla.refuses) return reinterpret_cast<XLA_FFI_Error*>(&xla);
      xla.tasks.emplace_back([task = args->task, data = args->data] { task(data); });
      if (xla.runs) xla.running_.emplace_back(xla.tasks.back());
      return nullptr;
    };
    api_.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) {
      ++reinterpret_cast<Xla*>(args->error)->destroyed;
    };
    frame_.api = &api_;
    frame_.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(this);
  }

  const XLA_FFI_CallFrame& frame() const { return frame_; }
  XLA_FFI_Api& api() { return api_; }

  std::vector<std::function<void()>> tasks;
  bool runs = false;     ///< each task at once, on a thread of its own
  bool refuses = false;  ///< tasks, with an error
  int destroyed = 0;     ///< errors

 private:
  static Xla& of(XLA_FFI_ExecutionContext* ctx) { return *reinterpret_cast<Xla*>(ctx); }

  std::int64_t threads_;
  std::vector<std::jthread> running_;
  XLA_FFI_Api api_{};
  XLA_FFI_CallFrame frame_{};
};

/// How often each piece was called.
std::vector<int> calls(const Xla& xla, std::int64_t count) {
  std::vector<std::atomic<int>> called(static_cast<std::size_t>(count));
  ffi_for_each(xla.frame(), count, [&](std::int64_t i) { ++called[static_cast<std::size_t>(i)]; });
  return {called.begin(), called.end()};
}

TEST(FfiForEach, OnSeveralThreads_CallsEachPieceOnce) {
  Xla xla(4);
  xla.runs = true;
  for (const std::int64_t count : {1, 2, 3, 4, 1000}) EXPECT_THAT(calls(xla, count), Each(1));
  EXPECT_EQ(xla.tasks.size(), 0u + 1 + 2 + 3 + 3);
}

TEST(FfiForEach, WithoutAFreeThread_IsDoneByTheCaller) {
  Xla xla(4);
  EXPECT_THAT(calls(xla, 10), Each(1));
  ASSERT_EQ(xla.tasks.size(), 3u);
  for (const auto& late : xla.tasks) late();  // finds nothing left, though the pieces are gone
  EXPECT_THAT(calls(xla, 0), Each(1));
}

TEST(FfiForEach, WithoutAPoolOfThreads_IsDoneByTheCaller) {
  Xla refusing(4), alone(1), old(4);
  refusing.refuses = true;
  EXPECT_THAT(calls(refusing, 10), Each(1));
  EXPECT_EQ(refusing.destroyed, 1);
  EXPECT_THAT(calls(alone, 10), Each(1));
  EXPECT_EQ(alone.tasks.size(), 0u);
  old.api().struct_size = offsetof(XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
  EXPECT_EQ(ffi_threads(old.frame()), 1);
  EXPECT_THAT(calls(old, 10), Each(1));
}

TEST(FfiForEach, APieceThatFails_ThrowsItsErrorAfterTheOthersHaveRun) {
  Xla xla(3);
  xla.runs = true;
  std::atomic<int> others = 0;
  EXPECT_THROW(ffi_for_each(xla.frame(), 100,
                            [&](std::int64_t i) {
                              if (i == 17) throw std::runtime_error("piece 17");
                              ++others;
                            }),
               std::runtime_error);
  EXPECT_EQ(others, 99);
}

}  // namespace
}  // namespace lockstep::collectives
