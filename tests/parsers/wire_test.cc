// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/base/messages.h"
#include "cli/hosts/agent_protocol.h"
#include "cli/stacks/json.h"
#include "cli/trace/chunk.h"
#include "lockstep/base/fail.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/runtime/topology.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

std::string lines_of(const std::vector<cli::Message>& messages) {
  std::string text;
  for (const cli::Message& message : messages) text += cli::to_line(message);
  return text;
}

TEST(AgentProtocol, MutatedJobs_AreReadOrRefused) {
  cli::HostJob job;
  job.command = {"./train", "--rate", "0.1\t\n"};
  job.folder = "/work";
  job.log_folder = "/logs";
  job.silence = std::chrono::milliseconds(5000);
  job.on_host = 2;
  for (int i = 0; i < 2; ++i)
    job.processes.push_back({i, {{"LOCKSTEP_PROCESS_ID", std::to_string(i)}, {"SAME", "value"}}, i == 0});
  cli::AgentTreeOptions tree;
  tree.hosts = {"a", "b", "c"};
  tree.folder = "/work";
  tree.rsh = {"ssh", "-o", "BatchMode=yes"};
  tree.tool = "/usr/bin/lockstep";
  fuzz<Error>({.name = "messages of launcher and agents",
               .seeds = {lines_of(to_messages(job)), lines_of(to_messages(tree)),
                         "to\t3\tprocess\t1\tA=b\nof\t0\tout\t1\tx\n"},
               .read =
                   [](const std::string& bytes) {
                     std::string buffer = bytes;
                     cli::HostJobReader reader;
                     cli::RelayJobReader relay;
                     for (const std::string& line : cli::take_lines(buffer)) {
                       cli::addressed_line(line, cli::kToHost);
                       cli::addressed_line(line, cli::kOfHost);
                       const auto message = cli::from_line(line);
                       if (!message) fail<Error>("no message");
                       if (cli::from_line(cli::to_line_without_end(*message)) != message)
                         throw std::logic_error("not as it was written");
                       if (!relay.take(*message)) reader.take(*message);
                     }
                     if (relay.complete()) to_messages(relay.hosts());
                     if (reader.complete()) to_messages(reader.job());
                   },
               // Each process has its own copy of the common variables.
               .memory = std::size_t{512} << 20});
}

TEST(PeerAddresses, Mutated_AreReadOrRefused) {
  collectives::Address address{"lockstep-1f",
                               "00ff",
                               "host",
                               "boot:4026531840",
                               "10.0.0.1:4000",
                               collectives::Protection::kCertificates,
                               {{0, "\x01\x02"}, {1, "lane"}}};
  collectives::Address local{"lockstep-1f", "00ff", "host", "boot:1"};
  fuzz<Error>({.name = "peer address",
               .seeds = {address.encode(), local.encode()},
               .read = [](const std::string& text) { collectives::Address::decode(text).encode(); },
               .refuses = false});
}

TEST(Topologies, Mutated_AreReadOrRefused) {
  using namespace runtime;
  const auto entry = [](int i) {
    return ProcessEntry{{"host" + std::to_string(i / 2), packed_digest(std::to_string(i / 2))},
                        {"cpu", packed_digest("machine"), {{.kind = "cpu", .count = 2, .coords = {1, 2}}}},
                        1000 + i,
                        77u + static_cast<unsigned>(i)}
        .encode();
  };
  fuzz<InitializationError>(
      {.name = "process entry", .seeds = {entry(0), entry(3)}, .read = [&](const std::string& bytes) {
         Topology({entry(0), bytes}, "meeting").shape(1).device_count();
       }});
  fuzz<InitializationError>(
      {.name = "topology",
       .seeds = {Topology({entry(0), entry(1), entry(2), entry(3)}, "meeting").encode()},
       .read = [](const std::string& bytes) {
         const Topology topology(bytes, 4);
         for (int i = 0; i < 4; ++i) {
           topology.host(i);
           topology.shape(i).device_count();
         }
         topology.encode();
       }});
}

TEST(TraceChunks, Mutated_AreReadOrRefused) {
  cli::TraceChunk chunk{.process = 3, .pid = 4711, .lost = 12};
  chunk.events.push_back({.kind = watch::Kind::kLaunch,
                          .what = "step",
                          .site = "train.cc:3",
                          .since_ns = 1'000'000'000'000,
                          .until_ns = 1'000'000'500'000,
                          .number = 7,
                          .mesh = ~std::uint64_t{0},
                          .thread = 2,
                          .tid = 4712});
  chunk.events.push_back({.kind = watch::Kind::kCollective,
                          .what = "psum",
                          .since_ns = 999'999'999'999,
                          .arrived_ns = 999'999'999'999,
                          .until_ns = 1'000'000'000'000,
                          .operation = 99,
                          .depth = 1,
                          .finished = false});
  fuzz<Error>({.name = "chunk of a trace",
               .seeds = {cli::ChunkWriter().write(chunk)},
               .read = [](const std::string& bytes) {
                 cli::ChunkReader reader;
                 cli::ChunkWriter().write(reader.read(bytes));
               }});
}

TEST(Reports, Mutated_AreReadOrRefused) {
  watch::ProcessReport report;
  report.process = 1;
  report.pid = 4711;
  report.threads.push_back({.tid = 5, .missing = {1, 2}});
  report.threads[0].doing.push_back({.kind = watch::Kind::kLaunch, .what = "step", .site = "train.cc:3"});
  report.meshes.push_back({.mesh = 7, .processes = "0-3", .launches = 2});
  report.meshes[0].log.push_back({.number = 1, .hash = 3, .site = "a.cc:1", .what = "f", .text = "program"});
  // As the launcher reads them.
  fuzz<Error>({.name = "report of a process",
               .seeds = {watch::to_json(report).dump()},
               .read = [](const std::string& text) {
                 const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
                 if (!json.is_object()) fail<Error>("no object");
                 watch::to_json(watch::from_json(json));
               }});
}

TEST(Stacks, Mutated_AreReadOrRefused) {
  cli::ProcessStacks stacks;
  stacks.pid = 4711;
  stacks.process.exists = true;
  stacks.process.state = 'S';
  stacks.process.name = "train";
  stacks.threads.push_back({.frames = {{"main", "train", true, "train.cc", 3}}, .main = true});
  stacks.threads[0].state.tid = 4711;
  stacks.threads[0].state.state = 'S';
  fuzz<Error>({.name = "stacks of a process",
               .seeds = {cli::to_json(stacks).dump()},
               .read = [](const std::string& text) {
                 cli::stacks_from_json(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false));
               }});
}

}  // namespace
}  // namespace lockstep::parsers
