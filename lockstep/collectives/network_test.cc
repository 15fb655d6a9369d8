#include "lockstep/collectives/network.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

constexpr std::uint64_t kTag = 7;
constexpr std::size_t kMost = 1000;

/// All that comes with the tag until one of it is `last`.
std::vector<std::string> take_until(Mailbox& from, Mailbox& to, const std::string& last) {
  std::vector<std::string> taken;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    from.progress();
    to.progress();
    if (auto message = to.take(kTag, kMost)) taken.push_back(*message);
    if (!taken.empty() && taken.back() == last) break;
  }
  return taken;
}

/// What a stranger on the network can send must not make a process allocate what he likes.
TEST(Mailbox, DropsMessagesThatAreLongerThanTheyMayBe) {
  const auto network = Network::open("lo", "");
  const auto to = Mailbox::open(network), from = Mailbox::open(network);
  const int endpoint = from->connect(to->address());
  const std::string longest(kMost, 'l'), longer(kMost + 1, 'x'), long_beyond_measure(64 << 20, 'y'),
      last = "last";
  std::vector<Transfer> transfers;
  for (const std::string* text : {&longest, &longer, &long_beyond_measure, &last})
    transfers.push_back(from->send(endpoint, kTag, text->data(), text->size()));
  EXPECT_EQ(take_until(*from, *to, last), (std::vector<std::string>{longest, last}));
  for (Transfer& transfer : transfers) {
    while (!from->finished(transfer)) {
      from->progress();
      to->progress();
    }
  }
}

/// A connection that cannot be made is an error for its caller, and nothing for the others.
TEST(Mailbox, ConnectsAfterAnAddressThatIsNone) {
  const auto network = Network::open("lo", "");
  const auto to = Mailbox::open(network), from = Mailbox::open(network);
  EXPECT_THROW(from->connect(std::string(200, '\0')), Error);
  const int endpoint = from->connect(to->address());
  EXPECT_EQ(from->broken(endpoint), nullptr);
  EXPECT_NE(from->broken(endpoint - 1), nullptr);
  Transfer transfer = from->send(endpoint, kTag, "last", 4);
  EXPECT_EQ(take_until(*from, *to, "last"), std::vector<std::string>{"last"});
  EXPECT_TRUE(from->finished(transfer));
}

}  // namespace
}  // namespace lockstep::collectives
