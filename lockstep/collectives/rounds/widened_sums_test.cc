// SPDX-License-Identifier: Apache-2.0
// Sums of floats of 8 and 16 bits by every algorithm, of 2 to 16 hosts on a simulated network, against the
// sum that is rounded once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/collectives/rounds/algorithm.h"
#include "lockstep/collectives/rounds/simulated_hosts.h"
#include "lockstep/collectives/test_sums.h"

namespace lockstep::collectives {
namespace {

/// One collective of all hosts. `partial_input`: the hosts have partial sums, in f32.
struct WidenedTrial {
  Algorithm algorithm;
  Kind kind;
  int hosts;
  std::size_t count;  ///< elements of a part
  const NarrowNumbers& numbers;
  bool partial_input = false, in_place = false;

  std::vector<std::vector<std::byte>> outputs{};

  std::size_t input_count() const {
    return count * (kind == Kind::kReduceScatter ? static_cast<std::size_t>(hosts) : 1);
  }

  /// `value` gives the value of a host's element.
  template <class Value>
  void run(Value value) {
    const auto n = static_cast<std::size_t>(hosts);
    const std::size_t size = size_of(numbers.dtype());
    const SumTypes types(ReduceOp::kSum, numbers.dtype(), partial_input);
    SimulatedHosts network(hosts, {});
    std::vector<std::vector<std::byte>> inputs(n), scratch(n);
    std::vector<std::unique_ptr<Schedule>> schedules;
    std::vector<std::unique_ptr<ScheduleRun>> runs;
    std::vector<std::function<bool()>> all;
    outputs.assign(n, {});
    for (std::size_t host = 0; host < n; ++host) {
      inputs[host].resize(input_count() * size_of(types.input));
      outputs[host].resize(count * size);
      for (std::size_t at = 0; at < input_count(); ++at) {
        const double number = value(static_cast<int>(host), at);
        if (partial_input) {
          const auto single = static_cast<float>(number);
          std::memcpy(inputs[host].data() + at * sizeof single, &single, sizeof single);
        } else {
          numbers.write(number, inputs[host].data() + at * size);
        }
      }
      if (in_place) outputs[host] = inputs[host];
      schedules.push_back(make_schedule(algorithm, {kind, static_cast<int>(host), hosts, count * size}));
      scratch[host].resize(scratch_bytes(*schedules.back(), types));
      runs.push_back(std::make_unique<ScheduleRun>(
          *schedules.back(), network.carrier(static_cast<int>(host)), 0, ReduceOp::kSum, types,
          Memory{in_place ? outputs[host].data() : inputs[host].data(), outputs[host].data(),
                 scratch[host].data()}));
      all.push_back([run = runs.back().get()] { return run->advance(); });
    }
    std::vector<int> stuck;
    network.finish(all, &stuck);
    ASSERT_TRUE(stuck.empty());
  }

  /// The position in the inputs of what element `at` of a host's output is the sum of.
  std::size_t summed_at(std::size_t host, std::size_t at) const {
    return kind == Kind::kReduceScatter ? host * count + at : at;
  }
  std::string to_string() const {
    return std::string(name_of(kind)) + " by " + std::string(name_of(algorithm)) + " of " +
           std::to_string(count) + " x " + std::string(name(numbers.dtype())) + " on " +
           std::to_string(hosts) + " hosts" + (partial_input ? " with partial sums" : "") +
           (in_place ? ", in place" : "");
  }
};

template <class Body>
void each_sum(Body body) {
  for (const DType dtype : kNarrowFloats) {
    const NarrowNumbers numbers(dtype);
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter})
      for (const Algorithm algorithm : kAlgorithms)
        for (int hosts = 2; hosts <= 16 && is_algorithm_of(algorithm, kind); ++hosts)
          for (const bool partial_input : {false, true})
            for (const bool in_place : {false, true}) {
              if (in_place && (partial_input || kind != Kind::kAllReduce)) continue;
              body(WidenedTrial{algorithm, kind, hosts, hosts == 3 ? 530u : 9u, numbers, partial_input,
                                in_place});
            }
  }
}

