// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep::cli {

void PrintTo(const HostSlots& host, std::ostream* out) {
  *out << host.host << ':' << host.slots.value_or(-1);
}
void PrintTo(const Placement& place, std::ostream* out) {
  *out << place.host << ' ' << place.first << '+' << place.count;
}
bool operator==(const HostSlots& a, const HostSlots& b) { return a.host == b.host && a.slots == b.slots; }
bool operator==(const Placement& a, const Placement& b) {
  return a.host == b.host && a.first == b.first && a.count == b.count;
}

namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(Hosts, AreReadWithAndWithoutSlotCounts) {
  EXPECT_THAT(parse_hosts("a:2,b,user@c:16"),
              ElementsAre(HostSlots{"a", 2}, HostSlots{"b", {}}, HostSlots{"user@c", 16}));
  EXPECT_THAT(parse_hosts("[fe80::1]:3,user@[::1]"),
              ElementsAre(HostSlots{"fe80::1", 3}, HostSlots{"user@::1", {}}));
}

TEST(Hosts, RangesOfNames_AreExpandedAsInSlurm) {
  EXPECT_THAT(parse_hosts("node[01-02]:2"), ElementsAre(HostSlots{"node01", 2}, HostSlots{"node02", 2}));
  EXPECT_THAT(parse_hosts("user@n[8-9,12]-ib:4,b"),
              ElementsAre(HostSlots{"user@n8-ib", 4}, HostSlots{"user@n9-ib", 4}, HostSlots{"user@n12-ib", 4},
                          HostSlots{"b", {}}));
  EXPECT_THAT(parse_hostfile("n[1-2] slots=4\nn2:1\n", "file"),
              ElementsAre(HostSlots{"n1", 4}, HostSlots{"n2", 5}));
  EXPECT_THAT(error_of<Error>([] { parse_hosts("n[2-1]:2"); }), HasSubstr("'n[2-1]:2'"));
  EXPECT_THAT(error_of<Error>([] { parse_hosts("n[1-65536],m[1-2]"); }), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(error_of<Error>([] { parse_hostfile("n[1-1000000] slots=2\nn1\n", "file"); }),
              HasSubstr("more than 65536 hosts"));
}

TEST(Hosts, AnInvalidHost_IsNamedInTheError) {
  for (const char* part : {"b:", "b:0", "b:x", "", ":2", "[::1", "[::1]2", "-b", "[]", "[]:2", "[-b]",
                           "-o[b]", "user@", "user@:2", "user@-oProxyCommand=x", "user@[-b]"}) {
    EXPECT_THAT(error_of<Error>([&] { parse_hosts(std::string("a:2,") + part); }),
                HasSubstr("'" + std::string(part) + "'"));
  }
}

TEST(Hostfile, ReadsSlotsKeywordsColonsAndComments) {
  EXPECT_THAT(parse_hostfile("# the cluster\n"
                             "node1 slots=4 max_slots=8  # big\n"
                             "\n"
                             "node2:2\r\n"
                             "node3\n",
                             "file"),
              ElementsAre(HostSlots{"node1", 4}, HostSlots{"node2", 2}, HostSlots{"node3", {}}));
}

TEST(Hostfile, RepeatedLinesOfAHost_AreCountedAsSlots) {
  EXPECT_THAT(parse_hostfile("a\na\nb\na\n", "file"), ElementsAre(HostSlots{"a", 3}, HostSlots{"b", {}}));
}

TEST(Hostfile, AnErrorNamesTheLine) {
  EXPECT_THAT(error_of<Error>([] { parse_hostfile("a\nb slots=none\n", "my.hosts"); }),
              HasSubstr("my.hosts:2: 'b slots=none'"));
  for (const char* line : {"a b", "a lots=8", "a slots=", "a slots", "a max_slots", "a =8",
                           "a slots=99999999999", "a username=me"}) {
    EXPECT_THAT(error_of<Error>([&] { parse_hostfile(line, "my.hosts"); }), HasSubstr("my.hosts:1")) << line;
  }
  EXPECT_THAT(error_of<Error>([] { parse_hostfile("# none\n", "my.hosts"); }),
              HasSubstr("my.hosts names no host"));
}

TEST(PlaceProcesses, FillsTheHostsInOrder) {
  const auto hosts = parse_hosts("a:2,b:3,c");
  EXPECT_THAT(place_processes(hosts, {}),
              ElementsAre(Placement{"a", 0, 2}, Placement{"b", 2, 3}, Placement{"c", 5, 1}));
  EXPECT_THAT(place_processes(hosts, 4), ElementsAre(Placement{"a", 0, 2}, Placement{"b", 2, 2}));
}

TEST(PlaceProcesses, WithoutSlotCounts_SpreadsEvenly) {
  const auto hosts = parse_hosts("a,b,c");
  EXPECT_THAT(place_processes(hosts, 7),
              ElementsAre(Placement{"a", 0, 3}, Placement{"b", 3, 2}, Placement{"c", 5, 2}));
  EXPECT_THAT(place_processes(hosts, 2), ElementsAre(Placement{"a", 0, 1}, Placement{"b", 1, 1}));
  EXPECT_THAT(place_processes(hosts, {}),
              ElementsAre(Placement{"a", 0, 1}, Placement{"b", 1, 1}, Placement{"c", 2, 1}));
}

TEST(PlaceProcesses, AHostGivenTwice_IsOneHost) {
  EXPECT_THAT(place_processes(parse_hosts("a:1,b:1,a:2"), {}),
              ElementsAre(Placement{"a", 0, 3}, Placement{"b", 3, 1}));
}

TEST(PlaceAround, TakesHostsThatHavePlacesLeft) {
  const auto hosts = parse_hosts("a:2,b:2,c:2");
  EXPECT_THAT(place_around(hosts, 4, {}), Optional(ElementsAre(Placement{"a", 0, 2}, Placement{"b", 2, 2})));
  EXPECT_THAT(place_around(hosts, 4, {"b"}),
              Optional(ElementsAre(Placement{"a", 0, 2}, Placement{"c", 2, 2})));
  EXPECT_THAT(place_around(hosts, 3, {"a"}),
              Optional(ElementsAre(Placement{"b", 0, 2}, Placement{"c", 2, 1})));
  EXPECT_EQ(place_around(hosts, 4, {"a", "b"}), std::nullopt);
  EXPECT_EQ(place_around(hosts, 1, {"a", "b", "c"}), std::nullopt);
}

TEST(PlaceAround, WithoutSlotCounts_EachHostHasPlacesForItsShare) {
  const auto hosts = parse_hosts("a,b,c");
  EXPECT_THAT(place_around(hosts, 2, {"a"}),
              Optional(ElementsAre(Placement{"b", 0, 1}, Placement{"c", 1, 1})));
  EXPECT_THAT(place_around(hosts, 4, {"b"}),
              Optional(ElementsAre(Placement{"a", 0, 2}, Placement{"c", 2, 2})));
  EXPECT_EQ(place_around(hosts, 6, {"b"}), std::nullopt);
}

TEST(PlaceProcesses, MoreSlotsThanAnIntegerHolds_AreRefused) {
  std::string many, one;
  for (int i = 0; i < 40'000; ++i) {
    many += (many.empty() ? "a" : ",a") + std::to_string(i) + ":65536";
    one += one.empty() ? "a:65536" : ",a:65536";
  }
  EXPECT_THAT(error_of<Error>([&] { place_processes(parse_hosts(many), {}); }), HasSubstr("too many"));
  EXPECT_THAT(error_of<Error>([&] { place_processes(parse_hosts(one), {}); }),
              HasSubstr("the host a is given 2147483648 slots, but at most 2147483647 are possible"));
}

TEST(PlaceProcesses, TooManyProcesses_AreRefused) {
  EXPECT_THAT(error_of<Error>([] { place_processes(parse_hosts("a:2,b"), 4); }),
              HasSubstr("4 processes do not fit on the hosts, which take 3 (a:2, b:1)"));
}

TEST(ParseProcesses, NumbersAndRanges_AreAccepted_OtherTextIsRefused) {
  EXPECT_THAT(parse_processes("--x", "none", 4), ::testing::IsEmpty());
  EXPECT_THAT(parse_processes("--x", "3,0-1", 4), ElementsAre(0, 1, 3));
  EXPECT_THAT(error_of<Error>([] { parse_processes("--x", "2-4", 4); }),
              HasSubstr("--x '2-4' names process 4, but the job has processes 0 to 3"));
  for (const char* text : {"", "a", "-1", "1,", "1;2", "1 2", "2-1", "1-"})
    EXPECT_THAT(error_of<Error>([&] { parse_processes("--x", text, 4); }), HasSubstr("--x '")) << text;
}

TEST(NameSomeHosts, NamesTenAndCountsTheRest) {
  EXPECT_EQ(name_some_hosts({"a", "b"}), "a, b");
  EXPECT_EQ(name_some_hosts(std::vector<std::string>(13, "h")), "h, h, h, h, h, h, h, h, h, h and 3 more");
}

}  // namespace
}  // namespace lockstep::cli
