// SPDX-License-Identifier: Apache-2.0
// Against a real S3 server that checks signatures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <thread>

#include "lockstep/storage/object_store.h"
#include "lockstep/storage/test_s3_server.h"
#include "lockstep/storage/test_store.h"
#include "lockstep/testing/errors.h"

namespace lockstep::storage {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

/// Folders are not looked at: this server shows those that are empty for a while.
std::vector<std::string> files_below(const Store& store, const std::string& folder) {
  std::vector<std::string> files;
  for (const Entry& entry : store.list(folder)) {
    const std::string name = folder.empty() ? entry.name : folder + "/" + entry.name;
    if (!entry.is_folder) {
      files.push_back(name);
    } else {
      for (std::string& file : files_below(store, name)) files.push_back(std::move(file));
    }
  }
  return files;
}

class RealS3 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!server().reason().empty()) GTEST_SKIP() << server().reason();
    environment_ = std::make_unique<MapEnvironment>(server().variables());
  }

  /// One for all tests of the process.
  static const TestS3Server& server() {
    static const TestS3Server server(LOCKSTEP_S3_SERVER);
    return server;
  }

  S3Options options() const {
    S3Options options;
    options.environment = environment_.get();
    return options;
  }

  std::unique_ptr<Store> open(const std::string& prefix) const {
    return open_object_store(server().url() + "/" + prefix, options());
  }

  std::unique_ptr<MapEnvironment> environment_;
};

TEST_F(RealS3, Objects_OfManySizes_AreReadAsTheyWereWritten) {
  const auto store = open("sizes");
  EXPECT_EQ(store->list(""), std::vector<Entry>{});
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{5 << 20}}) {
    SCOPED_TRACE(bytes);
    const std::string name = fmt::format("file-{}", bytes), text = random_text(bytes);
    EXPECT_FALSE(store->exists(name));
    write_file(*store, name, text, 100'000);
    EXPECT_TRUE(store->exists(name));
    const auto reader = store->open(name);
    EXPECT_EQ(reader->size(), bytes);
    EXPECT_EQ(read_whole(*reader), text);
    EXPECT_EQ(reader->url(), server().url() + "/sizes/" + name);
    if (bytes > 100) {
      EXPECT_EQ(read_range(*reader, 17, 80), text.substr(17, 80));
      EXPECT_EQ(read_range(*reader, bytes - 3, 3), text.substr(bytes - 3));
    }
    EXPECT_THAT(error_of<StorageError>([&] { read_range(*reader, bytes, 1); }), HasSubstr("it has"));
    EXPECT_THAT(error_of<StorageError>([&] { store->create(name); }), HasSubstr("it exists already"));
  }
  EXPECT_THAT(error_of<StorageError>([&] { store->open("missing"); }), HasSubstr("no such object"));
}

TEST_F(RealS3, NamesOfAllKinds_AreWrittenReadAndListed) {
  const auto store = open("odd names");
  std::vector<Entry> expected;
  for (const char* name : {"a b", "a+b", "a%20b", "c&d=e", "f#g?", "h'i\"j", "k(l)*m!", "n@o:p;q,r", "step=1",
                           "u~v", "\u00e9\u4e2d\U0001F600"}) {
    SCOPED_TRACE(name);
    write_file(*store, name, name);
    EXPECT_EQ(read_whole(*store->open(name)), name);
    expected.push_back({name, false, std::string(name).size()});
  }
  std::sort(expected.begin(), expected.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  EXPECT_EQ(store->list(""), expected);
}

TEST_F(RealS3, UploadOf120MegabytesInParts_IsReadBackInRanges) {
  const auto store = open("large");
  const std::string text = random_text(120'000'000);
  write_file(*store, "part-0", text, 7'000'001);
  const auto reader = open_object(server().url() + "/large/part-0", options());
  EXPECT_EQ(reader->size(), text.size());
  EXPECT_TRUE(read_whole(*reader) == text);
  for (const std::size_t at : {std::size_t{0}, std::size_t{16 << 20} - 1, std::size_t{100'000'000}})
    EXPECT_TRUE(read_range(*reader, at, 19'999'999) == text.substr(at, 19'999'999)) << at;
  EXPECT_EQ(store->list(""), (std::vector<Entry>{{"part-0", false, text.size()}}));
}

TEST_F(RealS3, UnfinishedWriter_LeavesNothing) {
  const auto store = open("unfinished");
  const std::string text = random_text(40'000'000);
  {
    auto writer = store->create("part-0");
    writer->write(bytes_of(text));
  }
  EXPECT_EQ(store->list(""), std::vector<Entry>{});
  EXPECT_FALSE(store->exists("part-0"));
}

TEST_F(RealS3, MoreEntriesThanAPage_AreAllListed) {
  const auto store = open("many");
  std::vector<Entry> expected;
  for (int i = 0; i < 1203; ++i) expected.push_back({fmt::format("file-{:04}", i), false, 1});
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t i = thread; i < expected.size(); i += 8) write_file(*store, expected[i].name, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  write_file(*store, "folder/file", "x");
  expected.push_back({"folder", true, 0});
  EXPECT_EQ(store->list(""), expected);
  EXPECT_EQ(store->list("folder"), (std::vector<Entry>{{"file", false, 1}}));
  EXPECT_EQ(store->list("nothing"), std::vector<Entry>{});
}

// This server lets those who lose wait for seconds, so ten races go on at a time.
TEST_F(RealS3, OfManyPublishers_OneWins_InAHundredRaces) {
  constexpr int kLanes = 10, kRounds = 10, kMost = 20;
  std::atomic<int> races = 0;
  auto race = [&](const std::vector<std::unique_ptr<Store>>& stores, const std::string& folder,
                  std::size_t publishers) {
    std::vector<Attempt> attempts;
    for (std::size_t i = 0; i < publishers; ++i)
      attempts.push_back(stores[i]->begin(folder, fmt::format("n{}", i)));
    std::vector<int> won(publishers);
    std::barrier start(static_cast<std::ptrdiff_t>(publishers));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < publishers; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        won[i] = stores[i]->publish(attempts[i], folder, "manifest.json", fmt::format("manifest of n{}", i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::count(won.begin(), won.end(), 1), 1) << folder;
    const auto winner = std::find(won.begin(), won.end(), 1) - won.begin();
    EXPECT_EQ(read_whole(*stores[0]->open(folder + "/manifest.json")), fmt::format("manifest of n{}", winner))
        << folder;
    ++races;
  };
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&, lane] {
      std::vector<std::unique_ptr<Store>> stores;
      for (int i = 0; i < kMost; ++i) stores.push_back(open("race"));
      for (int round = 0; round < kRounds; ++round)
        race(stores, fmt::format("step-{}", lane * kRounds + round), round == 0 ? kMost : 6);
    });
  }
  for (std::thread& lane : lanes) lane.join();
  EXPECT_EQ(races, 100);
}

