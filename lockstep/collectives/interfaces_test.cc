// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(OwnAddress, IsThatOfTheFirstNamedInterfaceThatHasOne) {
  EXPECT_EQ(own_address("lo", "").to_string(), "127.0.0.1:0");
  EXPECT_EQ(own_address("none0,lo", "").to_string(), "127.0.0.1:0");
  try {
    own_address("none0,none1", "127.0.0.1:4000");
    FAIL() << "an interface that is not there was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of the network interfaces none0,none1 has an address"));
  }
}

TEST(OwnAddress, IsNotTheLoopback_UnlessTheUserNamedIt) {
  for (const char* coordinator : {"127.0.0.1:4000", "127.0.1.1:4000", "[::1]:4000", "localhost:4000", ""}) {
    try {
      const std::string own = own_address("", coordinator).to_string();
      EXPECT_FALSE(own.starts_with("127.") || own.starts_with("[::1]")) << own << " towards " << coordinator;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AnyOf(HasSubstr("LOCKSTEP_INTERFACE"), HasSubstr("no network interface")));
    }
  }
}

TEST(HostAddresses, AreTheSameInEachCall_WithoutTheLoopback) {
  const std::vector<std::string> addresses = host_addresses();
  EXPECT_EQ(host_addresses(), addresses);
  EXPECT_LE(addresses.size(), 8u);
  for (const std::string& address : addresses) {
    EXPECT_TRUE(address.size() == 4 || address.size() == 16) << address.size();
    EXPECT_FALSE(address.size() == 4 && address.starts_with('\x7f'));
  }
}

TEST(ChooseInterface, TakesTheRouteToOtherHosts_OrTheOnlyInterface_OrNone) {
  struct Case {
    InterfacesSeen seen;
    const char* chosen;  ///< Null: none.
  };
  const std::vector<std::string> two = {"eth0", "docker0"};
  for (const auto& [seen, chosen] : std::vector<Case>{
           {{"eth0", "docker0", two}, "eth0"},
           {{"docker0", "eth0", two}, "docker0"},
           {{"lo", "eth0", two}, "eth0"},
           {{"", "eth0", two}, "eth0"},
           {{"lo", "", {"ib0"}}, "ib0"},
           {{"", "", {"ib0"}}, "ib0"},
           {{"lo", "lo", {"ib0"}}, "ib0"},
           {{"lo", "", two}, nullptr},
           {{"lo", "lo", two}, nullptr},
           {{"", "", two}, nullptr},
           {{"lo", "", {}}, nullptr},
           {{"", "", {}}, nullptr},
       }) {
    const std::string what = seen.towards_coordinator + "/" + seen.default_route;
    try {
      const std::string name = choose_interface(seen);
      ASSERT_NE(chosen, nullptr) << what << " gave " << name;
      EXPECT_EQ(name, chosen) << what;
    } catch (const Error& error) {
      EXPECT_EQ(chosen, nullptr) << what;
      if (seen.with_addresses.empty()) {
        EXPECT_THAT(error.what(), HasSubstr("no network interface with an address"));
      } else {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("eth0, docker0"), HasSubstr("LOCKSTEP_INTERFACE")));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
