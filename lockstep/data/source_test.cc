// SPDX-License-Identifier: Apache-2.0
// Sources of sources, and the indexes that they and the formats keep.
#include "lockstep/data/source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "lockstep/base/fail.h"
#include "lockstep/data/lines.h"
#include "lockstep/data/order.h"
#include "lockstep/data/stored_numbers.h"
#include "lockstep/data/test_files.h"
#include "lockstep/testing/errors.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using namespace test;

SourcePtr numbers(std::uint64_t count, const std::string& name = "numbers") {
  return from_function(count, name, [](std::uint64_t i) {
    return Record{{"i", Field::scalar(static_cast<std::int64_t>(i))}};
  });
}
std::int64_t number(const Record& record) { return field(record, "i").values<std::int64_t>().at(0); }
std::vector<std::int64_t> all(const Source& source) {
  std::vector<std::int64_t> found;
  for (const Record& record : read_all(source)) found.push_back(number(record));
  return found;
}

TEST(Source, Sources_AreConcatenatedSlicedAndMapped) {
  const SourcePtr source = concat({numbers(3), in_memory({}), slice(numbers(10), 7, 9)});
  EXPECT_THAT(all(*source), ElementsAre(0, 1, 2, 7, 8));
  EXPECT_EQ(source->place(4), "numbers record 8");
  const SourcePtr tenfold = map(source, "times 10", [](Record record) {
    return Record{{"i", Field::scalar(10 * number(record))}};
  });
  EXPECT_THAT(all(*tenfold), ElementsAre(0, 10, 20, 70, 80));
  EXPECT_THROW(source->read(5), DataError);
  EXPECT_THROW(slice(numbers(3), 2, 4), DataError);
  EXPECT_THAT(error_of<DataError>([&] {
                map(source, "bad", [](Record) -> Record { throw std::runtime_error("oh"); })->read(3);
              }),
              HasSubstr("bad of numbers record 7: oh"));
}

TEST(Source, DifferentSources_HaveDifferentFingerprints) {
  auto same = [](Record record) { return record; };
  std::set<Fingerprint> found;
  const std::vector<SourcePtr> sources = {numbers(3),
                                          numbers(4),
                                          numbers(3, "others"),
                                          concat({numbers(3)}),
                                          concat({numbers(3), numbers(4)}),
                                          concat({numbers(4), numbers(3)}),
                                          slice(numbers(4), 0, 3),
                                          slice(numbers(4), 1, 4),
                                          map(numbers(3), "a", same),
                                          map(numbers(3), "b", same),
                                          in_memory({}),
                                          in_memory({{{"i", Field::scalar(std::int64_t{1})}}}),
                                          in_memory({{{"i", Field::scalar(std::int64_t{2})}}}),
                                          in_memory({{{"j", Field::scalar(std::int64_t{1})}}})};
  for (const SourcePtr& source : sources) found.insert(source->fingerprint());
  EXPECT_EQ(found.size(), sources.size());
  EXPECT_EQ(numbers(3)->fingerprint(), numbers(3)->fingerprint());
}

TEST(Source, TheIndexOfAFilter_IsMadeOnceAndStored) {
  testing::TemporaryFolder folder;
  std::atomic<int> reads = 0;
  const SourcePtr source = map(numbers(20000), "count", [&](Record record) {
    ++reads;
    return record;
  });
  auto third = [](const Record& record) { return number(record) % 3 == 1; };
  for (int time = 0; time < 2; ++time) {
    const SourcePtr kept = filter(source, "every third", third, {.folder = folder.path()});
    EXPECT_EQ(reads, 20000) << "the index is made once";
    ASSERT_EQ(kept->size(), 6667u);
    EXPECT_EQ(number(slice(kept, 5000, 5001)->read(0)), 15001);
    EXPECT_EQ(kept->place(5000), "numbers record 15001");
    reads = 20000;
  }
  EXPECT_EQ(filter(source, "another", third, {.folder = folder.path()})->size(), 6667u);
  EXPECT_EQ(reads, 40000);
  EXPECT_THAT(error_of<DataError>([&] {
                filter(map(numbers(5000), "broken",
                           [](Record record) {
                             if (number(record) == 4321) throw std::runtime_error("oh");
                             return record;
                           }),
                       "all", third, {.folder = folder.path()});
              }),
              HasSubstr("broken of numbers record 4321: oh"));
}

