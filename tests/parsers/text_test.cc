// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cli/hosts/hosts.h"
#include "cli/hosts/slurm.h"
#include "lockstep/base/environment.h"
#include "lockstep/cluster/node_list.h"
#include "lockstep/coordination/identity/host_port.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

// A million names, and a few copies of them.
constexpr std::size_t kMillionNames = std::size_t{512} << 20;

TEST(NodeList, Mutated_IsExpandedOrRefused) {
  fuzz<InitializationError>({.name = "node list",
                             .seeds = {"node[001-003,7],login", "a[1-3,007-010]b[2-3],c[01]", "n[9-11]-ib"},
                             .read = [](const std::string& text) { cluster::expand_node_list(text); },
                             .memory = kMillionNames});
}

TEST(Hosts, Mutated_AreReadOrRefused) {
  fuzz<Error>({.name = "--hosts",
               .seeds = {"a:2,b,user@c:16", "[fe80::1]:3,user@[::1]", "node[01-16,20]:4,x"},
               .read =
                   [](const std::string& text) {
                     const auto hosts = cli::parse_hosts(text);
                     cli::place_processes(hosts, {});
                     cli::place_around(hosts, 4, {hosts.front().host});
                   },
               .memory = kMillionNames});
  fuzz<Error>(
      {.name = "host file",
       .seeds = {"# the cluster\nnode1 slots=4 max_slots=8  # big\n\nnode2:2\r\nnode3\n",
                 "n[1-4] slots=2\nn1\nn1\n"},
       .read = [](const std::string& text) { cli::place_processes(cli::parse_hostfile(text, "f"), 3); },
       .memory = kMillionNames});
}

TEST(SlurmsVariables, Mutated_AreReadOrRefused) {
  fuzz<Error>(
      {.name = "Slurm's tasks", .seeds = {"2(x2),1", "8", "16(x100),3"}, .read = [](const std::string& text) {
         cli::slurm_placement(MapEnvironment({{"SLURM_JOB_ID", "7"},
                                              {"SLURM_JOB_NODELIST", "node[1-3]"},
                                              {"SLURM_NTASKS", "5"},
                                              {"SLURM_TASKS_PER_NODE", text}}),
                              {});
       }});
}

TEST(ProcessNumbers, Mutated_AreReadOrRefused) {
  fuzz<Error>({.name = "process numbers",
               .seeds = {"0,8-15", "none", "3"},
               .read = [](const std::string& text) { cli::parse_processes("--x", text, 1000); }});
}

TEST(Addresses, Mutated_AreReadOrRefused) {
  fuzz<InitializationError>({.name = "coordinator address",
                             .seeds = {"node1:8476", "[fd00::1]:8476"},
                             .read = [](const std::string& text) { coordination::parse_address(text); }});
}

}  // namespace
}  // namespace lockstep::parsers
