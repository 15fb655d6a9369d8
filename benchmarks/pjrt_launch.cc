// SPDX-License-Identifier: Apache-2.0
// Cost of the plugin's own launch of a tiny program: the floor under a cached call of jit.
//   build/release/benchmarks/pjrt_launch

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {
namespace {

/// A program of `n` arrays f32[8], each plus one; all are donated where asked.
std::string add_one(int n, bool donated) {
  std::string arguments, types, results, body;
  for (int i = 0; i < n; ++i) {
    const std::string k = std::to_string(i), comma = i == 0 ? "" : ", ";
    arguments +=
        comma + "%x" + k + ": tensor<8xf32>" + (donated ? " {tf.aliasing_output = " + k + " : i32}" : "");
    types += comma + "tensor<8xf32>";
    results += comma + "%y" + k;
    body += "%y" + k + " = stablehlo.add %x" + k + ", %one : tensor<8xf32>\n";
  }
  return "module @add_one { func.func public @main(" + arguments + ") -> (" + types +
         ") {\n%one = stablehlo.constant dense<1.0> : tensor<8xf32>\n" + body + "return " + results + " : " +
         types + "} }";
}

struct Setup {
  explicit Setup(int n, bool donated, bool asynchronous = false)
      : client(Client::create(Plugin::load(find_plugin()), {{"asynchronous", asynchronous}})),
        device(*client->addressable_devices()[0]),
        program(client->compile(add_one(n, donated))),
        outputs(n) {
    const std::vector<float> zeros(8);
    const std::int64_t dims[] = {8};
    for (int i = 0; i < n; ++i) {
      inputs.push_back(client->buffer_from_host(zeros.data(), float32, dims, device));
      inputs.back().await();
    }
    for (Buffer& input : inputs) arguments.push_back(&input);
  }

  std::shared_ptr<Client> client;
  const Device& device;
  std::unique_ptr<Executable> program;
  std::vector<Buffer> inputs, outputs;
  std::vector<Buffer*> arguments;
};

/// The call alone; its outputs are freed by the next.
void Launch(benchmark::State& state) {
  Setup setup(static_cast<int>(state.range(0)), /*donated=*/false, state.range(1) != 0);
  for (auto _ : state) setup.program->execute(setup.arguments, setup.device, setup.outputs);
}
BENCHMARK(Launch)->ArgNames({"arrays", "async"})->ArgsProduct({{1, 4, 24}, {0, 1}});

/// The outputs of a call are the donated arguments of the next, as in a training loop.
void LaunchDonated(benchmark::State& state) {
  Setup setup(static_cast<int>(state.range(0)), /*donated=*/true);
  for (auto _ : state) {
    setup.program->execute(setup.arguments, setup.device, setup.outputs);
    for (std::size_t i = 0; i < setup.inputs.size(); ++i) setup.inputs[i] = std::move(setup.outputs[i]);
  }
}
BENCHMARK(LaunchDonated)->ArgName("arrays")->Arg(1)->Arg(24);

void LaunchAndAwait(benchmark::State& state) {
  Setup setup(1, /*donated=*/false);
  for (auto _ : state) {
    setup.program->execute(setup.arguments, setup.device, setup.outputs);
    setup.outputs[0].await();
  }
}
BENCHMARK(LaunchAndAwait);

void ToHost(benchmark::State& state) {
  Setup setup(1, /*donated=*/false);
  float values[8];
  for (auto _ : state) setup.inputs[0].to_host(values, sizeof values);
}
BENCHMARK(ToHost);

void FromHost(benchmark::State& state) {
  Setup setup(1, /*donated=*/false);
  const float values[8] = {};
  const std::int64_t dims[] = {8};
  for (auto _ : state) {
    benchmark::DoNotOptimize(setup.client->buffer_from_host(values, float32, dims, setup.device));
  }
}
BENCHMARK(FromHost);

/// Memory for the result of a collective, and the end of its array. Kept: the next result takes it over; not
/// kept: the plugin makes and destroys one each time, as for an array that a program gets.
void Result(benchmark::State& state) {
  Setup setup(1, /*donated=*/false);
  const std::int64_t dims[] = {8};
  for (auto _ : state) {
    const Buffer result = setup.client->uninitialized_buffer(float32, dims, setup.device);
    if (state.range(0) == 0) benchmark::DoNotOptimize(result.get());
  }
}
BENCHMARK(Result)->ArgName("kept")->Arg(0)->Arg(1);

}  // namespace
}  // namespace lockstep::pjrt
