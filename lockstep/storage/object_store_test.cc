// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "lockstep/storage/object_writer.h"
#include "lockstep/storage/test_store.h"
#include "lockstep/storage/test_tls.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PartSize, TenThousandParts_HoldFiveTebibytes) {
  const std::uint64_t first = S3Options().part_bytes;
  std::uint64_t sum = 0;
  for (int number = 1; number <= 10'000; ++number) {
    const std::uint64_t size = part_size(number, first);
    EXPECT_GE(size, number == 1 ? first : part_size(number - 1, first));
    EXPECT_GE(size, std::uint64_t{5} << 20);
    EXPECT_LE(size, std::uint64_t{5} << 30);
    sum += size;
  }
  EXPECT_GE(sum, std::uint64_t{5} << 40);
  EXPECT_EQ(part_size(2000, first), first);
}

TEST(S3Endpoints, AreReadFromTheEnvironment_OrAreThoseOfAws) {
  struct Case {
    std::map<std::string, std::string> variables;
    const char *bucket, *region, *expected;
  };
  const Case cases[] = {
      {{}, "bucket", "eu-west-1", "https bucket.s3.eu-west-1.amazonaws.com "},
      {{}, "my.bucket", "eu-west-1", "https s3.eu-west-1.amazonaws.com /my.bucket"},
      {{}, "My_Bucket", "us-east-1", "https s3.us-east-1.amazonaws.com /My_Bucket"},
      {{}, "bucket", "cn-north-1", "https bucket.s3.cn-north-1.amazonaws.com.cn "},
      {{{"AWS_ENDPOINT_URL", "http://host:9000/"}}, "bucket", "r", "http host:9000 /bucket"},
      {{{"AWS_ENDPOINT_URL", "http://host"}, {"AWS_ENDPOINT_URL_S3", "https://s3.host:443/base/"}},
       "bucket",
       "r",
       "https s3.host /base/bucket"},
      {{{"AWS_ENDPOINT_URL", "http://host"}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"}},
       "bucket",
       "r",
       "https bucket.s3.r.amazonaws.com "},
  };
  for (const Case& c : cases) {
    const MapEnvironment environment(c.variables);
    const S3Endpoint endpoint = s3_endpoint(environment, AwsConfig(environment), c.bucket, c.region);
    EXPECT_EQ(endpoint.scheme + " " + endpoint.host + " " + endpoint.path, c.expected);
  }
  for (const char* wrong :
       {"host:9000", "ftp://host", "http://", "http:///x", "http://h?x=1", "http://u@h"}) {
    const MapEnvironment environment{std::map<std::string, std::string>{{"AWS_ENDPOINT_URL", wrong}}};
    EXPECT_THAT(
        error_of<StorageError>([&] { s3_endpoint(environment, AwsConfig(environment), "bucket", "r"); }),
        AllOf(HasSubstr("AWS_ENDPOINT_URL"), HasSubstr(wrong)));
  }
}

TEST(ObjectStore, ListsOfSeveralPages_AreComplete) {
  FakeBucket bucket;
  bucket.s3.page = 3;
  std::vector<Entry> expected;
  for (int i = 0; i < 10; ++i) {
    const std::string name = fmt::format("file {}&<+>%2F", i);
    bucket.s3.objects["run/" + name] = {"x", "\"1\"", ""};
    expected.push_back({name, false, 1});
  }
  bucket.s3.objects["run/folder/a"] = bucket.s3.objects["run/folder/b"] = {"x", "\"1\"", ""};
  bucket.s3.objects["run/"] = {"", "\"0\"", ""};  // what some tools make for a folder
  expected.push_back({"folder", true, 0});
  EXPECT_EQ(bucket.open()->list(""), expected);
  EXPECT_EQ(open_object_store("s3://bucket", bucket.options())->list(""),
            (std::vector<Entry>{{"run", true, 0}}));
}

TEST(ObjectStore, InvalidNames_AreRefused) {
  FakeBucket bucket;
  const auto store = bucket.open();
  for (const char* name : {"", "/a", "a/", "a//b", "a/../b", "."})
    EXPECT_THAT(error_of<StorageError>([&] { store->exists(name); }), HasSubstr("is not a name")) << name;
  EXPECT_THAT(error_of<StorageError>([&] { store->begin("step", "a/b"); }), HasSubstr("nonce"));
}

TEST(ObjectStore, ServerThatOverwrites_IsRefusedBeforeAnythingIsPublished) {
  FakeBucket bucket;
  bucket.s3.honours_conditions = false;
  EXPECT_THAT(error_of<StorageError>([&] { bucket.open()->begin("step", "n"); }), HasSubstr("If-None-Match"));
  EXPECT_TRUE(bucket.s3.objects.empty());
}

TEST(ObjectStore, ConflictOfPublishers_IsRetried) {
  FakeBucket bucket;
  const auto store = bucket.open();
  const Attempt attempt = store->begin("step", "n");
  int conflicts = 3;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.method != "PUT" || --conflicts < 0) return std::nullopt;
    return FakeS3::error(409, "ConditionalRequestConflict");
  };
  EXPECT_TRUE(store->publish(attempt, "step", "manifest", "own"));
  EXPECT_LT(conflicts, 0);
}

