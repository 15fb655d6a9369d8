// SPDX-License-Identifier: Apache-2.0
// Loaders on four devices of one process.
#include "lockstep/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "lockstep/base/progress.h"
#include "lockstep/data/order.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/test_loader.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/tree/tree.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using namespace test;
using namespace std::chrono_literals;

class FourDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 4}); }
};
[[maybe_unused]] const auto* const four_devices = ::testing::AddGlobalTestEnvironment(new FourDevices);

NamedSharding by_rows() { return NamedSharding(make_mesh({{"data", 4}}), P("data")); }

/// The first numbers of the records of the batches that are left.
std::vector<std::int32_t> rest_of(Loader& loader) {
  std::vector<std::int32_t> found;
  while (auto batch = loader.next()) {
    const auto values = (*batch)["x"].to_host<std::int32_t>();
    const auto valid = batch->valid.to_host<std::uint8_t>();
    for (std::size_t row = 0; row < valid.size(); ++row) {
      if (valid[row] != 0) found.push_back(values[row * kColumns]);
    }
  }
  return found;
}

TEST(Loader, Batches_HaveTheRecordsInOrder_AndTheLastIsPadded) {
  Loader loader(counting(10), {.batch = {4}, .sharding = by_rows(), .seed = 3});
  const Order order({10}, Mixture({1}), 1, 3);
  EXPECT_EQ(loader.batches(), 3u);
  for (std::uint64_t b = 0; b < 3; ++b) {
    auto batch = loader.next();
    ASSERT_TRUE(batch);
    expect_batch(*batch, order, {4}, b);
    EXPECT_EQ(loader.state().position, std::min<std::uint64_t>(10, 4 * (b + 1)));
    if (b == 2) {
      EXPECT_THAT(batch->valid.to_host<std::uint8_t>(), ElementsAre(1, 1, 0, 0));
      EXPECT_THAT((*batch)["x"].to_host<std::int32_t>().back(), 0);
    }
  }
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next()) << "the end stays";
  Loader dropping(counting(10), {.batch = {4}, .sharding = by_rows(), .drop_last = true});
  EXPECT_EQ(dropping.batches(), 2u);
  EXPECT_EQ(rest_of(dropping).size(), 8u);
}

TEST(Loader, ABatchIsATree_AndItsFieldsAreNamed) {
  Loader loader(counting(4), {.batch = {2, 2}});
  const Batch batch = *loader.next();
  EXPECT_EQ(tree::leaves(batch).size(), 3u);
  EXPECT_EQ(batch["x"].shape(), (Shape{2, 2, kColumns}));
  EXPECT_EQ(batch["label"].shape(), (Shape{2, 2}));
  EXPECT_EQ(batch.valid.dtype(), bool_);
  EXPECT_THAT(error_of<DataError>([&] { batch["y"]; }), HasSubstr("no field 'y'; there are label, x"));
}

TEST(Loader, AStateAfterAnyNumberOfBatches_ContinuesWithTheNext) {
  const LoaderOptions options{.batch = {4}, .sharding = by_rows(), .epochs = 2, .seed = 5};
  const std::vector<Weighted> sources = {{counting(13), 0.7}, {counting(9, 1000), 0.3}};
  Loader whole(sources, options);
  const std::vector<std::int32_t> all = rest_of(whole);
  for (std::uint64_t batches = 0; batches <= *whole.batches(); ++batches) {
    Loader first(sources, options);
    for (std::uint64_t b = 0; b < batches; ++b) first.next();
    const auto bytes = first.state().to_bytes();
    EXPECT_LE(bytes.size(), 64u);
    // By another number of workers, of a loader that has already read something else.
    LoaderOptions others = options;
    others.workers = 1;
    others.ahead = 5;
    others.sharding.reset();
    Loader second(sources, others);
    for (std::uint64_t b = 0; b < batches % 3; ++b) second.next();
    second.restore(LoaderState::from_bytes(bytes));
    EXPECT_EQ(second.state(), first.state());
    const std::size_t done = std::min<std::size_t>(all.size(), 4 * batches);
    EXPECT_EQ(rest_of(second),
              std::vector<std::int32_t>(all.begin() + static_cast<std::ptrdiff_t>(done), all.end()));
  }
}

