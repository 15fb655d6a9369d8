// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "coordination.grpc.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/identity/host_port.h"

// Tests of what only shows on the network: the bytes that other implementations of the protocol depend on,
// and connecting.

namespace lockstep::coordination {
namespace {

namespace pb = xla::coordination;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const std::string kServiceErrorKey = "type.googleapis.com/tensorflow.CoordinationServiceError";
const std::string kBarrierErrorKey = "type.googleapis.com/tensorflow.BarrierError";
const std::string kMismatchKey = "type.googleapis.com/tensorflow.ServiceMismatchError";

/// A TCP socket bound to a port of 127.0.0.1 that the kernel chose.
class BoundSocket {
 public:
  BoundSocket() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~BoundSocket() { ::close(fd_); }
  void listen(int backlog) { EXPECT_EQ(::listen(fd_, backlog), 0); }
  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_;
  int port_ = 0;
};

ServerOptions options_for(int num_processes) {
  ServerOptions options;
  options.num_processes = num_processes;
  return options;
}

std::unique_ptr<CoordinationClient> client_of(const std::string& address, int process, int num_processes,
                                              milliseconds initialization_timeout = seconds(60),
                                              std::function<void(const JobError&)> on_error = {}) {
  ClientOptions options;
  options.address = address;
  options.process_id = process;
  options.num_processes = num_processes;
  options.initialization_timeout = initialization_timeout;
  options.on_error = std::move(on_error);
  return make_grpc_client(options);
}

std::string connect_error(const std::string& address) {
  try {
    client_of(address, 0, 1, milliseconds(300))->connect();
  } catch (const InitializationError& error) {
    return error.what();
  }
  return "connected";
}

class WireTest : public ::testing::Test {
 protected:
  void serve(int num_processes) {
    server_.start(options_for(num_processes));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);  // As JAX's agents.
    auto channel =
        grpc::CreateCustomChannel(server_.address(), grpc::InsecureChannelCredentials(), arguments);
    stub_ = pb::CoordinationService::NewStub(channel);
  }

  grpc::Status join(int task, std::uint64_t incarnation) {
    grpc::ClientContext context;
    pb::RegisterTaskRequest request;
    request.set_source_task_id(task);
    request.set_incarnation(incarnation);
    pb::RegisterTaskResponse response;
    grpc::Status status = stub_->RegisterTask(&context, request, &response);
    if (status.ok()) service_ = response.service_incarnation();
    return status;
  }

  template <class Request>
  Request from(Request request = {}) {
    request.mutable_incarnations()->set_service_incarnation(service_);
    return request;
  }

  static std::map<std::string, std::string> payloads(const grpc::Status& status) {
    pb::GrpcPayloadContainer container;
    EXPECT_TRUE(container.ParseFromString(status.error_details()));
    std::map<std::string, std::string> found;
    for (const auto& payload : container.payloads()) found[payload.key()] = payload.value();
    return found;
  }

