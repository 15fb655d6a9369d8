// SPDX-License-Identifier: Apache-2.0
// Sums by whole communicators, of processes that are distributed over emulated hosts in several ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>

#include "lockstep/collectives/test_sums.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kProcesses = 8;

/// The host of each process.
struct Hosts {
  const char* name;
  std::vector<int> of;
};
const Hosts kLayouts[] = {
    {"every second", {0, 1, 0, 1, 0, 1, 0, 1}}, {"5, 1 and 2", {0, 0, 0, 0, 0, 1, 2, 2}},
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // They make eight processes ten times as slow.
    {"one", {0, 0, 0, 0, 0, 0, 0, 0}},          {"2 of 4", {0, 0, 0, 0, 1, 1, 1, 1}},
    {"4 of 2", {0, 0, 1, 1, 2, 2, 3, 3}},       {"8", {0, 1, 2, 3, 4, 5, 6, 7}},
    {"3, 3 and 2", {0, 0, 0, 1, 1, 1, 2, 2}},
#endif
};

std::unique_ptr<World> world_on(coordination::KeyValueStore& store, const Hosts& hosts, bool reproducible) {
  WorldOptions options = child_options(store);
  options.process_host.clear();
  for (const int host : hosts.of) options.process_host.push_back("host " + std::to_string(host));
  options.job_id = std::string(hosts.name) + (reproducible ? ", reproducible" : "");
  options.reproducible_sums = reproducible;
  return World::create(std::move(options));
}

std::vector<int> first_devices(int count) {
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// Small ones, which are exchanged in one step, and large ones in one piece and in several.
constexpr std::int64_t kCounts[] = {5, 9'001, 300'011};

/// The elements of which the results are compared.
std::size_t after(std::size_t at) { return at + (at < 50 ? 1 : at < 9'001 ? 253 : 5'003); }

/// The sum that this process gets. `write` is called with a member, the position in its input, of which there
/// are `period` until all comes again, and where the element goes.
template <class Write>
Bytes sum_of(World& world, int members, Kind kind, DType dtype, std::int64_t count, std::size_t period,
             Write write) {
  const int rank = world.options().process_index;
  const Call call = make_call({.kind = kind, .op = ReduceOp::kSum, .dtype = dtype, .count = count}, members);
  Bytes in(call.input_bytes), out(call.output_bytes);
  period *= size_of(dtype);
  for (std::size_t at = 0; at < std::min(in.size(), period); at += size_of(dtype))
    write(rank, at / size_of(dtype), in.data() + at);
  for (std::size_t at = period; at < in.size(); at += period)
    std::memcpy(in.data() + at, in.data(), std::min(period, in.size() - at));
  world.communicator(first_devices(members)).run(call, rank, in.data(), out.data());
  return out;
}

void expect_rounded_once(World& world, int members) {
  const int rank = world.options().process_index;
  if (rank >= members) return;
  for (const DType dtype : kNarrowFloats) {
    const NarrowNumbers numbers(dtype);
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter}) {
      for (const std::int64_t count : kCounts) {
        const SumOrder& order = sum_orders()[static_cast<std::size_t>(count + members) % sum_orders().size()];
        constexpr std::size_t kPeriod = 35;
        const auto value = [&](int member, std::size_t at) {
          return order.value(member, members, at % kPeriod, numbers);
        };
        const Bytes out =
            sum_of(world, members, kind, dtype, count, kPeriod,
                   [&](int member, std::size_t at, auto* to) { numbers.write(value(member, at), to); });
        for (std::size_t at = 0; at < static_cast<std::size_t>(count); at = after(at)) {
          const std::size_t summed =
              kind == Kind::kReduceScatter ? static_cast<std::size_t>(rank * count) + at : at;
          double sum = 0;
          for (int member = 0; member < members; ++member) sum += value(member, summed);
          std::byte wanted[2] = {};
          numbers.write(sum, wanted);
          ASSERT_EQ(numbers.read(out.data() + at * size_of(dtype)), numbers.read(wanted))
              << name_of(kind) << " of " << count << " x " << name(dtype) << " of " << members << " members, "
              << order.name << ", element " << at;
        }
      }
    }
  }
}

LOCKSTEP_CHILD(sums_narrow_floats) {
  FolderKeyValueStore store(shared_folder());
  for (const Hosts& hosts : kLayouts) {
    SCOPED_TRACE(hosts.name);
    const auto world = world_on(store, hosts, /*reproducible=*/false);
    for (const int members : {3, kProcesses}) ASSERT_NO_FATAL_FAILURE(expect_rounded_once(*world, members));
    world->leave();
  }
}

