// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/agent_protocol.h"
#include "cli/messages.h"
#include "cli/stacks/json.h"
#include "cli/trace/chunk.h"
#include "lockstep/base/fail.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/tcp_inbox.h"
#include "lockstep/data/test_files.h"
#include "lockstep/runtime/topology.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

using data::test::les;

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
                               true,
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

/// Headers of parts of messages, and what is asked for, as they come: eight bytes each.
TEST(Inbox, AnyOrderOfParts_TouchesOnlyItsMemory) {
  struct Step {
    std::uint8_t what, peer, tag, message;
    std::uint16_t bytes, length;
  };
  fuzz<DataError>(
      {.name = "parts of messages",
       .seeds =
           {les<Step>({{0, 0, 1, 1, 64, 0}, {1, 0, 1, 1, 64, 32}, {1, 0, 1, 1, 64, 32}, {3, 0, 0, 0, 0, 0}}),
            les<Step>({{1, 1, 2, 5, 16, 16}, {0, 0, 2, 0, 8, 0}, {2, 0, 2, 0, 0, 0}, {1, 0, 2, 6, 100, 7}})},
       .read = [](const std::string& bytes) {
         using namespace collectives;
         std::vector<std::unique_ptr<Request>> requests;
         std::vector<std::vector<std::byte>> memory;
         Inbox inbox;
         for (std::size_t at = 0; at + sizeof(Step) <= bytes.size() && at < 4096; at += sizeof(Step)) {
           Step step;
           std::memcpy(&step, bytes.data() + at, sizeof step);
           const int peer = step.peer % 3;
           const std::uint64_t tag = step.tag % 4;
           switch (step.what % 4) {
             case 0: {
               memory.emplace_back(step.bytes % 300);
               auto& request = requests.emplace_back(std::make_unique<Request>());
               request->tag = tag;
               request->data = memory.back().data();
               request->size = memory.back().size();
               inbox.ask(*request);
               break;
             }
             case 1: {  // A part, as a link takes it.
               Incoming* message = inbox.find(peer, step.message);
               if (message == nullptr)
                 message = &inbox.begin(peer, PartHeader{tag, step.message, step.bytes % 300u, 0, 0});
               else if (message->done())
                 break;
               const std::size_t length =
                   std::min<std::size_t>(step.length % 300, message->bytes - message->arrived);
               if (message->into != nullptr && length > 0)
                 std::memset(message->into + message->arrived, 7, length);
               message->arrived += length;
               if (message->done()) inbox.has_arrived(*message);
               break;
             }
             case 2:
               if (!requests.empty()) {
                 Request& request = *requests[step.message % requests.size()];
                 if (!request.done) inbox.withdraw(request);
               }
               break;
             default:
               inbox.end(peer, "gone", [](const Incoming&) {});
           }
         }
         if (bytes.size() % 8 != 0) fail<DataError>("not whole");
         for (const auto& request : requests)
           if (request->done && request->error == nullptr && request->bytes > request->size)
             throw std::logic_error("more than there is room for");
       }});
}

}  // namespace
}  // namespace lockstep::parsers
