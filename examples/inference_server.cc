// SPDX-License-Identifier: Apache-2.0
// A server over all processes: process 0 reads requests and sends them to the others in batches of a fixed
// size; all compute the answers together, by a perceptron whose hidden units are split over the devices.
//
//   $ printf '1 2 3 4\n0 0 0 1\n5 6\n' | lockstep run -n 4 -- build/release/examples/inference_server
//   [0] ready: the answers of all devices equal those of one
//   [0] 0.087 -1.208
//   [0] 0.001 -0.866
//   [0] error: expected 4 numbers
//
// A line of input is a request; the server ends with its input. On several hosts there is no standard input:
// read a socket or a FIFO there.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P;

constexpr int kFeatures = 4, kHidden = 64, kOutputs = 2, kBatch = 8;

struct Mlp {
  Array up, down;  // [features, hidden] and [hidden, outputs]
};

Mlp init() {
  auto [k1, k2] = ls::random::split<2>(ls::random::key(0));
  return {ls::random::normal(k1, {kFeatures, kHidden}) / 2.0,
          ls::random::normal(k2, {kHidden, kOutputs}) / 8.0};
}

Array predict(const Mlp& m, const Array& x) { return ls::matmul(ls::tanh(ls::matmul(x, m.up)), m.down); }

/// What process 0 sends to all.
struct Work {
  Array rows;      // [batch, features]; those behind the requests are zeros
  Array requests;  // how many there are; 0: the server ends
};

/// The numbers of a request, or nothing if they are not kFeatures numbers.
using Request = std::optional<std::vector<float>>;

Request parse(const std::string& line) {
  std::istringstream in(line);
  std::vector<float> row(kFeatures);
  for (float& value : row) in >> value;
  return in && (in >> std::ws).eof() ? Request(row) : std::nullopt;
}

/// Waits for a request, then takes what else is there, up to a batch. Empty at the end of the input. With
/// sockets, the threads of the connections would put requests into a queue, from which this takes them.
std::vector<Request> next_requests() {
  ls::Phase phase("wait for requests", {.idle = true});  // those who wait for it meanwhile are not stalled
  std::vector<Request> requests;
  std::string line;
  while (requests.size() < kBatch && (requests.empty() || std::cin.rdbuf()->in_avail() > 0) &&
         std::getline(std::cin, line))
    requests.push_back(parse(line));
  return requests;
}

int main() {
  std::ios::sync_with_stdio(false);  // otherwise in_avail() is always 0
  ls::initialize();
  const bool first = ls::process_index() == 0;
  const ls::Mesh mesh = ls::make_mesh({{"model", ls::device_count()}});
  const ls::NamedSharding columns(mesh, P(nullptr, "model")), rows(mesh, P("model")), replicated(mesh, P());

  const Mlp mlp = ls::jit(init, {.out_shardings = {{columns, rows}}})();
  const auto predict_over_mesh = ls::jit(predict, {.out_shardings = {replicated}, .name = "predict"});

  // On every process: the answers to the requests that process 0 passes, or nothing if it passes none.
  auto serve = [&](const Array& x, std::size_t requests) -> std::optional<Array> {
    const Work work = ls::multihost::broadcast_one_to_all(Work{x, static_cast<int>(requests)});
    if (work.requests.item<int>() == 0) return std::nullopt;
    return predict_over_mesh(mlp, work.rows);
  };

  // The first call compiles, so that the first request need not wait for that.
  const Array x = ls::random::normal(ls::random::key(1), {kBatch, kFeatures});
  const bool equal = ls::max(ls::abs(*serve(x, kBatch) - predict(init(), x))).item<float>() < 1e-5f;
  if (first) std::printf("ready: the answers of all devices %s those of one\n", equal ? "equal" : "are not");
  std::fflush(stdout);

  for (;;) {
    std::vector<Request> requests;
    if (first) requests = next_requests();
    std::vector<float> batch(kBatch * kFeatures);
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i]) std::ranges::copy(*requests[i], batch.data() + i * kFeatures);
    const auto y = serve(ls::array(batch, {kBatch, kFeatures}), requests.size());
    if (!y) return 0;
    const auto answers = y->to_host<float>();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i])
        std::printf("%.3f %.3f\n", answers[kOutputs * i], answers[kOutputs * i + 1]);
      else
        std::printf("error: expected %d numbers\n", kFeatures);
    }
    std::fflush(stdout);
  }
}
