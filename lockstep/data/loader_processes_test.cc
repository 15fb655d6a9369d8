// SPDX-License-Identifier: Apache-2.0
// Loaders of several processes: the same global batches over any number of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <set>

#include "lockstep/data/loader.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/test_loader.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace test;
using testing::ProcessesOptions;
using testing::run_processes;
using testing::say;

ProcessesOptions job(const std::string& child, int processes, std::vector<std::string> arguments = {}) {
  return {.count = processes,
          .child = child,
          .arguments = std::move(arguments),
          .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(8 / processes)}},
          .coordinator = true,
          .deadline = std::chrono::seconds(120)};
}

struct Layout {
  std::vector<std::pair<std::string, std::int64_t>> mesh;
  PartitionSpec spec;
  Shape batch;
};

/// Ways in which the rows of 16 records can lie on 8 devices.
std::vector<Layout> layouts() {
  return {{{{"data", 8}}, P("data"), {16}},                       // each device its rows
          {{{"data", 4}, {"model", 2}}, P("data"), {16}},         // neighbours have the same rows
          {{{"model", 2}, {"data", 4}}, P("data"), {16}},         // those far apart have
          {{{"a", 2}, {"b", 2}, {"c", 2}}, P({"c", "a"}), {16}},  // a process's rows lie apart
          {{{"data", 2}, {"seq", 4}}, P("data", "seq"), {16}},    // parts of each record
          {{{"data", 8}}, P(nullptr, "data"), {2, 8}},            // two groups of rows
          {{{"data", 2}, {"rest", 4}}, P(), {16}}};               // all have all
}

/// The same records as `counting`, and which of them were read.
class Counted {
 public:
  explicit Counted(std::uint64_t size)
      : source_(map(counting(size), "counted", [this](Record record) {
          std::lock_guard lock(mutex_);
          read_.insert(field(record, "label").values<std::int64_t>()[0]);
          return record;
        })) {}
  SourcePtr source() const { return source_; }
  std::multiset<std::int64_t> read() {
    std::lock_guard lock(mutex_);
    return read_;
  }

 private:
  std::mutex mutex_;
  std::multiset<std::int64_t> read_;
  SourcePtr source_;
};

constexpr std::uint64_t kRecords = 59;

LoaderOptions options(const Layout& layout) {
  return {.batch = layout.batch,
          .sharding = NamedSharding(make_mesh(layout.mesh), layout.spec),
          .epochs = 2,
          .seed = 11};
}

LOCKSTEP_CHILD(load_all) {
  initialize();
  const Order order({kRecords}, Mixture({1}), 2, 11);
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(NamedSharding(make_mesh(layout.mesh), layout.spec).to_string());
    Counted counted(kRecords);
    std::multiset<std::int64_t> held = {static_cast<std::int64_t>(order.at(0).record)};  // The first record.
    Loader loader(counted.source(), options(layout));
    std::uint64_t b = 0;
    for (; auto batch = loader.next(); ++b) {
      expect_batch(*batch, order, layout.batch, b);
      // The rows of the batch that this process's devices hold.
      std::set<std::uint64_t> rows;
      for (const Shard& shard : batch->valid.addressable_shards()) {
        const IndexRange outer = shard.index.size() == 2 ? shard.index[0] : IndexRange{0, 1};
        for (std::int64_t i = outer.start; i < outer.limit; ++i) {
          for (std::int64_t j = shard.index.back().start; j < shard.index.back().limit; ++j)
            rows.insert(static_cast<std::uint64_t>(i * layout.batch.back() + j));
        }
      }
      for (std::uint64_t row : rows) {
        const std::uint64_t k = 16 * b + row;
        if (k < order.end()) held.insert(static_cast<std::int64_t>(order.at(k).record));
      }
    }
    EXPECT_EQ(b, (order.end() + 15) / 16);
    EXPECT_EQ(loader.state().position, order.end());
    EXPECT_EQ(counted.read(), held) << "it reads what its devices hold, each once, and nothing else";
  }
  say("done");
}

TEST(LoaderProcesses, AnyNumberOfProcessesAndAnySharding_GiveTheSameBatches) {
  for (int processes : {1, 2, 4, 8}) {
    SCOPED_TRACE(processes);
    for (const auto& result : run_processes(job("load_all", processes))) {
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_THAT(result.log, HasSubstr("done"));
    }
  }
}

LOCKSTEP_CHILD(load_some) {
  initialize();
  const auto file = testing::child_arguments()[0];
  const auto count = std::stoull(testing::child_arguments()[1]);
  const Order order({kRecords}, Mixture({1}), 2, 11);
  const std::vector<Layout> all = layouts();
  const Layout& layout = all[static_cast<std::size_t>(process_count()) % all.size()];
  if (layout.batch.size() != 1) throw DataError("one layout for all");
  Loader loader(counting(kRecords), options(layout));
  if (const std::string bytes = read_file(file); !bytes.empty())
    loader.restore(LoaderState::from_bytes(std::as_bytes(std::span(bytes))));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t b = loader.state().position / 16;
    auto batch = loader.next();
    ASSERT_TRUE(batch);
    expect_batch(*batch, order, layout.batch, b);
    if (process_index() == 0) say("batch " + std::to_string(b));
  }
  const auto bytes = loader.state().to_bytes();
  const std::string own = file + "." + std::to_string(process_index());
  write_file(own, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (process_index() == 0)
    std::filesystem::copy_file(own, file, std::filesystem::copy_options::overwrite_existing);
}

TEST(LoaderProcesses, AJobOfAnotherSize_ContinuesWhereTheFirstStopped) {
  testing::TemporaryFolder folder;
  const std::string file = folder.path() / "state";
  std::string log;
  for (auto [processes, batches] : {std::pair(4, 3), {2, 2}, {1, 1}, {8, 2}}) {
    const auto results = run_processes(job("load_some", processes, {file, std::to_string(batches)}));
    for (const auto& result : results) EXPECT_EQ(result.exit_code, 0);
    log += results[0].log;
  }
  for (int b = 0; b < 8; ++b) {
    const std::string line = "batch " + std::to_string(b) + "\n";
    ASSERT_NE(log.find(line), log.npos) << b;
    EXPECT_EQ(log.find(line, log.find(line) + 1), log.npos) << "twice: " << b;
  }
}

LOCKSTEP_CHILD(load_differently) {
  initialize();
  LoaderOptions mine = options(layouts()[0]);
  if (process_index() == 2) mine.seed = 12;
  Loader loader(counting(kRecords), mine);
  try {
    loader.next();
  } catch (const DivergenceError& error) {
    say(std::string("diverged: ") + error.what());
  }
}

TEST(LoaderProcesses, DifferentDataInOneProcess_IsAnErrorOnAll) {
  for (const auto& result : run_processes(job("load_differently", 4))) {
    EXPECT_THAT(result.log, AllOf(HasSubstr("diverged: [Loader] the processes do not load the same data"),
                                  HasSubstr("what differs: the seed (fingerprint"), HasSubstr("on [0, 1, 3]"),
                                  HasSubstr("on [2]")));
  }
}

}  // namespace
}  // namespace lockstep::data
