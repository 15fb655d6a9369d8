// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/proof.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lockstep/testing/processes.h"

namespace lockstep::coordination {
namespace {

TEST(AuthenticationCode, IsOneOfTheSecretThePurposeAndTheBytes) {
  const std::string code = authentication_code("secret", "purpose", "bytes");
  EXPECT_EQ(code.size(), 32u);
  EXPECT_TRUE(same_code(code, authentication_code("secret", "purpose", "bytes")));
  for (const std::string& other :
       {authentication_code("another", "purpose", "bytes"), authentication_code("secret", "other", "bytes"),
        authentication_code("secret", "purpose", "more"), code.substr(1)})
    EXPECT_FALSE(same_code(code, other));
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

TEST(AuthenticationCode, IsStillMadeByOtherThreadsWhileAProcessExits) {
  for (const testing::ProcessResult& result :
       testing::run_processes({.count = 30, .child = "exits_while_others_sign"})) {
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, 0);
  }
}

}  // namespace
}  // namespace lockstep::coordination