TEST(Source, PackedWindows_HoldAllRecordsInOrder) {
  testing::TemporaryFolder folder;
  std::vector<Record> records;
  std::vector<std::int32_t> stream, owners;
  for (std::size_t i = 0; i < 700; ++i) {
    std::vector<std::int32_t> values(i * i % 7);  // Of lengths 0 to 4, among them several of 0 in a row.
    for (std::int32_t& value : values) {
      value = static_cast<std::int32_t>(stream.size());
      stream.push_back(value);
      owners.push_back(static_cast<std::int32_t>(i));
    }
    records.push_back({{"tokens", Field::of(values)}});
  }
  for (auto [length, stride] : {std::pair{5ul, 0ul}, {11ul, 10ul}, {3ul, 7ul}, {1000ul, 1ul}}) {
    const SourcePtr packed =
        pack(in_memory(records), "tokens", {.length = length, .stride = stride, .segments = true},
             {.folder = folder.path()});
    if (stride == 0) stride = length;
    ASSERT_EQ(packed->size(), (stream.size() - length) / stride + 1);
    for (std::uint64_t i = 0; i < packed->size(); ++i) {
      const Record window = packed->read(i);
      const auto values = field(window, "tokens").values<std::int32_t>(),
                 segments = field(window, "segments").values<std::int32_t>();
      ASSERT_EQ(values.size(), length);
      ASSERT_EQ(segments.size(), length);
      for (std::size_t j = 0; j < length; ++j) {
        ASSERT_EQ(values[j], static_cast<std::int32_t>(i * stride + j));
        const auto at = static_cast<std::size_t>(values[j]);
        if (j > 0) {
          ASSERT_EQ(segments[j] - segments[j - 1], owners[at] == owners[at - 1] ? 0 : 1);
        }
      }
      ASSERT_EQ(segments[0], 0);
    }
  }
}

TEST(Source, DataThatChangedSinceItsIndexWasMade_IsAnError) {
  testing::TemporaryFolder folder;
  const IndexOptions index{.folder = folder.path()};
  std::uint64_t changed = ~std::uint64_t{0};  // the record that is longer now
  const SourcePtr source = from_function(300, "of lengths", [&](std::uint64_t i) {
    return Record{
        {"x", Field::of(std::vector<std::int32_t>(i == changed ? 4 : 3, static_cast<std::int32_t>(i)))}};
  });
  auto even = [](const Record& record) { return field(record, "x").values<std::int32_t>()[0] % 2 == 0; };
  auto kept = [&] { return filter(source, "even", even, index); };
  auto packed = [&] { return pack(source, "x", {.length = 3}, index); };
  EXPECT_EQ(read_all(*kept()).size(), 150u);
  EXPECT_EQ(read_all(*packed()).size(), 300u);
  changed = 100;
  EXPECT_EQ(field(kept()->read(49), "x").shape[0], 3);
  EXPECT_THAT(error_of<DataError>([&] { kept()->read(50); }),
              ::testing::AllOf(HasSubstr("of lengths record 100 is not the record that was kept"),
                               HasSubstr("remove " + folder.path().string())));
  EXPECT_EQ(field(packed()->read(99), "x").values<std::int32_t>()[0], 99);
  EXPECT_THAT(error_of<DataError>([&] { packed()->read(100); }),
              ::testing::AllOf(HasSubstr("of lengths record 100 has 4 values, and its index says 3"),
                               HasSubstr("remove " + folder.path().string())));
}

TEST(StoredNumbers, FilesOfKilledProcesses_DisturbNoOther_AndAreRemovedLater) {
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "a.txt";
  write_file(path, "one\ntwo\n");
  const std::string index = path.string() + ".lines.index";
  // As in a container: each start has the process number of the one that was killed.
  for (int i = 0; i < 64; ++i) write_file(fmt::format("{}.tmp-{}-{}", index, getpid(), i), "left");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (int i = 0; i < 60; ++i)
    std::filesystem::last_write_time(fmt::format("{}.tmp-{}-{}", index, getpid(), i), long_ago);
  const int locked = open(fmt::format("{}.tmp-{}-7", index, getpid()).c_str(), O_RDONLY);
  ASSERT_EQ(flock(locked, LOCK_EX), 0);  // It is still being written.
  write_file(index + ".other", "another's");
  EXPECT_EQ(lines(path)->size(), 2u);
  close(locked);
  EXPECT_TRUE(std::filesystem::exists(fmt::format("{}.tmp-{}-7", index, getpid())));
  EXPECT_TRUE(std::filesystem::exists(fmt::format("{}.tmp-{}-63", index, getpid())))
      << "it may be another host's";
  EXPECT_FALSE(std::filesystem::exists(fmt::format("{}.tmp-{}-8", index, getpid())));
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  EXPECT_EQ(count, 3u + 1 + 4) << "file, index, another's; the locked one; the new ones";
}

TEST(StoredNumbers, EachNumber_IsFound_AlsoAtBlockBoundaries) {
  testing::TemporaryFolder folder;
  for (std::uint64_t count : {0, 1, 510, 511, 512, 1022, 1023, 200000}) {
    auto made = internal::stored_numbers("test", "", "squares", count, {.folder = folder.path()},
                                         [&](const internal::Append& append) {
                                           for (std::uint64_t i = 0; i < count; ++i) append(i * i);
                                         });
    ASSERT_EQ(made->size(), count);
    for (std::uint64_t i = 0; i < count; i += count < 2000 ? 1 : 97) {
      ASSERT_EQ((*made)[i], i * i);
      if (i + 1 < count) {
        ASSERT_EQ(made->two(i), std::pair(i * i, (i + 1) * (i + 1)));
      }
      ASSERT_EQ(made->count_up_to(i * i), i + 1);
      if (i > 1) {
        ASSERT_EQ(made->count_up_to(i * i - 1), i);
      }
    }
    EXPECT_EQ(made->count_up_to(~std::uint64_t{0}), count);
  }
}

