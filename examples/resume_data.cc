// SPDX-License-Identifier: Apache-2.0
// Reads a token file in batches, stops in the middle, and continues from a checkpoint: no window of tokens
// is read twice, and none is left out.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/resume_data
//   [0] 101 tokens, 20 windows of 5, 5 batches of 4
//   [0] batch 0: windows 19, 18, 6, 7
//   [0] batch 1: windows 9, 5, 1, 16
//   [0] stopped at window 8
//   [0] batch 2: windows 4, 2, 8, 3
//   [0] batch 3: windows 15, 14, 17, 10
//   [0] batch 4: windows 0, 13, 12, 11
//   [0] sum of all tokens 4950, expected 4950

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace ls = lockstep;
using ls::Array, ls::P;

/// The state that the job saves: the position in the data, and the result so far.
struct Run {
  ls::data::LoaderState data;
  Array sum;
};

/// Tokens 0, 1, 2 and so on, in nanoGPT's format: consecutive u16. Process 0 writes the file.
void write_tokens(const std::filesystem::path& folder, int count) {
  if (ls::process_index() == 0) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "tokens.bin", std::ios::binary);
    for (int token = 0; token < count; ++token) file.put(static_cast<char>(token)).put(0);
  }
  ls::multihost::sync_global_devices("the tokens are written");
}

/// Windows in a batch: 4, or one for each device.
std::int64_t batch_size() { return std::max(4, ls::device_count()); }

ls::data::Loader open(const std::filesystem::path& folder, const ls::Mesh& mesh) {
  return {ls::data::windows(ls::data::tokens_u16(folder / "tokens.bin"), {.length = 5}),
          {.batch = {batch_size()}, .sharding = ls::NamedSharding(mesh, P("data")), .seed = 1}};
}

/// Up to `steps` further batches.
Run train(ls::data::Loader& loader, Run run, int steps) {
  auto add = ls::jit([](Array sum, const ls::data::Batch& batch) {
    Array rows = ls::sum(batch["tokens"], -1);
    return sum + ls::sum(ls::where(batch.valid, rows, 0));  // Rows behind the end count for nothing.
  });
  for (int i = 0; i < steps; ++i) {
    const std::uint64_t number = loader.state().position / static_cast<std::uint64_t>(batch_size());
    const std::optional<ls::data::Batch> batch = loader.next();
    if (!batch) break;
    run.sum = add(run.sum, *batch);
    const auto tokens = ls::multihost::process_allgather((*batch)["tokens"]).to_host<std::int32_t>();
    if (ls::process_index() == 0)
      std::printf("batch %d: windows %d, %d, %d, %d\n", static_cast<int>(number), tokens[0] / 5,
                  tokens[5] / 5, tokens[10] / 5, tokens[15] / 5);
  }
  run.data = loader.state();
  return run;
}

int main() {
  ls::initialize();
  const auto folder = std::filesystem::temp_directory_path() / "lockstep_resume_data";
  const bool speaker = ls::process_index() == 0;
  write_tokens(folder, 101);
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const Array zero = ls::device_put(ls::full({}, 0, ls::int32), ls::NamedSharding(mesh, P()));
  {
    ls::data::Loader loader = open(folder, mesh);
    if (speaker)
      std::printf("101 tokens, 20 windows of 5, %d batches of %d\n", static_cast<int>(*loader.batches()),
                  static_cast<int>(batch_size()));
    const Run run = train(loader, {{}, zero}, 2);
    ls::checkpoint::save(folder / "step-2", run);
    if (speaker) std::printf("stopped at window %d\n", static_cast<int>(run.data.position));
  }
  // In practice this is another job, possibly with another number of processes.
  ls::data::Loader loader = open(folder, mesh);
  Run run = ls::checkpoint::restore(folder / "step-2", Run{{}, zero});
  loader.restore(run.data);
  run = train(loader, run, 1000);
  if (speaker) std::printf("sum of all tokens %d, expected %d\n", run.sum.item<std::int32_t>(), 99 * 100 / 2);
  ls::multihost::sync_global_devices("all is read");
  if (speaker) std::filesystem::remove_all(folder);
}
