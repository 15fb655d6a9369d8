// SPDX-License-Identifier: Apache-2.0
// Functions of single elements by XLA's code and by SLEEF, in nanoseconds an element, by one thread:
//   NPROC=1 taskset -c 0 build/release/benchmarks/functions_on_cpus
// What Lockstep takes has a star. The table in lockstep/sleef/sleef.cc was chosen by it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/test_evaluate.h"

namespace lockstep {
namespace {

constexpr std::int64_t kElements = 1 << 16;  // results stay in the cache
constexpr std::size_t kRounds = 21;

/// The function, and the numbers that it is measured on: from `low` to `high`.
struct Measured {
  const ir::Primitive& primitive;
  double low, high;
};
const Measured kMeasured[] = {{ir::sin_p(), -10, 10},  {ir::cos_p(), -10, 10},   {ir::tan_p(), -10, 10},
                              {ir::asin_p(), -1, 1},   {ir::acos_p(), -1, 1},    {ir::atan_p(), -10, 10},
                              {ir::sinh_p(), -10, 10}, {ir::log_p(), 1e-3, 10},  {ir::cbrt_p(), -10, 10},
                              {ir::erf_p(), -3, 3},    {ir::atan2_p(), -10, 10}, {ir::pow_p(), 1e-3, 10}};

double seconds_of(const std::function<void()>& compute) {
  const auto start = std::chrono::steady_clock::now();
  compute();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> seconds) {
  std::ranges::nth_element(seconds, seconds.begin() + kRounds / 2);
  return seconds[kRounds / 2];
}

void print(const Measured& m, DType dtype) {
  const auto operands =
      static_cast<std::size_t>(m.primitive.name == "atan2" || m.primitive.name == "pow" ? 2 : 1);
  ir::Builder builder("f");
  std::vector<ir::Value> inputs;
  std::vector<std::vector<char>> numbers;
  std::vector<const void*> pointers;
  std::vector<pjrt::Buffer> buffers;
  std::vector<pjrt::Buffer*> arguments;
  const pjrt::Device& device = *test::client().addressable_devices().front();
  for (std::size_t i = 0; i < operands; ++i) {
    const test::HostArray x =
        test::random({kElements}, m.low, m.high, static_cast<std::uint32_t>(i + 1), dtype);
    inputs.push_back(builder.input(x.aval()));
    numbers.push_back(test::to_bytes(x));
    buffers.push_back(test::client().buffer_from_host(numbers.back().data(), dtype, x.shape, device));
  }
  for (std::size_t i = 0; i < operands; ++i) {
    pointers.push_back(numbers[i].data());
    arguments.push_back(&buffers[i]);
  }
  const ir::Program program = builder.finish(builder.emit(m.primitive, {}, inputs));
  ir::LowerOptions options;
  options.sleef = false;
  const std::unique_ptr<pjrt::Executable> by_xla = test::client().compile(lower(program, options).stablehlo);
  std::vector<double> result(kElements), xla, own;
  for (std::size_t round = 0; round < kRounds; ++round) {
    xla.push_back(seconds_of([&] {
      for (pjrt::Buffer& buffer : by_xla->execute(std::span<pjrt::Buffer* const>(arguments), device))
        buffer.await();
    }));
    own.push_back(seconds_of([&] {
      sleef::compute(m.primitive.name, dtype, pointers, result.data(), kElements,
                     [](std::int64_t count, const std::function<void(std::int64_t)>& piece) {
                       for (std::int64_t i = 0; i < count; ++i) piece(i);
                     });
    }));
  }
  const double scale = 1e9 / kElements;
  const bool is_taken = sleef::is_faster(m.primitive.name, dtype);
  std::printf("%-8s%5s%10.2f %c%10.2f %c%10.2f\n", m.primitive.name.c_str(), std::string(name(dtype)).c_str(),
              scale * median(xla), is_taken ? ' ' : '*', scale * median(own), is_taken ? '*' : ' ',
              median(xla) / median(own));
  std::fflush(stdout);
}

}  // namespace
}  // namespace lockstep

int main() {
  using namespace lockstep;
  std::printf("%s\n", sleef::description().c_str());
  if (!sleef::is_available()) return 1;
  std::printf("%-8s%5s%12s%12s%10s\n", "", "", "XLA  ", "SLEEF  ", "ratio");
  for (const Measured& measured : kMeasured)
    for (const DType dtype : {DType::kF32, DType::kF64}) print(measured, dtype);
}
