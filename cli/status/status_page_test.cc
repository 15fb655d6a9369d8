// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "cli/run/job_status.h"
#include "cli/status/http_listener.h"
#include "cli/status/job_server.h"
#include "cli/status/status_page.h"
#include "cli/testing/reports.h"
#include "cli/testing/tool.h"
#include "lockstep/base/error.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run --status-port`: the page of a job, over HTTP and in a browser.

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// A connection to a port of this host.
class Connection {
 public:
  explicit Connection(int port) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 40};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      ADD_FAILURE() << "connect";
  }
  ~Connection() { close(descriptor_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const std::string& text) { ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL); }

  /// All until the other side closes.
  std::string read_all() {
    std::string all;
    char bytes[65536];
    for (ssize_t got; (got = read(descriptor_, bytes, sizeof(bytes))) > 0;)
      all.append(bytes, static_cast<std::size_t>(got));
    return all;
  }

 private:
  const int descriptor_;
};

constexpr char kToken[] = "0123456789abcdef0123";

class StatusPage : public ::testing::Test {
 protected:
  StatusPage() { setenv("LOCKSTEP_SOCKET_DIR", (folder_.path() / "sockets").c_str(), 1); }
  ~StatusPage() override { unsetenv("LOCKSTEP_SOCKET_DIR"); }

  void serve(const StatusBoard& board, const std::string& token = kToken,
             const std::string& host = "127.0.0.1") {
    server_ = std::make_unique<JobServer>(
        JobServerOptions{.job_id = "cafe", .page = StatusPageOptions{.host = host, .token = token}});
    server_->publish(board.view());
    port_ = port_of(server_->url());
  }

  static int port_of(const std::string& url) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(url, found, std::regex(":([0-9]+)/"))) << url;
    return found.empty() ? 0 : std::stoi(found[1]);
  }

  std::string get(const std::string& path, const std::string& more = "",
                  const std::string& host = "localhost", const std::string& method = "GET") const {
    Connection connection(port_);
    connection.send(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + more +
                    "\r\n");
    return connection.read_all();
  }

  static int status_of(const std::string& answer) {
    return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
  }
  static std::string body_of(const std::string& answer) {
    const std::size_t at = answer.find("\r\n\r\n");
    return at == std::string::npos ? "" : answer.substr(at + 4);
  }
  const std::string bearer_ = std::string("Authorization: Bearer ") + kToken + "\r\n";

  testing::TemporaryFolder folder_;
  std::unique_ptr<JobServer> server_;
  int port_ = 0;
};

TEST_F(StatusPage, ItsPaths_AreAnswered_OtherPathsAndMethodsAreRefused) {
  serve(made_up_board(3));
  EXPECT_THAT(server_->url(),
              AllOf(HasSubstr("http://127.0.0.1:"), HasSubstr("/?token=0123456789abcdef0123")));
  const std::string page = get("/", bearer_);
  EXPECT_EQ(status_of(page), 200);
  EXPECT_THAT(page, AllOf(HasSubstr("Content-Type: text/html; charset=utf-8"),
                          HasSubstr("X-Frame-Options: DENY"), HasSubstr("script-src 'sha256-")));
  // One file, without requests to anybody else.
  EXPECT_FALSE(std::regex_search(body_of(page), std::regex("(src|href)=\"(?!data:)|https?://|@import")));

  const std::string metrics = get("/metrics", bearer_);
  EXPECT_EQ(status_of(metrics), 200);
  EXPECT_THAT(metrics, AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"),
                             HasSubstr("\nlockstep_launches_total{")));

  const std::string json = get("/status.json", bearer_);
  EXPECT_EQ(status_of(json), 200);
  EXPECT_EQ(nlohmann::json::parse(body_of(json))["processes"].size(), 3u);

  EXPECT_EQ(status_of(get("/nothing", bearer_)), 404);
  EXPECT_EQ(status_of(get("/../etc/passwd", bearer_)), 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "DANCE"}) {
    const std::string answer = get("/", bearer_ + "Content-Length: 2\r\n", "localhost", method);
    EXPECT_EQ(status_of(answer), 405) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD")) << method;
  }
  EXPECT_EQ(status_of(get("/", bearer_ + "Content-Length: 2\r\n")), 400);

  const std::string head = get("/status.json", bearer_, "localhost", "HEAD");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_THAT(head, HasSubstr("Content-Length: " + std::to_string(body_of(json).size())));
  EXPECT_EQ(body_of(head), "");
}

