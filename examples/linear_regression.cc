// SPDX-License-Identifier: Apache-2.0
// Fits a line to points that are distributed over all processes.
//
//   $ lockstep run -n 4 -- build/release/examples/linear_regression
//   [0] y = 3.000 x + 2.000

#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

struct Line {
  Array slope, offset;
};

Array loss(const Line& line, const Array& x, const Array& y) {
  return ls::mean(ls::square(line.slope * x + line.offset - y));
}

int main() {
  ls::initialize();                                               // connects to the other processes
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});  // all devices of all of them

  std::vector<float> xs, ys;  // this process's points
  for (int i = 0; i < 100 * ls::local_device_count(); ++i) {
    xs.push_back(std::sin(static_cast<float>(ls::process_index() + i)));
    ys.push_back(3 * xs.back() + 2);
  }
  ls::NamedSharding split(mesh, P("data"));
  Array x = ls::make_array_from_process_local_data(split, xs, {std::ssize(xs)});  // all processes' points
  Array y = ls::make_array_from_process_local_data(split, ys, {std::ssize(ys)});

  auto step = ls::jit([](const Line& line, const Array& x, const Array& y) {
    Line g = ls::grad(loss)(line, x, y);  // summed over all devices
    return Line{line.slope - 0.5 * g.slope, line.offset - 0.5 * g.offset};
  });
  Line line{ls::zeros({}), ls::zeros({})};
  for (int i = 0; i < 100; ++i) line = step(line, x, y);

  float slope = line.slope.item<float>(), offset = line.offset.item<float>();
  if (ls::process_index() == 0) std::printf("y = %.3f x + %.3f\n", slope, offset);
}
