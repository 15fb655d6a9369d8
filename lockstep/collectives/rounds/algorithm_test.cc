// SPDX-License-Identifier: Apache-2.0
// Every algorithm of every collective, for many numbers of hosts and sizes, on a simulated network.
#include "lockstep/collectives/rounds/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/collectives/rounds/simulated_hosts.h"
#include "lockstep/collectives/rounds/table.h"

namespace lockstep::collectives {
namespace {

constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll,
                           Kind::kBroadcast};

// Nothing here has threads: the thread sanitizer only makes it slow.
#ifdef __SANITIZE_THREAD__
const std::vector<int> kHosts = {1, 2, 3, 5, 8};
#else
const std::vector<int> kHosts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33};
#endif

/// All hosts' collective, with inputs whose sums are exact in any order, and the results.
template <class T>
struct Trial {
  Algorithm algorithm;
  Kind kind;
  int hosts;
  std::size_t count;  ///< Elements of a part.
  int root = 0;
  bool in_place = false;

  std::vector<std::vector<T>> inputs{}, outputs{};
  std::vector<int> stuck{};
  double seconds = 0;
  std::uint64_t messages = 0, most_sent = 0;

  std::size_t input_count() const {
    const bool splits = kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
    return count * (splits ? static_cast<std::size_t>(hosts) : 1);
  }
  std::size_t output_count() const {
    const bool gathers = kind == Kind::kAllGather || kind == Kind::kAllToAll;
    return count * (gathers ? static_cast<std::size_t>(hosts) : 1);
  }
  T input(int host, std::size_t at) const {
    return static_cast<T>((host * 31 + static_cast<int>(at % 1009) * 7) % 101);
  }
  T expected(int host, std::size_t at) const {
    const std::size_t part = count == 0 ? 0 : at / count, within = count == 0 ? 0 : at % count;
    const auto own = static_cast<std::size_t>(host) * count;
    T sum = 0;
    switch (kind) {
      case Kind::kAllReduce:
        for (int other = 0; other < hosts; ++other) sum += input(other, at);
        return sum;
      case Kind::kReduceScatter:
        for (int other = 0; other < hosts; ++other) sum += input(other, own + at);
        return sum;
      case Kind::kAllGather:
        return input(static_cast<int>(part), within);
      case Kind::kAllToAll:
        return input(static_cast<int>(part), own + within);
      default:
        return input(root, at);
    }
  }

  void run(const std::vector<std::pair<int, double>>& losses = {}) {
    SimulatedHosts network(hosts, {});
    for (auto [host, when] : losses) network.lose(host, when);
    std::vector<std::unique_ptr<Schedule>> schedules;
    std::vector<std::vector<std::byte>> scratch;
    std::vector<std::unique_ptr<ScheduleRun>> runs;
    inputs.resize(static_cast<std::size_t>(hosts));
    outputs.resize(inputs.size());
    for (int host = 0; host < hosts; ++host) {
      auto& in = inputs[static_cast<std::size_t>(host)];
      auto& out = outputs[static_cast<std::size_t>(host)];
      for (std::size_t at = 0; at < input_count(); ++at) in.push_back(input(host, at));
      out.assign(output_count(), static_cast<T>(-77));
      if (in_place) out = in;
      schedules.push_back(make_schedule(algorithm, {kind, host, hosts, count * sizeof(T), root}));
      scratch.emplace_back(scratch_bytes(*schedules.back(), DType::kF32));
      const auto* from = reinterpret_cast<const std::byte*>(in_place ? out.data() : in.data());
      static const std::byte kNothing{};
      runs.push_back(std::make_unique<ScheduleRun>(
          *schedules.back(), network.carrier(host), 0, ReduceOp::kSum,
          std::is_same_v<T, float> ? DType::kF32 : DType::kI32,
          Memory{from != nullptr ? from : &kNothing, reinterpret_cast<std::byte*>(out.data()),
                 scratch.back().data()}));
    }
    std::vector<std::function<bool()>> all;
    for (const auto& one : runs) all.push_back([&one] { return one->advance(); });
    seconds = network.finish(all, &stuck);
    messages = network.messages();
    most_sent = network.most_sent();
  }