TEST_F(StatusPage, AWrongHostOrToken_IsForbidden) {
  serve(made_up_board(3));
  for (const char* path : {"/metrics", "/status.json", "/nothing", "/status.json?token=wrong"}) {
    EXPECT_EQ(status_of(get(path)), 403) << path;
    EXPECT_EQ(status_of(get(path, "Authorization: Bearer 0123456789abcdef0124\r\n")), 403) << path;
    EXPECT_EQ(status_of(get(path, bearer_, "evil.example")), 403) << path;
    EXPECT_EQ(status_of(get(path, bearer_, "10.1.2.3")), 403) << path;
    EXPECT_THAT(get(path, "", "evil.example"), Not(HasSubstr("psum")));
  }
  EXPECT_EQ(status_of(get("/status.json", "", "localhost", "POST")), 403);
  EXPECT_EQ(status_of(get("/", "", "evil.example")), 403);
}

// Browsers send a cookie to every port of a host, and so to whoever listens there.
TEST_F(StatusPage, TheToken_IsNoCookie_AndThePageHoldsNoDataOfTheJob) {
  serve(made_up_board(3));
  for (const std::string& path :
       {std::string("/"), std::string("/?token=") + kToken, std::string("/?token=wrong")}) {
    const std::string page = get(path);
    EXPECT_EQ(status_of(page), 200) << path;
    EXPECT_EQ(body_of(page), kStatusPageHtml) << path;
    EXPECT_THAT(page, Not(HasSubstr("Set-Cookie"))) << path;
  }
  EXPECT_EQ(status_of(get("/status.json",
                          std::string("Cookie: lockstep_") + std::to_string(port_) + "=" + kToken + "\r\n")),
            403);
  EXPECT_EQ(status_of(get(std::string("/metrics?token=") + kToken)), 200);
}

TEST_F(StatusPage, WithoutAToken_AsksForNone) {
  serve(made_up_board(3), "");
  EXPECT_EQ(status_of(get("/status.json")), 200);
  EXPECT_EQ(status_of(get("/status.json", "", "evil.example")), 403);
}

TEST_F(StatusPage, AtAllAddresses_AnyAddressIsAllowedAsHost_ButNoName) {
  serve(made_up_board(3), kToken, "0.0.0.0");
  EXPECT_EQ(status_of(get("/status.json", bearer_, "10.1.2.3")), 200);
  EXPECT_EQ(status_of(get("/status.json", bearer_, "evil.example")), 403);
}

TEST_F(StatusPage, APortThatIsTaken_IsAnError) {
  serve(made_up_board(3));
  EXPECT_THAT([&] { JobServer({.job_id = "beef", .page = StatusPageOptions{.port = port_}}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot serve the status page at 127.0.0.1 port"),
                                         HasSubstr("--status-port 0"))));
}

TEST_F(StatusPage, SeveralRequests_GoOverOneConnection) {
  serve(made_up_board(3));
  Connection connection(port_);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + bearer_;
  connection.send(request + "\r\n" + request + "Connection: close\r\n\r\n");
  const std::string all = connection.read_all();
  EXPECT_NE(all.find("HTTP/1.1 200"), all.rfind("HTTP/1.1 200"));
}

TEST_F(StatusPage, AnInvalidOrTooLongRequest_IsRefused) {
  serve(made_up_board(3));
  Connection one(port_), other(port_);
  one.send("this is no request\r\n\r\n");
  EXPECT_THAT(status_of(one.read_all()), 400);
  other.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'x'));
  EXPECT_THAT(status_of(other.read_all()), 431);
}

// More than may be connected: some send nothing, some take nothing of a long answer.
TEST_F(StatusPage, ConnectionsThatSendOrReadNothing_AreDropped) {
  serve(made_up_board(5000));
  std::vector<std::unique_ptr<Connection>> stuck;
  for (int i = 0; i < HttpListener::kMost + 8; ++i) {
    stuck.push_back(std::make_unique<Connection>(port_));
    if (i % 2 == 0) stuck.back()->send("GET /status.json HTTP/1.1\r\nHost: localhost\r\n" + bearer_ + "\r\n");
  }
  EXPECT_EQ(status_of(get("/metrics", bearer_)), 200);
  EXPECT_EQ(stuck[1]->read_all(), "");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(stuck.back()->read_all(), "");
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GT(took, seconds(HttpListener::kSilence) / 2);
  EXPECT_LT(took, seconds(HttpListener::kSilence) * 3);
}

