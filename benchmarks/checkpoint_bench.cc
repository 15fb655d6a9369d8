// SPDX-License-Identifier: Apache-2.0
// Checkpoints against the disk: saving with everything on disk for good, restoring cold, and what an
// asynchronous save every 50 steps takes from a training loop. The disk's own speed is taken in the same run,
// alternating: the same bytes in the same blocks, by pwrite with O_DIRECT and fsync, and by pread. A cold
// restore needs the right to drop the page cache (root).
//
//   $ build/release/benchmarks/checkpoint_bench FOLDER              # 1 GiB, 5 rounds
//   $ build/release/benchmarks/checkpoint_bench FOLDER --mib 256 --rounds 3

#include <fcntl.h>
#include <lockstep/lockstep.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ls = lockstep;
namespace ckpt = lockstep::checkpoint;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr std::size_t kBlock = std::size_t{8} << 20;

struct Disk {
  std::string path;
  std::byte* block;
  explicit Disk(const std::string& folder) : path(folder + "/raw") {
    void* memory = nullptr;
    if (::posix_memalign(&memory, 4096, kBlock) != 0) std::abort();
    block = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = static_cast<std::byte>(i * 31 + (i >> 9));
  }

  double write(std::size_t bytes) const {
    const auto start = Clock::now();
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0666);
    for (std::size_t at = 0; at < bytes; at += kBlock)
      if (::pwrite(file, block, kBlock, static_cast<off_t>(at)) != static_cast<ssize_t>(kBlock)) std::abort();
    ::fsync(file);
    ::close(file);
    return since(start);
  }

  double read(std::size_t bytes) const {
    const auto start = Clock::now();
    const int file = ::open(path.c_str(), O_RDONLY | O_DIRECT);
    for (std::size_t at = 0; at < bytes; at += kBlock)
      if (::pread(file, block, kBlock, static_cast<off_t>(at)) <= 0) std::abort();
    ::close(file);
    return since(start);
  }
};

bool drop_caches() {
  ::sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "3" << std::flush;
  return static_cast<bool>(file);
}

/// Ten layers' arrays and as many of an optimizer's: most of them large, some small.
std::vector<ls::Array> state_of(std::size_t bytes) {
  std::vector<ls::Array> state;
  const auto rows = static_cast<std::int64_t>(bytes / 16 / 4 / 1024);
  for (int i = 0; i < 16; ++i) state.push_back(ls::random::normal(ls::random::key(i), {rows, 1024}));
  for (int i = 0; i < 16; ++i) state.push_back(ls::random::normal(ls::random::key(i), {1024}));
  return state;
}

void save_and_restore(const std::string& folder, std::size_t bytes, int rounds, bool raw) {
  const std::vector<ls::Array> state = state_of(bytes);
  const Disk disk(folder);
  const std::string saved = folder + "/saved";
  const double mib = static_cast<double>(bytes) / (1 << 20);
  std::vector<double> save, write, restore, map, read;
  bool cold = true;
  for (int round = 0; round < rounds; ++round) {
    write.push_back(disk.write(bytes));
    std::filesystem::remove_all(saved);
    auto start = Clock::now();
    ckpt::save(saved, state);
    save.push_back(since(start));
    cold = drop_caches() && cold;
    read.push_back(disk.read(bytes));
    for (bool mapped : {false, true}) {
      cold = drop_caches() && cold;
      start = Clock::now();
      ckpt::RestoreOptions options;
      options.map = mapped;
      for (const ls::Array& x : ckpt::restore(saved, state, options)) x.block_until_ready();
      (mapped ? map : restore).push_back(since(start));
    }
  }
  if (raw) {
    std::printf("{\"save\": %.6f, \"restore\": %.6f, \"copied\": %.6f, \"write\": %.6f, \"read\": %.6f}\n",
                median(save), median(map), median(restore), median(write), median(read));
    return;
  }
  auto row = [&](const char* what, const std::vector<double>& times, const std::vector<double>& disk_times) {
    std::printf("%-28s %7.0f MiB/s   %4.2f of the disk's %.0f MiB/s\n", what, mib / median(times),
                median(disk_times) / median(times), mib / median(disk_times));
  };
  row("save, on disk for good", save, write);
  row(cold ? "restore by copying, cold" : "restore by copying", restore, read);
  row(cold ? "restore by mapping, cold" : "restore by mapping", map, read);
}

/// A loop of steps of about `milliseconds`, whose state is donated to each.
double train(int steps, ls::Array& x, std::vector<ls::Array>& state, int work,
             ckpt::Checkpointer* checkpoints, double* blocked, std::int64_t first) {
  auto step = ls::jit(
      [&](ls::Array x, std::vector<ls::Array> state) {
        for (int i = 0; i < work; ++i) x = ls::tanh(ls::matmul(x, x) * 0.001);
        for (ls::Array& each : state) each = each * 0.999 + x[{0, 0}];
        return std::pair(x, state);
      },
      {.donate_argnums = {0, 1}});
  std::tie(x, state) = step(x, state);
  x.block_until_ready();
  const auto start = Clock::now();
  for (int i = 1; i <= steps; ++i) {
    std::tie(x, state) = step(x, state);
    x.block_until_ready();
    if (checkpoints != nullptr && i % 50 == 0) {
      const auto before = Clock::now();
      checkpoints->save(first + i, state);
      *blocked += since(before);
    }
  }
  return since(start);
}

void asynchronous(const std::string& folder, std::size_t bytes, int rounds) {
  std::vector<double> with, without, shares;
  ckpt::Checkpointer checkpoints(folder + "/run", {.keep = {.last = 1}});
  ls::Array x = ls::random::normal(ls::random::key(1), {512, 512});
  std::vector<ls::Array> state = state_of(bytes);
  constexpr int kSteps = 150, kWork = 12;
  double ignored = 0;
  train(5, x, state, kWork, nullptr, &ignored, 0);
  checkpoints.save(0, state);  // its memory for copies is made at the first save
  for (int round = 0; round < rounds; ++round) {
    without.push_back(train(kSteps, x, state, kWork, nullptr, &ignored, 0));
    double blocked = 0;
    with.push_back(train(kSteps, x, state, kWork, &checkpoints, &blocked, (round + 1) * 1000));
    shares.push_back(blocked / with.back());
    checkpoints.wait();
  }
  std::printf(
      "asynchronous, every 50 steps of %.0f ms, %.0f MiB: save takes %.2f %% of the time; the loop takes "
      "%.3f "
      "of its time without saves\n",
      1000 * median(without) / kSteps, static_cast<double>(bytes) / (1 << 20), 100 * median(shares),
      median(with) / median(without));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Checkpoints against the disk"};
  std::string folder;
  std::size_t mib = 1024, state_mib = 64;
  int rounds = 5;
  bool raw = false;
  app.add_option("folder", folder, "on the disk to measure")->required();
  app.add_option("--mib", mib, "saved and restored")->capture_default_str();
  app.add_option("--state-mib", state_mib, "saved asynchronously")->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str();
  app.add_flag("--raw", raw, "seconds, for compare_checkpoints.py; nothing asynchronous");
  CLI11_PARSE(app, argc, argv);
  try {
    ls::initialize();
    std::filesystem::create_directories(folder);
    save_and_restore(folder, mib << 20, rounds, raw);
    if (!raw) asynchronous(folder, state_mib << 20, rounds);
    std::filesystem::remove(folder + "/raw");
    std::filesystem::remove_all(folder + "/saved");
    std::filesystem::remove_all(folder + "/run");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_bench: %s\n", error.what());
    return 1;
  }
}
