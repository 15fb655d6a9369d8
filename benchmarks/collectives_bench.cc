// SPDX-License-Identifier: Apache-2.0
// All-reduce and its kin between processes of this host, at growing sizes: median and smallest time of a
// call.
//   build/release/benchmarks/collectives_bench --processes 2 --kinds all-reduce --fresh
// The processes are this program again; the first prints. `--fresh` allocates the output of each call anew
// and frees it, as XLA does.
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/scratch_folder.h"
#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/world.h"
#include "lockstep/testing/folder_key_value_store.h"

extern char** environ;

namespace {

using namespace lockstep;
using namespace lockstep::collectives;
using std::chrono::steady_clock;

struct Options {
  int processes = 2;
  int index = -1;
  std::string folder;
  std::vector<std::string> kinds = {"all-reduce"};
  std::vector<std::size_t> sizes = {4, 4 << 10, 256 << 10, 4 << 20, 64 << 20};
  double seconds = 0.5;
  bool fresh = false;
  bool pin = false;
};

const std::map<std::string, Kind> kKinds = {{"all-reduce", Kind::kAllReduce},
                                            {"all-gather", Kind::kAllGather},
                                            {"reduce-scatter", Kind::kReduceScatter},
                                            {"all-to-all", Kind::kAllToAll},
                                            {"permute", Kind::kPermute},
                                            {"broadcast", Kind::kBroadcast},
                                            {"barrier", Kind::kBarrier}};

// The memory of members, which the others may read, as that of a program's arrays.
Arena& arena() {
  static Arena made(std::size_t{64} << 30);
  return made;
}
void* take(std::size_t bytes) {
  void* const block =
      bytes >= Arena::kLeastBytes ? arena().allocate(bytes) : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (block == nullptr) std::abort();
  return block;
}
void give_back(void* block) { arena().owns(block) ? arena().free(block) : std::free(block); }

void measure(Communicator& communicator, const Options& options, const std::string& kind, std::size_t bytes) {
  const int n = options.processes;
  Collective c;
  c.kind = kKinds.at(kind);
  const bool splits = c.kind == Kind::kReduceScatter || c.kind == Kind::kAllToAll;
  c.count = static_cast<std::int64_t>(bytes / 4 / (splits ? n : 1));
  for (int rank = 0; rank < n; ++rank) c.pairs.emplace_back(rank, (rank + 1) % n);
  const Call call = make_call(c, n);
  Collective decide;
  decide.kind = Kind::kBroadcast;
  decide.count = 1;
  const Call go_on = make_call(decide, n);

  void* const in = take(call.input_bytes + 64);
  void* const reused = take(call.output_bytes + 64);
  std::fill_n(static_cast<float*>(in), call.input_bytes / 4, 1.0f);
  std::vector<double> times;
  const auto start = steady_clock::now();
  for (bool more = true; more;) {
    for (int i = 0; i < 20; ++i) {
      const auto before = steady_clock::now();
      void* const out = options.fresh ? take(call.output_bytes + 64) : reused;
      communicator.run(call, options.index, in, out);
      if (options.fresh) give_back(out);
      times.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - before).count());
      if (bytes >= (32 << 20) && i == 4) break;
    }
    float verdict =
        steady_clock::now() - start < std::chrono::duration<double>(options.seconds) ? 1.0f : 0.0f;
    communicator.run(go_on, options.index, &verdict, &verdict);
    more = verdict != 0;
  }
  give_back(in);
  give_back(reused);
  std::sort(times.begin(), times.end());
  if (options.index == 0) {
    fmt::print("{:>14} {:>10} bytes  {} processes{}  min {:>10.1f} us  median {:>10.1f} us  ({} calls)\n",
               kind, bytes, n, options.fresh ? ", fresh outputs" : "", times.front(), times[times.size() / 2],
               times.size());
    std::fflush(stdout);
  }
}

int be_member(const Options& options) {
  if (options.pin) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(options.index % std::thread::hardware_concurrency(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  testing::FolderKeyValueStore store(options.folder);
  std::vector<int> devices, processes;
  for (int i = 0; i < options.processes; ++i) devices.push_back(i), processes.push_back(i);
  auto world = World::create({.process_index = options.index,
                              .process_count = options.processes,
                              .device_process = processes,
                              .store = &store,
                              .job_id = "bench",
                              .arena = &arena()});
  Communicator& communicator = world->communicator(devices);
  for (const std::string& kind : options.kinds) {
    for (std::size_t bytes : options.sizes) measure(communicator, options, kind, bytes);
  }
  return 0;
}

int start_members(int argc, char** argv, const Options& options) {
  const ScratchFolder folder("lockstep-bench");
  std::vector<pid_t> pids;
  for (int i = 0; i < options.processes; ++i) {
    std::vector<std::string> arguments(argv, argv + argc);
    arguments.insert(arguments.end(), {"--index", std::to_string(i), "--folder", folder.path()});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) != 0)
      fail("cannot start");
    pids.push_back(pid);
  }
  int worst = 0;
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) worst = 1;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Collectives between processes of this host: median and smallest time of a call."};
  app.add_option("--processes,-n", options.processes, "How many processes")->check(CLI::Range(1, 256));
  app.add_option("--kinds", options.kinds, "all-reduce, all-gather, reduce-scatter, …")
      ->check(CLI::IsMember(kKinds));
  app.add_option("--sizes", options.sizes, "Input bytes of each process");
  app.add_option("--seconds", options.seconds, "How long to repeat each");
  app.add_flag("--fresh", options.fresh, "A fresh output for each call, as XLA does");
  app.add_flag("--pin", options.pin, "Bind process i to CPU i modulo their number");
  app.add_option("--index", options.index)->group("");
  app.add_option("--folder", options.folder)->group("");
  CLI11_PARSE(app, argc, argv);
  return options.index < 0 ? start_members(argc, argv, options) : be_member(options);
}
