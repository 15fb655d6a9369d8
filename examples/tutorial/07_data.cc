// SPDX-License-Identifier: Apache-2.0
// Step 7: batches in shuffled order, of which each process reads its own rows; and a loader that continues
// where another one stopped, with the batch on other devices.
//
//   $ lockstep run -n 2 -- build/release/examples/tutorial/07_data
//   [0]  2²=4 1²=1 5²=25 10²=100
//   [0]  6²=36 0²=0 3²=9 7²=49
//   [0]  4²=16 9²=81 8²=64 11²=121

#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});

  // Twelve records, made by a function. Sources of files are tokens_u16, jsonl, tfrecord, npy and others.
  ls::data::SourcePtr squares = ls::data::from_function(12, "squares", [](std::uint64_t i) {
    return ls::data::Record{{"x", ls::data::Field::scalar(static_cast<std::int32_t>(i))},
                            {"y", ls::data::Field::scalar(static_cast<std::int32_t>(i * i))}};
  });
  auto print = [](const ls::data::Batch& batch) {
    const auto x = ls::multihost::process_allgather(batch["x"]).to_host<std::int32_t>();
    const auto y = ls::multihost::process_allgather(batch["y"]).to_host<std::int32_t>();
    if (ls::process_index() != 0) return;
    for (std::size_t i = 0; i < x.size(); ++i) std::printf(" %d²=%d", x[i], y[i]);
    std::printf("\n");
  };

  ls::data::Loader loader(squares, {.batch = {4}, .sharding = ls::NamedSharding(mesh, P("data")), .seed = 7});
  print(*loader.next());
  const ls::data::LoaderState state = loader.state();  // 64 bytes, which a checkpoint can hold

  // Another job would do this. It may have another number of processes, or put the batches elsewhere.
  ls::data::Loader second(squares, {.batch = {4}, .sharding = ls::NamedSharding(mesh, P()), .seed = 7});
  second.restore(state);
  while (auto batch = second.next()) print(*batch);
}
