// SPDX-License-Identifier: Apache-2.0
// Lockstep's side of the comparison: the heat equation on a square, a five-point stencil with zeros outside,
// and other operations on a grid, many steps in one call. compare.py runs it.

#include <lockstep/lockstep.h>

#include <cmath>
#include <string>

#include "benchmarks/compare_jax/measure.h"

namespace ls = lockstep;
using ls::Array, ls::P, ls::slice, ls::none;

namespace {

/// A step of u, which is p without a cell on each side.
Array stepped(const Array& u, const Array& p) {
  const Array up = p[{slice(none, -2), slice(1, -1)}], down = p[{slice(2, none), slice(1, -1)}];
  const Array left = p[{slice(1, -1), slice(none, -2)}], right = p[{slice(1, -1), slice(2, none)}];
  return u + 0.1 * (up + down + left + right - 4.0 * u);
}

Array automatic(const Array& u) { return stepped(u, ls::pad(u, {{1, 1}, {1, 1}})); }

/// The rows of one device, with one row of each neighbour.
Array of_device(const Array& u) {
  const int count = ls::device_count();
  std::vector<std::pair<int, int>> forward, backward;
  for (int i = 0; i + 1 < count; ++i) {
    forward.emplace_back(i, i + 1);
    backward.emplace_back(i + 1, i);
  }
  const Array above = ls::ppermute(u[{slice(-1, none)}], "rows", forward);
  const Array below = ls::ppermute(u[{slice(none, 1)}], "rows", backward);
  return stepped(u, ls::pad(ls::concatenate({above, u, below}), {{0, 0}, {1, 1}}));
}

/// The cells at the edges keep their values.
Array interior(const Array& u) {
  const auto inner = slice(1, -1);
  const Array up = u[{slice(none, -2), inner}], down = u[{slice(2, none), inner}];
  const Array left = u[{inner, slice(none, -2)}], right = u[{inner, slice(2, none)}];
  return u.at({inner, inner}).add(0.1 * (up + down + left + right - 4.0 * u[{inner, inner}]));
}

/// The mean of the cells above, with the cell itself.
Array running(const Array& u) { return ls::cumsum(u, 0) * (1.0 / static_cast<double>(u.shape()[0])); }

/// The place of the largest cell of each row becomes its first cell.
Array largest(const Array& u) {
  const Array places = ls::astype(ls::argmax(u, 1), u.dtype()) * (1.0 / static_cast<double>(u.shape()[1]));
  return u.at({slice(none, none), 0}).set(places);
}

/// Of the differences between cells that lie side by side.
Array energy(const Array& u) {
  const Array down = u[{slice(1, none)}] - u[{slice(none, -1)}];
  const Array right = u[{slice(none, none), slice(1, none)}] - u[{slice(none, none), slice(none, -1)}];
  return 0.5 * (ls::sum(ls::square(down)) + ls::sum(ls::square(right)));
}

Array descent(const Array& u) { return u - 0.1 * ls::grad(energy)(u); }

Array (*step_of(const std::string& form))(const Array&) {
  if (form == "interior") return interior;
  if (form == "descent") return descent;
  if (form == "cumsum") return running;
  return form == "argmax" ? largest : automatic;
}

template <class T>
void measure(const std::string& form, std::int64_t size, int steps, int windows) {
  ls::Mesh mesh = ls::make_mesh({{"rows", ls::device_count()}});
  ls::NamedSharding rows(mesh, P("rows"));
  Array u = ls::make_array_from_callback<T>({size, size}, rows, [&](const std::vector<ls::IndexRange>& part) {
    std::vector<T> cells;
    for (std::int64_t i = part[0].start; i < part[0].limit; ++i)
      for (std::int64_t j = 0; j < size; ++j) cells.push_back(static_cast<T>((7 * i + 13 * j) % 32) / 32);
    return cells;
  });
  auto many = [&](Array (*step)(const Array&)) {
    return [=](const Array& u) {
      return ls::fori_loop(
          0, steps, [=](const Array&, const Array& u) { return step(u); }, u);
    };
  };
  const ls::JitOptions options = {.donate_argnums = {0}};
  auto run =
      form == "shard_map"
          ? ls::jit(std::function<Array(Array)>(ls::shard_map(many(of_device), {mesh, P("rows"), P("rows")})),
                    options)
      : form == "gradient"
          // By the cells before all steps, of half the sum of squares of those behind.
          ? ls::jit(std::function<Array(Array)>(ls::grad(
                        [&](const Array& u) { return 0.5 * ls::sum(ls::square(many(automatic)(u))); })),
                    options)
          : ls::jit(std::function<Array(Array)>(many(step_of(form))), options);
  std::vector<double> seconds;
  for (int i = 0; i <= windows; ++i) {
    const double start = compare::now();
    u = run(u);
    u.block_until_ready();
    if (i > 0) seconds.push_back((compare::now() - start) / steps);
  }
  const double sum = ls::sum(ls::square(ls::astype(u, ls::float64))).template item<double>();
  if (ls::process_index() != 0) return;
  char more[64];
  std::snprintf(more, sizeof more, ", \"sum\": %.12g", sum);
  compare::report_times("stencil", seconds, more);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string form = compare::option(argc, argv, "--form");
  const std::int64_t size = std::stoll(compare::option(argc, argv, "--size"));
  const bool wide = compare::option(argc, argv, "--bits") == "64";
  const int steps = std::stoi(compare::option(argc, argv, "--steps"));
  const int windows = std::stoi(compare::option(argc, argv, "--windows"));
  ls::initialize();
  (wide ? measure<double> : measure<float>)(form, size, steps, windows);
}
