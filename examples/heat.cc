// SPDX-License-Identifier: Apache-2.0
// The heat equation on a plate: a stencil of five points, with the rows split over the devices.
//
//   $ lockstep run -n 2 -- build/release/examples/heat
//   [0] for the whole plate: the corner of the hot square has cooled to 0.273
//   [0] for each device's rows: the results are equal
//   [0] each step exchanges 1024 bytes in a permute
//   [0] each step exchanges 1024 bytes in a permute

#include <lockstep/lockstep.h>

#include <cstdio>
#include <utility>
#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P, ls::none, ls::slice;

constexpr std::int64_t kSize = 256;
constexpr int kSteps = 400;

/// The next u. `wide` is u with the cells around it: a row above and below, a column left and right.
Array stepped(const Array& u, const Array& wide) {
  const auto inner = slice(1, -1);
  const Array above = wide[{slice(none, -2), inner}], below = wide[{slice(2, none), inner}];
  const Array left = wide[{inner, slice(none, -2)}], right = wide[{inner, slice(2, none)}];
  return u + 0.1f * (above + below + left + right - 4.0f * u);
}

/// Of the whole plate; it is cold around it.
Array step(const Array& u) { return stepped(u, ls::pad(u, {{1, 1}, {1, 1}})); }

/// Of one device's rows: its neighbours send the rows next to them, and the first and last device get zeros.
Array step_of_device(const Array& u) {
  std::vector<std::pair<int, int>> down, up;
  for (int i = 0; i + 1 < ls::device_count(); ++i) {
    down.emplace_back(i, i + 1);
    up.emplace_back(i + 1, i);
  }
  const Array above = ls::ppermute(u[{slice(-1, none)}], "rows", down);
  const Array below = ls::ppermute(u[{slice(none, 1)}], "rows", up);
  return stepped(u, ls::pad(ls::concatenate({above, u, below}), {{0, 0}, {1, 1}}));
}

Array many(Array (*one)(const Array&), const Array& u) {
  return ls::fori_loop(
      0, kSteps, [one](const Array&, const Array& u) { return one(u); }, u);
}

int main() {
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"rows", ls::device_count()}});
  const Array hot = ls::ones({kSize / 2, kSize / 2}, ls::float32);
  const Array u = ls::device_put(ls::pad(hot, {{kSize / 4, kSize / 4}, {kSize / 4, kSize / 4}}),
                                 ls::NamedSharding(mesh, P("rows")));

  const auto run = ls::jit([](const Array& u) { return many(step, u); });
  const Array whole = run(u);
  const Array by_rows =
      ls::shard_map([](const Array& u) { return many(step_of_device, u); }, {mesh, P("rows"), P("rows")})(u);
  const float corner = whole[{kSize / 4, kSize / 4}].item<float>();
  const float difference = ls::max(ls::abs(whole - by_rows)).item<float>();

  const auto moved = ls::jit(step).lower(u).communication();
  if (ls::process_index() != 0) return 0;
  std::printf("for the whole plate: the corner of the hot square has cooled to %.3f\n", corner);
  std::printf("for each device's rows: the results are %s\n", difference < 1e-5f ? "equal" : "different");
  for (const auto& line : moved)
    std::printf("each step exchanges %d bytes in a %s\n", static_cast<int>(line.bytes), line.kind.c_str());
}
