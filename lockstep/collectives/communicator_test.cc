// SPDX-License-Identifier: Apache-2.0
// One suite for every way in which the members of a communicator can be spread over processes.
#include "lockstep/collectives/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/host_layout.h"
#include "lockstep/collectives/reduce.h"
#include "lockstep/collectives/segment.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::collectives {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Kind kAllKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll,
                              Kind::kPermute,   Kind::kBroadcast, Kind::kBarrier};
constexpr std::span<const Kind> kKinds = kAllKinds;
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

// The sanitizers make all this many times slower, the thread sanitizer most. They look for races and wild
// accesses: what every dtype gives, and more layouts of a kind, are left to builds without them.
#ifdef __SANITIZE_THREAD__
constexpr bool kFast = false;
#else
constexpr bool kFast = true;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
constexpr DType kDTypes[] = {int8, bfloat16, float64, complex64};
#else
constexpr bool kSanitized = false;
constexpr DType kDTypes[] = {bool_,   int8,      int16,      int32,         int64,      uint8,
                             uint16,  uint32,    uint64,     float16,       bfloat16,   float32,
                             float64, complex64, complex128, float8_e4m3fn, float8_e5m2};
#endif

/// Numbers of the dtype, none of them infinite or NaN, the same for the same seed. Tests are built at -O0,
/// where a loop over bytes takes most of the time of this suite: so it makes whole words.
Bytes random_data(DType dtype, std::size_t bytes, std::uint64_t seed) {
  const std::size_t size = size_of(real_dtype(dtype));
  std::uint64_t kept = ~std::uint64_t{0};
  if (dtype == DType::kBool) {
    kept = 0x0101'0101'0101'0101;
  } else if (is_inexact(dtype)) {
    // Without the highest bit of its exponent no number is 2 or more.
    for (std::size_t i = size - 1; i < 8; i += size) kept &= ~(std::uint64_t{0x40} << (8 * i));
  }
  Bytes data(bytes);
  std::byte* const out = data.data();
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::size_t i = 0; i < bytes; i += 8) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t mixed = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9 & kept;
    std::memcpy(out + i, &mixed, bytes - i < 8 ? bytes - i : 8);
  }
  return data;
}

/// Halves, ones and twos with either sign (only ones for complex numbers and those of 8 bits), whose sums and
/// products are exact in any order.
Bytes exact_data(DType dtype, std::size_t bytes, std::uint64_t seed) {
  Bytes data = random_data(dtype, bytes, seed);
  if (!is_inexact(dtype)) return data;
  const std::size_t size = size_of(real_dtype(dtype));
  // The exponent's bits of a half; one and two are the next.
  const std::uint64_t half = dtype == DType::kF16        ? 0x3800
                             : dtype == DType::kBF16     ? 0x3f00
                             : dtype == DType::kF8E4M3FN ? 0x30
                             : dtype == DType::kF8E5M2   ? 0x38
                             : size == 8                 ? 0x3fe0'0000'0000'0000
                                                         : 0x3f00'0000;
  const std::uint64_t step = std::uint64_t{1} << finfo(dtype).nmant;
  const bool only_ones = is_complex(dtype) || size == 1;
  std::byte* const out = data.data();
  for (std::size_t i = 0; i + size <= bytes; i += size) {
    const auto random = static_cast<unsigned>(out[i]);
    const std::uint64_t exponent = only_ones ? 1 : random % 3;
    const std::uint64_t number = (half + exponent * step) | std::uint64_t{random >> 7} << (8 * size - 1);
    std::memcpy(out + i, &number, size);
  }
  return data;
}

/// Makes all zeros positive: their signs differ between complex products in different orders.
template <class T>
void without_signs_of_zeros(Bytes& data) {
  for (std::size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
    T number;
    std::memcpy(&number, data.data() + i, sizeof number);
    number += 0;
    std::memcpy(data.data() + i, &number, sizeof number);
  }
}