TEST(SumsOfNarrowFloats, AreRoundedOnce_ByEveryAlgorithmInEveryOrder) {
  each_sum([](WidenedTrial trial) {
    const std::size_t size = size_of(trial.numbers.dtype());
    for (const SumOrder& order : sum_orders()) {
      // A partial sum of three members has digits that the dtype does not have.
      const int each = trial.partial_input ? 3 : 1;
      const int members = trial.hosts * each;
      const auto value = [&](int host, std::size_t at) {
        double sum = 0;
        for (int i = 0; i < each; ++i) sum += order.value(host * each + i, members, at, trial.numbers);
        return sum;
      };
      ASSERT_NO_FATAL_FAILURE(trial.run(value)) << trial.to_string();
      for (std::size_t host = 0; host < trial.outputs.size(); ++host) {
        for (std::size_t at = 0; at < trial.count; ++at) {
          double sum = 0;
          for (int other = 0; other < trial.hosts; ++other) sum += value(other, trial.summed_at(host, at));
          std::byte wanted[2] = {};
          trial.numbers.write(sum, wanted);
          const std::byte* const got = trial.outputs[host].data() + at * size;
          ASSERT_EQ(trial.numbers.read(got), trial.numbers.read(wanted))
              << trial.to_string() << ", " << order.name << ", host " << host << ", element " << at << ": "
              << sum << " before it is rounded";
        }
      }
    }
  });
}

TEST(SumsOfNarrowFloats, InexactInF32_AreNearTheRoundedSum) {
  each_sum([](WidenedTrial trial) {
    const std::size_t size = size_of(trial.numbers.dtype());
    // Numbers with all digits, and exponents from 2^-6 to 2^3.
    const auto value = [&](int host, std::size_t at) {
      const std::size_t random = (static_cast<std::size_t>(host) * 7919 + at * 104729 + 12345) % 10007;
      const double number =
          std::ldexp(1 + static_cast<double>(random) / 10007, static_cast<int>(random % 10) - 6) *
          (random % 3 == 0 ? -1 : 1);
      if (trial.partial_input) return static_cast<double>(static_cast<float>(number));
      std::byte bytes[2] = {};
      trial.numbers.write(number, bytes);
      return trial.numbers.read(bytes);
    };
    ASSERT_NO_FATAL_FAILURE(trial.run(value)) << trial.to_string();
    for (std::size_t host = 0; host < trial.outputs.size(); ++host) {
      for (std::size_t at = 0; at < trial.count; ++at) {
        double sum = 0, sizes = 0;
        for (int other = 0; other < trial.hosts; ++other) {
          const double term = value(other, trial.summed_at(host, at));
          sum += term;
          sizes += std::abs(term);
        }
        std::byte wanted[2] = {};
        trial.numbers.write(sum, wanted);
        const double got = trial.numbers.read(trial.outputs[host].data() + at * size);
        // A number rounded once is off by half a place; additions in f32 by 2^-24 of what was added.
        const double f32 = sizes * trial.hosts * std::ldexp(1.0, -24);
        ASSERT_LE(std::abs(got - sum), std::abs(trial.numbers.read(wanted) - sum) + 2 * f32)
            << trial.to_string() << ", host " << host << ", element " << at;
      }
    }
    for (const auto& out : trial.outputs) {
      if (trial.kind == Kind::kAllReduce) {
        ASSERT_EQ(out, trial.outputs[0]) << trial.to_string() << ": other bits on another host";
      }
    }
  });
}

/// Partial sums have more bytes than the terms; terms and results do not.
TEST(SumsOfNarrowFloats, SendF32OnlyForPartialSums) {
  const auto sent = [](Algorithm algorithm, Kind kind, bool partial_input) {
    constexpr std::size_t kCount = 16 * 160;
    SimulatedHosts network(16, {});
    const SumTypes types(ReduceOp::kSum, DType::kBF16, partial_input);
    std::vector<std::unique_ptr<Schedule>> schedules;
    std::vector<std::unique_ptr<ScheduleRun>> runs;
    std::vector<std::function<bool()>> all;
    for (int host = 0; host < 16; ++host) {
      schedules.push_back(make_schedule(algorithm, {kind, host, 16, kCount * 2}));
      runs.push_back(std::make_unique<ScheduleRun>(*schedules.back(), network.carrier(host), 0,
                                                   ReduceOp::kSum, types, Memory{}));
      all.push_back([run = runs.back().get()] { return run->advance(); });
    }
    network.finish(all);
    return static_cast<double>(network.most_sent()) / (kCount * 2);
  };
  // As many as a sum of f32 of as many bytes does.
  EXPECT_NEAR(sent(Algorithm::kPairwise, Kind::kAllReduce, false), 2 * 15.0 / 16, 1e-9);
  EXPECT_NEAR(sent(Algorithm::kPairwise, Kind::kReduceScatter, false), 15, 1e-9);
  EXPECT_NEAR(sent(Algorithm::kPairwise, Kind::kAllReduce, true), 3 * 15.0 / 16, 1e-9);
  EXPECT_NEAR(sent(Algorithm::kHalvingDoubling, Kind::kAllReduce, false), 0.5 + 2 * 7.0 / 16 + 15.0 / 16,
              1e-9);
  EXPECT_NEAR(sent(Algorithm::kRing, Kind::kReduceScatter, false), 1 + 2 * 14, 1e-9);
}

}  // namespace
}  // namespace lockstep::collectives