  void expect_right() const {
    const bool same_everywhere = kind != Kind::kReduceScatter && kind != Kind::kAllToAll;
    std::vector<T> wanted;
    for (int host = 0; host < hosts; ++host) {
      if (std::ranges::find(stuck, host) != stuck.end()) continue;
      const auto& out = outputs[static_cast<std::size_t>(host)];
      if (wanted.empty() || !same_everywhere) {
        wanted.clear();
        for (std::size_t at = 0; at < output_count(); ++at) wanted.push_back(expected(host, at));
      }
      if (out == wanted) continue;  // At once: a check of each element would take most of the test's time.
      ASSERT_EQ(out.size(), wanted.size()) << to_string() << ", host " << host;
      const auto at = std::ranges::mismatch(out, wanted).in1 - out.begin();
      FAIL() << to_string() << ", host " << host << ", element " << at << ": "
             << out[static_cast<std::size_t>(at)] << " where it is " << wanted[static_cast<std::size_t>(at)];
    }
  }
  std::string to_string() const {
    return std::string(name_of(kind)) + " by " + std::string(name_of(algorithm)) + " of " +
           std::to_string(count) + " on " + std::to_string(hosts) + " hosts, root " + std::to_string(root) +
           (in_place ? ", in place" : "");
  }
};

template <class Body>
void each_algorithm(Body body) {
  for (Kind kind : kKinds)
    for (Algorithm algorithm : kAlgorithms)
      if (is_algorithm_of(algorithm, kind)) body(algorithm, kind);
}

TEST(Algorithms, EachAlgorithm_ComputesItsCollective) {
  each_algorithm([](Algorithm algorithm, Kind kind) {
    for (int hosts : kHosts) {
      for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{16},
                                std::size_t{100}, std::size_t{1000}}) {
        for (int root : kind == Kind::kBroadcast ? std::vector{0, hosts - 1, hosts / 2} : std::vector{0}) {
          for (bool in_place : {false, true}) {
            if (in_place && kind != Kind::kAllReduce) continue;
            Trial<std::int32_t> trial{algorithm, kind, hosts, count, root, in_place};
            trial.run();
            ASSERT_TRUE(trial.stuck.empty()) << trial.to_string();
            ASSERT_NO_FATAL_FAILURE(trial.expect_right());
          }
        }
      }
    }
  });
}

/// Sums that depend on the order.
TEST(Algorithms, GiveAllHostsTheSameBits) {
  each_algorithm([](Algorithm algorithm, Kind kind) {
    if (kind != Kind::kAllReduce) return;
    for (int hosts : {2, 3, 6, 7, 8, 13}) {
      Trial<float> trial{algorithm, kind, hosts, 3000};
      SimulatedHosts network(hosts, {});
      std::vector<std::vector<float>> inputs, outputs;
      std::vector<std::vector<std::byte>> scratch;
      std::vector<std::unique_ptr<Schedule>> schedules;
      std::vector<std::unique_ptr<ScheduleRun>> runs;
      std::vector<std::function<bool()>> all;
      for (int host = 0; host < hosts; ++host) {
        auto& in = inputs.emplace_back();
        for (int at = 0; at < 3000; ++at)
          in.push_back(1.0f / static_cast<float>(1 + (host * 7919 + at * 104729) % 10007));
        outputs.emplace_back(in.size());
      }
      for (int host = 0; host < hosts; ++host) {
        const auto h = static_cast<std::size_t>(host);
        schedules.push_back(make_schedule(algorithm, {kind, host, hosts, 3000 * sizeof(float)}));
        scratch.emplace_back(scratch_bytes(*schedules.back(), DType::kF32));
        runs.push_back(std::make_unique<ScheduleRun>(
            *schedules.back(), network.carrier(host), 0, ReduceOp::kSum, DType::kF32,
            Memory{reinterpret_cast<const std::byte*>(inputs[h].data()),
                   reinterpret_cast<std::byte*>(outputs[h].data()), scratch.back().data()}));
        all.push_back([run = runs.back().get()] { return run->advance(); });
      }
      network.finish(all);
      for (const auto& out : outputs)
        ASSERT_EQ(std::memcmp(out.data(), outputs[0].data(), out.size() * sizeof(float)), 0)
            << trial.to_string();
      for (std::size_t at = 0; at < 3000; at += 77) {
        double sum = 0;
        for (const auto& in : inputs) sum += in[at];
        ASSERT_NEAR(outputs[0][at], sum, 1e-5 * sum) << trial.to_string();
      }
    }
  });
}

/// Nobody ends with a wrong result, and who waits for the lost one, or for one who does, never ends.
TEST(Algorithms, WithAHostLost_NobodyEndsWithAWrongResult) {
  each_algorithm([](Algorithm algorithm, Kind kind) {
    for (int hosts : {2, 5, 8}) {
      for (int when = 0; when < 10; ++when) {
        Trial<std::int32_t> trial{algorithm, kind, hosts, 1000};
        trial.run({{hosts - 1, when * 5e-6}});
        ASSERT_NO_FATAL_FAILURE(trial.expect_right());
        if (when != 0) continue;
        ASSERT_THAT(trial.stuck, ::testing::Contains(hosts - 1)) << trial.to_string();
        // A sum has something of everyone.
        if (kind != Kind::kAllReduce) continue;
        ASSERT_EQ(trial.stuck.size(), static_cast<std::size_t>(hosts)) << trial.to_string();
      }
    }
  });
}

