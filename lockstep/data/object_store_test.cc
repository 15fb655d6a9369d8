// SPDX-License-Identifier: Apache-2.0
// Data in an object store: read as from a folder, with the index in the cache folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/lines.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/test_files.h"
#include "lockstep/data/tokens.h"
#include "lockstep/storage/test_fake_s3.h"
#include "lockstep/storage/test_http_server.h"
#include "lockstep/testing/errors.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace test;

/// Sets variables of this process while it lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) : values_(values) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(DataInAnObjectStore, IsReadAsFromAFolder_AndItsIndexIsKeptInTheCacheFolder) {
  storage::FakeS3 bucket;
  storage::TestHttpServer server([&](const storage::TestRequest& request) { return bucket(request); });
  testing::TemporaryFolder folder, cache;
  const Variables variables({{"AWS_ENDPOINT_URL_S3", server.url()},
                             {"AWS_ACCESS_KEY_ID", "AKIDTHEFAKEONE1234"},
                             {"AWS_SECRET_ACCESS_KEY", "a-secret-that-nobody-tells"},
                             {"LOCKSTEP_DATA_CACHE", cache.path()}});
  const std::string record = le(std::uint32_t{3}) + "abc" + le(std::int64_t{4}),
                    shard = mds_shard({record, record});
  const std::map<std::string, std::string> files = {
      {"tokens.bin", les(std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6})},
      {"a.jsonl", "{\"a\": 1}\n\n{\"a\": 2}\n"},
      {"mds/a.mds", shard},
      {"mds/index.json",
       R"({"version": 2, "shards": [)" +
           mds_index_shard("a.mds", shard.size(), 2, R"("s", "i")", R"("str", "int")", "null, 8") + "]}"}};
  for (const auto& [name, bytes] : files) {
    write_file(folder.path() / name, bytes);
    bucket.objects["data/" + name] = {bytes, "\"tag\"", ""};
  }
  auto open = [](const std::string& at) {
    return std::vector<SourcePtr>{windows(tokens_u16(at + "/tokens.bin"), {.length = 3}),
                                  jsonl(at + "/a.jsonl"), mds(at + "/mds")};
  };
  const auto local = open(folder.path()), remote = open("s3://bucket/data");
  for (std::size_t i = 0; i < local.size(); ++i) {
    EXPECT_EQ(read_all(*remote[i]), read_all(*local[i]));
    EXPECT_EQ(remote[i]->fingerprint(), local[i]->fingerprint()) << "where a file lies does not matter";
    EXPECT_THAT(remote[i]->place(1), HasSubstr("s3://bucket/data/"));
  }
  EXPECT_FALSE(std::filesystem::is_empty(cache.path()));
  EXPECT_THAT(testing::error_of<DataError>([] { tokens_u16("s3://bucket/data/gone"); }),
              AllOf(HasSubstr("[tokens_u16] cannot open s3://bucket/data/gone")));
}

}  // namespace
}  // namespace lockstep::data
