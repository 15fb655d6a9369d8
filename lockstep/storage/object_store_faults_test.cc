// SPDX-License-Identifier: Apache-2.0
// Tests of one store while requests fail, one by one and at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lockstep/storage/object_store.h"
#include "lockstep/storage/test_store.h"
#include "lockstep/testing/errors.h"

namespace lockstep::storage {
namespace {

using ::testing::HasSubstr;

const std::string kLarge = random_text(7300), kSmall = random_text(300, 2), kOther = random_text(2100, 3);

/// Publishes a step that replaces nothing, reads it, publishes once more in vain, and removes an older one.
void publish_and_read(Store& store) {
  const Attempt attempt = store.begin("step-2", "n2");
  write_file(store, attempt.folder + "/part-0", kLarge);
  write_file(store, attempt.folder + "/part-1", kSmall);
  ASSERT_TRUE(store.publish(attempt, "step-2", "manifest.json", "{n2}"));

  const Attempt late = store.begin("step-2", "n3");
  write_file(store, late.folder + "/part-0", kOther);
  ASSERT_FALSE(store.publish(late, "step-2", "manifest.json", "{n3}"));
  store.discard(late, {"part-0"});

  EXPECT_EQ(store.list("step-2"), (std::vector<Entry>{{"manifest.json", false, 4}, {"n2", true, 0}}));
  EXPECT_TRUE(store.exists("step-1/manifest.json"));
  store.remove("step-1", "manifest.json", {"n1/part-0", "n1/part-1"});
  EXPECT_FALSE(store.exists("step-1/manifest.json"));
  const auto reader = store.open("step-2/n2/part-0");
  EXPECT_EQ(read_whole(*reader), kLarge);
  EXPECT_EQ(read_range(*reader, 650, 300), kLarge.substr(650, 300));
}

void put_older_step(FakeBucket& bucket) {
  bucket.s3.objects = {{"run/step-1/manifest.json", {"{n1}", "\"1\"", ""}},
                       {"run/step-1/n1/part-0", {"a", "\"2\"", ""}},
                       {"run/step-1/n1/part-1", {"b", "\"3\"", ""}},
                       {"run/step-1/n1/another's", {"c", "\"4\"", ""}},
                       {"running", {"d", "\"5\"", ""}}};
}

std::map<std::string, std::string> bytes_in(const FakeBucket& bucket) {
  std::map<std::string, std::string> found;
  for (const auto& [key, object] : bucket.s3.objects) found[key] = object.bytes;
  return found;
}

const std::map<std::string, std::string> kPublished = {{"run/step-1/n1/another's", "c"},
                                                       {"run/step-2/manifest.json", "{n2}"},
                                                       {"run/step-2/n2/part-0", kLarge},
                                                       {"run/step-2/n2/part-1", kSmall},
                                                       {"running", "d"}};

std::size_t requests_without_faults() {
  FakeBucket bucket;
  put_older_step(bucket);
  publish_and_read(*bucket.open());
  EXPECT_EQ(bytes_in(bucket), kPublished);
  EXPECT_TRUE(bucket.s3.uploads.empty());
  return bucket.s3.requests.size();
}

class EachFault : public ::testing::TestWithParam<Fault> {};

TEST_P(EachFault, AtEachRequest_DoesNotChangeTheResult) {
  const std::size_t requests = requests_without_faults();
  ASSERT_GT(requests, 40u);
  // One that takes seconds is shown at every seventh.
  for (std::size_t at = 1; at <= requests; at += GetParam() == Fault::kStall ? 7 : 1) {
    SCOPED_TRACE(fmt::format("at request {} of {}", at, requests));
    FakeBucket bucket;
    put_older_step(bucket);
    std::string hit;
    bucket.s3.set_fault([&](std::size_t number, const TestRequest& request) {
      if (number == at) hit = request.method + " " + request.target;
      return number == at ? GetParam() : Fault::kNone;
    });
    publish_and_read(*bucket.open());
    SCOPED_TRACE(hit);
    EXPECT_EQ(bytes_in(bucket), kPublished);
    // The id of an upload whose first answer was lost is not known to anybody.
    const bool lost =
        GetParam() == Fault::kDropAfter || GetParam() == Fault::kStopShort || GetParam() == Fault::kStall;
    EXPECT_LE(bucket.s3.uploads.size(), lost && hit.ends_with("?uploads=") ? 1u : 0u);
    if (HasFailure()) return;
  }
}

std::string name_of(const ::testing::TestParamInfo<Fault>& fault) {
  constexpr const char* kNames[] = {"None",      "InternalError", "SlowDown",   "TooMany",
                                    "Timeout",   "BadGateway",    "DropBefore", "DropAfter",
                                    "StopShort", "ErrorIn200",    "Stall"};
  return kNames[static_cast<int>(fault.param)];
}

INSTANTIATE_TEST_SUITE_P(, EachFault,
                         ::testing::Values(Fault::kInternalError, Fault::kSlowDown, Fault::kTooMany,
                                           Fault::kTimeout, Fault::kBadGateway, Fault::kDropBefore,
                                           Fault::kDropAfter, Fault::kStopShort, Fault::kErrorIn200,
                                           Fault::kStall),
                         name_of);

TEST(RandomFaults, InAThirdOfAllRequests_DoNotChangeTheResult) {
  constexpr Fault kFaults[] = {Fault::kInternalError, Fault::kSlowDown,   Fault::kTooMany,
                               Fault::kTimeout,       Fault::kBadGateway, Fault::kDropBefore,
                               Fault::kDropAfter,     Fault::kStopShort,  Fault::kErrorIn200};
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    FakeBucket bucket;
    put_older_step(bucket);
    std::mt19937 random(seed);
    bucket.s3.set_fault([&](std::size_t, const TestRequest&) {
      return random() % 3 == 0 ? kFaults[random() % std::size(kFaults)] : Fault::kNone;
    });
    S3Options options = bucket.options(30);
    publish_and_read(*open_object_store("s3://bucket/run", options));
    EXPECT_EQ(bytes_in(bucket), kPublished);
    if (HasFailure()) return;
  }
}

// A server that does not come back: what was published before stays, and what is published is whole.
TEST(Outage, FromEachRequestOn_LeavesTheOldOrTheNewStepWhole) {
  const std::size_t requests = requests_without_faults();
  for (Fault fault : {Fault::kInternalError, Fault::kDropAfter}) {
    int published = 0, failed = 0;
    for (std::size_t from = 1; from <= requests; ++from) {
      SCOPED_TRACE(fmt::format("from request {} of {}", from, requests));
      FakeBucket bucket;
      put_older_step(bucket);
      bucket.s3.set_fault(
          [&](std::size_t number, const TestRequest&) { return number >= from ? fault : Fault::kNone; });
      std::string message;
      bool said_published = false;
      std::unique_ptr<Store> store;
      Attempt attempt;
      try {
        store = open_object_store("s3://bucket/run", bucket.options(2));
        attempt = store->begin("step-2", "n2");
        write_file(*store, attempt.folder + "/part-0", kLarge);
        write_file(*store, attempt.folder + "/part-1", kSmall);
        said_published = store->publish(attempt, "step-2", "manifest.json", "{n2}");
        store->remove("step-1", "manifest.json", {"n1/part-0", "n1/part-1"});
      } catch (const StorageError& error) {
        message = error.what();
        EXPECT_THAT(message, HasSubstr("s3://bucket/run"));
        EXPECT_THAT(message, HasSubstr(bucket.server.url().substr(7)));
        EXPECT_THAT(message, HasSubstr("tried 2 times"));
        if (fault == Fault::kInternalError) {
          EXPECT_THAT(message, HasSubstr("HTTP status 500"));
        }
        ++failed;
      }
      // A process that has failed cleans up, once the server is back.
      bucket.s3.set_fault(nullptr);
      if (!said_published && !attempt.folder.empty()) {
        try {
          store->discard(attempt, {"part-0", "part-1"});
        } catch (const StorageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("stays"));
        }
      }
      const auto found = bytes_in(bucket);
      const bool there = found.count("run/step-2/manifest.json") > 0;
      EXPECT_TRUE(there || !said_published);
      if (there) {
        ++published;
        EXPECT_EQ(found.at("run/step-2/n2/part-0"), kLarge);
        EXPECT_EQ(found.at("run/step-2/n2/part-1"), kSmall);
      } else {
        EXPECT_EQ(found.count("run/step-1/manifest.json"), 1u);
        EXPECT_EQ(found.at("run/step-1/n1/part-0"), "a");
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(published, 0);
    EXPECT_GT(failed, 20);
  }
}

}  // namespace
}  // namespace lockstep::storage