TEST(SumsOfNarrowFloats, AreRoundedOnce_HoweverTheMembersAreDistributedOverHosts) {
  for (const auto& result : testing::run_processes(
           {.count = kProcesses, .child = "sums_narrow_floats", .deadline = std::chrono::seconds(240)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// The sum in the order that is defined (SumTree), in the dtype itself, or in f32 for narrow ones.
template <class T, class Value>
T in_order(const Value& value, int begin, int size) {
  if (size == 1) return value(begin);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)) / 2);
  const T a = in_order<T>(value, begin, left), b = in_order<T>(value, begin + left, size - left);
  return a + b;
}

/// All digits, and exponents of 2^-3 to 2^4: each order of the sum gives other bits.
double any_number(int member, std::size_t at) {
  const std::size_t random = (static_cast<std::size_t>(member) * 7919 + at * 104729 + 4711) % 10007;
  return std::ldexp(1 + static_cast<double>(random) / 10007, static_cast<int>(random % 8) - 3) *
         (random % 3 == 0 ? -1 : 1);
}

template <class T, class Read, class Write>
void expect_in_order(World& world, int members, DType dtype, Read read, Write write) {
  const int rank = world.options().process_index;
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter}) {
    for (const std::int64_t count : kCounts) {
      constexpr std::size_t kPeriod = 1009;
      const Bytes out =
          sum_of(world, members, kind, dtype, count, kPeriod,
                 [&](int member, std::size_t at, auto* to) { write(any_number(member, at % kPeriod), to); });
      for (std::size_t at = 0; at < static_cast<std::size_t>(count); at = after(at)) {
        const std::size_t summed =
            kind == Kind::kReduceScatter ? static_cast<std::size_t>(rank * count) + at : at;
        const auto value = [&](int member) {
          std::byte bytes[sizeof(T)] = {};
          write(any_number(member, summed % kPeriod), bytes);
          return read(bytes);
        };
        const T sum = in_order<T>(value, 0, members);
        std::byte wanted[sizeof(T)] = {};
        write(sum, wanted);
        ASSERT_EQ(std::memcmp(out.data() + at * size_of(dtype), wanted, size_of(dtype)), 0)
            << name_of(kind) << " of " << count << " x " << name(dtype) << " of " << members
            << " members, element " << at;
      }
    }
  }
}

template <class T>
void expect_in_order(World& world, int members) {
  const auto read = [](const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  const auto write = [](auto value, std::byte* to) {
    const T element(static_cast<T>(value));
    std::memcpy(to, &element, sizeof element);
  };
  expect_in_order<T>(world, members, dtype_of<T>, read, write);
}

/// Its partial results are numbers of 16 bits.
void expect_maximum(World& world) {
  const NarrowNumbers numbers(DType::kBF16);
  const int rank = world.options().process_index;
  for (const std::int64_t count : kCounts) {
    const Call call = make_call(
        {.kind = Kind::kAllReduce, .op = ReduceOp::kMax, .dtype = DType::kBF16, .count = count}, kProcesses);
    const auto value = [](int member, std::size_t at) {
      return static_cast<double>((static_cast<std::size_t>(member) * 7 + at) % 11);
    };
    Bytes data(call.input_bytes);
    for (std::size_t at = 0; at < data.size() / 2; ++at) numbers.write(value(rank, at), data.data() + 2 * at);
    world.communicator(first_devices(kProcesses)).run(call, rank, data.data(), data.data());
    for (std::size_t at = 0; at < data.size() / 2; at = after(at)) {
      double wanted = 0;
      for (int member = 0; member < kProcesses; ++member) wanted = std::max(wanted, value(member, at));
      ASSERT_EQ(numbers.read(data.data() + 2 * at), wanted) << "element " << at << " of " << count;
    }
  }
}

LOCKSTEP_CHILD(sums_in_one_order) {
  FolderKeyValueStore store(shared_folder());
  for (const Hosts& hosts : kLayouts) {
    SCOPED_TRACE(hosts.name);
    const auto world = world_on(store, hosts, /*reproducible=*/true);
    ASSERT_NO_FATAL_FAILURE(expect_maximum(*world));
    ASSERT_NO_FATAL_FAILURE(expect_in_order<double>(*world, kProcesses));
    ASSERT_NO_FATAL_FAILURE(expect_in_order<std::complex<float>>(*world, kProcesses));
    for (const int members : {7, kProcesses}) {
      if (world->options().process_index >= members) continue;
      ASSERT_NO_FATAL_FAILURE(expect_in_order<float>(*world, members));
      for (const DType dtype : {DType::kBF16, DType::kF8E5M2}) {
        const NarrowNumbers numbers(dtype);
        ASSERT_NO_FATAL_FAILURE(expect_in_order<float>(
            *world, members, dtype,
            [&](const std::byte* from) { return static_cast<float>(numbers.read(from)); },
            [&](double value, std::byte* to) { numbers.write(value, to); }));
      }
    }
    world->leave();
  }
}

TEST(ReproducibleSums, HaveTheSameBits_HoweverTheMembersAreDistributedOverHosts) {
  for (const auto& result : testing::run_processes(
           {.count = kProcesses, .child = "sums_in_one_order", .deadline = std::chrono::seconds(240)}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep::collectives
