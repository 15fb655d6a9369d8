// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "lockstep/storage/test_store.h"
#include "lockstep/storage/test_tls.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::storage {
namespace {

using ::testing::HasSubstr;

std::string whole(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(Http, Request_ArrivesUnchanged) {
  TestRequest seen;
  TestHttpServer server([&](const TestRequest& request) {
    seen = request;
    return TestReply{.status = 201, .headers = {{"X-Some", " value "}}, .body = "answer"};
  });
  HttpClient client;
  const std::string body = random_text(3 << 20);
  for (const char* method : {"GET", "HEAD", "PUT", "POST", "DELETE"}) {
    SCOPED_TRACE(method);
    const bool sends = method[0] == 'P';
    HttpRequest request{.method = method,
                        .url = server.url() + "/a/../b%2Fc?x=%20",
                        .headers = {{"x-a", "1"}, {"x-empty", ""}}};
    if (sends) request.body = bytes_of(body);
    const HttpAnswer answer = client.send(request);
    EXPECT_EQ(answer.failure, "");
    EXPECT_EQ(answer.status, 201);
    EXPECT_EQ(answer.header("x-some"), "value");
    EXPECT_EQ(answer.body, std::string(method) == "HEAD" ? "" : "answer");
    EXPECT_EQ(seen.method, method);
    EXPECT_EQ(seen.target, "/a/../b%2Fc?x=%20");
    EXPECT_EQ(seen.header("x-a"), "1");
    EXPECT_EQ(seen.headers.count("x-empty"), 1u);
    EXPECT_EQ(seen.body == body, sends);
  }
  EXPECT_EQ(client.connections_made(), 1);
}

TEST(Http, Requests_OfSeveralThreads_ShareTheirConnections) {
  TestHttpServer server([](const TestRequest& request) {
    return TestReply{.body = request.target, .delay = std::chrono::milliseconds(10)};
  });
  HttpClient client;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 25; ++i) {
        const std::string target = fmt::format("/{}/{}", thread, i);
        EXPECT_EQ(client.send({.url = server.url() + target}).body, target);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(server.connections(), 4);
}

TEST(Http, Answer_IsWrittenToTheGivenMemory_AndNotBeyond) {
  int status = 206;
  TestHttpServer server(
      [&](const TestRequest&) { return TestReply{.status = status, .body = "0123456789"}; });
  HttpClient client;
  std::vector<std::byte> room(10);
  HttpAnswer answer = client.send({.url = server.url(), .into = room});
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.received, 10u);
  EXPECT_EQ(whole(room), "0123456789");
  answer = client.send({.url = server.url(), .into = std::span(room).first(9)});
  EXPECT_THAT(answer.failure, HasSubstr("more than the 9 bytes"));
  EXPECT_FALSE(answer.may_pass);
  status = 404;
  answer = client.send({.url = server.url(), .into = std::span(room).first(9)});
  EXPECT_EQ(answer.body, "0123456789");
  EXPECT_EQ(answer.received, 0u);
  answer = client.send({.url = server.url(), .largest_body = 9});
  EXPECT_THAT(answer.failure, HasSubstr("more than 9 bytes"));
}

TEST(Http, TruncatedAnswers_FailAndMayBeRetried) {
  const std::string body = random_text(1000);
  std::atomic<std::size_t> stops_after = 0;
  TestHttpServer server([&](const TestRequest&) {
    const std::size_t after = stops_after;
    return TestReply{.status = 206, .body = body, .drop = after == 0, .stops_after = after};
  });
  HttpClient client;
  std::vector<std::byte> room(1000);
  for (stops_after = 0; stops_after < 1040; stops_after += 3) {
    const HttpAnswer answer = client.send({.url = server.url(), .into = room});
    EXPECT_NE(answer.failure, "") << stops_after;
    EXPECT_TRUE(answer.may_pass && answer.was_sent && !answer.cancelled) << stops_after;
    EXPECT_EQ(whole(std::span(room).first(answer.received)), body.substr(0, answer.received));
  }
}

TEST(Http, UnreachableServer_FailsAndMayBeRetried) {
  int port = 0;
  {
    TestHttpServer server([](const TestRequest&) { return TestReply{}; });
    port = server.port();
  }
  HttpClient client;
  const HttpAnswer answer = client.send({.url = fmt::format("http://127.0.0.1:{}/", port)});
  EXPECT_THAT(answer.failure, HasSubstr("127.0.0.1"));
  EXPECT_TRUE(answer.may_pass);
  EXPECT_FALSE(answer.was_sent);
  EXPECT_FALSE(client.send({.url = "file:///etc/passwd"}).may_pass);
  EXPECT_EQ(client.send({.url = "file:///etc/passwd"}).body, "");
}

TEST(Http, SilentServer_FailsAfterTheTimeout) {
  TestHttpServer server([](const TestRequest&) { return TestReply{.delay = std::chrono::seconds(30)}; });
  HttpClient client;
  const auto begin = std::chrono::steady_clock::now();
  HttpAnswer answer = client.send({.url = server.url(), .stall_timeout = std::chrono::seconds(1)});
  EXPECT_TRUE(answer.may_pass && answer.was_sent);
  EXPECT_NE(answer.failure, "");
  answer = client.send({.url = server.url(), .whole_timeout = std::chrono::milliseconds(100)});
  EXPECT_TRUE(answer.may_pass);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Http, ACancelledRequest_EndsSoon) {
  TestHttpServer server([](const TestRequest&) { return TestReply{.delay = std::chrono::seconds(30)}; });
  HttpClient client;
  Cancellation cancellation;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancellation.cancel();
  });
  const auto begin = std::chrono::steady_clock::now();
  const HttpAnswer answer = client.send({.url = server.url(), .cancellation = &cancellation});
  EXPECT_TRUE(answer.cancelled);
  EXPECT_FALSE(answer.may_pass);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  canceller.join();
}

TEST(Http, CertificateOfAnUnknownAuthority_IsRefused) {
  const TestCertificate certificate;
  TestHttpServer server([](const TestRequest&) { return TestReply{.body = "secret"}; },
                        certificate.context());
  HttpClient strict;
  const HttpAnswer refused = strict.send({.url = server.url()});
  EXPECT_THAT(refused.failure, HasSubstr("certificate"));
  EXPECT_FALSE(refused.may_pass);
  EXPECT_EQ(refused.body, "");

  testing::TemporaryFolder folder;
  const std::string file = folder.path() / "ca.pem";
  std::ofstream(file) << certificate.pem();
  HttpClient trusting(file);
  const HttpAnswer answer = trusting.send({.url = server.url()});
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.body, "secret");
  // The certificate is 127.0.0.1's.
  EXPECT_NE(trusting.send({.url = fmt::format("https://localhost:{}/", server.port())}).failure, "");
}

// A signal for a closed connection would end the process: nothing in a test handles it.
TEST(Http, ConnectionsThatEndWhileBytesAreSent_FailWithoutASignal) {
  ASSERT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  const TestCertificate certificate;
  testing::TemporaryFolder folder;
  const std::string file = folder.path() / "ca.pem", body = random_text(8 << 20);
  std::ofstream(file) << certificate.pem();
  for (SSL_CTX* tls : {static_cast<SSL_CTX*>(nullptr), certificate.context()}) {
    TestHttpServer server([](const TestRequest&) { return TestReply{.drop = true}; }, tls);
    HttpClient client(file);
    for (int i = 0; i < 5; ++i) {
      EXPECT_NE(client.send({.method = "PUT", .url = server.url(), .body = bytes_of(body)}).failure, "");
    }
  }
}

}  // namespace
}  // namespace lockstep::storage
