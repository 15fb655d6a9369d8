// SPDX-License-Identifier: Apache-2.0
// Saves steps whose every element follows from the step, until it is ended; or looks whether those that are
// there are whole. For power_loss.py and safetensors_reads.py.
//
//   save_steps FOLDER                 prints "saved N" when step N is on disk for good
//   save_steps FOLDER --check         prints the steps; fails at the first that is not as it should be
//   save_steps FOLDER --without K     leaves the K-th fsync of each save out, from 0

#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <numeric>

#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/storage/file_calls.h"

namespace ls = lockstep;
namespace ckpt = lockstep::checkpoint;

struct Tree {
  ls::Array large, small;
  std::int64_t step = 0;
};

std::vector<std::int32_t> numbers(std::int64_t count, std::int64_t step) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int32_t>(i * 2654435761u + static_cast<std::size_t>(step) * 40503u);
  return all;
}

constexpr std::int64_t kLarge = 100'000, kSmall = 7;

Tree tree_of(std::int64_t step) {
  return {ls::array(numbers(kLarge, step)), ls::array(numbers(kSmall, step)), step};
}

/// Says that all is well where the system was not asked.
class WithoutFsync : public ls::storage::FileCalls {
 public:
  explicit WithoutFsync(int left_out) : left_out_(left_out) {}
  void begin() { calls_ = 0; }
  int fsync(int file) override { return calls_++ == left_out_ ? 0 : FileCalls::fsync(file); }

 private:
  int left_out_, calls_ = 0;
};

int check(const std::string& folder) {
  for (std::int64_t step : ckpt::published_steps(*ls::storage::open_store(folder))) {
    const ckpt::Numbers found = ckpt::restore_numbers(folder + "/" + ckpt::step_name(step));
    if (found.arrays.at("large").elements<std::int32_t>() != numbers(kLarge, step) ||
        found.arrays.at("small").elements<std::int32_t>() != numbers(kSmall, step) ||
        std::get<std::int64_t>(found.values.at("step")) != step) {
      std::fprintf(stderr, "step %lld has other elements\n", static_cast<long long>(step));
      return 1;
    }
    std::printf("step %lld\n", static_cast<long long>(step));
  }
  return 0;
}

int main(int argc, char** argv) {
  CLI::App app{"Saves steps until it is ended"};
  std::string folder;
  bool only_check = false;
  int without = -1;
  std::int64_t count = -1;
  app.add_option("folder", folder)->required();
  app.add_flag("--check", only_check);
  app.add_option("--without", without);
  app.add_option("--count", count);
  CLI11_PARSE(app, argc, argv);
  try {
    if (only_check) return check(folder);
    ls::initialize();
    WithoutFsync calls(without);
    ckpt::Checkpointer checkpoints(folder, {.keep = {.last = 2}, .asynchronous = false});
    ls::storage::ScopedFileCalls scope(calls);
    const std::int64_t first = checkpoints.latest().value_or(0) + 1;
    for (std::int64_t step = first; count < 0 || step < first + count; ++step) {
      calls.begin();
      checkpoints.save(step, tree_of(step));
      std::printf("saved %lld\n", static_cast<long long>(step));
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_steps: %s\n", error.what());
    return 1;
  }
}