TEST_F(RealS3, PublishedFolder_HasTheAttemptsFiles_UntilItIsRemoved) {
  const auto store = open("steps");
  const Attempt attempt = store->begin("step-1", "n1"), late = store->begin("step-1", "n2");
  const std::string text = random_text(100'000);
  write_file(*store, attempt.folder + "/part-0", text);
  write_file(*store, late.folder + "/part-0", "late");
  EXPECT_TRUE(store->publish(attempt, "step-1", "manifest.json", "{1}"));
  EXPECT_FALSE(store->publish(late, "step-1", "manifest.json", "{2}"));
  EXPECT_TRUE(store->publish(attempt, "step-1", "manifest.json", "{1}"));  // an answer that was lost
  store->discard(late, {"part-0"});
  EXPECT_EQ(files_below(*store, ""), (std::vector<std::string>{"step-1/manifest.json", "step-1/n1/part-0"}));
  EXPECT_EQ(read_whole(*store->open("step-1/" + attempt.prefix + "part-0")), text);
  store->remove("step-1", "manifest.json", {attempt.prefix + "part-0"});
  EXPECT_EQ(files_below(*store, ""), std::vector<std::string>{});
}

TEST_F(RealS3, AUsedNonce_IsRefused) {
  const auto store = open("nonce");
  const Attempt attempt = store->begin("step-1", "n1");
  EXPECT_EQ(attempt.folder, "step-1/n1");
  EXPECT_EQ(attempt.prefix, "n1/");
  EXPECT_THAT(error_of<StorageError>([&] { open("nonce")->begin("step-1", "n1"); }),
              HasSubstr("used before"));
  store->discard(attempt, {});
  EXPECT_EQ(files_below(*store, ""), std::vector<std::string>{});
}

TEST_F(RealS3, Urls_AreOpenedWithTheEnvironmentsSettings) {
  for (const auto& [name, value] : server().variables()) ::setenv(name.c_str(), value.c_str(), 1);
  const auto store = open_store(server().url() + "/by-url", /*make=*/true);
  write_file(*store, "file", "text");
  EXPECT_EQ(read_whole(*open_file(server().url() + "/by-url/file")), "text");
  for (const auto& [name, value] : server().variables()) ::unsetenv(name.c_str());
}

TEST_F(RealS3, WrongSecretsAndNames_AreErrorsThatExplainThem) {
  auto variables = server().variables();
  const std::string id = variables["AWS_ACCESS_KEY_ID"], secret = variables["AWS_SECRET_ACCESS_KEY"];
  auto message_with = [&](const std::string& name, const std::string& value, const std::string& url) {
    auto changed = variables;
    changed[name] = value;
    MapEnvironment environment(changed);
    S3Options options;
    options.environment = &environment;
    return error_of<StorageError>([&] { open_object_store(url, options); });
  };
  const std::string url = server().url() + "/run";
  const std::string wrong_secret = message_with("AWS_SECRET_ACCESS_KEY", "wrong-secret", url);
  EXPECT_THAT(wrong_secret, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(wrong_secret, HasSubstr("credentials of the environment (access key id ending in " +
                                      id.substr(id.size() - 4)));
  EXPECT_THAT(wrong_secret, HasSubstr("secret access key is not that of this id"));
  EXPECT_THAT(wrong_secret, ::testing::Not(HasSubstr("wrong-secret")));
  EXPECT_THAT(wrong_secret, ::testing::Not(HasSubstr(id)));
  EXPECT_THAT(message_with("AWS_ACCESS_KEY_ID", "AKIDNOBODYKNOWS", url), HasSubstr("InvalidAccessKeyId"));
  EXPECT_THAT(message_with("UNUSED", "", "s3://no-such-bucket/run"), HasSubstr("s3://no-such-bucket/run"));
}

}  // namespace
}  // namespace lockstep::storage
