// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/socket_address.h"

#include <gtest/gtest.h>

namespace lockstep::collectives {
namespace {

TEST(SocketAddress, ValidTexts_AreReadAndWrittenUnchanged_OthersAreRefused) {
  for (const char* text : {"127.0.0.1:4711", "10.1.2.3:1", "[::1]:65535", "[2001:db8::7]:80"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->to_string(), text);
  }
  for (const char* text : {"", "-", "host", "host:80", "1.2.3.4", "1.2.3.4:http", "1.2.3.4.5:80", "[::1:80"})
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
}

}  // namespace
}  // namespace lockstep::collectives
