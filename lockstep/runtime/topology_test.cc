// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::runtime {
namespace {

/// Hosts one after the other, of so many processes with so many devices each.
std::vector<std::string> entries_of(int hosts, int processes, int devices) {
  std::vector<std::string> entries;
  for (int host = 0; host < hosts; ++host) {
    const std::string name = "node-" + std::to_string(1000 + host);
    for (int process = 0; process < processes; ++process) {
      ProcessEntry entry;
      entry.host = {name, packed_digest(name)};
      entry.shape = {"cpu", packed_digest("some machine"), {{"cpu", 0, devices}}};
      entry.pid = 4'000'000 + process;
      entry.incarnation = 0x1234'5678'9abc'def0u + static_cast<std::uint64_t>(host);
      entries.push_back(entry.encode());
    }
  }
  return entries;
}

TEST(Topology, Decoded_HasTheEntryOfEachProcess) {
  const Topology first(entries_of(3, 2, 4), "secret");
  const Topology read(first.encode(), 6);
  EXPECT_EQ(read.encode(), first.encode());
  EXPECT_EQ(read.meeting(), "secret");
  EXPECT_EQ(read.process_count(), 6);
  ASSERT_EQ(read.hosts().size(), 3u);
  for (int process = 0; process < 6; ++process) {
    EXPECT_EQ(read.host_of(process), process / 2);
    EXPECT_EQ(read.host(process).name, "node-" + std::to_string(1000 + process / 2));
    EXPECT_EQ(read.shape(process).device_count(), 4);
    EXPECT_EQ(read.shape(process).platform, "cpu");
    EXPECT_EQ(read.pid(process), 4'000'000 + process % 2);
    EXPECT_EQ(read.incarnation(process), 0x1234'5678'9abc'def0u + static_cast<std::uint64_t>(process / 2));
  }
}

TEST(Topology, ProcessesOfOneHost_NeedNotBeConsecutive) {
  std::vector<std::string> entries = entries_of(2, 1, 1), again = entries_of(2, 1, 2);
  entries.insert(entries.end(), again.begin(), again.end());
  const std::string encoded = Topology(entries, "").encode();
  const Topology read(encoded, 4);
  EXPECT_EQ(read.hosts().size(), 2u);
  EXPECT_EQ(read.host_of(2), 0);
  EXPECT_EQ(read.shape(1).device_count(), 1);
  EXPECT_EQ(read.shape(3).device_count(), 2);
}

TEST(Topology, HostsThatDifferOnlyInTheirAddresses_AreDifferent) {
  const auto hosts = [](const std::vector<std::vector<std::string>>& addresses) {
    std::vector<std::string> entries;
    for (const std::vector<std::string>& each : addresses) {
      ProcessEntry entry;
      entry.host = {"clone", packed_digest("one kernel, network and name")};
      entry.addresses = each;
      entries.push_back(entry.encode());
    }
    const Topology topology(entries, "");
    std::vector<int> hosts;
    for (int process = 0; process < topology.process_count(); ++process) {
      hosts.push_back(topology.host_of(process));
      EXPECT_EQ(topology.host(process).name, "clone");
      for (int other = 0; other < process; ++other)
        EXPECT_EQ(topology.host(process).identity == topology.host(other).identity,
                  topology.host_of(process) == topology.host_of(other));
    }
    return hosts;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(hosts({{"eth0 1", "docker"}, {"eth0 2", "docker"}, {"docker", "eth0 1"}, {"eth0 3"}}),
              ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(hosts({{"eth0 1"}, {"eth0 1", "eth1 1"}, {"eth0 1"}}), ElementsAre(0, 0, 0))
      << "one host, which gets another address meanwhile";
  EXPECT_THAT(hosts({{}, {}, {"eth0 1"}}), ElementsAre(0, 0, 0)) << "without a network";
}

TEST(Topology, TakesAFewBytesForEachProcess) {
  const int hosts = 1250, processes = 8;
  const std::string encoded = Topology(entries_of(hosts, processes, 4), "meeting").encode();
  EXPECT_LT(encoded.size(), static_cast<std::size_t>(40 * hosts + 13 * hosts * processes));
  EXPECT_EQ(Topology(encoded, hosts * processes).process_count(), hosts * processes);
}

TEST(Topology, InvalidBytes_AreRefused) {
  EXPECT_THROW(Topology({"no entry"}, ""), InitializationError);
  EXPECT_THROW(Topology("no topology", 1), InitializationError);
  const std::string encoded = Topology(entries_of(2, 2, 1), "").encode();
  EXPECT_THROW(Topology(encoded, 3), InitializationError);
  EXPECT_THROW(Topology(encoded, 5), InitializationError);
  EXPECT_THROW(Topology(encoded.substr(0, encoded.size() / 2), 4), InitializationError);
}

}  // namespace
}  // namespace lockstep::runtime
