// SPDX-License-Identifier: Apache-2.0
// Whether the programs' text is what XLA's CUDA compiler takes. Nothing is run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cuda/solver.h"
#include "lockstep/pjrt/test_cuda.h"
#include "lockstep/program/primitives/matrices.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

class Cuda : public ::testing::Test {
  void SetUp() override {
    if (const std::string reason = pjrt::no_cuda_compiler(); !reason.empty()) GTEST_SKIP() << reason;
    const auto plugin = pjrt::Plugin::load(pjrt::first_plugin(pjrt::default_plugin_paths("cuda")));
    plugin->register_ffi_handler(cuda::kSolverTarget, "CUDA", cuda::solver_handler());
    plugin->register_ffi_handler(lapack::kLapackTarget, "CUDA", lapack::lapack_handler());
  }
};

TEST_F(Cuda, CompilesEveryPrimitive) {
  const auto topology = pjrt::h100s(1, 1);
  EXPECT_EQ(topology->platform_name(), "cuda");
  for (const test::Example& example : test::all_examples()) {
    LowerOptions options;
    options.axes = test::example_axes();
    options.native_collectives = options.for_cuda = true;
    options.for_cpu = false;
    SCOPED_TRACE(example.primitive->name);
    EXPECT_NO_THROW(topology->compile(lower(test::program_of(example), options).stablehlo));
  }
}

TEST_F(Cuda, CompilesCallsOfCusolverAndLapack) {
  if (!cuda::has_solver()) GTEST_SKIP() << cuda::describe_solver();
  const auto topology = pjrt::h100s(1, 1);
  LowerOptions options;
  options.for_cpu = false;
  options.for_cuda = options.solver = true;
  for (const Shape& shape : {Shape{5, 5}, Shape{3, 4, 4}, Shape{2, 6, 3}, Shape{3, 6}, Shape{1025, 1100}}) {
    const Program program = test::trace({{DType::kF32, shape}}, [&](std::span<const Value> in) {
      std::vector<Value> out = lax::svd(in[0]);
      const auto add = [&](const std::vector<Value>& more) {
        out.insert(out.end(), more.begin(), more.end());
      };
      add(lax::qr(in[0]));
      add(lax::lu(in[0]));
      if (matrices::rows(in[0]) != matrices::columns(in[0])) return out;
      add(lax::eigh(in[0]));
      if (lapack::is_available()) add(lax::eig(in[0]));
      return out;
    });
    SCOPED_TRACE(to_string(shape));
    EXPECT_NO_THROW(topology->compile(lower(program, options).stablehlo));
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
