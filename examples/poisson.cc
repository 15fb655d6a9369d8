// SPDX-License-Identifier: Apache-2.0
// The Poisson equation on a periodic cube by Fourier transforms, whose planes are split over the devices.
//
//   $ lockstep run -n 4 -- build/release/examples/poisson
//   [0] the solution is that of the equation: its error is below 1e-5
//   [0] a solution takes all-to-all, 270336 bytes of each device
//   [0] a solution takes all-to-all, 270336 bytes of each device

#include <lockstep/lockstep.h>

#include <cstdio>
#include <numbers>
#include <utility>

namespace ls = lockstep;
using ls::Array, ls::P;

constexpr std::int64_t kSize = 64;

/// u with -(the sum of u's second derivatives) = f, and a mean of 0. In waves, that is a division by the sum
/// of the squares of the wave numbers.
Array solve(const Array& f) {
  const Array all = ls::fft::fftfreq(kSize, 1. / kSize), half = ls::fft::rfftfreq(kSize, 1. / kSize);
  const Array squares = ls::square(ls::reshape(all, {kSize, 1, 1})) +
                        ls::square(ls::reshape(all, {kSize, 1})) + ls::square(half);
  const Array waves = ls::fft::rfftn(f);
  return ls::fft::irfftn(ls::where(squares > 0., waves / ls::maximum(squares, 1.), 0.));
}

int main() {
  ls::initialize();
  const ls::NamedSharding planes(ls::make_mesh({{"planes", ls::device_count()}}), P("planes"));
  // Of u = sin(x) cos(2 y) sin(3 z), the second derivatives add up to -(1 + 4 + 9) u.
  const auto [f, u] = ls::jit(
      [] {
        const Array at = ls::arange(kSize) * (2 * std::numbers::pi / kSize);
        const Array u = ls::reshape(ls::sin(at), {kSize, 1, 1}) * ls::reshape(ls::cos(2. * at), {kSize, 1}) *
                        ls::sin(3. * at);
        return std::pair(14. * u, u);
      },
      {.out_shardings = {planes, planes}})();

  const auto solver = ls::jit(solve, {.out_shardings = {planes}});
  const float error = ls::max(ls::abs(solver(f) - u)).item<float>();
  if (ls::process_index() != 0) return 0;
  std::printf("the solution is that of the equation: its error is %s 1e-5\n",
              error < 1e-5f ? "below" : "above");
  for (const auto& line : solver.lower(f).communication())
    std::printf("a solution takes %s, %d bytes of each device\n", line.kind.c_str(),
                static_cast<int>(line.bytes));
}