/// The output that rank `rank` must get from the inputs of all.
Bytes expected(const Call& call, const std::vector<Bytes>& inputs, int rank, const HostLayout& layout) {
  const Collective& c = call.collective;
  const std::size_t part = c.count * size_of(c.dtype);
  const int n = static_cast<int>(inputs.size());
  Bytes out(call.output_bytes);
  const auto put = [&](int at, int from, int piece) {
    if (part != 0) std::memcpy(out.data() + at * part, inputs[from].data() + piece * part, part);
  };
  switch (c.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      // In one step, in rank order; a large one within each host first, then host by host.
      const bool at_once = layout.host_count() == 1 || call.input_bytes * n <= kSmallBytes;
      std::vector<std::vector<int>> groups = layout.hosts;
      if (at_once) {
        groups.assign(1, {});
        for (int from = 0; from < n; ++from) groups[0].push_back(from);
      }
      std::vector<Bytes> sums;
      std::vector<Term> terms;
      for (const std::vector<int>& ranks : groups) {
        terms.clear();
        for (int from : ranks)
          terms.push_back({inputs[from].data() + (c.kind == Kind::kReduceScatter ? rank * part : 0)});
        sums.emplace_back(c.count * size_of(partial_type(c.op, c.dtype)));
        reduce(c.op, c.dtype, {terms.data(), static_cast<int>(terms.size())}, c.count,
               {sums.back().data(), nullptr, /*is_partial=*/true});
      }
      terms.clear();
      for (const Bytes& sum : sums) terms.push_back({sum.data(), /*is_partial=*/true});
      reduce(c.op, c.dtype, {terms.data(), static_cast<int>(terms.size())}, c.count, {out.data()});
      break;
    }
    case Kind::kAllGather:
      for (int from = 0; from < n; ++from) put(from, from, 0);
      break;
    case Kind::kAllToAll:
      for (int from = 0; from < n; ++from) put(from, from, rank);
      break;
    case Kind::kPermute:
      for (auto [from, to] : c.pairs) {
        if (to == rank) put(0, from, 0);
      }
      break;
    case Kind::kBroadcast:
      put(0, c.root, 0);
      break;
    case Kind::kBarrier:
      break;
  }
  return out;
}

Collective collective(Kind kind, DType dtype, std::int64_t count, int n, ReduceOp op = ReduceOp::kSum) {
  Collective c;
  c.kind = kind;
  c.op = op;
  c.dtype = dtype;
  c.count = count;
  c.root = n - 1;
  // Rank 0 sends to 1, that to 2, …; the last sends to nobody, and nobody sends to 0.
  for (int rank = 0; rank + 1 < n; ++rank) c.pairs.emplace_back(rank, rank + 1);
  return c;
}

