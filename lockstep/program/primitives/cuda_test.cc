// SPDX-License-Identifier: Apache-2.0
// Whether the programs' text is what XLA's CUDA compiler takes. Nothing is run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/pjrt/test_cuda.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

class Cuda : public ::testing::Test {
  void SetUp() override {
    if (const std::string reason = pjrt::no_cuda_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Cuda, CompilesEveryPrimitive) {
  const auto topology = pjrt::h100s(1, 1);
  EXPECT_EQ(topology->platform_name(), "cuda");
  for (const test::Example& example : test::all_examples()) {
    LowerOptions options;
    options.axes = test::example_axes();
    options.native_collectives = true;
    SCOPED_TRACE(example.primitive->name);
    EXPECT_NO_THROW(topology->compile(lower(test::program_of(example), options).stablehlo));
  }
}

TEST_F(Cuda, CompilesEveryCollectiveForDevicesOfTwoProcesses) {
  const auto topology = pjrt::h100s(2, 3);
  ASSERT_EQ(topology->devices().size(), 6u);
  EXPECT_EQ(topology->devices()[3].process_index, 1);
  const AxisEnv mesh({{"a", 2}, {"b", 3}});
  using Function = std::function<Value(Value)>;
  const std::pair<const char*, Function> collectives[] = {
      {"psum",
       [](Value x) {
         return lax::psum(x, {"a", "b"});
       }},
      {"pmax", [](Value x) { return lax::pmax(x, "b"); }},
      {"pmin", [](Value x) { return lax::pmin(x, "a"); }},
      {"all_gather", [](Value x) { return lax::all_gather(x, "b", 1); }},
      {"psum_scatter", [](Value x) { return lax::psum_scatter(x, "b", 0); }},
      {"all_to_all", [](Value x) { return lax::all_to_all(x, "b", 0, 1); }},
      {"ppermute",
       [](Value x) {
         return lax::ppermute(x, "b", {{0, 1}, {1, 2}});
       }},
      {"axis_index", [](Value x) { return lax::axis_index(x, "a"); }},
  };
  for (const auto& [name, function] : collectives) {
    SCOPED_TRACE(name);
    AxisEnvScope axes(mesh);
    Builder builder(name);
    const Value x = builder.input({DType::kF32, {6, 4}, false, {"a", "b"}});
    const Program program = builder.finish(std::vector{function(x)});
    LowerOptions options;
    options.axes = mesh;
    options.native_collectives = true;
    EXPECT_NO_THROW(topology->compile(lower(program, options).stablehlo, pjrt::on_all(*topology)));
  }
}

}  // namespace
}  // namespace lockstep::ir
