// SPDX-License-Identifier: Apache-2.0
// A program that runs steps with a psum over all devices, of which one process does something wrong at one
// step:
//
//     stall_process FAULT PROCESS STEP SECONDS [STEPS]
//
// FAULT is one of the names below; it is done at each step where STEP is -1, by each process where PROCESS
// is. Checkpoints go into the folder that the variable STALL_FOLDER names.
//
//     stall_process random SEED PROGRAMS LONG
//
// is a correct program: so many collectives over meshes drawn at random, each process with random sleeps of
// its own, of which every LONG-th lasts 4 s and is said on standard output.
//
//     stall_process chain ELEMENTS ROUNDS 0
//
// is one for five processes, in which others wait in a chain for a sum of so many elements of the last two.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/lockstep.h"
#include "lockstep/storage/file_calls.h"
#include "lockstep/watch/phase.h"

namespace ls = lockstep;
using ls::Array;

namespace {

double seconds = 0;

void sleep_a_while() { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

void spin() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  volatile double x = 1;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 100000; ++i) x = x * 1.0000001;
}

// Another thread lets it go on.
void wait_for_a_lock() {
  std::mutex mutex;
  mutex.lock();
  std::thread later([&] {
    sleep_a_while();
    mutex.unlock();
  });
  mutex.lock();
  mutex.unlock();
  later.join();
}

void read_from_a_pipe() {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::thread later([&] {
    sleep_a_while();
    if (write(ends[1], "x", 1) != 1) std::abort();
  });
  char byte;
  if (read(ends[0], &byte, 1) != 1) std::abort();
  later.join();
}

// Until a child of it lets it go on, or somebody else.
void stop() {
  if (fork() == 0) {
    usleep(static_cast<useconds_t>(seconds * 1e6));
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

// As in a call to a disk that does not answer: until its child ends, the kernel lets it do nothing.
void wait_in_the_kernel() {
  if (vfork() == 0) {
    usleep(static_cast<useconds_t>(seconds * 1e6));
    _exit(0);
  }
}

void load() {
  const ls::Phase phase("load");
  sleep_a_while();
}

// A function whose tracing takes long.
void trace_slowly() {
  ls::jit([](Array x) {
    sleep_a_while();
    return x + 1;
  })(ls::ones({3}));
}

// Programs that take long to compile, one after the other.
void compile_slowly() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int program = 1; std::chrono::steady_clock::now() < end; ++program) {
    ls::jit([&](Array x) {
      for (int i = 0; i < 200; ++i) x = ls::sort(ls::sin(x) + 0.01 * program);
      return x;
    })(ls::ones({64}));
  }
}

// A shape that no call had before.
void compile_for_a_shape() {
  static int size = 3;
  static auto grow = ls::jit([](Array x) { return x + 1; });
  grow(ls::ones({++size}));
}

// A disk that takes long to open a file.
class SlowDisk : public ls::storage::FileCalls {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    if (slow) sleep_a_while();
    slow = false;
    return FileCalls::open(path, flags, mode);
  }
  bool slow = false;
};

// All processes save or restore, and the disk of one of them is slow.
class Checkpoints {
 public:
  explicit Checkpoints(const Array& x) : x_(x), calls_(disk_) {
    const char* const folder = std::getenv("STALL_FOLDER");
    if (folder == nullptr) throw std::runtime_error("STALL_FOLDER is not set");
    folder_ = folder;
    save(false);
  }
  void save(bool slow) {
    disk_.slow = slow;
    ls::checkpoint::save(folder_ + "/" + std::to_string(++saved_), x_);
  }
  void restore(bool slow) {
    disk_.slow = slow;
    ls::checkpoint::restore(folder_ + "/" + std::to_string(saved_), x_);
  }

 private:
  Array x_;
  SlowDisk disk_;
  ls::storage::ScopedFileCalls calls_;
  std::string folder_;
  int saved_ = 0;
};

