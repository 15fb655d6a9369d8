// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/base/message_pipe.h"
#include "cli/hosts/remote_host.h"
#include "cli/stacks/json.h"
#include "cli/status/http_listener.h"
#include "cli/trace/chunk.h"
#include "lockstep/base/fail.h"
#include "tests/parsers/fuzz.h"

// Tests of what strangers and agents send to the launcher: HTTP at the port of its page, and lines.

namespace lockstep::parsers {
namespace {

using namespace cli;

constexpr char kToken[] = "0123456789abcdef0123";
constexpr char kPage[] = "what each process does";

/// The answers to what a client sends before it ends its side.
std::string converse(boost::asio::io_context& context, int port, const std::string& bytes) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) throw std::logic_error("connect");
  std::string answer;
  std::size_t sent = 0;
  char buffer[4096];
  for (bool ended = false, open = true; open;) {
    if (sent < bytes.size()) {
      const ssize_t some =
          send(client, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (some > 0) sent += static_cast<std::size_t>(some);
      if (some < 0 && errno != EAGAIN) sent = bytes.size();
    } else if (!ended) {
      shutdown(client, SHUT_WR);
      ended = true;
    }
    context.poll();
    const ssize_t got = recv(client, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) answer.append(buffer, static_cast<std::size_t>(got));
    open = got > 0 || (got < 0 && errno == EAGAIN);
    if (open && got < 0) context.run_one_for(std::chrono::milliseconds(1));
  }
  close(client);
  context.poll();
  return answer;
}

TEST(HttpOfThePage, MutatedRequests_GetNoStateWithoutTheToken) {
  boost::asio::io_context context(1);
  const auto text = std::make_shared<const std::string>(kPage);
  HttpListener listener(context, {.port = 0, .token = kToken}, [&](std::string_view path) {
    return path == "/status.json" || path == "/metrics" ? Page{text, "text/plain", ""} : Page{};
  });
  const int port = std::atoi(listener.url().substr(listener.url().rfind(':') + 1).c_str());
  const std::string token = kToken, host = "Host: localhost\r\n", end = "\r\n\r\n";
  fuzz<Error>(
      {.name = "HTTP of the status page",
       .seeds = {"GET /status.json HTTP/1.1\r\n" + host + "Authorization: Bearer " + token + end,
                 "GET /metrics?token=" + token + " HTTP/1.1\r\n" + host + "\r\n",
                 "HEAD /metrics HTTP/1.1\r\n" + host + "Cookie: a=b; lockstep_1=" + token + "; c=d" + end,
                 "GET / HTTP/1.1\r\n" + host + "\r\nGET /status.json?x=1&y HTTP/1.0\r\n" + host + "\r\n",
                 "POST / HTTP/1.1\r\n" + host + "Authorization: Bearer " + token +
                     "\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
                 "GET http://127.0.0.1/status.json HTTP/1.1\r\nHost: [::1]:8080\r\nAuthorization: Bearer " +
                     token + "\r\nExpect: 100-continue\r\n\r\n"},
       .read =
           [&](const std::string& bytes) {
             const std::string answer = converse(context, port, bytes);
             const bool has_token = bytes.find(kToken) != std::string::npos;
             if (!has_token && answer.find(kPage) != std::string::npos)
               throw std::logic_error("the state was given without the token");
             if (!answer.empty() && !answer.starts_with("HTTP/1.1 ")) throw std::logic_error("no HTTP");
             if (answer.starts_with("HTTP/1.1 400")) fail<Error>("refused");
           },
       .mutations = 1000,
       .refuses = false});
}

/// Takes what an agent says of its processes, and holds it to what the launcher relies on.
class Listener : public HostListener {
 public:
  void started(int process, pid_t, const std::vector<int>&) override { check(process); }
  void output(int process, Stream, std::string_view) override { check(process); }
  void output_ended(int process, Stream) override { check(process); }
  void ended(int process, const Outcome& outcome) override {
    check(process);
    outcome.describe();
    if (outcome.status() < 0 || outcome.status() > 255) throw std::logic_error("no status");
  }
  void not_started(int, const std::string& what) override { check_line(what); }
  void unreachable(const std::string&, const std::string& why) override { check_line(why); }
  void reported(watch::ProcessReport report) override {
    check(report.process);
    for (const watch::MeshReport& mesh : report.meshes) watch::processes_of(mesh.processes);
  }
  void traced(TraceChunk chunk) override { check(chunk.process); }
  void stacks_taken(int process, ProcessStacks) override { check(process); }
  void remark(const std::string& line) override { check_line(line); }

