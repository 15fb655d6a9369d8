// SPDX-License-Identifier: Apache-2.0
// Costs of a Loader: the time and memory to resume in the middle of 10^9 records, the speed of reading
// windows of a token file, and its wait as a share of a step that computes on all cores meanwhile.
//
//   $ build/release/benchmarks/data_loader              # steps of 50 ms, 200 of them
//   $ build/release/benchmarks/data_loader 20 1000      # steps of 20 ms, 1000 of them

#include <lockstep/lockstep.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ls = lockstep;
using std::chrono::steady_clock;

namespace {

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

double resident_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmRSS:" && status >> kibibytes) return kibibytes / 1024;
  }
  return 0;
}

/// As many numbers as records, {x: i64[8]}, which nothing holds.
ls::data::SourcePtr synthetic(std::uint64_t count) {
  return ls::data::from_function(count, "synthetic", [](std::uint64_t i) {
    return ls::data::Record{
        {"x", ls::data::Field::of(std::vector<std::int64_t>(8, static_cast<std::int64_t>(i)))}};
  });
}

void resume() {
  const ls::data::LoaderOptions options{.batch = {64}, .epochs = std::nullopt, .seed = 1};
  ls::data::Loader(synthetic(1000), options).next();  // What is made once in a process is made.
  for (std::uint64_t count : {std::uint64_t{1'000'000}, std::uint64_t{1'000'000'000}}) {
    const double before = resident_mebibytes();
    const auto start = steady_clock::now();
    ls::data::Loader loader(synthetic(count), options);
    ls::data::LoaderState state = loader.state();
    state.position = 64 * (count / 64 * 5 / 2);
    loader.restore(state);
    loader.next();
    const double seconds = seconds_since(start);
    for (int i = 0; i < 1000; ++i) loader.next();
    std::printf(
        "resume at position %.2e of %.0e records: %.2f ms to the batch; %.1f MiB more after 1000 batches\n",
        static_cast<double>(state.position), static_cast<double>(count), 1e3 * seconds,
        resident_mebibytes() - before);
  }
}

void wait(double step_seconds, int steps) {
  constexpr std::int64_t kRows = 32, kContext = 1024;
  const auto path = std::filesystem::temp_directory_path() / ("data_loader_" + std::to_string(getpid()));
  {
    std::vector<std::uint16_t> tokens(32 << 20);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::uint16_t>(i * 2654435761u >> 7);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  }
  auto open = [&] {
    return ls::data::windows(ls::data::tokens_u16(path), {.length = kContext + 1, .stride = kContext});
  };
  {
    ls::data::Loader loader(open(), {.batch = {kRows}, .epochs = std::nullopt});
    loader.next();
    const auto start = steady_clock::now();
    int batches = 0;
    for (; seconds_since(start) < 1; ++batches) loader.next();
    std::printf("alone: %.1f million tokens/s\n", batches * kRows * kContext / seconds_since(start) / 1e6);
  }
  // A step of about the time asked for: so many products of matrices.
  auto step = ls::jit([](ls::Array x, ls::Array tokens, ls::Array count) {
    x = x + ls::astype(ls::mean(ls::astype(tokens, ls::float32)), ls::float32) * 0;
    return ls::fori_loop(
        0, count, [](ls::Array, ls::Array y) { return ls::tanh(ls::matmul(y, y)) * 0.1; }, x);
  });
  const ls::Array x = ls::full({512, 512}, 0.01, ls::float32);
  ls::data::Loader loader(open(), {.batch = {kRows}, .epochs = std::nullopt});
  const ls::Array tokens = (*loader.next())["tokens"];
  auto time_of = [&](int count) {
    step(x, tokens, ls::full({}, count, ls::int32)).block_until_ready();
    const auto start = steady_clock::now();
    step(x, tokens, ls::full({}, count, ls::int32)).block_until_ready();
    return seconds_since(start);
  };
  const ls::Array count =
      ls::full({}, std::max(1, static_cast<int>(step_seconds / (time_of(20) / 20))), ls::int32);
  const double waited = loader.metrics().wait_seconds;
  const auto start = steady_clock::now();
  for (int i = 0; i < steps; ++i) step(x, (*loader.next())["tokens"], count).block_until_ready();
  const double seconds = seconds_since(start), share = (loader.metrics().wait_seconds - waited) / seconds;
  std::printf("with steps of %.1f ms, %.2f million tokens/s: the loader's wait is %.3f %% of the time\n",
              1e3 * seconds / steps, steps * kRows * kContext / seconds / 1e6, 100 * share);
  std::filesystem::remove(path);
}

}  // namespace

int main(int argc, char** argv) {
  ls::initialize();
  resume();
  wait(argc > 1 ? std::stod(argv[1]) / 1e3 : 0.05, argc > 2 ? std::stoi(argv[2]) : 200);
}