TEST(Loader, AStateOfAnotherLoaderIsRefused_NamingWhatDiffers) {
  const LoaderOptions options{.batch = {4}, .seed = 5};
  const LoaderState state = Loader(counting(13), options).state();
  auto error = [&](std::vector<Weighted> sources, LoaderOptions other) {
    return error_of<DataError>([&] { Loader(std::move(sources), other).restore(state); });
  };
  EXPECT_THAT(error({{counting(14)}}, options), AllOf(HasSubstr("the files, or the functions"),
                                                      HasSubstr("the number of records (13 then, 14 now)")));
  EXPECT_THAT(error({{counting(13)}}, {.batch = {8}, .seed = 5}),
              HasSubstr("batch size, or drop_last (4 then, 8 now)"));
  EXPECT_THAT(error({{counting(13)}}, {.batch = {4}, .seed = 6}), HasSubstr("the seed ("));
  EXPECT_THAT(error({{counting(13)}}, {.batch = {4}, .seed = std::nullopt}), HasSubstr("the seed ("));
  EXPECT_THAT(error({{counting(13)}}, {.batch = {4}, .epochs = std::nullopt, .seed = 5}),
              HasSubstr("the number of epochs (1 then, for ever now)"));
  EXPECT_THAT(error({{counting(13), 1}, {counting(13), 2}}, options), HasSubstr("the weights ("));
  LoaderState damaged = state;
  damaged.position = 3;
  Loader loader(counting(13), options);
  EXPECT_THAT(error_of<DataError>([&] { loader.restore(damaged); }), HasSubstr("not between two batches"));
  damaged.position = 16;
  EXPECT_THROW(loader.restore(damaged), DataError);
  EXPECT_THROW(LoaderState::from_bytes({}), DataError);
  damaged.format = 9;
  EXPECT_THROW(LoaderState::from_bytes(damaged.to_bytes()), DataError);
}

TEST(Loader, AStateOfAFileChangedSince_IsRefused) {
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "tokens";
  auto open = [&] { return windows(tokens_u16(path), {.length = 4}); };
  write_file(path, std::string(80, 'x'));
  const LoaderState state = Loader(open(), {.batch = {2}}).state();
  Loader(open(), {.batch = {2}}).restore(state);
  write_file(path, std::string(79, 'x') + "y");
  EXPECT_THAT(error_of<DataError>([&] { Loader(open(), {.batch = {2}}).restore(state); }),
              HasSubstr("the files, or"));
}

TEST(Loader, InvalidOptions_AreErrors) {
  EXPECT_THROW(Loader(counting(3), {}), DataError);
  EXPECT_THROW(Loader(counting(3), {.batch = {0}}), DataError);
  EXPECT_THROW(Loader(counting(3), {.batch = {1 << 20, 1 << 20}}), DataError);
  EXPECT_THROW(Loader(counting(3), {.batch = {4}, .epochs = 0}), DataError);
  EXPECT_THROW(Loader(counting(3), {.batch = {4}, .workers = 0}), DataError);
  EXPECT_THROW(Loader(counting(0), {.batch = {4}}), DataError);
  EXPECT_THROW(Loader(SourcePtr(), {.batch = {4}}), DataError);
  EXPECT_THROW(Loader(std::vector<Weighted>{}, {.batch = {4}}), DataError);
  EXPECT_THROW(Loader(counting(3), {.batch = {6}, .sharding = by_rows()}), ShardingError);
}

TEST(Loader, AnErrorOfAWorkerIsThrownByNext_WithFileAndRecord) {
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "a.tfrecord";
  std::vector<std::string> records;
  for (int i = 0; i < 12; ++i) records.push_back("record" + std::to_string(10 + i));
  std::string file = tfrecord_file(records);
  file[file.find("record17")] = 'X';
  write_file(path, file);
  Loader loader(tfrecord(path), {.batch = {4}, .seed = std::nullopt});
  EXPECT_TRUE(loader.next());
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(error_of<DataError>([&] { loader.next(); }),
                AllOf(HasSubstr("[Loader] batch 1 row 3 (" + path.string() + " record 7)"),
                      HasSubstr("its checksum is wrong")));
    EXPECT_EQ(loader.state().position, 4u);
  }
}

TEST(Loader, ThrownValueThatIsNoException_IsAnErrorOfNext) {
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{5}}) {
    const SourcePtr source = from_function(8, "throws", [bad](std::uint64_t i) {
      if (i == bad) throw 42;
      return Record{{"x", Field::scalar(static_cast<std::int32_t>(i))}};
    });
    Loader loader(source, {.batch = {4}, .sharding = by_rows(), .seed = std::nullopt});
    const std::string error = error_of<DataError>([&] {
      while (loader.next()) continue;
    });
    EXPECT_THAT(error, AllOf(HasSubstr("[Loader] batch " + std::to_string(bad / 4)),
                             HasSubstr("an exception that is not a std::exception was thrown")));
  }
}