TEST(Algorithms, EachAlgorithm_SendsTheExpectedBytesAndRounds) {
  const auto sent = [](Algorithm algorithm, Kind kind, int hosts, std::size_t count) {
    Trial<std::int32_t> trial{algorithm, kind, hosts, count};
    trial.run();
    return static_cast<double>(trial.most_sent) / static_cast<double>(count * 4);
  };
  // Each host sends at least 2 (n-1)/n times the bytes of an all-reduce.
  for (Algorithm algorithm : {Algorithm::kPairwise, Algorithm::kRing, Algorithm::kHalvingDoubling})
    EXPECT_NEAR(sent(algorithm, Kind::kAllReduce, 16, 16 * 160), 2 * 15.0 / 16, 1e-9) << name_of(algorithm);
  EXPECT_EQ(sent(Algorithm::kRecursiveDoubling, Kind::kAllReduce, 16, 100), 4);
  EXPECT_EQ(sent(Algorithm::kRing, Kind::kAllGather, 16, 100), 15);
  EXPECT_EQ(sent(Algorithm::kBruck, Kind::kAllGather, 13, 100), 12);
  EXPECT_EQ(sent(Algorithm::kRing, Kind::kReduceScatter, 16, 100), 15);
  EXPECT_EQ(sent(Algorithm::kPairwise, Kind::kAllToAll, 16, 100), 15);
  EXPECT_EQ(sent(Algorithm::kBruck, Kind::kAllToAll, 16, 100), 32);
  const auto rounds = [](Algorithm algorithm, Kind kind, int hosts) {
    return make_schedule(algorithm, {kind, 0, hosts, 1 << 20})->rounds();
  };
  EXPECT_EQ(rounds(Algorithm::kRing, Kind::kAllReduce, 1000), 1998);
  EXPECT_EQ(rounds(Algorithm::kRecursiveDoubling, Kind::kAllReduce, 1024), 10);
  EXPECT_EQ(rounds(Algorithm::kRecursiveDoubling, Kind::kAllReduce, 1000), 11);
  EXPECT_EQ(rounds(Algorithm::kHalvingDoubling, Kind::kAllReduce, 1024), 20);
  EXPECT_EQ(rounds(Algorithm::kTree, Kind::kBroadcast, 1000), 10);
}

TEST(AlgorithmTable, EveryCollectiveSizeAndNumberOfHosts_HasAnAlgorithm) {
  const AlgorithmTable table;
  for (Kind kind : kKinds) {
    for (std::size_t bytes = 0; bytes < std::size_t{1} << 40; bytes = bytes * 3 + 1)
      for (int hosts = 2; hosts < 20'000; hosts *= 3)
        EXPECT_TRUE(is_algorithm_of(table.choose(kind, bytes, hosts), kind));
  }
}

TEST(AlgorithmTable, RowsOfTheUser_PrecedeTheBuiltInOnes) {
  const AlgorithmTable table("all-reduce:64K:8=ring,all-to-all=bruck,all-reduce:1M=halving-doubling");
  EXPECT_EQ(table.choose(Kind::kAllReduce, 64 << 10, 8), Algorithm::kRing);
  EXPECT_EQ(table.choose(Kind::kAllReduce, 64 << 10, 9), Algorithm::kHalvingDoubling);
  EXPECT_EQ(table.choose(Kind::kAllReduce, (64 << 10) + 1, 2), Algorithm::kHalvingDoubling);
  EXPECT_EQ(table.choose(Kind::kAllReduce, (1 << 20) + 1, 2),
            AlgorithmTable().choose(Kind::kAllReduce, 2 << 20, 2));
  EXPECT_EQ(table.choose(Kind::kAllToAll, 64 << 20, 1000), Algorithm::kBruck);
  EXPECT_THAT(table.to_string(), ::testing::HasSubstr("all-reduce             65536       8  ring\n"));
}

TEST(AlgorithmTable, AnInvalidRow_IsAnErrorThatSaysWhatIsWrong) {
  const auto error = [](const char* rows) -> std::string {
    try {
      AlgorithmTable table(rows);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error("permute=ring"), HasSubstr("\"permute\" has no choice"));
  EXPECT_THAT(error("all-reduce=circle"), HasSubstr("\"circle\" is not an algorithm"));
  EXPECT_THAT(error("all-reduce"), HasSubstr("\"\" is not an algorithm"));
  EXPECT_THAT(error("all-reduce=tree"), HasSubstr("all-reduce does not have this algorithm"));
  EXPECT_THAT(error("all-reduce:12X=ring"), HasSubstr("\"12X\" is not a number"));
  EXPECT_THAT(error("all-gather=ring,all-reduce:a=ring"), HasSubstr("the row \"all-reduce:a=ring\""));
}

}  // namespace
}  // namespace lockstep::collectives
