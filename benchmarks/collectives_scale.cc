// SPDX-License-Identifier: Apache-2.0
// Collectives between 2 to 1,024 hosts by the algorithms that Lockstep takes, on a simulated network: rounds,
// bytes that a host sends, the time that is to be expected, and the least that the network allows.
//   build/release/benchmarks/collectives_scale --members 1 8
//   build/release/benchmarks/collectives_scale --kinds all-reduce --all-algorithms --hosts 64
// Each host has one connection, which its members share; what they do within the host is not counted. Small
// operations carry values, which are checked.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/rounds/simulated_hosts.h"
#include "lockstep/collectives/rounds/table.h"

namespace {

using namespace lockstep;
using namespace lockstep::collectives;

constexpr std::size_t kCheckedBytes = 64 << 10;

struct Options {
  std::vector<int> hosts = {2, 4, 16, 64, 256, 1024};
  std::vector<int> members = {1, 8};
  std::vector<std::size_t> sizes = {64, 64 << 10, 1 << 20, 64 << 20};
  std::vector<std::string> kinds = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"};
  double latency = 10, overhead = 1, bandwidth = 10;  ///< us, us, GB/s
  bool all_algorithms = false;
};

/// One participant's exchange, in pieces of which several are on their way.
class Participant {
 public:
  Participant(Carrier& carrier, const Exchange& exchange, std::size_t piece, Algorithm algorithm)
      : carrier_(carrier), exchange_(exchange), piece_(piece), algorithm_(algorithm) {}

  int rounds() const { return rounds_; }

  bool advance() {
    for (;;) {
      bool begun = false;
      for (Flight& flight : flights_) {
        if (flight.run && !flight.run->advance()) continue;
        flight.run.reset();
        if (next_ >= exchange_.bytes) continue;
        Exchange piece = exchange_;
        piece.bytes = std::min(piece_, exchange_.bytes - next_);
        next_ += piece.bytes;
        flight.schedule = make_schedule(algorithm_, piece);
        rounds_ += flight.schedule->rounds();
        flight.run.emplace(*flight.schedule, carrier_, static_cast<int>(&flight - flights_), ReduceOp::kSum,
                           DType::kI32, Memory{});
        begun = true;
      }
      if (!begun) break;
    }
    return next_ >= exchange_.bytes &&
           std::ranges::none_of(flights_, [](const Flight& f) { return f.run.has_value(); });
  }

 private:
  struct Flight {
    std::unique_ptr<Schedule> schedule;
    std::optional<ScheduleRun> run;
  };
  Carrier& carrier_;
  const Exchange exchange_;
  const std::size_t piece_;
  const Algorithm algorithm_;
  std::size_t next_ = 0;
  int rounds_ = 0;
  Flight flights_[kSlicesInFlight];
};

/// Runs it once more with values, and throws where one is wrong.
void check(Algorithm algorithm, Kind kind, int hosts, std::size_t bytes) {
  SimulatedHosts network(hosts, {});
  const auto n = static_cast<std::size_t>(hosts);
  const std::size_t count = bytes / sizeof(std::int32_t);
  const bool splits = kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
  const bool gathers = kind == Kind::kAllGather || kind == Kind::kAllToAll;
  const auto value = [](std::size_t host, std::size_t at) {
    return static_cast<std::int32_t>(host * 100'003 + at);
  };
  struct Host {
    std::vector<std::int32_t> in, out;
    std::vector<std::byte> scratch;
    std::unique_ptr<Schedule> schedule;
    std::optional<ScheduleRun> run;
  };
  std::vector<Host> all(n);
  std::vector<std::function<bool()>> advance;
  for (std::size_t i = 0; i < n; ++i) {
    Host& host = all[i];
    for (std::size_t at = 0; at < count * (splits ? n : 1); ++at) host.in.push_back(value(i, at));
    host.out.resize(count * (gathers ? n : 1));
    host.schedule = make_schedule(algorithm, {kind, static_cast<int>(i), hosts, count * 4});
    host.scratch.resize(scratch_bytes(*host.schedule, DType::kI32));
    host.run.emplace(*host.schedule, network.carrier(static_cast<int>(i)), 0, ReduceOp::kSum, DType::kI32,
                     Memory{reinterpret_cast<const std::byte*>(host.in.data()),
                            reinterpret_cast<std::byte*>(host.out.data()), host.scratch.data()});
    advance.push_back([&host] { return host.run->advance(); });
  }
  std::vector<int> stuck;
  network.finish(advance, &stuck);
  if (!stuck.empty()) fail("{} by {} does not end on {} hosts", name_of(kind), name_of(algorithm), hosts);
  const auto sum = [&](std::size_t at) {
    std::int32_t total = 0;
    for (std::size_t i = 0; i < n; ++i) total += value(i, at);
    return total;
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t at = 0; at < all[i].out.size(); ++at) {
      const std::int32_t wanted = kind == Kind::kAllReduce       ? sum(at)
                                  : kind == Kind::kReduceScatter ? sum(i * count + at)
                                  : kind == Kind::kAllGather     ? value(at / count, at % count)
                                  : kind == Kind::kAllToAll      ? value(at / count, i * count + at % count)
                                                                 : value(0, at);
      if (all[i].out[at] != wanted)
        fail("{} by {} on {} hosts has a wrong result: host {}, element {}", name_of(kind),
             name_of(algorithm), hosts, i, at);
    }
  }
}

std::string size_text(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.4g} MiB", bytes / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.4g} KiB", bytes / (1 << 10));
  return fmt::format("{:.0f} B", bytes);
}