TEST(StoredNumbers, ConcurrentRequests_ComputeTheNumbersOnce) {
  testing::TemporaryFolder folder;
  std::atomic<int> made = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto numbers = internal::stored_numbers("test", "", "slow", 7, {.folder = folder.path()},
                                              [&](const internal::Append& append) {
                                                ++made;
                                                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                                append(42);
                                              });
      EXPECT_EQ((*numbers)[0], 42u);
    });
  }
  threads.clear();
  EXPECT_EQ(made, 1);
}

TEST(StoredNumbers, TheIndexOfAChangedFile_IsReplaced_AndNothingElseIsLeft) {
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "a.txt";
  write_file(path, "one\ntwo\n");
  EXPECT_EQ(lines(path)->size(), 2u);
  EXPECT_EQ(lines(path)->size(), 2u);
  write_file(path, "one\ntwo\nthree\n");
  EXPECT_EQ(lines(path)->size(), 3u);
  EXPECT_THROW(internal::stored_numbers("test", path, "broken", 1, {},
                                        [](const internal::Append& append) {
                                          append(1);
                                          throw DataError("oh");
                                        }),
               DataError);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"a.txt", "a.txt.lines.index"}));
}

TEST(StoredNumbers, AFifoInPlaceOfAnIndex_IsReplacedWithoutWaitingForAWriter) {
  testing::TemporaryFolder folder;
  const auto path = folder.path() / "a.txt", index = folder.path() / "a.txt.lines.index";
  write_file(path, "one\ntwo\n");
  ASSERT_EQ(mkfifo(index.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((index.string() + ".tmp-0").c_str(), 0600), 0);
  EXPECT_EQ(lines(path)->size(), 2u);
  EXPECT_TRUE(std::filesystem::is_regular_file(index));
}

TEST(StoredNumbers, AnIndexThatCannotBeBesideTheFile_GoesToTheCacheFolder) {
  testing::TemporaryFolder folder, cache;
  const auto path = folder.path() / "none" / "a.txt";
  setenv("LOCKSTEP_DATA_CACHE", cache.path().c_str(), 1);
  // No file can be made in /proc, not by root either.
  auto made = internal::stored_numbers("test", "/proc/self/a.txt", "kind", 1, {},
                                       [](const internal::Append& append) { append(5); });
  EXPECT_EQ((*made)[0], 5u);
  EXPECT_FALSE(std::filesystem::is_empty(cache.path()));
  setenv("LOCKSTEP_DATA_CACHE", "/proc/self", 1);
  EXPECT_THAT(error_of<DataError>([&] {
                internal::stored_numbers("test", "/proc/self/b.txt", "kind", 1, {},
                                         [](const internal::Append&) {});
              }),
              HasSubstr("there is no folder in which the index of /proc/self/b.txt can be stored"));
  unsetenv("LOCKSTEP_DATA_CACHE");
}

TEST(Order, EachEpochHasEveryRecordOnce_InAnOrderOfItsOwn) {
  const Order order({100}, Mixture({1}), 3, 7);
  ASSERT_EQ(order.end(), 300u);
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t> records;
    for (std::uint64_t k = 100 * epoch; k < 100 * (epoch + 1); ++k) {
      EXPECT_EQ(order.at(k).epoch, epoch);
      records.push_back(order.at(k).record);
    }
    orders.insert(records);
    EXPECT_EQ(std::set(records.begin(), records.end()).size(), 100u);
  }
  EXPECT_EQ(orders.size(), 3u);
  const Order plain({100}, Mixture({1}), std::nullopt, std::nullopt);
  EXPECT_EQ(plain.end(), Order::kForever);
  EXPECT_EQ(plain.at(12345), (Order::Place{0, 123, 45}));
}

TEST(Order, AMixture_EndsWhenASourceHasBeenReadInAllEpochs) {
  const Order order({30, 1000}, Mixture({3, 7}), 2, 1);
  std::vector<std::vector<int>> counts = {std::vector<int>(30), std::vector<int>(1000)};
  for (std::uint64_t k = 0; k < order.end(); ++k) ++counts[order.at(k).source][order.at(k).record];
  EXPECT_EQ(counts[0], std::vector<int>(30, 2));
  for (int count : counts[1]) EXPECT_LE(count, 1);
  EXPECT_NEAR(static_cast<double>(order.end()), 200, 4);
  EXPECT_THROW(Order({3, 0}, Mixture({1, 1}), 1, 0), DataError);
  EXPECT_THROW(Order({3}, Mixture({1}), 0, 0), DataError);
}

}  // namespace
}  // namespace lockstep::data
