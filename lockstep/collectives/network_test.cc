#include "lockstep/collectives/network.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

/// A connection that cannot be made is an error for its caller, and nothing for the others.
TEST(Mailbox, ConnectsAfterAnAddressThatIsNone) {
  const auto network = Network::open("lo", "");
  const auto to = Mailbox::open(network), from = Mailbox::open(network);
  EXPECT_THROW(from->connect(std::string(200, '\0')), Error);
  const int endpoint = from->connect(to->address());
  EXPECT_EQ(from->broken(endpoint), nullptr);
  EXPECT_NE(from->broken(endpoint - 1), nullptr);
  char heard[4] = "";
  Transfer receives = to->receive(7, heard, sizeof heard),
           sends = from->send(endpoint, 7, "yes", sizeof heard);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!(to->finished(receives) && from->finished(sends)) && std::chrono::steady_clock::now() < end) {
    from->progress();
    to->progress();
  }
  EXPECT_STREQ(heard, "yes");
}

}  // namespace
}  // namespace lockstep::collectives