TEST_F(StatusPage, ARunningJob_ServesItsStatusPage) {
  const fs::path go_on = folder_.path() / "go_on";
  const fs::path sockets = folder_.path() / "sockets";
  Processes job(tool(Words{"run", "-n", "3", "--status-port", "0", "--"} +
                         testing::command_of_child("shows_a_wait", {go_on.native()}),
                     {{"LOCKSTEP_SOCKET_DIR", sockets}, {"LOCKSTEP_STATUS_TOKEN", kToken}}));
  job.wait_for_line(0, "the status page is at http://127.0.0.1:");
  port_ = port_of(job.log(0).substr(job.log(0).find("http://")));
  std::string json;
  const auto deadline = std::chrono::steady_clock::now() + seconds(50);
  while (json.find("waits in psum") == std::string::npos && std::chrono::steady_clock::now() < deadline) {
    json = get("/status.json", bearer_);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(json, HasSubstr("waits in psum f32[4] over i for process 1"));
  EXPECT_EQ(status_of(get("/status.json")), 403);
  // One that is stuck keeps the job from nothing.
  Connection stuck(port_);
  stuck.send("GET /");
  std::ofstream(go_on) << "x";
  const ProcessResult ended = job.wait(0);
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_LT(ended.ended_after, seconds(55));
}

TEST_F(StatusPage, Address_HasTheTokenOnATerminalOnly_AndAnOpenPageWarns) {
  const auto words = [](const std::string& host, const std::string& token, bool terminal) {
    JobOptions options;
    options.num_processes = 1;
    options.status_page = {.host = host, .token = token};
    std::string all;
    for (const std::string& line : JobStatus(options, "cafe").words(terminal)) all += line + "\n";
    return all;
  };
  for (const std::string host : {"127.0.0.1", "::1", "localhost", "0.0.0.0"}) {
    SCOPED_TRACE(host);
    const bool open = host == "0.0.0.0";
    EXPECT_THAT(words(host, kToken, true), HasSubstr(std::string("/?token=") + kToken));
    const std::string elsewhere = words(host, kToken, false);
    EXPECT_THAT(elsewhere,
                AllOf(HasSubstr("the status page is at http://"), HasSubstr("lockstep status --url")));
    EXPECT_THAT(elsewhere, Not(HasSubstr(kToken)));
    EXPECT_EQ(elsewhere.find("warning: the status page at 0.0.0.0 is not encrypted") != std::string::npos,
              open);
    EXPECT_THAT(words(host, "", false),
                HasSubstr(open ? "everybody who reaches 0.0.0.0" : "every user of this host"));
  }
}

TEST_F(StatusPage, StatusUrl_PrintsTheWholeAddress) {
  const fs::path go_on = folder_.path() / "go_on";
  const testing::Variables env = {{"LOCKSTEP_SOCKET_DIR", folder_.path() / "sockets"}};
  const auto wait = shell("while [ ! -e " + go_on.native() + " ]; do sleep 0.02; done");
  Processes job(tool(Words{"run", "-n", "1", "--status-port", "0"} + wait, env));
  job.wait_for_line(0, "the status page is at http://127.0.0.1:");
  const std::string url = lockstep({"status", "--url"}, env).log;
  port_ = port_of(url);
  const std::size_t query = url.find("/?token=");
  ASSERT_NE(query, std::string::npos) << url;
  EXPECT_EQ(status_of(get("/status.json" + url.substr(query + 1, url.find('\n') - query - 1))), 200);
  std::ofstream(go_on) << "x";
  EXPECT_EQ(job.wait(0).exit_code, 0);
  EXPECT_THAT(job.log(0), Not(HasSubstr("token=")));
  fs::remove(go_on);
  Processes without(tool(Words{"run", "-n", "1", "-v"} + wait, env));
  without.wait_for_line(0, "attempt 0");
  EXPECT_THAT(lockstep({"status", "--url"}, env).log,
              HasSubstr("has no status page: start it with --status-port"));
  std::ofstream(go_on) << "x";
  EXPECT_EQ(without.wait(0).exit_code, 0);
}

TEST_F(StatusPage, ABadTokenOrHostWithoutPort_IsAUsageError) {
  const auto run = [&](Words arguments, const std::string& token) {
    return lockstep(Words{"run", "-n", "1"} + arguments + shell("true"),
                    {{"LOCKSTEP_SOCKET_DIR", folder_.path() / "sockets"}, {"LOCKSTEP_STATUS_TOKEN", token}});
  };
  EXPECT_EQ(run({"--status-port", "0"}, "a b").exit_code, 2);
  EXPECT_EQ(run({"--status-host", "localhost"}, kToken).exit_code, 2);
  EXPECT_EQ(run({}, "a b").exit_code, 0);
}

// In a browser.

class InABrowser : public StatusPage {
 protected:
  void SetUp() override {
    for (const char* name : {"/usr/bin/chromium-headless-shell", "/usr/bin/chromium"})
      if (browser_.empty() && fs::exists(name)) browser_ = name;
    if (browser_.empty()) GTEST_SKIP() << "no browser is installed (apt-get install chromium-headless-shell)";
  }

  std::string browse(const std::string& url, const Words& what) {
    Words arguments{"--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--hide-scrollbars",
                    "--user-data-dir=" + (folder_.path() / "browser").native(),
                    "--window-size=1280,800",
                    "--virtual-time-budget=3000",
                    "--run-all-compositor-stages-before-draw"};
    const ProcessResult result =
        testing::run_processes({.program = browser_, .arguments = arguments + what + Words{url}})[0];
    EXPECT_EQ(result.exit_code, 0);
    return result.log;
  }
  std::string dom(const std::string& url) { return browse(url, {"--dump-dom"}); }

  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
  }

  fs::path browser_;
};