TEST(ObjectStore, ManifestThatOthersPublishAndRemove_IsRetried) {
  FakeBucket bucket;
  const auto store = bucket.open();
  const Attempt attempt = store->begin("step", "n");
  int there = 2;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.method != "PUT" || --there < 0) return std::nullopt;
    return FakeS3::error(412, "PreconditionFailed");
  };
  EXPECT_TRUE(store->publish(attempt, "step", "manifest", "own"));
  EXPECT_EQ(bucket.s3.objects.at("run/step/manifest").bytes, "own");
}

// Another process takes the publisher for dead at any of its requests, and removes the attempt, or the step;
// and the publisher is killed before any later request.
TEST(ObjectStore, AnAttemptEndedByOthersDuringPublish_IsWholeOrGone) {
  constexpr int kRequests = 6, kNever = 100;
  for (const bool removes : {false, true}) {
    for (int acts = 0; acts <= kRequests; ++acts) {
      for (int dies = removes ? kNever : acts; dies <= kNever;
           dies += dies < kRequests ? 1 : kNever - kRequests) {
        SCOPED_TRACE(fmt::format("removes {}, acts {}, dies {}", removes, acts, dies));
        FakeBucket bucket;
        const auto other = bucket.open();
        const auto clean = [&](const Attempt& attempt) {
          if (const auto rest = other->end(attempt, "manifest")) other->discard(*rest, {"part"});
        };
        Attempt attempt;
        std::atomic<bool> publishes = false;
        std::atomic<int> requests = 0;
        TestHttpServer between([&](const TestRequest& request) {
          const int number = publishes ? requests++ : -1;
          if (number == acts) {
            clean(attempt);
            if (removes) other->remove("step", "manifest", {"nonce-1/part"});
          }
          return number >= dies ? TestReply{.drop = true} : bucket.s3(request);
        });
        const MapEnvironment environment({{"AWS_ENDPOINT_URL", between.url()},
                                          {"AWS_ACCESS_KEY_ID", "A"},
                                          {"AWS_SECRET_ACCESS_KEY", "B"}});
        S3Options options = bucket.options(1);
        options.environment = &environment;
        const auto publisher = open_object_store("s3://bucket/run", options);
        attempt = publisher->begin("step", "nonce-1");
        write_file(*publisher, attempt.folder + "/part", "abc");
        publishes = true;
        bool published = false;
        try {
          published = publisher->publish(attempt, "step", "manifest", "of nonce-1");
        } catch (const StorageError&) {
        }
        const auto is_whole = [&] {
          return !other->exists("step/manifest") || other->exists("step/nonce-1/part");
        };
        EXPECT_TRUE(is_whole());
        if (published && !removes) {
          EXPECT_TRUE(other->exists("step/manifest"));
        }
        if (!other->exists("step/manifest")) clean(attempt);
        EXPECT_TRUE(is_whole());
        other->remove("step", "manifest", {"nonce-1/part"});
        EXPECT_TRUE(bucket.s3.objects.empty()) << bucket.s3.objects.begin()->first;
        if (HasFailure()) return;
      }
    }
  }
}