// Numbers, of which those that `late` says come late.
class SlowSource : public ls::data::Source {
 public:
  SlowSource(std::uint64_t records, std::function<bool(std::uint64_t)> late)
      : records_(records), late_(std::move(late)) {}
  std::uint64_t size() const override { return records_; }
  ls::data::Record read(std::uint64_t i) const override {
    if (late_(i)) sleep_a_while();
    return {{"x", ls::data::Field::scalar(static_cast<float>(i))}};
  }
  std::string place(std::uint64_t i) const override { return "record " + std::to_string(i); }
  ls::Fingerprint fingerprint() const override { return {}; }

 private:
  std::uint64_t records_;
  std::function<bool(std::uint64_t)> late_;
};

void run_at_random(unsigned seed, int programs, int every) {
  const int processes = ls::process_count();
  const ls::Sharding devices = ls::NamedSharding(ls::make_mesh({{"i", -1}}), ls::P("i"));
  std::vector<std::vector<ls::Device>> groups = {{devices.devices().begin(), devices.devices().end()}};
  for (int first = 0; first + 1 < processes; ++first)
    groups.push_back(
        {groups[0][static_cast<std::size_t>(first)], groups[0][static_cast<std::size_t>(first) + 1]});
  struct OnGroup {
    ls::Mesh mesh;
    Array x;
    std::vector<std::function<Array(Array)>> programs;
    bool member = false;
  };
  std::vector<OnGroup> all;
  for (const auto& group : groups) {
    const ls::Mesh mesh(group, {static_cast<int>(group.size())}, {"i"});
    OnGroup here{.mesh = mesh};
    for (const ls::Device device : group)
      here.member = here.member || device.process_index() == ls::process_index();
    if (here.member) {
      here.x =
          ls::device_put(ls::ones({static_cast<int>(group.size())}), ls::NamedSharding(mesh, ls::P("i")));
      const ls::ShardMapOptions over = {.mesh = mesh, .in_specs = {ls::P("i")}, .out_specs = {ls::P()}};
      here.programs = {ls::jit(ls::shard_map([](Array part) { return ls::psum(part, "i"); }, over)),
                       ls::jit(ls::shard_map([](Array part) { return ls::pmax(part, "i"); }, over)),
                       ls::jit([](Array x) { return x * 2; })};
    }
    all.push_back(std::move(here));
  }
  std::mt19937 same(seed), own(seed * 1000 + static_cast<unsigned>(ls::process_index()) + 1);
  for (int program = 1; program <= programs; ++program) {
    const auto group = same() % all.size(), kind = same() % 3;
    const int sleeper = static_cast<int>(same() % static_cast<unsigned>(processes));
    std::this_thread::sleep_for(std::chrono::milliseconds(own() % 4));
    if (program % every == 0 && sleeper == ls::process_index()) {
      std::printf("process %d sleeps before program %d\n", sleeper, program);
      std::fflush(stdout);
      std::this_thread::sleep_for(std::chrono::seconds(4));
    }
    if (all[group].member) all[group].programs[kind](all[group].x);
    // All come together now and then, so that a long sleep is seen.
    if (program % every == 0) all[0].programs[0](all[0].x);
  }
}

