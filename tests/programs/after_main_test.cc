// SPDX-License-Identifier: Apache-2.0
// Tests of computations in destructors of global and static objects, which run after main.

#include <gmock/gmock.h>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using testing::say;

template <class F>
void say_error(const F& compute) {
  try {
    compute();
    say("computed");
  } catch (const Error& error) {
    say(error.what());
  }
}

struct ComputesAtItsEnd {
  Array x;

  ~ComputesAtItsEnd() {
    say_error([&] { x + x; });
    say_error([&] { Array(1.0); });
    say_error([&] { jit([](Array x) { return x * 2.0; })(x); });
    say_error([&] { grad([](Array x) { return x * x; })(x); });
    say("still readable: " + std::to_string(x.item<float>()));
  }
};

LOCKSTEP_CHILD(computes_after_main) {
  static ComputesAtItsEnd before;
  initialize({.num_cpu_devices = 1});
  static ComputesAtItsEnd behind;
  before.x = behind.x = Array(3.f) + 1.0;
}

TEST(AfterMain, ComputingInADestructor_IsAnError) {
  const testing::ProcessResult result = testing::run_processes({.child = "computes_after_main"})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, ::testing::Not(::testing::HasSubstr("computed\n")));
  for (const char* what : {"[add] called (at after_main_test.cc:", "[array] called", "[jit] called"})
    EXPECT_THAT(result.log, ::testing::HasSubstr(what));
  std::size_t errors = 0, reads = 0;
  for (std::size_t at = 0; (at = result.log.find("after main has ended", at)) != std::string::npos; ++at)
    ++errors;
  for (std::size_t at = 0; (at = result.log.find("still readable: 4.0", at)) != std::string::npos; ++at)
    ++reads;
  EXPECT_EQ(errors, 8u);
  EXPECT_EQ(reads, 2u);
}

}  // namespace
}  // namespace lockstep