/// `bytes` is the larger one of a member's input and output.
void measure(const Options& options, Kind kind, std::size_t bytes, int hosts, int members,
             std::optional<Algorithm> given) {
  const auto n = static_cast<std::size_t>(hosts), l = static_cast<std::size_t>(members);
  // The bytes that one member carries between the hosts: its share.
  std::size_t part = bytes;
  if (kind == Kind::kAllReduce || kind == Kind::kBroadcast) part = bytes / l;
  if (kind == Kind::kReduceScatter || kind == Kind::kAllGather) part = bytes / n / l;
  if (kind == Kind::kAllToAll) part = bytes / n;  // For all members of a host.
  part = std::max<std::size_t>(4, part / 4 * 4);
  const std::size_t piece = kind == Kind::kAllReduce ? std::min(part, slice_bytes(hosts)) : part;
  const Algorithm algorithm = given ? *given : AlgorithmTable().choose(kind, piece, hosts);
  if (part * n <= kCheckedBytes) check(algorithm, kind, hosts, part);
  SimulatedHosts network(hosts, {.latency = options.latency * 1e-6,
                                 .overhead = options.overhead * 1e-6,
                                 .bandwidth = options.bandwidth * 1e9 / members});
  std::vector<std::unique_ptr<Participant>> participants;
  std::vector<std::function<bool()>> advance;
  for (int host = 0; host < hosts; ++host) {
    participants.push_back(std::make_unique<Participant>(
        network.carrier(host), Exchange{kind, host, hosts, part}, piece, algorithm));
    advance.push_back([one = participants.back().get()] { return one->advance(); });
  }
  const double seconds = network.finish(advance);
  const double share = static_cast<double>(n - 1) / static_cast<double>(n);
  const double carried =
      static_cast<double>(part) * (kind == Kind::kAllReduce   ? 2 * share
                                   : kind == Kind::kBroadcast ? 1
                                                              : static_cast<double>(n - 1));
  const double steps = kind == Kind::kAllToAll ? 1 : std::ceil(std::log2(hosts));
  const double bound =
      steps * (options.latency + 2 * options.overhead) * 1e-6 + carried * members / (options.bandwidth * 1e9);
  fmt::print("{:<15}{:>10}{:>7}{:>9}  {:<19}{:>7}{:>14}{:>12.1f}{:>12.1f}{:>8.2f}\n", name_of(kind),
             size_text(static_cast<double>(bytes)), hosts, members, name_of(algorithm),
             participants[0]->rounds(), size_text(static_cast<double>(network.most_sent()) * members),
             seconds * 1e6, bound * 1e6, seconds / bound);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Collectives between many hosts on a simulated network.");
  app.add_option("--hosts", options.hosts, "How many hosts")->check(CLI::Range(2, 16384));
  app.add_option("--members", options.members, "How many members on each")->check(CLI::Range(1, 64));
  app.add_option("--sizes", options.sizes, "Bytes of the larger one of a member's input and output");
  app.add_option("--kinds", options.kinds, "all-reduce, reduce-scatter, …");
  app.add_option("--latency", options.latency, "From host to host, in us");
  app.add_option("--overhead", options.overhead, "Of a message for sender and receiver, in us");
  app.add_option("--bandwidth", options.bandwidth, "Of a host in each direction, in GB/s");
  app.add_flag("--all-algorithms", options.all_algorithms, "Not only the algorithm that the table chooses");
  CLI11_PARSE(app, argc, argv);
  fmt::print("{:<15}{:>10}{:>7}{:>9}  {:<19}{:>7}{:>14}{:>12}{:>12}{:>8}\n", "collective", "bytes", "hosts",
             "members", "algorithm", "rounds", "a host sends", "time, us", "bound, us", "ratio");
  try {
    for (const std::string& name : options.kinds) {
      bool found = false;
      for (int k = 0; k <= static_cast<int>(Kind::kBroadcast); ++k) {
        const Kind kind = static_cast<Kind>(k);
        if (name_of(kind) != name || kind == Kind::kPermute) continue;
        found = true;
        for (int members : options.members)
          for (std::size_t bytes : options.sizes)
            for (int hosts : options.hosts) {
              if (!options.all_algorithms) measure(options, kind, bytes, hosts, members, std::nullopt);
              for (Algorithm algorithm : kAlgorithms)
                if (options.all_algorithms && is_algorithm_of(algorithm, kind))
                  measure(options, kind, bytes, hosts, members, algorithm);
            }
      }
      if (!found) fail("\"{}\" is no collective between hosts", name);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "collectives_scale: {}\n", error.what());
    return 1;
  }
}
