// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/host_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::cli {
namespace {

// Starts the agents of all hosts on paper: how often each was started, and over how many relays the farthest
// is reached.
struct Started {
  std::vector<int> times;
  int relays = 0;
  std::size_t most_commands = 0;  ///< of one process, besides its own host's agent

  Started(int hosts, int fan_out) : times(hosts) { reach(0, hosts, fan_out, 0); }

  void reach(int first, int count, int fan_out, int above) {
    const std::vector<HostGroup> groups = host_groups(first, count, fan_out);
    most_commands = std::max(most_commands, groups.size());
    for (const HostGroup& group : groups) {
      ++times[group.first];
      if (group.count == 1) continue;
      relays = std::max(relays, above + 1);
      reach(group.first + 1, group.count - 1, fan_out, above + 1);
    }
  }
};

TEST(HostGroups, UpToTheFanOut_EachHostIsReachedDirectly) {
  for (const int hosts : {0, 1, 31, 32}) {
    const std::vector<HostGroup> groups = host_groups(5, hosts, 32);
    ASSERT_EQ(groups.size(), static_cast<std::size_t>(hosts));
    for (int i = 0; i < hosts; ++i) {
      EXPECT_EQ(groups[i].first, 5 + i);
      EXPECT_EQ(groups[i].count, 1);
    }
  }
}

TEST(HostGroups, OneHostMoreThanTheFanOut_IsReachedOverARelay) {
  const std::vector<HostGroup> groups = host_groups(0, 33, 32);
  ASSERT_EQ(groups.size(), 32u);
  EXPECT_EQ(groups[0].count, 2);
  EXPECT_EQ(groups[1].first, 2);
  EXPECT_EQ(groups[31].count, 1);
}

TEST(HostGroups, EachHost_IsStartedOnce_AndNoProcessStartsMoreThanTheFanOut) {
  for (const int fan_out : {1, 2, 3, 32}) {
    for (const int hosts : {1, 2, 7, 15, 33, 100, 1000}) {
      const Started started(hosts, fan_out);
      EXPECT_TRUE(std::ranges::all_of(started.times, [](int times) { return times == 1; }));
      EXPECT_LE(started.most_commands, static_cast<std::size_t>(fan_out));
    }
  }
}

TEST(HostGroups, ManyHosts_AreReachedOverFewRelays) {
  EXPECT_EQ(Started(7, 2).relays, 2);
  EXPECT_EQ(Started(15, 2).relays, 3);
  EXPECT_EQ(Started(1024, kHostFanOut).relays, 1);
  EXPECT_EQ(Started(1056, kHostFanOut).relays, 1);
  EXPECT_EQ(Started(1057, kHostFanOut).relays, 2);
  EXPECT_EQ(Started(30000, kHostFanOut).relays, 2);
}

}  // namespace
}  // namespace lockstep::cli
