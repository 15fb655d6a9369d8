// SPDX-License-Identifier: Apache-2.0
// Tests that every store must pass.
#include "lockstep/storage/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "lockstep/storage/test_store.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

enum class Kind { kFolder, kObjects };

class EveryStore : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Store> open() const {
    return GetParam() == Kind::kFolder ? open_store(folder_.path() / "run", /*make=*/true) : bucket_.open();
  }

  testing::TemporaryFolder folder_;
  FakeBucket bucket_;
};

std::string name_of(const ::testing::TestParamInfo<Kind>& kind) {
  return kind.param == Kind::kFolder ? "Folder" : "Objects";
}

INSTANTIATE_TEST_SUITE_P(, EveryStore, ::testing::Values(Kind::kFolder, Kind::kObjects), name_of);

TEST_P(EveryStore, Files_ExistOnlyOnceTheyAreFinished) {
  const auto store = open();
  const std::string text = random_text(5000);
  EXPECT_FALSE(store->exists("file"));
  { store->create("file")->write(bytes_of(text)); }
  EXPECT_FALSE(store->exists("file"));
  EXPECT_THROW(store->open("file"), StorageError);
  write_file(*store, "file", text);
  write_file(*store, "empty", "");
  EXPECT_TRUE(store->exists("file"));
  EXPECT_THROW(store->create("file"), StorageError);
  EXPECT_EQ(store->list(""), (std::vector<Entry>{{"empty", false, 0}, {"file", false, 5000}}));
  EXPECT_EQ(store->list("nowhere"), std::vector<Entry>{});
  EXPECT_THAT(store->url("file"), HasSubstr("run/file"));

  const auto reader = store->open("file");
  EXPECT_EQ(reader->url(), store->url("file"));
  EXPECT_EQ(reader->size(), 5000u);
  EXPECT_EQ(read_whole(*reader), text);
  EXPECT_EQ(read_range(*reader, 17, 4000), text.substr(17, 4000));
  EXPECT_EQ(read_range(*reader, 5000, 0), "");
  EXPECT_THAT(error_of<StorageError>([&] { read_range(*reader, 4999, 2); }), HasSubstr(store->url("file")));
  EXPECT_THROW(read_range(*reader, ~std::uint64_t{0}, 2), StorageError);
  EXPECT_EQ(read_whole(*store->open("empty")), "");
}

TEST_P(EveryStore, AnEndedAttemptIsNotPublished_AndAPublishedOneIsNotEnded) {
  const auto store = open(), other = open();
  const Attempt ended = store->begin("step", "n1"), published = store->begin("step", "n2");
  EXPECT_TRUE(other->has(ended));
  EXPECT_FALSE(other->has({"step/none", "none/"}));
  write_file(*store, ended.folder + "/part", "one");
  write_file(*store, published.folder + "/part", "two");
  const auto rest = other->end(ended, "manifest");
  ASSERT_TRUE(rest);
  EXPECT_THROW(store->publish(ended, "step", "manifest", "of n1"), StorageError);
  EXPECT_FALSE(store->exists("step/manifest"));
  other->discard(*rest, {"part"});
  EXPECT_FALSE(other->has(ended));
  EXPECT_TRUE(store->publish(published, "step", "manifest", "of n2"));
  EXPECT_EQ(other->end(published, "manifest"), std::nullopt);
  EXPECT_EQ(read_whole(*store->open("step/" + published.prefix + "part")), "two");
}

TEST_P(EveryStore, AnInterruptedRemoval_CanBeRepeated) {
  const auto store = open();
  const Attempt attempt = store->begin("step", "n1");
  write_file(*store, attempt.folder + "/part", "one");
  EXPECT_TRUE(store->publish(attempt, "step", "manifest", "of n1"));
  store->remove("step", "manifest", {});
  EXPECT_FALSE(store->exists("step/manifest"));
  EXPECT_FALSE(store->exists("step/manifest.removed"));
  EXPECT_TRUE(store->exists("step/" + attempt.prefix + "part")) << "only what is named is removed";
  write_file(*store, "step/manifest.removed", "of n1");
  store->remove("step", "manifest", {attempt.prefix + "part"});
  EXPECT_TRUE(store->list("").empty());
  store->remove("step", "manifest", {"part"});
}

TEST_P(EveryStore, TwoAttempts_OnlyTheFirstIsPublished) {
  const auto store = open(), other = open();
  const Attempt first = store->begin("step", "n1"), second = other->begin("step", "n2");
  EXPECT_THROW(other->begin("step", "n1"), StorageError);
  write_file(*store, first.folder + "/part", "one");
  write_file(*other, second.folder + "/part", "two");
  EXPECT_FALSE(store->exists("step/manifest"));
  EXPECT_TRUE(store->publish(first, "step", "manifest", "of one"));
  EXPECT_FALSE(other->publish(second, "step", "manifest", "of two"));
  other->discard(second, {"part", "manifest"});
  EXPECT_EQ(read_whole(*other->open("step/manifest")), "of one");
  EXPECT_EQ(read_whole(*other->open("step/" + first.prefix + "part")), "one");
  EXPECT_EQ(other->list("").size(), 1u);
  EXPECT_EQ(other->list("step").size(), 2u);

  write_file(*store, "step/another's", "x");
  other->remove("step", "manifest", {first.prefix + "part", "never there"});
  EXPECT_FALSE(store->exists("step/manifest"));
  EXPECT_EQ(store->list("step"), (std::vector<Entry>{{"another's", false, 1}}));
}

}  // namespace
}  // namespace lockstep::storage
