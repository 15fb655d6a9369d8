// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "lockstep/storage/credential_sources.h"
#include "lockstep/storage/object_store.h"
#include "lockstep/storage/test_http_server.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

/// A machine with a home and a server that stands for all services that give credentials.
class Machine {
 public:
  Machine() {
    std::filesystem::create_directory(home.path() / ".aws");
    variables = {{"HOME", home.path()}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  }

  void file(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string path(const std::string& name) const { return home.path() / ".aws" / name; }

  /// Looks for credentials with the variables and files of now.
  Credentials find() {
    make();
    return chain->get();
  }
  std::string error() {
    return error_of<StorageError>([&] { find(); });
  }

  void make() {
    chain.reset();
    environment = std::make_unique<MapEnvironment>(variables);
    config = std::make_unique<AwsConfig>(*environment);
    CredentialPlaces places{.environment = environment.get(), .config = config.get(), .http = &http};
    places.now = [this] { return now; };
    places.container_server = server.url();
    places.retries = {.tries = 3, .first_wait = std::chrono::milliseconds(1)};
    chain = std::make_unique<CredentialChain>(places);
  }

  testing::TemporaryFolder home;
  Variables variables;
  std::chrono::system_clock::time_point now = parse_time("2026-11-22T12:00:00Z");
  std::function<TestReply(const TestRequest&)> answer;
  std::vector<TestRequest> requests;
  TestHttpServer server{[this](const TestRequest& request) {
    requests.push_back(request);
    return answer ? answer(request) : TestReply{.status = 404};
  }};
  HttpClient http;
  std::unique_ptr<MapEnvironment> environment;
  std::unique_ptr<AwsConfig> config;
  std::unique_ptr<CredentialChain> chain;
};

std::string json(const std::string& id, const std::string& expires = "2026-11-22T18:00:00Z",
                 const char* token = "Token") {
  return fmt::format(
      R"({{"Code":"Success","Version":1,"AccessKeyId":"{}","SecretAccessKey":"secret-of-{}","{}":"token-of-{}","Expiration":"{}"}})",
      id, id, token, id, expires);
}

std::string sts(const std::string& id) {
  return fmt::format(
      "<R xmlns=\"x\"><Result><Credentials><AccessKeyId>{}</AccessKeyId><SecretAccessKey>secret-of-{}"
      "</SecretAccessKey><SessionToken>token-of-{}</SessionToken><Expiration>2026-11-22T18:00:00Z"
      "</Expiration></Credentials></Result></R>",
      id, id, id);
}

void expect_temporary(const Credentials& found, const std::string& id) {
  EXPECT_EQ(found.keys.access_key_id, id);
  EXPECT_EQ(found.keys.secret_access_key, "secret-of-" + id);
  EXPECT_EQ(found.keys.session_token, "token-of-" + id);
}

TEST(Credentials, FromTheEnvironment_ComeFirst) {
  Machine machine;
  machine.file("credentials", "[default]\naws_access_key_id = B\naws_secret_access_key = C\n");
  machine.variables["AWS_ACCESS_KEY_ID"] = "AKIDENVIRONMENT";
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_EQ(machine.find().keys.session_token, "");
  machine.variables["AWS_SESSION_TOKEN"] = "token";
  const Credentials found = machine.find();
  EXPECT_EQ(found.keys.access_key_id, "AKIDENVIRONMENT");
  EXPECT_EQ(found.keys.session_token, "token");
  EXPECT_EQ(found.described(), "credentials of the environment (access key id ending in MENT)");
  machine.variables["AWS_SECRET_ACCESS_KEY"] = "";  // as if it was not set
  EXPECT_THAT(machine.error(), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  machine.variables["AWS_ACCESS_KEY_ID"] = "";
  EXPECT_EQ(machine.find().keys.access_key_id, "B");
}

TEST(Credentials, FromProfiles_AreReadAsByTheAwsTools) {
  Machine machine;
  machine.file("credentials",
               "# a comment\n[default]\naws_access_key_id=D1\naws_secret_access_key = s1\n\n"
               "[two words]\naws_access_key_id = D2 ; a comment\naws_secret_access_key = "
               "a=b#c\naws_session_token = t\r\n"
               "[half]\naws_access_key_id = D3\n");
  machine.file(
      "config",
      "[default]\nregion = eu-west-1\n[profile \"two words\"]\nregion = eu-west-2\naws_access_key_id = not "
      "this\n"
      "[profile conf]\naws_access_key_id = D4\naws_secret_access_key = s4\nservices = mine\n"
      "[profile empty]\nregion = r\n[profile login]\nsso_session = x\n[sso-session x]\nsso_region = r\n"
      "[services mine]\ns3 =\n  endpoint_url = http://s3.mine\n  other = 1\nsts =\n  endpoint_url = "
      "http://sts.mine\n");
  EXPECT_EQ(machine.find().keys.access_key_id, "D1");
  EXPECT_EQ(s3_region(*machine.environment, *machine.config), "eu-west-1");
  machine.variables["AWS_PROFILE"] = "two words";
  const Credentials found = machine.find();
  EXPECT_EQ(found.keys.access_key_id, "D2");
  EXPECT_EQ(found.keys.secret_access_key, "a=b#c");
  EXPECT_EQ(found.keys.session_token, "t");
  EXPECT_EQ(s3_region(*machine.environment, *machine.config), "eu-west-2");
  EXPECT_THAT(found.described(),
              AllOf(HasSubstr("profile two words of " + machine.path("credentials")), Not(HasSubstr("D2"))));
  machine.variables["AWS_PROFILE"] = "conf";
  EXPECT_EQ(machine.find().keys.access_key_id, "D4");
  EXPECT_EQ(machine.config->endpoint_of("s3"), "http://s3.mine");
  EXPECT_EQ(machine.config->endpoint_of("sts"), "http://sts.mine");
  machine.variables["AWS_PROFILE"] = "half";
  EXPECT_THAT(machine.error(), HasSubstr("without aws_secret_access_key"));
  machine.variables["AWS_PROFILE"] = "empty";
  EXPECT_THAT(machine.error(),
              HasSubstr("profile empty of " + machine.path("config") + " has no credentials"));
  machine.variables["AWS_PROFILE"] = "login";
  EXPECT_THAT(machine.error(), HasSubstr("credential_process"));
  machine.variables["AWS_PROFILE"] = "missing";
  EXPECT_THAT(machine.error(),
              HasSubstr("there is no AWS profile missing in " + machine.path("credentials")));
  machine.variables.erase("AWS_PROFILE");
  machine.variables["AWS_SHARED_CREDENTIALS_FILE"] = machine.path("other");
  machine.file("other", "[default]\naws_access_key_id = D5\naws_secret_access_key = s5\n");
  EXPECT_EQ(machine.find().keys.access_key_id, "D5");
}

TEST(Credentials, InvalidFiles_AreErrorsThatNameTheLine) {
  Machine machine;
  for (const char* text : {"[default]\nx\n", "[default\nx = 1\n", "\nx = 1\n"}) {
    machine.file("config", text);
    EXPECT_THAT(machine.error(), HasSubstr(machine.path("config") + ":")) << text;
  }
}

TEST(Credentials, FromACredentialProcess_AreUsed_OrItsFailureIsReported) {
  Machine machine;
  machine.file("output", json("P1", "2026-11-22T18:00:00Z", "SessionToken"));
  auto with = [&](const std::string& command) {
    machine.file("config", "[default]\ncredential_process = " + command + "\n");
  };
  with("cat \"" + machine.path("output") + "\"");
  const Credentials found = machine.find();
  expect_temporary(found, "P1");
  ASSERT_TRUE(found.expires.has_value());
  EXPECT_EQ(*found.expires - machine.now, std::chrono::hours(6));
  with("echo no secret; exit 3");
  EXPECT_THAT(machine.error(), HasSubstr("ended with status 3"));
  with("kill -9 $$");
  EXPECT_THAT(machine.error(), HasSubstr("ended with signal 9"));
  with("echo '{\"AccessKeyId\":\"P\",\"SecretAccessKey\":5,\"x\":\"told\"}'");
  EXPECT_THAT(machine.error(), AllOf(HasSubstr("not JSON with AccessKeyId"), Not(HasSubstr("told"))));
  with("yes | head -c 3000000");
  EXPECT_THAT(machine.error(), HasSubstr("more than 1 MiB"));
}

TEST(Credentials, FromAWebIdentity_AreThoseThatStsReturns) {
  Machine machine;
  machine.file("token", "web-token\n");
  machine.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = machine.path("token");
  EXPECT_THAT(machine.error(), HasSubstr("AWS_ROLE_ARN is not"));
  machine.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  machine.variables["AWS_ENDPOINT_URL_STS"] = machine.server.url();
  int failures = 2;
  machine.answer = [&](const TestRequest&) {
    return --failures >= 0 ? TestReply{.status = 500} : TestReply{.body = sts("W1")};
  };
  expect_temporary(machine.find(), "W1");
  ASSERT_EQ(machine.requests.size(), 3u);
  EXPECT_EQ(
      machine.requests[2].body,
      "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=lockstep&"
      "Version=2011-06-15&WebIdentityToken=web-token");
  EXPECT_EQ(machine.requests[2].header("authorization"), "");
  machine.answer = [](const TestRequest&) {
    return TestReply{.status = 400,
                     .body =
                         "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>No.</Message></"
                         "Error></ErrorResponse>"};
  };
  EXPECT_THAT(machine.error(), AllOf(HasSubstr("InvalidIdentityToken: No."), Not(HasSubstr("web-token"))));
  machine.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = machine.path("gone");
  EXPECT_THAT(machine.error(), HasSubstr(machine.path("gone")));
}

TEST(Credentials, FromARole_AreRequestedWithItsSourcesCredentials) {
  Machine machine;
  machine.variables["AWS_ENDPOINT_URL_STS"] = machine.server.url();
  machine.variables["AWS_REGION"] = "eu-west-1";
  machine.file("credentials",
               "[base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = s\n"
               "[self]\naws_access_key_id = AKIDSELF\naws_secret_access_key = s\n");
  machine.file("config",
               "[default]\nrole_arn = arn:r1\nsource_profile = middle\nexternal_id = e\n"
               "[profile middle]\nrole_arn = arn:r2\nsource_profile = base\n"
               "[profile self]\nrole_arn = arn:r3\nsource_profile = self\n"
               "[profile place]\nrole_arn = arn:r4\ncredential_source = Environment\n"
               "[profile ring]\nrole_arn = arn:r5\nsource_profile = ring2\n[profile ring2]\nrole_arn = "
               "arn:r6\nsource_profile = ring\n"
               "[profile code]\nrole_arn = arn:r7\nmfa_serial = x\nsource_profile = base\n"
               "[profile alone]\nrole_arn = arn:r8\n");
  machine.answer = [](const TestRequest& request) {
    return TestReply{
        .body = sts(request.body.find("RoleArn=arn%3Ar2&") != std::string::npos ? "MIDDLE" : "FINAL")};
  };
  expect_temporary(machine.find(), "FINAL");
  ASSERT_EQ(machine.requests.size(), 2u);
  EXPECT_THAT(machine.requests[0].header("authorization"),
              HasSubstr("Credential=AKIDBASE/20261122/eu-west-1/sts/"));
  EXPECT_THAT(machine.requests[1].header("authorization"), HasSubstr("Credential=MIDDLE/"));
  EXPECT_EQ(machine.requests[1].header("x-amz-security-token"), "token-of-MIDDLE");
  EXPECT_THAT(machine.requests[1].body, HasSubstr("ExternalId=e"));
  machine.variables["AWS_PROFILE"] = "self";
  expect_temporary(machine.find(), "FINAL");
  EXPECT_THAT(machine.requests.back().header("authorization"), HasSubstr("Credential=AKIDSELF/"));
  for (const auto& [profile, message] : Variables{{"ring", "leads back"},
                                                  {"code", "mfa_serial"},
                                                  {"alone", "neither source_profile"},
                                                  {"place", "gives no credentials"}}) {
    machine.variables["AWS_PROFILE"] = profile;
    EXPECT_THAT(machine.error(), HasSubstr(message)) << profile;
  }
}

TEST(Credentials, FromAContainer_AreThoseOfItsService) {
  Machine machine;
  machine.answer = [](const TestRequest&) { return TestReply{.body = json("C1")}; };
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/creds?id=1";
  expect_temporary(machine.find(), "C1");
  EXPECT_EQ(machine.requests.back().target, "/v2/creds?id=1");
  machine.variables.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  machine.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = machine.server.url() + "/full";
  machine.file("token", "container-token");
  machine.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = machine.path("token");
  expect_temporary(machine.find(), "C1");
  EXPECT_EQ(machine.requests.back().header("authorization"), "container-token");
  machine.answer = [](const TestRequest&) { return TestReply{.status = 403, .body = "not you"}; };
  EXPECT_THAT(machine.error(),
              AllOf(HasSubstr("403"), HasSubstr("not you"), Not(HasSubstr("container-token"))));
  for (const char* url : {"http://example.com/x", "http://127.0.0.1@example.com/x", "file:///x"}) {
    machine.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    EXPECT_THAT(machine.error(), HasSubstr("an address with https, or one of this machine")) << url;
  }
}

TEST(Credentials, FromAnInstance_AreThoseOfItsRole) {
  Machine machine;
  machine.variables.erase("AWS_EC2_METADATA_DISABLED");
  machine.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = machine.server.url() + "/";
  machine.answer = [](const TestRequest& request) {
    if (request.method == "PUT" && request.path == "/latest/api/token" &&
        !request.header("x-aws-ec2-metadata-token-ttl-seconds").empty())
      return TestReply{.body = "imds"};
    if (request.header("x-aws-ec2-metadata-token") != "imds") return TestReply{.status = 401};
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    if (request.path == roles) return TestReply{.body = "trainer\n"};
    return request.path == roles + "trainer" ? TestReply{.body = json("I1")} : TestReply{.status = 404};
  };
  const Credentials found = machine.find();
  expect_temporary(found, "I1");
  EXPECT_EQ(found.source, "the role trainer of this machine");
}

TEST(Credentials, FoundNowhere_AreAnErrorThatNamesTheSources) {
  Machine machine;
  EXPECT_THAT(
      machine.error(),
      AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr(machine.path("credentials")),
            HasSubstr(machine.path("config")), HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE"),
            HasSubstr("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), HasSubstr("AWS_EC2_METADATA_DISABLED")));
  machine.variables.erase("AWS_EC2_METADATA_DISABLED");
  machine.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = machine.server.url();
  EXPECT_THAT(machine.error(), HasSubstr(machine.server.url() + " answers with HTTP status 404"));
}

TEST(Credentials, ThatExpire_AreFetchedAgainBeforeTheyDo) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/";
  int fetched = 0;
  bool down = false;
  machine.answer = [&](const TestRequest&) {
    if (down) return TestReply{.status = 500};
    ++fetched;
    return TestReply{
        .body = json(fmt::format("C{}", fetched), fmt::format("2026-11-22T{}:00:00Z", 12 + fetched))};
  };
  machine.make();
  const auto start = machine.now;
  auto id_after = [&](std::chrono::minutes time) {
    machine.now = start + time;
    return machine.chain->get().keys.access_key_id;
  };
  using std::chrono::minutes;
  EXPECT_EQ(id_after(minutes(0)), "C1");
  EXPECT_EQ(id_after(minutes(54)), "C1");
  EXPECT_EQ(fetched, 1);
  EXPECT_EQ(id_after(minutes(56)), "C2");
  down = true;  // kept as long as they last
  EXPECT_EQ(id_after(minutes(116)), "C2");
  const std::size_t asked = machine.requests.size();
  EXPECT_EQ(id_after(minutes(116)), "C2");
  EXPECT_EQ(machine.requests.size(), asked) << "not asked at every request";
  EXPECT_THAT(error_of<StorageError>([&] { id_after(minutes(121)); }), HasSubstr("HTTP status 500"));
  down = false;
  EXPECT_EQ(id_after(minutes(121)), "C3");
  machine.chain->refused(machine.chain->get());
  EXPECT_EQ(id_after(minutes(122)), "C4");
}

TEST(Credentials, AskedForByManyThreads_AreFetchedOnce) {
  Machine machine;
  machine.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/";
  machine.answer = [](const TestRequest&) {
    return TestReply{.body = json("C1"), .delay = std::chrono::milliseconds(50)};
  };
  machine.make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { expect_temporary(machine.chain->get(), "C1"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(machine.requests.size(), 1u);
}

TEST(Credentials, Times_AreParsed) {
  const auto time = parse_time("2026-11-22T12:00:00Z");
  EXPECT_EQ(std::chrono::system_clock::to_time_t(time), 1795348800);
  EXPECT_EQ(parse_time("2026-11-22T12:00:00.123Z"), time);
  EXPECT_EQ(parse_time("2026-11-22T14:00:00+02:00"), time);
  EXPECT_EQ(parse_time("2026-11-22T04:30:00-07:30"), time);
  for (const char* text : {"", "tomorrow", "2026-11-22", "2026-11-22T12:00:00", "2026-11-22T12:00:00X"})
    EXPECT_THROW(parse_time(text), StorageError) << text;
}

}  // namespace
}  // namespace lockstep::storage