// The publisher sees that its attempt was ended only after its step was removed and saved anew by others.
TEST(ObjectStore, AnEndedAttempt_DoesNotRemoveTheManifestOfAnother) {
  FakeBucket bucket;
  const auto store = bucket.open();
  const Attempt attempt = store->begin("step", "nonce-1");
  bool written = false;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.method == "PUT" && request.path.ends_with("/manifest")) written = true;
    if (written && request.method == "HEAD" && request.path.ends_with(".lockstep-attempt")) {
      bucket.s3.objects.erase("run/step/nonce-1/.lockstep-attempt");
      bucket.s3.objects["run/step/manifest"] = {"of nonce-2", "\"2\"", ""};
    }
    return std::nullopt;
  };
  EXPECT_THROW(store->publish(attempt, "step", "manifest", "of nonce-1"), StorageError);
  EXPECT_EQ(bucket.s3.objects.at("run/step/manifest").bytes, "of nonce-2");
}

// The answer to its removal is lost, and somebody publishes anew before it is tried again.
TEST(ObjectStore, ARetriedRemoval_KeepsAManifestPublishedMeanwhile) {
  FakeBucket bucket;
  bucket.s3.objects["run/step/manifest"] = {"old", "\"old\"", ""};
  const auto store = bucket.open();
  bool lost = false;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.method != "DELETE" || lost) return std::nullopt;
    lost = true;
    bucket.s3.objects["run/step/manifest"] = {"new", "\"new\"", ""};
    return TestReply{.drop = true};
  };
  store->remove("step", "manifest", {});
  EXPECT_TRUE(lost);
  EXPECT_EQ(bucket.s3.objects.at("run/step/manifest").bytes, "new");
}

TEST(ObjectStore, ObjectOfAnotherWriter_IsNeitherOverwrittenNorRemoved) {
  for (const std::size_t bytes : {std::size_t{300}, std::size_t{3000}}) {
    FakeBucket bucket;
    const auto store = bucket.open();
    {
      auto writer = store->create("file");
      writer->write(bytes_of(random_text(bytes)));
      {
        const std::lock_guard lock(bucket.s3.mutex);
        bucket.s3.objects["run/file"] = {"another's", "\"1\"", "another"};
      }
      EXPECT_THAT(error_of<StorageError>([&] { writer->finish(); }), HasSubstr("it exists already"));
      EXPECT_THAT(error_of<StorageError>([&] { writer->write({}); }),
                  HasSubstr("an earlier write has failed"));
    }
    EXPECT_EQ(bucket.s3.objects.at("run/file").bytes, "another's");
    EXPECT_TRUE(bucket.s3.uploads.empty());
  }
}

TEST(ObjectStore, UnfinishedOrFailedWriter_LeavesNothing) {
  FakeBucket bucket;
  const auto store = bucket.open();
  { store->create("small")->write(bytes_of("abc")); }
  {
    auto writer = store->create("large");
    writer->write(bytes_of(random_text(5500)));
    bucket.s3.set_fault([](std::size_t, const TestRequest& request) {
      return request.method == "PUT" || request.method == "POST" ? Fault::kInternalError : Fault::kNone;
    });
    EXPECT_THROW(writer->finish(), StorageError);
  }
  EXPECT_TRUE(bucket.s3.objects.empty());
  EXPECT_TRUE(bucket.s3.uploads.empty());
}