TEST_F(InABrowser, ThePageOfARunningJob_HasItsRows) {
  const fs::path go_on = folder_.path() / "go_on";
  Processes job(
      tool(Words{"run", "-n", "3", "--status-port", "0", "--"} +
               testing::command_of_child("shows_a_wait", {go_on.native()}),
           {{"LOCKSTEP_SOCKET_DIR", folder_.path() / "sockets"}, {"LOCKSTEP_STATUS_TOKEN", kToken}}));
  job.wait_for_line(0, "the status page is at http://127.0.0.1:");
  port_ = port_of(job.log(0).substr(job.log(0).find("http://")));
  const std::string url = "http://127.0.0.1:" + std::to_string(port_) + "/?token=" + kToken;
  const auto deadline = std::chrono::steady_clock::now() + seconds(40);
  while (get("/status.json", bearer_).find("waits in psum") == std::string::npos &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::string page = dom(url);
  EXPECT_EQ(count(page, "<tr class=\"row\""), 3) << page;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(page, HasSubstr("data-process=\"" + std::to_string(i) + "\""));
  EXPECT_THAT(page, AllOf(HasSubstr("waits in psum f32[4] over i for process 1"),
                          HasSubstr("own code since step"), HasSubstr("loss 0.5")));
  const fs::path picture = folder_.path() / "page.png";
  browse(url, {"--screenshot=" + picture.native()});
  EXPECT_TRUE(testing::read_file(picture).starts_with("\x89PNG"));
  std::ofstream(go_on) << "x";
  EXPECT_EQ(job.wait(0).exit_code, 0);
}

TEST_F(InABrowser, TenThousandRows_AreDrawn) {
  // The page's own clock stands still while it draws: the whole run of the browser is compared with one of
  // few rows. The figure is for people; a machine under load takes longer.
  const auto seconds_of = [&](int processes, int least_rows) {
    serve(made_up_board(processes, 100), "");
    const auto began = std::chrono::steady_clock::now();
    const std::string page = dom(server_->url());
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    EXPECT_GE(count(page, "<tr class=\"row\""), least_rows);
    if (processes == 10000) {
      EXPECT_THAT(page, HasSubstr("(10,000)"));
    }
    return took;
  };
  const double few = seconds_of(4, 4), many = seconds_of(10000, 20);
  std::printf("10,000 rows: %.0f ms more than 4 rows\n", 1e3 * (many - few));
}

TEST_F(InABrowser, TextOfAJob_IsShownAsTextNotMarkup) {
  StatusBoard board("id", {"<img src=x onerror=alert(1)>"}, 1);
  watch::ProcessReport report = own_code_report(0);
  report.threads.front().last.what = "<script>document.body.dataset.broken = 1</script>";
  board.take(report);
  board.said("<b>bold</b>");
  serve(board, "");
  const std::string page = dom(server_->url());
  EXPECT_THAT(
      page, AllOf(HasSubstr("&lt;img src=x"), HasSubstr("&lt;b&gt;bold"), HasSubstr("&lt;script&gt;document"),
                  Not(HasSubstr("data-broken=")), Not(HasSubstr("<b>bold"))));
}

}  // namespace
}  // namespace lockstep::cli