 private:
  static void check(int process) {
    if (process != 3 && process != 4) throw std::logic_error("not a process of this host");
  }
  static void check_line(const std::string& line) {
    if (line.size() > 4096 || line.find_first_of("\n\r\x1b") != std::string::npos)
      throw std::logic_error("not one line");
  }
};

TEST(AgentsLines, Mutated_AreAcceptedOrReported) {
  watch::ProcessReport report;
  report.meshes.push_back({.mesh = 7, .processes = "0-3", .launches = 2});
  ProcessStacks stacks;
  stacks.pid = 4711;
  stacks.threads.push_back({.frames = {{"main", "train", true, "train.cc", 3}}, .main = true});
  TraceChunk chunk{.process = 3, .pid = 4711};
  chunk.events.push_back({.kind = watch::Kind::kLaunch, .what = "step", .since_ns = 1'000'000, .tid = 5});
  const auto lines = [](const std::vector<Message>& messages) {
    std::string text = "lockstep-agent\t5\tnode\t10.0.0.2\n";
    for (const Message& message : messages) text += to_line(message);
    return text;
  };
  constexpr std::size_t kLongest = 4096;
  std::signal(SIGPIPE, SIG_IGN);
  const auto clock = std::make_shared<watch::TickClock>(watch::machine_clock());
  fuzz<Error>(
      {.name = "lines of agents",
       .seeds = {lines({{"started", "3", "4711", "0", "1"},
                        {"out", "3", "loss 0.5\n"},
                        {"err", "4", "\t\\x1b[2J"},
                        {"report", "3", watch::to_json(report).dump()},
                        {"stacks", "4", to_json(stacks).dump()},
                        {"out-ended", "3"},
                        {"err-ended", "3"},
                        {"ended", "3", "0", "0"},
                        {"ended", "4", "0", "9"},
                        {"done"}}),
                 lines({{"traced", ChunkWriter().write(chunk)},
                        {"clock", "1000000", "2000000", "2000001"},
                        {"clock", "5", "9223372036854775807", "-9223372036854775808"},
                        {"remark", "a\nlockstep: b"},
                        {"trace-ended"},
                        {"lost", "it\nis gone"}}),
                 lines({{"not-started", "2", "no such\x1b[2J program"}, {"lost", "gone", "with-another"}}),
                 "a login script\rwrites\nof\t0\tout\t3\tx\nlost\tgone\n"},
       .read = [&](const std::string& bytes) {
         int ends[2];
         if (pipe2(ends, O_CLOEXEC) != 0) throw std::logic_error("pipe");
         MessagePipe pipe(ends[0], -1);
         Listener listener;
         RemoteHost host(listener, "node", [](const Message&) {});
         bool started = false;
         const auto take = [&] {
           for (const std::string& line : pipe.read(kLongest)) {
             if (line.size() > kLongest) throw std::logic_error("a line that is too long");
             host.heard(line);
             if (!host.ready() || started) continue;
             started = true;
             host.start({.command = {"x"}, .processes = {{.number = 3}, {.number = 4}}, .on_host = 2});
             host.begin_trace(clock, {});
           }
         };
         for (std::size_t at = 0; at < bytes.size(); at += 1000) {
           const std::string some = bytes.substr(at, 1000);
           if (write(ends[1], some.data(), some.size()) < 0) break;  // a line was too long
           take();
         }
         close(ends[1]);
         take();
         if (!pipe.in_ended()) throw std::logic_error("the pipe has not ended");
         if (pipe.line_too_long()) fail<Error>("a line that is too long");
         if (host.tracing() && host.exchanges()->size() > 1000) throw std::logic_error("unasked");
         if (host.open()) fail<Error>("it says nothing of its end");
       }});
}

}  // namespace
}  // namespace lockstep::parsers