  CoordinationServer server_;
  std::unique_ptr<pb::CoordinationService::Stub> stub_;
  std::uint64_t service_ = 0;
};

TEST_F(WireTest, ServiceErrors_CarryTheirPayloadInTheStatusDetails) {
  serve(2);
  grpc::Status status = join(5, 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // A map entry (field 1) of key (1) and value (2); the value is an empty message.
  std::string entry = "\x0a" + std::string(1, static_cast<char>(kServiceErrorKey.size())) + kServiceErrorKey +
                      std::string("\x12\x00", 2);
  EXPECT_EQ(status.error_details(), "\x0a" + std::string(1, static_cast<char>(entry.size())) + entry);
}

TEST_F(WireTest, WrongServiceIncarnation_IsAnsweredWithTheRightOneAsFixed64) {
  serve(1);
  ASSERT_TRUE(join(0, 9).ok());
  grpc::ClientContext context;
  pb::TryGetKeyValueResponse response;
  grpc::Status status = stub_->TryGetKeyValue(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  std::string right = "\x09" + std::string(reinterpret_cast<const char*>(&service_), sizeof(service_));
  EXPECT_THAT(payloads(status), UnorderedElementsAre(Pair(kServiceErrorKey, ""), Pair(kMismatchKey, right)));
}

TEST_F(WireTest, BarrierErrors_CarryIdAndCounter) {
  serve(2);
  std::thread other([&] { EXPECT_TRUE(join(1, 8).ok()); });
  grpc::ClientContext context;
  pb::RegisterTaskRequest request;
  request.set_source_task_id(0);
  pb::RegisterTaskResponse response;
  ASSERT_TRUE(stub_->RegisterTask(&context, request, &response).ok());
  other.join();
  auto barrier = from<pb::BarrierRequest>();
  barrier.set_barrier_id("b");
  barrier.set_barrier_timeout_in_ms(1);
  for (int counter : {0, 1}) {
    barrier.set_counter(counter);
    grpc::ClientContext each;
    pb::BarrierResponse passed;
    grpc::Status status = stub_->Barrier(&each, barrier, &passed);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("process 1 of 2"));
    std::string instance = counter == 0 ? "\x0a\x01"
                                          "b"
                                        : "\x0a\x01"
                                          "b\x10\x01";
    EXPECT_THAT(payloads(status),
                UnorderedElementsAre(Pair(kServiceErrorKey, ""), Pair(kBarrierErrorKey, instance)));
  }
}

TEST_F(WireTest, PropagatedError_NamesItsSource_EvenProcess0) {
  serve(1);
  ASSERT_TRUE(join(0, 9).ok());
  auto poll = from<pb::PollForErrorRequest>();
  std::thread reporter([&] { server_.report_task_failure(0, std::string(5000, 'x')); });
  grpc::ClientContext context;
  pb::PollForErrorResponse response;
  grpc::Status status = stub_->PollForError(&context, poll, &response);
  reporter.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message().size(), 3072u) << "longer ones do not fit into HTTP/2 headers";
  EXPECT_THAT(payloads(status), UnorderedElementsAre(Pair(kServiceErrorKey, std::string("\x20\x00", 2))));
}

TEST_F(WireTest, Keys_AreRepeatedAsAsked_AndAlreadyExistsHasNoPayload) {
#ifdef __SANITIZE_THREAD__
  constexpr std::size_t kSize =
      1 << 16;  // Each word that gRPC hands from thread to thread is looked at for long.
#else
  constexpr std::size_t kSize = 8 << 20;  // More than gRPC takes by default.
#endif
  serve(1);
  ASSERT_TRUE(join(0, 9).ok());
  auto insert = from<pb::InsertKeyValueRequest>();
  insert.mutable_kv()->set_key("//a//b/");
  insert.mutable_kv()->set_value(std::string(kSize, 'x'));
  pb::InsertKeyValueResponse inserted;
  {
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->InsertKeyValue(&context, insert, &inserted).ok());
  }
  {
    grpc::ClientContext context;
    grpc::Status status = stub_->InsertKeyValue(&context, insert, &inserted);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
    EXPECT_EQ(status.error_details(), "");
  }
  auto get = from<pb::GetKeyValueRequest>();
  get.set_key("a/b/");
  pb::GetKeyValueResponse found;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->GetKeyValue(&context, get, &found).ok());
  EXPECT_EQ(found.kv().key(), "a/b/");
  EXPECT_EQ(found.kv().value().size(), kSize);
  auto directory = from<pb::GetKeyValueDirRequest>();
  directory.set_directory_key("/a/");
  pb::GetKeyValueDirResponse listed;
  grpc::ClientContext listing;
  EXPECT_TRUE(stub_->GetKeyValueDir(&listing, directory, &listed).ok());
  EXPECT_EQ(listed.directory_key(), "");
  ASSERT_EQ(listed.kv_size(), 1);
  EXPECT_EQ(listed.kv(0).key(), "a/b");
}

