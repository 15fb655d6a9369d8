// SPDX-License-Identifier: Apache-2.0
// log_compiles: a line for each compilation.

#include "lockstep/jit/clear_caches.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

LOCKSTEP_CHILD(compiles_several_times) {
  initialize();
  auto step = jit([](Array x, Array y) { return x * y; }, {.name = "step"});
  const Array a = ones({4}), b = ones({5});
  testing::say("first");
  step(a, a);
  step(a, a);
  testing::say("second");
  step(b, b);
  testing::say("third");
  step(b, astype(b, int32));
  testing::say("others");
  clear_caches();
  step(a, a);
  a + 1.5f;
  pmap([](Array x) { return x; })(a);
  testing::say("end");
}

std::string between(const std::string& log, const std::string& from, const std::string& to) {
  const std::size_t start = log.find(from + "\n"), end = log.find(to + "\n");
  return log.substr(start, end - start);
}

TEST(LogCompiles, NamesFunctionReasonAndTimes) {
  testing::TemporaryFolder cache;
  testing::Variables env = {{"LOCKSTEP_LOG_COMPILES", "1"},
                            {"LOCKSTEP_NUM_CPU_DEVICES", "4"},
                            {"LOCKSTEP_COMPILATION_CACHE_DIR", cache.path().string()}};
  const std::string log = testing::run_processes({.child = "compiles_several_times", .env = env})[0].log;
  const std::string first = between(log, "first", "second");
  EXPECT_THAT(first, ContainsRegex(
                         "\\[jit\\] step \\(made at log_compiles_test.cc:[0-9]+\\) is compiled: no call "
                         "before it; traced in [0-9.]+ s, partitioned in [0-9.]+ s, lowered in [0-9.]+ s, "
                         "compiled in [0-9.]+ s, not being in the compilation cache; on each device 32 B of "
                         "arguments, 16 B of results"));
  EXPECT_EQ(test::count(first, "is compiled"), 1) << "the second call is not";
  EXPECT_THAT(
      between(log, "second", "third"),
      HasSubstr(
          "is compiled: argument 0: f32[5] was f32[4]; argument 1: f32[5] was f32[4], in the most similar"));
  EXPECT_THAT(
      between(log, "third", "others"),
      HasSubstr(
          "is compiled: argument 1: i32[5] was f32[5], in the most similar earlier compilation; traced"));
  const std::string others = between(log, "others", "end");
  EXPECT_THAT(others, ContainsRegex(
                          "step .* is compiled: what was compiled before is not kept any more; .*loaded from "
                          "the compilation cache in"));
  EXPECT_THAT(others,
              ContainsRegex("\\[add\\] an operation outside of jit \\(at log_compiles_test.cc:[0-9]+\\) is "
                            "compiled: the first on \\(f32\\[4\\] with "));
  EXPECT_THAT(others,
              ContainsRegex("\\[pmap\\] pmap@log_compiles_test.cc:[0-9]+ is compiled: no call before it"));

  env["LOCKSTEP_LOG_COMPILES"] = "0";
  EXPECT_THAT(testing::run_processes({.child = "compiles_several_times", .env = env})[0].log,
              Not(HasSubstr("is compiled")));
}

}  // namespace
}  // namespace lockstep