// It was made, and nobody was told: who has not heard of it must not find it later.
TEST(ObjectStore, ObjectWhoseEveryAnswerWasLost_IsRemoved) {
  FakeBucket bucket;
  const auto store = bucket.open();
  for (const std::size_t bytes : {std::size_t{300}, std::size_t{3000}}) {
    {
      auto writer = store->create("file");
      writer->write(bytes_of(random_text(bytes)));
      int failures = 0;
      bucket.s3.set_fault([&](std::size_t, const TestRequest& request) {
        const bool last = request.header("if-none-match") == "*" || request.method == "HEAD";
        return last && ++failures <= 12 ? Fault::kDropAfter : Fault::kNone;
      });
      EXPECT_THROW(writer->finish(), StorageError);
      EXPECT_EQ(bucket.s3.objects.count("run/file"), 1u);
      bucket.s3.set_fault(nullptr);
    }
    EXPECT_TRUE(bucket.s3.objects.empty());
  }
}

TEST(ObjectStore, Upload_TakesBoundedMemory) {
  FakeBucket bucket;
  std::atomic<int> parts = 0, most = 0;
  TestHttpServer slow([&](const TestRequest& request) {
    const bool part = request.has("partNumber");
    if (part) most = std::max(most.load(), ++parts);
    if (part) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    TestReply reply = bucket.s3(request);
    if (part) --parts;
    return reply;
  });
  MapEnvironment environment(
      {{"AWS_ENDPOINT_URL", slow.url()}, {"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "B"}});
  S3Options options = bucket.options();
  options.environment = &environment;
  options.connections = 8;
  options.bytes_under_way = 3500;
  const auto store = open_object_store("s3://bucket", options);
  const std::string text = random_text(30'000);
  write_file(*store, "file", text, text.size());
  EXPECT_EQ(most, 3);
  EXPECT_EQ(read_whole(*store->open("file")), text);
}

TEST(ObjectStore, TruncatedReads_ContinueWhereTheyStopped) {
  FakeBucket bucket;
  const std::string text = random_text(1000);
  bucket.s3.objects["run/file"] = {text, "\"1\"", ""};
  const auto reader = bucket.open()->open("file");
  int stops = 4;
  bucket.s3.set_fault(
      [&](std::size_t, const TestRequest&) { return --stops >= 0 ? Fault::kStopShort : Fault::kNone; });
  EXPECT_EQ(read_whole(*reader), text);
  std::set<std::string> ranges;
  for (const TestRequest& request : bucket.s3.requests) {
    if (!request.header("range").empty()) ranges.insert(request.header("range"));
  }
  EXPECT_EQ(ranges.size(), 5u);
}

TEST(ObjectStore, ObjectReplacedWhileItIsRead_IsNoticed) {
  FakeBucket bucket;
  bucket.s3.objects["run/file"] = {random_text(1000), "\"1\"", ""};
  const auto reader = bucket.open()->open("file");
  read_range(*reader, 0, 10);
  bucket.s3.objects["run/file"] = {random_text(1000), "\"2\"", ""};
  EXPECT_THAT(error_of<StorageError>([&] { read_range(*reader, 0, 10); }), HasSubstr("has been replaced"));
}

TEST(ObjectStore, AnswersOfAnotherRange_AreErrors) {
  for (const char* range : {"", "bytes 1-10/1000", "bytes 0-9/1000"}) {
    FakeBucket bucket;
    bucket.s3.objects["run/file"] = {random_text(1000), "\"1\"", ""};
    const auto reader = bucket.open()->open("file");
    bucket.s3.instead = [&](const TestRequest&) -> std::optional<TestReply> {
      TestReply reply{.status = *range == 0 ? 200 : 206, .body = "0123456789"};
      if (*range != 0) reply.headers = {{"content-range", range}};
      return reply;
    };
    EXPECT_THROW(read_range(*reader, 100, 10), StorageError) << range;
  }
}

TEST(ObjectStore, OneFailedRange_EndsTheOthers) {
  FakeBucket bucket;
  bucket.s3.objects["run/file"] = {random_text(40'000), "\"1\"", ""};
  const auto reader = bucket.open()->open("file");
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.header("range").starts_with("bytes=8000-")) return FakeS3::error(403, "AccessDenied");
    return TestReply{.status = 206, .delay = std::chrono::seconds(30)};
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of<StorageError>([&] { read_whole(*reader); }), HasSubstr("AccessDenied"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(ObjectStore, RefusedRequests_AreExplainedWithoutTheSecret) {
  FakeBucket bucket;
  const auto store = bucket.open();
  struct Case {
    int status;
    const char *code, *explanation;
  };
  for (const Case& c :
       {Case{403, "AccessDenied", "they may not open this"}, Case{403, "SignatureDoesNotMatch", "secret"},
        Case{403, "InvalidAccessKeyId", "does not know this id"},
        Case{403, "RequestTimeTooSkewed", "clock of this machine"},
        Case{400, "ExpiredToken", "have expired"}}) {
    const std::size_t before = bucket.s3.requests.size();
    bucket.s3.instead = [&](const TestRequest&) { return FakeS3::error(c.status, c.code); };
    const std::string message = error_of<StorageError>([&] { store->list("folder"); });
    EXPECT_THAT(message, AllOf(HasSubstr("cannot list s3://bucket/run/folder/"),
                               HasSubstr(fmt::format("HTTP status {}, {}: This is", c.status, c.code)),
                               HasSubstr("request id REQUEST"), HasSubstr("tried"),
                               HasSubstr("credentials of the environment (access key id ending in 1234)")));
    EXPECT_THAT(message, AllOf(Not(HasSubstr("AKID")), Not(HasSubstr("nobody-tells"))));
    EXPECT_LE(bucket.s3.requests.size() - before, 2u) << "a refusal does not pass";
  }
  bucket.s3.instead = [&](const TestRequest&) { return FakeS3::error(403, "AccessDenied"); };
  EXPECT_THAT(error_of<StorageError>([&] { store->open("file"); }),
              HasSubstr("S3 gives no reason for this method"));
}

TEST(ObjectStore, BucketOfAnotherRegion_IsFoundAndRemembered) {
  for (const int status : {301, 400, 307}) {
    FakeBucket bucket;
    bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
      if (request.header("authorization").find("/eu-north-1/s3/") != std::string::npos) return std::nullopt;
      TestReply reply = FakeS3::error(status, "Elsewhere");
      if (status == 400) {
        reply.body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>";
      } else {
        reply.headers = {{"x-amz-bucket-region", "eu-north-1"}};
      }
      return reply;
    };
    const auto store = bucket.open();
    EXPECT_EQ(bucket.s3.requests.size(), 2u);
    EXPECT_FALSE(store->exists("file"));  // from now on at once
    EXPECT_EQ(bucket.s3.requests.size(), 3u);
    bucket.s3.instead = [&](const TestRequest&) {
      TestReply reply = FakeS3::error(301, "PermanentRedirect");
      reply.headers = {{"x-amz-bucket-region", fmt::format("region-{}", bucket.s3.requests.size())}};
      return reply;
    };
    EXPECT_THAT(error_of<StorageError>([&] { store->exists("file"); }), HasSubstr("The bucket is elsewhere"));
    EXPECT_EQ(bucket.s3.requests.size(), 5u);
  }
}

TEST(ObjectStore, AWrongClock_IsCorrectedByTheServersDate) {
  FakeBucket bucket;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.header("x-amz-date").starts_with("20300102T0304")) return std::nullopt;
    TestReply reply = FakeS3::error(403, "RequestTimeTooSkewed");
    reply.headers = {{"date", "Wed, 02 Jan 2030 03:04:05 GMT"}};
    return reply;
  };
  EXPECT_FALSE(bucket.open()->exists("file"));
}

TEST(ObjectStore, AWrongClock_IsCorrectedByTheDateOfARefusedHead) {
  // It is asked for by HEAD, whose answer has no reason.
  FakeBucket bucket;
  bucket.s3.objects["a"] = {.bytes = "text", .tag = "\"1\"", .writer = ""};
  bool refuses_all = false;
  bucket.s3.instead = [&](const TestRequest& request) -> std::optional<TestReply> {
    if (request.header("x-amz-date").starts_with("20300102T0304") && !refuses_all) return std::nullopt;
    TestReply reply{.status = 403};
    reply.headers = {{"date", "Wed, 02 Jan 2030 03:04:05 GMT"}};
    return reply;
  };
  EXPECT_EQ(read_whole(*open_object("s3://bucket/a", bucket.options())), "text");
  refuses_all = true;
  const std::size_t before = bucket.s3.requests.size();
  EXPECT_THAT(error_of<StorageError>([&] { open_object("s3://bucket/a", bucket.options()); }),
              HasSubstr("HTTP status 403"));
  EXPECT_EQ(bucket.s3.requests.size() - before, 2u) << "the clock is set once";
}

TEST(ObjectStore, RetryAfterOfTheServer_IsHonoredUpToTheLongestWait) {
  FakeBucket bucket;
  const auto store = bucket.open();
  int times = 1;
  bucket.s3.instead = [&](const TestRequest&) -> std::optional<TestReply> {
    if (--times < 0) return std::nullopt;
    TestReply reply = FakeS3::error(503, "SlowDown");
    reply.headers = {{"retry-after", "3600"}};
    return reply;
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(store->exists("file"));  // but not longer than the longest wait
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(RetryPolicy().wait_after(1, std::chrono::seconds(7)), std::chrono::seconds(7));
}

TEST(Retries, Waits_DoubleUpToTheirBound) {
  const RetryPolicy policy;
  for (int tried = 1; tried <= 100; ++tried) {
    const auto most = std::min<std::int64_t>(20'000, tried < 20 ? 200LL << (tried - 1) : 20'000);
    for (int i = 0; i < 50; ++i) {
      const auto wait = policy.wait_after(tried).count();
      EXPECT_LE(wait, most);
      EXPECT_GE(wait, most / 2);
    }
  }
}

TEST(ObjectStore, NumberOfTries_IsReadFromTheEnvironment) {
  FakeBucket bucket;
  MapEnvironment environment({{"AWS_ENDPOINT_URL_S3", bucket.server.url()},
                              {"AWS_ACCESS_KEY_ID", "A"},
                              {"AWS_SECRET_ACCESS_KEY", "B"},
                              {"AWS_MAX_ATTEMPTS", "2"}});
  bucket.s3.set_fault([](std::size_t, const TestRequest&) { return Fault::kInternalError; });
  S3Options options = bucket.options();
  options.environment = &environment;
  EXPECT_THAT(error_of<StorageError>([&] { open_object_store("s3://bucket/run", options); }),
              HasSubstr("tried 2 times"));
  EXPECT_EQ(bucket.s3.requests.size(), 2u);
  MapEnvironment wrong{std::map<std::string, std::string>{{"AWS_MAX_ATTEMPTS", "some"}}};
  options.environment = &wrong;
  EXPECT_THAT(error_of<StorageError>([&] { open_object_store("s3://bucket/run", options); }),
              HasSubstr("AWS_MAX_ATTEMPTS"));
}

TEST(ObjectStore, CertificatesOfTheEnvironment_AreTrusted) {
  const TestCertificate certificate;
  FakeS3 s3;
  TestHttpServer server([&](const TestRequest& request) { return s3(request); }, certificate.context());
  testing::TemporaryFolder folder;
  const std::string file = folder.path() / "ca.pem";
  std::ofstream(file) << certificate.pem();
  for (const char* variable : {"AWS_CA_BUNDLE", "SSL_CERT_FILE", "UNUSED"}) {
    MapEnvironment environment({{"AWS_ENDPOINT_URL_S3", server.url()},
                                {"AWS_ACCESS_KEY_ID", "A"},
                                {"AWS_SECRET_ACCESS_KEY", "B"},
                                {variable, file}});
    S3Options options;
    options.environment = &environment;
    if (std::string(variable) == "UNUSED") {
      EXPECT_THAT(error_of<StorageError>([&] { open_object_store("s3://bucket", options); }),
                  AllOf(HasSubstr("certificate"), HasSubstr("tried once")));
    } else {
      EXPECT_FALSE(open_object_store("s3://bucket", options)->exists("file"));
    }
  }
}

}  // namespace
}  // namespace lockstep::storage