TEST_F(WireTest, WatchAndAlive_ReturnStatesAndIncarnations) {
  serve(1);
  ASSERT_TRUE(join(0, 9).ok());
  auto watch = from<pb::WatchTasksRequest>();
  watch.set_version_number(-1);
  pb::WatchTasksResponse watched;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->WatchTasks(&context, watch, &watched).ok());
  ASSERT_EQ(watched.task_state_size(), 1);
  EXPECT_EQ(watched.task_state(0).state(), pb::TASKSTATE_CONNECTED);
  EXPECT_EQ(watched.task_state(0).incarnation(), 9u);
  auto alive = from<pb::GetAliveTasksRequest>();
  alive.add_task_ids(0);
  pb::GetAliveTasksResponse living;
  grpc::ClientContext asking;
  ASSERT_TRUE(stub_->GetAliveTasks(&asking, alive, &living).ok());
  EXPECT_THAT(living.alive_task_ids(), ::testing::ElementsAre(0));
  EXPECT_THAT(living.incarnations(), ::testing::ElementsAre(9u));
}

TEST_F(WireTest, ACancelledRegistration_IsForgotten) {
  serve(2);
  grpc::ClientContext context;
  std::thread leaver([&] {
    pb::RegisterTaskRequest request;
    request.set_source_task_id(0);
    request.set_incarnation(7);
    pb::RegisterTaskResponse response;
    EXPECT_EQ(stub_->RegisterTask(&context, request, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  while (server_.tasks()[0].incarnation == 0) std::this_thread::yield();
  context.TryCancel();
  leaver.join();
  while (server_.tasks()[0].incarnation != 0) std::this_thread::yield();
}

TEST_F(WireTest, GetsPastTheirDeadline_DoNotHinderStop) {
  serve(1);
  ASSERT_TRUE(join(0, 9).ok());
  auto get = from<pb::GetKeyValueRequest>();
  get.set_key("never");
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(1));
    pb::GetKeyValueResponse response;
    EXPECT_EQ(stub_->GetKeyValue(&context, get, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  server_.stop();
}

// Serving.

/// 0 once the other side has closed the connection; -1 where it has not for long.
int wait_for_end(int socket) {
  timeval patience{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char bytes[256];
  ssize_t got = 0;
  while ((got = ::recv(socket, bytes, sizeof(bytes), 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET ? 0 : -1;
}

TEST(Server, ASilentConnection_IsClosed) {
  CoordinationServer server;
  server.start({.limits = {.silence = milliseconds(300)}});
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(wait_for_end(socket), 0);
  ::close(socket);
}

TEST(Server, PortInUse_IsAnErrorThatSaysSo) {
  BoundSocket taken;
  taken.listen(1);
  ServerOptions options = options_for(1);
  options.bind_address = taken.address();
  CoordinationServer server;
  try {
    server.start(options);
    FAIL() << "it serves on a port that is in use";
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(), HasSubstr(taken.address() + ": the port is in use"));
  }
  EXPECT_EQ(server.port(), 0);
  EXPECT_EQ(server.address(), "");
  server.stop();
}

TEST(Server, TwoServersOnOnePort_AreRefused) {
  CoordinationServer first, second;
  first.start(options_for(1));
  ServerOptions options = options_for(1);
  options.bind_address = first.address();
  EXPECT_THROW(second.start(options), InitializationError);
  EXPECT_THROW(first.start(options_for(1)), InitializationError);
}

TEST(Server, InvalidAddresses_AreRefused) {
  for (std::string bad : {"", "host", "host:", ":80", "host:x", "host:70000", "a:b:1", "[::1:80", "h/p:80"}) {
    EXPECT_THROW(parse_address(bad), InitializationError) << bad;
  }
  EXPECT_EQ(parse_address("node1:8476").to_string(), "node1:8476");
  EXPECT_EQ(parse_address("[fd00::1]:8476").host, "fd00::1");
  EXPECT_EQ(parse_address("[fd00::1]:8476").to_string(), "[fd00::1]:8476");
}

TEST(Server, WildcardHost_IsReachedOnLoopback) {
  CoordinationServer server;
  ServerOptions options = options_for(1);
  options.bind_address = "0.0.0.0:0";
  server.start(options);
  EXPECT_EQ(server.address(), "127.0.0.1:" + std::to_string(server.port()));
  auto client = client_of(server.address(), 0, 1);
  client->connect();
  client->shutdown();
}

// Connecting.

TEST(Connect, NobodyListens_IsReportedAsRefused) {
  BoundSocket silent;
  std::string error = connect_error(silent.address());
  EXPECT_THAT(error, HasSubstr("process 0 of 1"));
  EXPECT_THAT(error,
              HasSubstr("after 0.3 s the connection is refused: nobody listens at " + silent.address()));
}

TEST(Connect, NameWithoutAddress_IsReportedAsNotResolved) {
  EXPECT_THAT(connect_error("no-such-host.invalid:8476"),
              HasSubstr("the host name 'no-such-host.invalid' is not resolved"));
}

TEST(Connect, FailedClients_LeaveTheNextOneWorking) {
  BoundSocket silent;
  for (int i = 0; i < 40; ++i) {
    EXPECT_THROW(client_of(silent.address(), 0, 1, milliseconds(5))->connect(), InitializationError);
  }
}

TEST(Connect, PacketsDropped_IsReportedAsNoAnswer) {
  // A full queue of connections drops further ones, as a firewall does.
  BoundSocket full;
  full.listen(0);
  HostPort address = parse_address(full.address());
  std::vector<int> sockets;
  std::string why;
  for (int i = 0; i < 8 && why.empty(); ++i) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockets.push_back(fd);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(full.port()));
    ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
    why = why_unreachable(address, milliseconds(200));
  }
  EXPECT_THAT(why, HasSubstr("there is no answer from " + full.address()));
  for (int fd : sockets) ::close(fd);
}

TEST(Connect, SomebodyElseListens_IsReportedAsNoCoordinator) {
  BoundSocket mute;
  mute.listen(100);
  EXPECT_THAT(connect_error(mute.address()), HasSubstr("somebody listens there"));
}

TEST(Connect, ServerStartsLater_IsWaitedFor) {
  std::string address;
  {
    BoundSocket reserved;
    address = reserved.address();
  }
  auto client = client_of(address, 0, 1);
  std::thread connecting([&] { client->connect(); });
  ASSERT_NE(why_unreachable(parse_address(address), seconds(1)), "");
  CoordinationServer server;
  ServerOptions options = options_for(1);
  options.bind_address = address;
  server.start(options);
  connecting.join();
  client->shutdown();
  EXPECT_TRUE(server.all_left());
}

TEST(Connect, CoordinatorStops_IsReportedToTheClient) {
  CoordinationServer server;
  server.start(options_for(1));
  std::promise<JobError> told;
  auto client =
      client_of(server.address(), 0, 1, seconds(60), [&](const JobError& error) { told.set_value(error); });
  client->connect();
  std::string address = server.address();
  server.stop();
  JobError error = told.get_future().get();
  EXPECT_THAT(error.message, ::testing::ContainsRegex("the coordinator at " + address +
                                                      ".* is gone: its connections closed"));
  EXPECT_EQ(error.process, std::nullopt);
  EXPECT_THROW(client->key_value_store().set("k", "v"), Error);
  EXPECT_THROW(client->key_value_store().get("k", seconds(60)), PeerFailure);
  client->shutdown();
}

TEST(Connect, InvalidOptions_AreRefused) {
  EXPECT_THROW(client_of("nonsense", 0, 1), InitializationError);
  EXPECT_THROW(client_of("localhost:1", -1, 1), InitializationError);
  EXPECT_THROW(client_of("localhost:1", 0, 0), InitializationError);
}

}  // namespace
}  // namespace lockstep::coordination
