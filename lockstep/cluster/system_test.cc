// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// Listens on a port of the kernel's choice; what is given is sent to the first who asks.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    server_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, answer = std::move(answer)] {
      int connection = accept(listener_, nullptr, nullptr);
      char buffer[1024];
      while (request_.find("\r\n\r\n") == std::string::npos) {
        ssize_t count = recv(connection, buffer, sizeof buffer, 0);
        if (count <= 0) break;
        request_.append(buffer, static_cast<std::size_t>(count));
      }
      send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(connection);
    });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }
  const std::string& server() const { return server_; }

  /// The request, once it was answered.
  const std::string& request() {
    thread_.join();
    return request_;
  }

 private:
  int listener_;
  std::string server_, request_;
  std::thread thread_;
};

TEST(RealSystem, ReadsFilesAndFolders) {
  EXPECT_THAT(System::real().read_file("/proc/self/stat"), ::testing::Optional(HasSubstr("(")));
  EXPECT_FALSE(System::real().read_file("/nowhere/at/all"));
  EXPECT_THAT(System::real().list_folder("/proc"), Contains("self"));
  EXPECT_TRUE(System::real().list_folder("/nowhere/at/all").empty());
}

TEST(RealSystem, Metadata_IsTheBodyOfTheResponse) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\none\r\n\r\ntwo");
  EXPECT_EQ(System::real().metadata(server.server(), "a/b"), "one\r\n\r\ntwo");
  EXPECT_THAT(server.request(), AllOf(HasSubstr("GET /computeMetadata/v1/a/b HTTP/1."),
                                      HasSubstr("\r\nMetadata-Flavor: Google\r\n")));
}

TEST(RealSystem, MissingMetadata_IsNone_AndAServerErrorThrows) {
  OneAnswer missing("HTTP/1.0 404 Not Found\r\n\r\nno");
  EXPECT_FALSE(System::real().metadata(missing.server(), "instance/attributes/x"));
  OneAnswer broken("HTTP/1.0 503 Not Now\r\n\r\n");
  EXPECT_THROW(System::real().metadata(broken.server(), "x"), InitializationError);
}

TEST(RealSystem, AResponseThatIsNotHttp_IsAnError) {
  for (const char* answer : {"", "hello\r\n\r\n", "HTTP/1.1\r\n\r\n 200"}) {
    OneAnswer server(answer);
    EXPECT_THROW(System::real().metadata(server.server(), "a"), InitializationError) << answer;
  }
}

TEST(RealSystem, AnUnreachableMetadataServer_IsAnErrorWithTheReason) {
  EXPECT_THAT(testing::error_of<InitializationError>([] { System::real().metadata("127.0.0.1:1", "a"); }),
              AllOf(HasSubstr("http://127.0.0.1:1/computeMetadata/v1/a"), HasSubstr("connect")));
  EXPECT_THROW(System::real().metadata("no-such-host.invalid", "a"), InitializationError);
}

TEST(InNetworkOf, ComparesThePrefixBits) {
  const InterfaceAddress v4{"eth0", "10.148.3.9", 16}, v6{"eth1", "fd00:1::9", 64},
      odd{"eth2", "10.0.0.5", 30};
  EXPECT_TRUE(in_network_of("10.148.255.1", v4));
  EXPECT_FALSE(in_network_of("10.149.3.9", v4));
  EXPECT_FALSE(in_network_of("node1", v4));
  EXPECT_FALSE(in_network_of("fd00:1::1", v4));
  EXPECT_TRUE(in_network_of("fd00:1::1", v6));
  EXPECT_FALSE(in_network_of("fd00:2::1", v6));
  EXPECT_TRUE(in_network_of("10.0.0.6", odd));
  EXPECT_FALSE(in_network_of("10.0.0.8", odd));
}

}  // namespace
}  // namespace lockstep::cluster
