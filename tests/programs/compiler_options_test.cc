// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CompilerOptions, ReachTheCompiler_AndGiveASeparateProgram) {
  const testing::TemporaryFolder folder;
  auto function = [](Array x) { return sin(x) + 3; };
  const Array x = waves({5});
  const Array plain = jit(function)(x);
  auto dumping = jit(function, {.compiler_options = {{"xla_dump_to", folder.path().string()},
                                                     {"xla_dump_max_hlo_modules", 8},
                                                     {"xla_cpu_multi_thread_eigen", false}}});
  expect_equal(dumping(x), plain);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path())) << "the same text, compiled without, is another";
}

TEST(CompilerOptions, UnknownToTheCompiler_AreNamedInTheError) {
  const Array x = waves({3});
  auto wrong = jit([](Array x) { return x + 1; }, {.compiler_options = {{"xla_no_such_option", 4}}});
  const auto lowered = wrong.lower(x);
  const auto names_it = AllOf(HasSubstr("is not compiled with compiler_options {xla_no_such_option = 4} (at "
                                        "compiler_options_test.cc:"),
                              HasSubstr("No such compile option"));
  EXPECT_THAT(error_of<PjrtError>([&] { wrong(x); }), names_it);
  EXPECT_THAT(error_of<PjrtError>([&] { lowered.compile(); }), names_it);
  auto of_wrong_type =
      jit([](Array x) { return x + 1; }, {.compiler_options = {{"xla_cpu_multi_thread_eigen", "maybe"}}});
  EXPECT_THAT(error_of<PjrtError>([&] { of_wrong_type(x); }),
              HasSubstr("{xla_cpu_multi_thread_eigen = \"maybe\"}"));
  auto inner = jit([](Array x) { return x + 1; },
                   {.compiler_options = {{"xla_cpu_multi_thread_eigen", false}}, .name = "inner"});
  EXPECT_THAT(error_of<TraceError>([&] { jit([&](Array x) { return inner(x); })(x); }),
              AllOf(HasSubstr("[jit] inner is called within another traced function"),
                    HasSubstr("{xla_cpu_multi_thread_eigen = false}"), HasSubstr("outermost jit")));
}

TEST(Lowered, IsCompiledOnce_WhenFirstNeeded) {
  int traces = 0;
  auto f = jit(
      [&](Array x) {
        ++traces;
        return cos(x) * 7;
      },
      {.compiler_options = {{"xla_no_such_option", true}}});
  const Array x = waves({6});
  const auto lowered = f.lower(x);
  EXPECT_THAT(lowered.as_text(), HasSubstr("stablehlo.cosine")) << "nothing asked the compiler";
  EXPECT_EQ(f.lower(x).as_text(), lowered.as_text());
  EXPECT_EQ(traces, 1);
  error_of<PjrtError>([&] { f(x); });
  EXPECT_EQ(traces, 1) << "a call goes on from what was lowered";

  auto good = jit([](Array x) { return cos(x) * 8; });
  const auto first = good.lower(x);
  const auto compiled = first.compile();
  expect_equal(compiled(x), cos(x) * 8);
  expect_equal(good(x), cos(x) * 8);
}

}  // namespace
}  // namespace lockstep
