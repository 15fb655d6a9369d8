// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/saving.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/ops/ops.h"

namespace lockstep::test {

/// Lets two writers save one step of the run at the same time, `rounds` times: exactly one must succeed, and
/// nothing of the other one may remain.
inline void race_of_two_writers(const std::string& run, int rounds) {
  using namespace checkpoint;
  const Array x[] = {full({1000}, 1.0), full({1000}, 2.0)};
  for (int round = 0; round < rounds; ++round) {
    const std::string url = run + "/" + step_name(round);
    std::atomic<int> won = 0, lost = 0, last = -1, ready = 0;
    auto write = [&](int i) {
      Contents contents;
      contents.arrays = {{"x", x[i]}};
      Saving saving(Job{}, url, contents, {});
      for (++ready; ready < 2;) {
      }
      try {
        saving.run();
        ++won;
        last = i;
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("it exists already"));
        ++lost;
      }
    };
    std::thread other(write, 1);
    write(0);
    other.join();
    ASSERT_EQ(won, 1);
    ASSERT_EQ(lost, 1);
    EXPECT_EQ(restore_numbers(url).arrays.at("x").elements<float>()[999], static_cast<float>(last + 1));
  }
  EXPECT_THAT(leftovers(*storage::open_store(run)), ::testing::IsEmpty());
}

}  // namespace lockstep::test