/// Memory for a member's input or output: of the arena that the others read, or not.
class Block {
 public:
  Block(Arena* arena, const Bytes& content)
      : arena_(arena), own_(arena == nullptr ? content : Bytes()), bytes_(content.size()) {
    data_ = arena != nullptr ? static_cast<std::byte*>(arena->allocate(bytes_)) : own_.data();
    if (arena != nullptr && bytes_ != 0) std::memcpy(data_, content.data(), bytes_);
  }
  ~Block() {
    if (arena_ != nullptr) arena_->free(data_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const { return data_; }
  Bytes content() const {
    Bytes out(bytes_);
    if (bytes_ != 0) std::memcpy(out.data(), data_, bytes_);
    return out;
  }
  bool is(const Bytes& wanted) const {
    return bytes_ == wanted.size() && (bytes_ == 0 || std::memcmp(data_, wanted.data(), bytes_) == 0);
  }

 private:
  Arena* arena_;
  Bytes own_;
  std::size_t bytes_;
  std::byte* data_;
};

/// Takes part in the collective as `device`, and looks at what comes out. Large inputs and outputs are in the
/// arenas of all members, of some, or of none.
void take_part(World& world, Communicator& communicator, int device, const Collective& c, std::uint64_t seed,
               bool in_place = false) {
  const HostLayout layout(communicator.members(), world.options());
  const Call call = make_call(c, communicator.size(), 1, "conformance", static_cast<std::int64_t>(seed));
  const int rank = communicator.rank_of(device);
  std::vector<Bytes> inputs;
  // On many hosts sums are made in another order than here; parts that go around in a ring, on three. Of two
  // operands the order matters only to complex products, whose imaginary parts are rounded by it.
  const int hosts_in_order = c.kind != Kind::kReduceScatter ? 4 : is_complex(c.dtype) ? 1 : 2;
  const bool in_another_order = layout.host_count() > hosts_in_order;
  for (int member = 0; member < communicator.size(); ++member) {
    const auto data = in_another_order ? exact_data : random_data;
    inputs.push_back(data(c.dtype, call.input_bytes, seed * 100 + member));
  }
  Arena* arena = call.input_bytes >= kSingleCopyBytes ? test_arena() : nullptr;
  const auto way = seed % 5;
  Block input(way == 1 || (way == 2 && rank == 0) || way == 3 ? nullptr : arena, inputs[rank]),
      output(way == 1 || (way == 4 && rank == 1) ? nullptr : arena,
             in_place ? inputs[rank] : Bytes(call.output_bytes, std::byte{0xcd}));
  communicator.run(call, rank, in_place ? output.data() : input.data(), output.data());
  Bytes out = output.content();
  if (!in_place) {
    ASSERT_TRUE(input.is(inputs[rank])) << call.text << ": the input was written over";
  }
  Bytes wanted = expected(call, inputs, rank, layout);
  if (is_complex(c.dtype) && in_another_order) {
    const auto without =
        c.dtype == DType::kC64 ? without_signs_of_zeros<float> : without_signs_of_zeros<double>;
    without(out);
    without(wanted);
  }
  ASSERT_EQ(out.size(), wanted.size()) << call.text;
  if (out.empty() || std::memcmp(out.data(), wanted.data(), out.size()) == 0) return;
  const auto at = std::mismatch(out.begin(), out.end(), wanted.begin()).first - out.begin();
  FAIL() << call.text << (in_place ? " in place" : "") << ", rank " << rank << " of " << communicator.size()
         << ": wrong from byte " << at << " of " << out.size();
}

/// Everything that a device does in the suite, with all of the job's devices.
void run_suite(World& world, int device) {
  const int devices = static_cast<int>(world.options().device_process.size());
  std::vector<int> all, reversed;
  for (int i = 0; i < devices; ++i) all.push_back(i), reversed.insert(reversed.begin(), i);
  Communicator& everyone = world.communicator(all);
  std::uint64_t seed = 0;
  const bool thorough = kFast && (world.options().process_host.empty() || devices == 2);

  const auto both = [&](Communicator& communicator, const Collective& c) {
    ASSERT_NO_FATAL_FAILURE(take_part(world, communicator, device, c, ++seed));
    if (thorough && c.kind != Kind::kAllGather && c.kind != Kind::kReduceScatter) {
      ASSERT_NO_FATAL_FAILURE(take_part(world, communicator, device, c, ++seed, /*in_place=*/true));
    }
  };

  // Every kind at sizes around each limit, back to back.
  for (int i = 0; i < 16; ++i) {
    for (Kind kind : kKinds) {
      const bool splits = kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
      const std::int64_t tiny = kInlineBytes / 4 / (splits ? devices : 1),
                         in_place = kSingleCopyBytes / 4 / (splits ? devices : 1),
                         small = kSmallBytes / 4 / (splits ? devices : 1),
                         chunk = kChunkBytes / 4 / (splits ? devices : 1);
      const std::int64_t counts[] = {
          0,         1,     3,         tiny,  tiny + 1,  small / 3, in_place - 1, in_place, in_place + 1,
          small - 1, small, small + 1, chunk, chunk - 1, chunk + 1, 3 * chunk + 5};
      ASSERT_NO_FATAL_FAILURE(both(everyone, collective(kind, float32, counts[i], devices)));
    }
  }
  // Every dtype and operation; with a sanitizer every dtype and every operation (reduce_test has all of their
  // kernels).
  for (DType dtype : kDTypes) {
    for (ReduceOp op : kOps) {
      if (!can_reduce(op, dtype)) continue;
      if (kSanitized && dtype != float64 && op != ReduceOp::kSum) continue;
      for (std::int64_t count : {37, thorough ? 40'001 : 9'001}) {
        for (Kind kind : {Kind::kAllReduce, Kind::kReduceScatter}) {
          ASSERT_NO_FATAL_FAILURE(both(everyone, collective(kind, dtype, count, devices, op)));
        }
      }
    }
    for (Kind kind : {Kind::kAllGather, Kind::kAllToAll, Kind::kPermute, Kind::kBroadcast}) {
      ASSERT_NO_FATAL_FAILURE(both(everyone, collective(kind, dtype, 9'001, devices)));
    }
  }
  // Large and small in turn, in another order of ranks, and past the size at which caches are passed by.
  Communicator& backwards = world.communicator(reversed);
  for (int i = 0; i < 20; ++i) {
    Communicator& communicator = i % 3 == 0 ? backwards : everyone;
    const std::int64_t count = i % 2 == 0 ? 5 : 200'000 + i;
    ASSERT_NO_FATAL_FAILURE(both(communicator, collective(kKinds[i % 6], float32, count, devices)));
  }
  for (Kind kind : thorough ? kKinds : std::span<const Kind>()) {
    ASSERT_NO_FATAL_FAILURE(both(
        everyone, collective(kind, float32,
                             (kind == Kind::kAllReduce ? 8 << 20 : (8 << 20) / devices) / 4 + 3, devices)));
  }
  // Sub-groups at the same time, then others that cross them.
  if (devices == 4) {
    const std::vector<std::vector<std::vector<int>>> groupings = {
        {{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}, {{3, 0}, {2, 1}}};
    for (int round = 0; round < 5; ++round) {
      for (const auto& groups : groupings) {
        for (const auto& group : groups) {
          if (std::find(group.begin(), group.end(), device) == group.end()) continue;
          Communicator& communicator = world.communicator(group);
          for (Kind kind : kKinds) {
            ASSERT_NO_FATAL_FAILURE(both(communicator, collective(kind, float32, round * 30'000 + 1, 2)));
          }
        }
        ASSERT_NO_FATAL_FAILURE(both(everyone, collective(Kind::kAllReduce, int32, 100, devices)));
      }
    }
  }
  Communicator& alone = world.communicator({device});
  for (Kind kind : kKinds) ASSERT_NO_FATAL_FAILURE(both(alone, collective(kind, float32, 100, 1)));
}

void run_suite_on_all_local_devices(World& world) {
  for_each_local_device(world, [&](int device) {
    try {
      run_suite(world, device);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "device " << device << ": " << error.what();
    }
  });
}

LOCKSTEP_CHILD(runs_the_suite) {
  ChildWorld world(std::stoi(testing::child_arguments().at(0)), {},
                   std::stoi(testing::child_arguments().at(1)));
  run_suite_on_all_local_devices(*world);
}

testing::Variables certificates(const std::filesystem::path& folder) {
  const auto files = testing::TestAuthority(folder, "ours").issue({});
  return {{"LOCKSTEP_TLS_CERTIFICATE", files.certificate},
          {"LOCKSTEP_TLS_KEY", files.key},
          {"LOCKSTEP_TLS_AUTHORITY", files.authority}};
}

class CommunicatorTest : public ::testing::TestWithParam<Layout> {};

TEST_P(CommunicatorTest, EveryCollective_GivesTheReferencesResult) {
  const Layout layout = GetParam();
  if (layout.processes == 1) {
    auto world = local_world(layout.devices_per_process);
    run_suite_on_all_local_devices(*world);
    return;
  }
  const testing::TemporaryFolder folder;
  testing::Variables env = {{kNetworkVariable, layout.network}};
  if (layout.certificates) env.merge(certificates(folder.path()));
  const auto results = testing::run_processes(
      {.count = layout.processes,
       .child = "runs_the_suite",
       .arguments = {std::to_string(layout.devices_per_process), std::to_string(layout.hosts)},
       .env = env,
       .deadline = std::chrono::seconds(240)});
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(exchanges_once) {
  ChildWorld world(2, {}, 2);
  std::vector<int> devices(world->options().device_process.size());
  std::iota(devices.begin(), devices.end(), 0);
  const int count = static_cast<int>(devices.size());
  const Call call = make_call({.kind = Kind::kAllToAll, .dtype = DType::kF32, .count = 100'000}, count);
  for_each_local_device(*world, [&](int device) {
    std::vector<float> in(100'000 * devices.size(), static_cast<float>(device)), out(in.size());
    world->communicator(devices).run(call, device, in.data(), out.data());
    for (int other = 0; other < count; ++other)
      EXPECT_EQ(out[100'000 * static_cast<std::size_t>(other)], other);
  });
}

/// Each device waits for the first messages of those of other hosts, whose lanes the thread in between moves.
TEST(FirstExchange, SeveralDevicesPerProcessOnTwoHosts_NeverHang) {
  for (int round = 0; round < (kFast ? 15 : 4); ++round) {
    const auto results =
        testing::run_processes({.count = 4, .child = "exchanges_once", .deadline = std::chrono::seconds(60)});
    for (const auto& result : results) ASSERT_EQ(result.exit_code, 0) << "round " << round << result.log;
  }
}

LOCKSTEP_CHILD(exchanges_among_many) {
  ChildWorld world(22, {}, 2);
  std::vector<int> devices(world->options().device_process.size());
  std::iota(devices.begin(), devices.end(), 0);
  const int count = static_cast<int>(devices.size());
  Communicator& everyone = world->communicator(devices);
  for_each_local_device(*world, [&](int device) {
    for (const std::int64_t part : {3, 40}) {
      const Collective all_to_all{.kind = Kind::kAllToAll, .dtype = DType::kI32, .count = part};
      ASSERT_NO_FATAL_FAILURE(take_part(*world, everyone, device, all_to_all, 3));
    }
  });
  const auto open = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  testing::say("descriptors of each device: " + std::to_string(open() / 22));
  EXPECT_LT(open() / 22, count / 2) << "each is connected to few others";
}

/// More members than each could be connected to, on two hosts of as many and of different numbers.
TEST(ManyMembers, AllToAll_GoesThroughAFewConnections) {
  for (const int processes : {4, 3}) {
    for (const auto& result : testing::run_processes(
             {.count = processes, .child = "exchanges_among_many", .deadline = std::chrono::seconds(120)}))
      EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

std::vector<Layout> layouts() {
  std::vector<Layout> layouts = {{1, 4}, {2, 1}, {2, 2}, {3, 1, 2}, {3, 1, 3, "tls"}};
  if (kFast) {
    layouts.insert(layouts.end(),
                   {{2, 1, 2}, {6, 1, 6}, {4, 2, 2, "tcp:4"}, {4, 2, 2, "ucx"}, {4, 2, 2, "tls:4", true}});
  } else {
    layouts.insert(layouts.end(), {{2, 2, 2, "tcp:4"}, {2, 2, 2, "ucx"}});
  }
  if (!kSanitized) layouts.insert(layouts.end(), {{1, 2}, {4, 1}, {1, 3}, {4, 2, 2}, {4, 1, 3}});
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, CommunicatorTest, ::testing::ValuesIn(layouts()), [](const auto& info) {
  const Layout& layout = info.param;
  const std::string on = layout.hosts == 1 ? "" : "On" + std::to_string(layout.hosts) + "Hosts";
  const std::string network = layout.network;
  const std::string by = network == "ucx"             ? "ByUcx"
                         : layout.certificates        ? "EncryptedWithCertificates"
                         : network.starts_with("tls") ? "EncryptedWithAKey"
                         : network == "tcp"           ? ""
                                                      : "BySeveralConnections";
  return std::to_string(layout.processes) + "x" + std::to_string(layout.devices_per_process) + on + by;
});

TEST(MakeCall, AnImpossibleCollective_Throws) {
  EXPECT_THROW(make_call(collective(Kind::kAllReduce, complex64, 3, 2, ReduceOp::kMax), 2), DTypeError);
  EXPECT_THROW(make_call(collective(Kind::kBroadcast, float32, 3, 3), 2), Error);
  EXPECT_THROW(make_call(collective(Kind::kPermute, float32, 3, 3), 2), Error);
  Collective twice = collective(Kind::kPermute, float32, 3, 2);
  twice.pairs = {{0, 1}, {0, 0}};
  EXPECT_THROW(make_call(twice, 2), Error);
  EXPECT_THROW(make_call(collective(Kind::kAllReduce, float32, -1, 2), 2), Error);
}

TEST(World, InvalidDevicesOrOptions_AreRefused) {
  auto world = local_world(2);
  EXPECT_THAT(message_of<Error>([&] {
                world->communicator({0, 2});
              }),
              ::testing::HasSubstr("there are 2 devices"));
  EXPECT_THAT(message_of<Error>([&] {
                world->communicator({1, 1});
              }),
              ::testing::HasSubstr("a device twice"));
  EXPECT_THROW(World::create({.process_index = 2, .process_count = 2}), Error);
  EXPECT_THROW(World::create({.process_count = 2, .device_process = {0, 1}}), Error);
  EXPECT_THROW(World::create({.device_process = {0, 1}}), Error);
}

}  // namespace
}  // namespace lockstep::collectives