void run_in_a_chain(int elements, int rounds) {
  const auto devices = ls::devices();
  const std::vector<std::vector<std::size_t>> groups = {{3, 4}, {2, 3}, {1, 2}, {0, 1, 2}};
  for (int round = 0; round < rounds; ++round) {
    for (const auto& group : groups) {
      std::vector<ls::Device> members;
      for (const std::size_t device : group) members.push_back(devices[device]);
      const auto is_own = [](ls::Device device) { return device.process_index() == ls::process_index(); };
      if (std::none_of(members.begin(), members.end(), is_own)) continue;
      const int size = static_cast<int>(members.size());
      const ls::Mesh mesh(members, {size}, {"i"});
      const ls::ShardMapOptions over = {.mesh = mesh, .in_specs = {ls::P("i")}, .out_specs = {ls::P()}};
      const Array x = ls::device_put(ls::ones({size, &group == &groups[0] ? elements : 1}),
                                     ls::NamedSharding(mesh, ls::P("i")));
      ls::jit(ls::shard_map([](Array part) { return ls::psum(part, "i"); }, over))(x).block_until_ready();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "stall_process FAULT PROCESS STEP SECONDS [STEPS]\n"), 2;
  const std::string fault = argv[1];
  const int process = std::atoi(argv[2]), at_step = std::atoi(argv[3]);
  seconds = std::atof(argv[4]);
  const int steps = argc > 5 ? std::atoi(argv[5]) : 8;
  const char* const own = std::getenv("LOCKSTEP_PROCESS_ID");
  if (fault == "late" && own != nullptr && std::atoi(own) == process) sleep_a_while();
  ls::initialize({.num_cpu_devices = 1});
  if (fault == "random") {
    run_at_random(static_cast<unsigned>(process), at_step, std::atoi(argv[4]));
    return std::printf("process %d is done\n", ls::process_index()), 0;
  }
  if (fault == "chain") {
    run_in_a_chain(process, at_step);
    return std::printf("process %d is done\n", ls::process_index()), 0;
  }
  const int devices = static_cast<int>(ls::devices().size());
  const ls::Mesh mesh = ls::make_mesh({{"i", devices}});
  const ls::NamedSharding split(mesh, ls::P("i"));
  const ls::ShardMapOptions over = {.mesh = mesh, .in_specs = {ls::P("i")}, .out_specs = {ls::P("i")}};
  auto step = ls::jit(ls::shard_map([](Array part) { return part + ls::psum(part, "i"); }, over));
  auto other = ls::jit(ls::shard_map([](Array part) { return part * ls::pmax(part, "i"); }, over));
  // Over all devices, without a collective.
  auto local = ls::jit([](Array x) { return x * 2 + 1; });
  auto local_other = ls::jit([](Array x) { return x * 3 - 1; });
  const Array x = ls::device_put(ls::ones({devices}), split);
  const bool of_this_process = process < 0 || ls::process_index() == process;
  std::optional<Checkpoints> checkpoints;
  if (fault == "save" || fault == "restore") checkpoints.emplace(x);
  std::optional<ls::data::Loader> loader;
  if (fault == "input") {
    const auto width = static_cast<std::uint64_t>(devices),
               records = width * static_cast<std::uint64_t>(steps);
    const auto late = [=](std::uint64_t i) {
      return of_this_process && i % width == static_cast<std::uint64_t>(ls::process_index()) &&
             (at_step < 0 || i / width == static_cast<std::uint64_t>(at_step));
    };
    loader.emplace(std::make_shared<SlowSource>(records, late),
                   ls::data::LoaderOptions{.batch = {devices}, .sharding = split, .seed = std::nullopt});
  }

  const std::map<std::string, std::function<void()>> faults = {
      {"sleep", sleep_a_while},
      {"spin", spin},
      {"lock", wait_for_a_lock},
      {"read", read_from_a_pipe},
      {"stop", stop},
      {"disk", wait_in_the_kernel},
      {"phase", load},
      {"trace", trace_slowly},
      {"compile", compile_slowly},
      {"shape", compile_for_a_shape},
      {"extra", [&] { other(x).block_until_ready(); }},
      {"extra_local", [&] { local(x); }},
      {"kill", [] { raise(SIGKILL); }},
      {"return", [] { std::exit(0); }},
  };
  for (int s = 0; s < steps; ++s) {
    const bool now = at_step < 0 || s == at_step, here = of_this_process && now;
    if (here && faults.contains(fault)) faults.at(fault)();
    if (now && fault == "save") checkpoints->save(here);
    if (now && fault == "restore") checkpoints->restore(here);
    if (loader) loader->next();
    if (here && fault == "exchanged_local") {
      local_other(x);
    } else {
      local(x);
    }
    if (here && fault == "skipped") continue;
    // On GPUs a launch returns before it is done.
    const Array y = here && fault == "exchanged" ? other(x) : step(x);
    y.block_until_ready();
  }
  std::printf("process %d did %d steps\n", ls::process_index(), steps);
}
