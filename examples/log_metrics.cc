// SPDX-License-Identifier: Apache-2.0
// Trains, and logs the loss of every step: lines of JSON, and events for TensorBoard.
//
//   $ lockstep run -n 2 -- build/release/examples/log_metrics
//   [0] at step 3 the loss is 0.00391
//   [0] "process":0,"attempt":0,"step":0,"values":{"loss":0.25,"rate":0.5}}
//   [0] "process":0,"attempt":0,"step":1,"values":{"loss":0.0625,"rate":0.5}}
//   [0] "process":0,"attempt":0,"step":2,"values":{"loss":0.015625,"rate":0.5}}
//   [0] "process":0,"attempt":0,"step":3,"values":{"loss":0.00390625,"rate":0.5}}

#include <lockstep/lockstep.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  // `lockstep run --log-dir DIR` sets the folder for any program; here the program sets it itself.
  const auto folder = std::filesystem::temp_directory_path() / "lockstep_log_metrics";
  if (ls::process_index() == 0) std::filesystem::remove_all(folder);
  ls::metrics::configure({.folder = folder});

  const ls::NamedSharding split(ls::make_mesh({{"data", ls::device_count()}}), P("data"));
  auto train = ls::jit([](Array w, Array rate) {
    Array loss = ls::mean(ls::square(w));
    return std::pair(w * (1 - rate), loss);
  });
  Array w = ls::device_put(ls::ones({2 * ls::device_count()}) * 0.5f, split);
  const double rate = 0.5;
  for (int step = 0; step < 4; ++step) {
    auto [next, loss] = train(w, rate);
    ls::metrics::log(step, {{"loss", loss}, {"rate", rate}});
    w = next;
  }

  if (ls::process_index() != 0) return 0;
  const ls::metrics::Entry last = *ls::metrics::latest();
  std::printf("at step %d the %s is %.5f\n", static_cast<int>(last.step), last.values[0].first.c_str(),
              last.values[0].second);
  std::ifstream lines(folder / "process-0.metrics.jsonl");
  for (std::string line; std::getline(lines, line);)  // Each begins with the time.
    std::printf("%s\n", line.substr(line.find("\"process\"")).c_str());
}
