// SPDX-License-Identifier: Apache-2.0
// Clusters by k-means and principal components of a data set whose rows are split over the devices. Each
// process makes its own rows, around known centres.
//
//   $ lockstep run -n 4 -- build/release/examples/clusters_and_components
//   [0] k-means: 3 steps, largest error 0.080 (bound 0.1)
//   [0] a step moves 544 bytes in an all-reduce
//   [0] explained variance: 0.216, 0.187, 0.135, ...; largest error 0.0007 (bound 0.001)

#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdio>
#include <utility>

namespace ls = lockstep;
using ls::Array, ls::P;

constexpr int kRows = 32768, kColumns = 16, kClusters = 8;

Array true_centres() { return 2 * ls::random::normal(ls::random::key(0), {kClusters, kColumns}); }

/// Row i, near a centre. Its key depends on i alone: any number of processes makes the same rows.
Array row(const Array& i) {
  const ls::random::Key key = ls::random::fold_in(ls::random::key(1), i);
  return ls::take(true_centres(), i % kClusters, 0) + ls::random::normal(key, {kColumns});
}

/// Between each row of x and each centre: f32[rows,centres].
Array squared_distances(const Array& x, const Array& centres) {
  return ls::sum(ls::square(x), {.axis = 1, .keepdims = true}) - 2 * ls::matmul(x, ls::transpose(centres)) +
         ls::sum(ls::square(centres), 1);
}

struct State {
  Array centres, moved, steps;  ///< moved: the longest distance that a centre moved in the last step
};

/// Lloyd's algorithm: each centre moves to the mean of the rows that are nearest to it, if there are any.
State step(const Array& x, const State& state) {
  const Array nearest = ls::argmin(squared_distances(x, state.centres), 1);
  const Array sums = ls::segment_sum(x, nearest, kClusters);
  const Array counts = ls::segment_sum(ls::ones({kRows, 1}), nearest, kClusters);
  const Array centres = ls::where(counts > 0, sums / ls::maximum(counts, 1), state.centres);
  return {centres, ls::max(ls::linalg::norm(centres - state.centres, {.axis = 1})), state.steps + 1};
}

/// Starts with row 0 and, each time, the row that is farthest from the centres so far (Gonzalez, 1985).
State k_means(const Array& x) {
  auto add = [&x](const Array& i, const Array& centres) {
    return centres.at(i).set(x[ls::argmax(ls::min(squared_distances(x, centres), 1))]);
  };
  const Array start = ls::fori_loop(1, kClusters, add, ls::broadcast_to(x[0], {kClusters, kColumns}));
  return ls::while_loop([](const State& state) { return state.moved > 1e-3; },
                        [&x](const State& state) { return step(x, state); }, State{start, INFINITY, 0});
}

/// The largest distance of a true centre from the nearest one of these.
Array largest_error(const Array& centres) {
  return ls::max(ls::min(ls::linalg::norm(ls::expand_dims(true_centres(), 1) - centres, {.axis = -1}), 1));
}

/// Of the principal components, and their largest difference from those of the distribution of the rows.
std::pair<Array, Array> explained_variance_ratios(const Array& x) {
  const Array s = ls::linalg::svdvals(ls::linalg::tsqr(x - ls::mean(x, 0), ls::device_count()).r);
  const Array ratios = ls::square(s) / ls::sum(ls::square(s));
  const Array covariance = ls::cov(ls::transpose(true_centres()), 0) + ls::eye(kColumns);
  const Array expected = ls::flip(ls::linalg::eigvalsh(covariance)) / ls::trace(covariance);
  return {ratios, ls::max(ls::abs(ratios - expected))};
}

int main() {
  ls::initialize();
  const ls::NamedSharding by_rows(ls::make_mesh({{"rows", ls::device_count()}}), P("rows"));
  const Array x = ls::make_array_from_callback<float>({kRows, kColumns}, by_rows, [](const auto& part) {
    return ls::jit(ls::vmap(row))(ls::arange(part[0].start, part[0].limit)).template to_host<float>();
  });
  const State found = ls::jit(k_means)(x);
  const float error = ls::jit(largest_error)(found.centres).item<float>();
  const auto moved = ls::jit(step).lower(x, found).communication();
  const auto [ratios, difference] = ls::jit(explained_variance_ratios)(x);
  const auto ratio = ratios.view<float>();
  if (ls::process_index() != 0) return 0;
  std::printf("k-means: %d steps, largest error %.3f (bound 0.1)\n", found.steps.item<int>(), error);
  for (const auto& line : moved)
    std::printf("a step moves %d bytes in an %s\n", static_cast<int>(line.bytes), line.kind.c_str());
  std::printf("explained variance: %.3f, %.3f, %.3f, ...; largest error %.4f (bound 0.001)\n", ratio(0),
              ratio(1), ratio(2), difference.item<float>());
  return error < 0.1f && difference.item<float>() < 1e-3f ? 0 : 1;
}