TEST(Loader, StateOfFormat1_IsRestored_WhereTheOrderIsTheSame) {
  // Only the order of 17 to 128 records has changed since.
  struct Case {
    std::uint64_t records;
    std::optional<std::uint64_t> seed;
    bool same;
  };
  for (const Case& c :
       {Case{16, 3, true}, {17, 3, false}, {17, std::nullopt, true}, {128, 3, false}, {129, 3, true}}) {
    Loader loader(counting(c.records), {.batch = {4}, .sharding = by_rows(), .seed = c.seed});
    (void)loader.next();
    LoaderState state = loader.state();
    EXPECT_EQ(state.format, 2u);
    state.format = 1;
    state = LoaderState::from_bytes(state.to_bytes());
    if (c.same) {
      loader.restore(state);
      EXPECT_EQ(loader.state().position, 4u);
      EXPECT_EQ(loader.state().format, 2u);
    } else {
      EXPECT_THAT(error_of<DataError>([&] { loader.restore(state); }),
                  HasSubstr("an older version of Lockstep"));
    }
    state.format = 3;
    EXPECT_THAT(error_of<DataError>([&] { LoaderState::from_bytes(state.to_bytes()); }),
                HasSubstr("expected format 1 or 2, got 3"));
  }
}

TEST(Loader, RecordsOfDifferentFields_AreAnErrorThatNamesThem) {
  std::vector<Record> records(6, Record{{"x", Field::scalar(1.0f)}});
  records[5] = {{"x", Field::of(std::vector<float>{1, 2})}};
  Loader loader(in_memory(records), {.batch = {3}, .seed = std::nullopt});
  EXPECT_TRUE(loader.next());
  EXPECT_THAT(error_of<DataError>([&] { loader.next(); }),
              AllOf(HasSubstr("batch 1 row 2 (record 5 in memory)"), HasSubstr("{x: f32[2]}"),
                    HasSubstr("{x: f32[]}")));
}

TEST(Loader, ReadsTwoBatchesAheadAndNoMore) {
  std::atomic<int> reads = 0;
  const SourcePtr source = map(counting(1000), "count", [&](Record record) {
    ++reads;
    return record;
  });
  Loader loader(source, {.batch = {10}, .seed = std::nullopt});
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(reads, 0) << "nothing before next";
  for (int b = 1; b <= 5; ++b) {
    ASSERT_TRUE(loader.next());
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (reads < 1 + 10 * (b + 2) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(reads, 1 + 10 * (b + 2)) << "two batches ahead, and the first record once more";
  }
  const LoaderMetrics metrics = loader.metrics();
  EXPECT_EQ(metrics.batches, 5u);
  EXPECT_EQ(metrics.records, 70u);
  EXPECT_EQ(metrics.bytes, 70u * (4 * kColumns + 8));
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  for (int i = 0; i < 60; ++i) {
    const SourcePtr slow = map(counting(1000), "slow", [&](Record record) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return record;
    });
    Loader loader(slow, {.batch = {8}, .sharding = by_rows(), .workers = 1 + i % 5});
    for (int b = 0; b < i % 4; ++b) loader.next();
    if (i % 3 == 0) loader.restore(loader.state());
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 7)));
  }
}

TEST(Loader, ALongWait_IsReportedWithWhatItWaitsFor_AndItsEnd) {
  const SourcePtr source = map(counting(8), "slow", [&](Record record) {
    if (field(record, "label").values<std::int64_t>()[0] == 5) std::this_thread::sleep_for(1600ms);
    return record;
  });
  Loader loader(source, {.batch = {4}, .seed = std::nullopt});
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  {
    ProgressBar progress("training", 2);
    loader.next();
    loader.next();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("training"), HasSubstr("waits for batch 1: reading counting record 5 for ")));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("[Loader] has waited 1.0 s for batch 1: reading counting record 5 for "));
  EXPECT_THAT(log, HasSubstr("[Loader] batch 1 came after 1."));
  EXPECT_THAT(log, HasSubstr("what took longest was counting record 5, 1.6 s"));
  EXPECT_GT(loader.metrics().wait_seconds, 1.0);
}

/// The resident memory of this process, in KiB.
std::int64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(Loader, ABillionRecords_AreResumedAtOnceInConstantMemory) {
  const std::uint64_t billion = 1'000'000'000;
  const LoaderOptions options{.batch = {64}, .epochs = 3, .seed = 1};
  Loader warm(counting(1000), options);
  warm.next();
  const std::int64_t before = resident_memory();
  LoaderState state = Loader(counting(billion), options).state();
  state.position = 2 * billion + 64 * 1234567;
  const auto start = std::chrono::steady_clock::now();
  Loader loader(counting(billion), options);
  loader.restore(state);
  const auto batch = loader.next();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s)
      << "a restore must not read the records before the position";
  expect_batch(*batch, Order({billion}, Mixture({1}), 3, 1), {64}, state.position / 64);
  for (int i = 0; i < 200; ++i) loader.next();
  EXPECT_LT(resident_memory() - before, 32 << 10);
}

}  // namespace
}  // namespace lockstep::data
