#include "lockstep/collectives/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using ::testing::HasSubstr;

TEST(SocketAddress, IsReadAndWrittenAsOneText) {
  for (const char* text : {"127.0.0.1:4711", "10.1.2.3:1", "[::1]:65535", "[2001:db8::7]:80"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->to_string(), text);
  }
  for (const char* text : {"", "-", "host", "host:80", "1.2.3.4", "1.2.3.4:http", "1.2.3.4.5:80", "[::1:80"})
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
}

TEST(OwnAddress, IsTheFirstInterfacesThatHasOne) {
  EXPECT_EQ(own_address("lo", "").to_string(), "127.0.0.1:0");
  EXPECT_EQ(own_address("none0,lo", "").to_string(), "127.0.0.1:0");
  EXPECT_EQ(own_address("", "127.0.0.1:4000").to_string(), "127.0.0.1:0");
  try {
    own_address("none0,none1", "127.0.0.1:4000");
    FAIL() << "an interface that is not there was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of the network interfaces none0,none1 has an address"));
  }
}

}  // namespace
}  // namespace lockstep::collectives
