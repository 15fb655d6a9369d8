// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/proof.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/processes.h"

namespace lockstep::coordination {
namespace {

TEST(AuthenticationCode, DependsOnTheSecretThePurposeAndTheBytes) {
  const std::string code = authentication_code("secret", "purpose", "bytes");
  EXPECT_EQ(code.size(), 32u);
  EXPECT_TRUE(same_code(code, authentication_code("secret", "purpose", "bytes")));
  for (const std::string& other :
       {authentication_code("another", "purpose", "bytes"), authentication_code("secret", "other", "bytes"),
        authentication_code("secret", "purpose", "more"), code.substr(1)})
    EXPECT_FALSE(same_code(code, other));
  EXPECT_FALSE(same_code("", "")) << "no code proves nothing";
}

/// Whether a process of the job, with this secret or none, comes in.
bool comes_in(const std::string& address, const std::string& secret, int process) {
  ClientOptions options;
  options.address = address;
  options.identity = {"job", 0, secret};
  options.process_id = process;
  options.num_processes = 2;
  options.initialization_timeout = std::chrono::seconds(3);
  try {
    auto client = make_grpc_client(options);
    client->connect();
    client->shutdown();
    return true;
  } catch (const Error&) {
    return false;
  }
}

LOCKSTEP_CHILD(keeps_a_coordinator_without_hmac) {
  EXPECT_THROW(authentication_code("secret", "purpose", "bytes"), Error);
  ServerOptions options;
  options.bind_address = "127.0.0.1:0";
  options.identity = {"job", 0, "the secret"};
  options.num_processes = 2;
  CoordinationServer server;
  try {
    server.start(options);
  } catch (const Error& error) {
    testing::say(error.what());
    return;
  }
  bool came[2];
  std::thread other([&] { came[1] = comes_in(server.address(), "", 1); });
  came[0] = comes_in(server.address(), "", 0);
  other.join();
  EXPECT_FALSE(came[0] || came[1]) << "without the secret";
  ADD_FAILURE() << "it serves, but can check nobody";
}

TEST(AuthenticationCode, WithoutHmacInOpenssl_NobodyIsLetIn) {
  const std::string configuration = ::testing::TempDir() + "/only-the-null-provider.cnf";
  std::ofstream(configuration) << "openssl_conf = i\n[i]\nproviders = p\n[p]\nnull = n\n[n]\nactivate = 1\n";
  const auto result = testing::run_processes(
      {.child = "keeps_a_coordinator_without_hmac", .env = {{"OPENSSL_CONF", configuration}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.log.find("[prove] OpenSSL cannot compute an HMAC with SHA-256"), std::string::npos)
      << result.log;
}

/// Main returns, or exit() is called, while other threads go on.
LOCKSTEP_CHILD(exits_while_others_sign) {
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      while (true) authentication_code("secret", "purpose", "bytes");
    }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::exit(0);
}

TEST(AuthenticationCode, ThreadsThatMakeItWhileAProcessExits_DoNotCrash) {
  for (const testing::ProcessResult& result :
       testing::run_processes({.count = 30, .child = "exits_while_others_sign"})) {
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, 0);
  }
}

}  // namespace
}  // namespace lockstep::coordination
