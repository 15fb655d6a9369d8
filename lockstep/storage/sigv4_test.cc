// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/sigv4.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/storage/store.h"
#include "lockstep/storage/uri.h"
#include "lockstep/storage/xml.h"

namespace lockstep::storage {
namespace {

struct Vector {
  const char* name;
  RequestToSign request;
  const char* signature;
  const char* signed_headers;
  const char* token = "";
};

std::string authorization(const RequestToSign& request, const SigningKeys& keys, const SigningScope& scope) {
  for (const auto& [name, value] : signature_headers(request, keys, scope)) {
    if (name == "authorization") return value;
  }
  return "";
}

std::chrono::system_clock::time_point at(std::time_t seconds) {
  return std::chrono::system_clock::from_time_t(seconds);
}

const std::string kEmpty = sha256_hex("");
const std::string kUnreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr const char* kToken =
    "AQoDYXdzEPT//////////"
    "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8"
    "YUuwthAx7mSEI/qkPpKPi/"
    "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6"
    "fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
    "scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQ"
    "wj2ICCR/oLxBA==";

// "Signature Version 4 test suite": keys and time are the same in all of them.
TEST(Signature, RequestsOfTheAwsTestSuite_HaveTheExpectedSignatures) {
  const Headers host = {{"Host", "example.amazonaws.com"}};
  auto with = [&](Headers more) {
    more.insert(more.begin(), host.begin(), host.end());
    return more;
  };
  const Vector vectors[] = {
      {"get-vanilla",
       {"GET", "/", {}, host, kEmpty},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
       "host;x-amz-date"},
      {"post-vanilla",
       {"POST", "/", {}, host, kEmpty},
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
       "host;x-amz-date"},
      {"post-vanilla-query",
       {"POST", "/", {{"Param1", "value1"}}, host, kEmpty},
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
       "host;x-amz-date"},
      {"get-vanilla-query-order-key-case",
       {"GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}, host, kEmpty},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
       "host;x-amz-date"},
      {"get-vanilla-query-order-value",
       {"GET", "/", {{"Param1", "value2"}, {"Param1", "value1"}}, host, kEmpty},
       "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
       "host;x-amz-date"},
      {"get-vanilla-query-unreserved",
       {"GET", "/", {{kUnreserved, kUnreserved}}, host, kEmpty},
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
       "host;x-amz-date"},
      {"get-vanilla-utf8-query",
       {"GET", "/", {{"\u1234", "bar"}}, host, kEmpty},
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
       "host;x-amz-date"},
      {"get-utf8",
       {"GET", uri_encode("/\u1234", true), {}, host, kEmpty},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
       "host;x-amz-date"},
      {"get-unreserved",
       {"GET", uri_encode("/" + kUnreserved, true), {}, host, kEmpty},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
       "host;x-amz-date"},
      {"get-header-value-trim",
       {"GET", "/", {}, with({{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}), kEmpty},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
       "host;my-header1;my-header2;x-amz-date"},
      {"get-header-value-order",
       {"GET",
        "/",
        {},
        with({{"My-Header1", "value4"},
              {"My-Header1", "value1"},
              {"My-Header1", "value3"},
              {"My-Header1", "value2"}}),
        kEmpty},
       "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
       "host;my-header1;x-amz-date"},
      {"post-header-value-case",
       {"POST", "/", {}, with({{"My-Header1", "VALUE1"}}), kEmpty},
       "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
       "host;my-header1;x-amz-date"},
      {"post-x-www-form-urlencoded",
       {"POST",
        "/",
        {},
        with({{"Content-Type", "application/x-www-form-urlencoded"}}),
        sha256_hex("Param1=value1")},
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
       "content-type;host;x-amz-date"},
      {"post-sts-header-before",
       {"POST", "/", {}, host, kEmpty},
       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
       "host;x-amz-date;x-amz-security-token",
       kToken},
  };
  for (const Vector& vector : vectors) {
    SCOPED_TRACE(vector.name);
    const SigningKeys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", vector.token};
    EXPECT_EQ(authorization(vector.request, keys, {"us-east-1", "service", at(1440938160)}),
              fmt::format("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                          "SignedHeaders={}, Signature={}",
                          vector.signed_headers, vector.signature));
  }
}

// The examples of S3's documentation, "Authenticating Requests: Using the Authorization Header".
TEST(Signature, ExamplesOfS3sDocumentation_HaveTheExpectedSignatures) {
  const std::string welcome = sha256_hex("Welcome to Amazon S3.");
  auto headers = [](const std::string& hash, Headers more) {
    more.emplace_back("x-amz-content-sha256", hash);
    more.emplace_back("host", "examplebucket.s3.amazonaws.com");
    return more;
  };
  const Vector vectors[] = {
      {"get object",
       {"GET", "/test.txt", {}, headers(kEmpty, {{"Range", "bytes=0-9"}}), kEmpty},
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
       ""},
      {"put object",
       {"PUT",
        uri_encode("/test$file.text", true),
        {},
        headers(welcome,
                {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}),
        welcome},
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
       ""},
      {"lifecycle",
       {"GET", "/", {{"lifecycle", ""}}, headers(kEmpty, {}), kEmpty},
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
       ""},
      {"list",
       {"GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, headers(kEmpty, {}), kEmpty},
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
       ""},
  };
  const SigningKeys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  for (const Vector& vector : vectors) {
    SCOPED_TRACE(vector.name);
    EXPECT_THAT(authorization(vector.request, keys, {"us-east-1", "s3", at(1369353600)}),
                ::testing::EndsWith(std::string("Signature=") + vector.signature));
  }
}

TEST(Uri, EncodedAndDecoded_IsUnchanged) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(uri_decode(uri_encode(all)), all);
  EXPECT_EQ(uri_decode(uri_encode(all, true)), all);
  EXPECT_EQ(uri_encode("a b/c+d=\u00e9"), "a%20b%2Fc%2Bd%3D%C3%A9");
  EXPECT_EQ(uri_encode("a b/c", true), "a%20b/c");
  EXPECT_EQ(uri_decode("100%+%2"), "100% %2");
}

TEST(Uri, Query_IsSortedByItsEncodedNames) {
  EXPECT_EQ(query_string({{"b", "2"}, {"a!", "x y"}, {"a", ""}, {"A", "/"}}), "A=%2F&a=&a%21=x%20y&b=2");
}

TEST(Xml, Answer_IsParsed) {
  const XmlElement root = parse_xml(
      "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- no -->\n<a:List xmlns=\"http://x/\" y='>'>"
      "<Key>a&amp;b &lt;&#233;&#x20AC;</Key><Empty/><C><![CDATA[<&>]]></C><D><Key>2</Key></D></a:List>\n");
  EXPECT_EQ(root.name, "List");
  EXPECT_EQ(root.text_of("Key"), "a&b <\u00e9\u20ac");
  ASSERT_NE(root.child("Empty"), nullptr);
  EXPECT_EQ(root.text_of("C"), "<&>");
  EXPECT_EQ(root.child("Missing"), nullptr);
  ASSERT_NE(root.find("D"), nullptr);
  EXPECT_EQ(root.find("D")->text_of("Key"), "2");
  EXPECT_EQ(parse_xml("<k>" + xml_escape("a&<b>]]>\"'") + "</k>").text, "a&<b>]]>\"'");
}

TEST(Xml, EveryCutAndEveryDamagedByte_ThrowsOrIsParsed) {
  const std::string text =
      "<?xml version=\"1.0\"?><List a=\"b\"><Key>a&amp;b</Key><E/><!-- c --><![CDATA[d]]></List>";
  EXPECT_NO_THROW(parse_xml(text));
  for (std::size_t end = 0; end < text.size(); ++end)
    EXPECT_THROW(parse_xml(text.substr(0, end)), StorageError) << text.substr(0, end);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (char c : {'<', '>', '&', '/', '"', ' ', '\0'}) {
      std::string damaged = text;
      damaged[i] = c;
      try {
        parse_xml(damaged);
      } catch (const StorageError&) {
      }
    }
  }
  EXPECT_THROW(parse_xml(""), StorageError);
  EXPECT_THROW(parse_xml("<a></b>"), StorageError);
  EXPECT_THROW(parse_xml("<a/><b/>"), StorageError);
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "<a>";
  EXPECT_THROW(parse_xml(deep), StorageError);
}

}  // namespace
}  // namespace lockstep::storage
