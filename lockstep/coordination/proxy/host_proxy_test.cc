// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/proxy/host_proxy.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordination.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/pending.h"
#include "lockstep/coordination/proxy/relay_client.h"
#include "lockstep/coordination/server/grpc_server.h"
#include "lockstep/coordination/server/relay_server.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/coordination/state/coordinator.h"

// Tests of a host's proxy alone; conformance_test.cc checks that its clients see what others see.

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Identity kOurs{"job", 0, "of the test"};

std::unique_ptr<CoordinationClient> client_through(const std::string& address, int process, int num_processes,
                                                   std::function<void(const JobError&)> on_error = {},
                                                   const Identity& identity = kOurs) {
  ClientOptions options;
  options.address = address;
  options.process_id = process;
  options.num_processes = num_processes;
  options.identity = identity;
  options.initialization_timeout = seconds(60);
  options.on_error = std::move(on_error);
  return make_grpc_client(options);
}

ServerOptions server_options(int num_processes) {
  ServerOptions options;
  options.num_processes = num_processes;
  options.identity = kOurs;
  return options;
}

HostProxyOptions proxy_options(const std::string& coordinator, const Identity& identity = kOurs) {
  return {.coordinator = coordinator, .num_processes = 4, .identity = identity, .tls = {}, .limits = {}};
}

jax::RegisterTaskRequest joining(int task) {
  jax::RegisterTaskRequest request;
  request.set_source_task_id(task);
  request.set_incarnation(1);
  return request;
}

/// A coordinator that counts.
class Counting : public StateMachine {
 public:
  using StateMachine::StateMachine;
  void call(const Procedure& procedure, CallId id, const Caller& caller, std::string request,
            Answered done) override {
    if (&procedure == &kGetKeyValue) ++gets;
    StateMachine::call(procedure, id, caller, std::move(request), std::move(done));
  }
  std::atomic<int> gets = 0;
};

TEST(HostProxy, IsUsedForItsCoordinatorOnly) {
  const auto reached = [](std::map<std::string, std::string> variables) {
    return reached_at("head:77", MapEnvironment(std::move(variables)));
  };
  EXPECT_EQ(reached({}), "head:77");
  EXPECT_EQ(reached({{kProxyVariable, "127.0.0.1:9"}, {"LOCKSTEP_COORDINATOR_ADDRESS", "head:77"}}),
            "127.0.0.1:9");
  EXPECT_EQ(reached({{kProxyVariable, "127.0.0.1:9"}, {"LOCKSTEP_COORDINATOR_ADDRESS", "other:77"}}),
            "head:77");
  EXPECT_EQ(reached({{kProxyVariable, ""}, {"LOCKSTEP_COORDINATOR_ADDRESS", "head:77"}}), "head:77");
}

TEST(HostProxy, ProcessesWithAndWithoutAProxy_FormOneJob) {
  CoordinationServer server;
  server.start(server_options(5));
  HostProxy a(proxy_options(server.address())), b(proxy_options(server.address()));
  const std::string at[] = {a.address(), a.address(), b.address(), b.address(), server.address()};
  std::vector<std::jthread> processes;
  for (int process = 0; process < 5; ++process) {
    processes.emplace_back([&, process] {
      auto client = client_through(at[process], process, 5);
      client->connect();
      KeyValueStore& store = client->key_value_store();
      store.set("key/" + std::to_string(process), std::string(10'000, static_cast<char>('a' + process)));
      client->barrier("b", seconds(60));
      EXPECT_EQ(store.get_directory("key").size(), 5u);
      EXPECT_EQ(store.get("key/4", seconds(60)), std::string(10'000, 'e'));
      client->shutdown();
    });
  }
  processes.clear();
  EXPECT_EQ(server.first_failure(), std::nullopt);
}

TEST(HostProxy, AsksOnceForAKeyThatManyWaitFor) {
  constexpr int kWaiting = 8;
  Counting machine(server_options(1), Clock::steady(), 7);
  const Gate gate(kOurs, false);
  GrpcServer server(machine, gate, {parse_address("127.0.0.1:0"), {}, kWaiting, {}});
  const auto proxy = make_relay_client({"127.0.0.1", server.port()}, kOurs, {});
  ASSERT_TRUE(ask(*proxy, seconds(60), joining(0))->status.ok());
  jax::GetKeyValueRequest asking;
  asking.mutable_incarnations()->set_service_incarnation(7);
  asking.set_key("key");
  std::vector<std::shared_ptr<Pending<jax::GetKeyValueResponse>>> waiting;
  std::vector<CallId> ids;
  for (int i = 0; i < kWaiting; ++i) {
    waiting.push_back(std::make_shared<Pending<jax::GetKeyValueResponse>>());
    ids.push_back(next_call_id());
    make_call(*proxy, ids.back(), asking, answers_to(waiting.back()));
  }
  proxy->cancel(ids[2]);
  EXPECT_EQ(waiting[2]->wait_until(std::chrono::steady_clock::now() + seconds(60))->status.code,
            Code::kCancelled);
  for (const std::size_t size : {std::size_t{1}, std::size_t{1} << 20}) {
    const std::string value(size, 'v');
    jax::InsertKeyValueRequest setting;
    *setting.mutable_incarnations() = asking.incarnations();
    setting.mutable_kv()->set_key("key");
    setting.mutable_kv()->set_value(value);
    setting.set_allow_overwrite(true);
    ASSERT_TRUE(ask(*proxy, seconds(60), setting)->status.ok());
    if (size == 1) {
      for (int i = 0; i < kWaiting; ++i) {
        const auto answer =
            waiting[static_cast<std::size_t>(i)]->wait_until(std::chrono::steady_clock::now() + seconds(60));
        if (i == 2) continue;
        EXPECT_EQ(answer->value.kv().value(), value);
      }
      EXPECT_EQ(machine.gets, 1);
    }
    // It is asked anew: the value may have changed.
    EXPECT_EQ(ask(*proxy, seconds(60), asking)->value.kv().value(), value);
  }
  proxy->close();
  machine.stop();
}

TEST(HostProxy, AProcessOrProxyWithAnotherSecret_IsRefused) {
  CoordinationServer server;
  server.start(server_options(1));
  const auto error_of = [](const std::string& address, const Identity& identity) -> std::string {
    try {
      client_through(address, 0, 1, {}, identity)->connect();
    } catch (const InitializationError& error) {
      return error.what();
    }
    return "connected";
  };
  const Identity another{"job", 0, "another"};
  HostProxy ours(proxy_options(server.address()));
  EXPECT_THAT(error_of(ours.address(), another), HasSubstr("secret"));
  EXPECT_THAT(error_of(ours.address(), {"other job", 0, kOurs.secret}), HasSubstr("other job"));
  HostProxy theirs(proxy_options(server.address(), another));
  EXPECT_THAT(error_of(theirs.address(), another), HasSubstr("secret"));
  EXPECT_EQ(error_of(ours.address(), kOurs), "connected");
}

/// The credential of a stream can be seen and sent again; its messages are good for it alone.
TEST(Relay, WithMessagesThatDoNotProveTheSecret_Ends) {
  CoordinationServer server;
  ServerOptions options = server_options(1);
  options.allow_jax = true;  // so that a stream can begin without a greeting
  server.start(options);
  const auto stub = Job::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata(kIdentityMetadata, make_credential(kOurs, Whereabouts::own(), {kRelayStream, ""}));
  const auto stream = stub->Relay(&context);
  RelayAnswers challenge;
  ASSERT_TRUE(stream->Read(&challenge));
  RelayBatch batch;
  RelayCall& call = *batch.add_calls();
  call.set_procedure("Describe");
  call.set_id(1);
  RelayCalls calls;
  calls.set_batch(batch.SerializeAsString());
  calls.set_proof(relay_proof(kOurs.secret, challenge.challenge(), 0, calls.batch()));
  ASSERT_TRUE(stream->Write(calls));
  RelayAnswers answers;
  ASSERT_TRUE(stream->Read(&answers));
  EXPECT_EQ(answers.answers(0).id(), 1u);
  ASSERT_TRUE(stream->Write(calls)) << "the same again";
  EXPECT_FALSE(stream->Read(&answers));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST(Relay, ACallThatTheCoordinatorDoesNotKnow_IsAnsweredInWords) {
  CoordinationServer server;
  server.start(server_options(1));
  const auto proxy = make_relay_client(parse_address(server.address()), kOurs, {});
  std::promise<Status> answered;
  const Procedure later{.path = "/lockstep.coordination.Job/OfALaterVersion", .request_type = ""};
  proxy->call(later, next_call_id(), {}, "",
              [&](const Status& status, const Payload&) { answered.set_value(status); });
  const Status status = answered.get_future().get();
  EXPECT_EQ(status.code, Code::kUnimplemented);
  EXPECT_EQ(status.message,
            "the coordinator does not know this call; use the same version of Lockstep for it and for all "
            "processes");
}

/// As one that stands alone does, it stops once all have left, whose last calls are not all answered yet.
TEST(Relay, ACoordinatorThatStops_AnswersTheOpenCalls) {
  constexpr int kTasks = 2000;
  for (int round = 0; round < 10; ++round) {
    CoordinationServer server;
    server.start(server_options(kTasks));
    const auto proxy = make_relay_client(parse_address(server.address()), kOurs, {});
    std::vector<std::shared_ptr<Pending<jax::RegisterTaskResponse>>> coming;
    std::vector<std::shared_ptr<Pending<jax::ShutdownTaskResponse>>> leaving;
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    for (int task = 0; task < kTasks; ++task) {
      coming.push_back(std::make_shared<Pending<jax::RegisterTaskResponse>>());
      make_call(*proxy, next_call_id(), joining(task), answers_to(coming.back()));
    }
    for (const auto& each : coming) ASSERT_TRUE(each->wait_until(deadline)->status.ok());
    jax::ShutdownTaskRequest request;
    request.mutable_incarnations()->set_service_incarnation(
        coming.front()->answer->value.service_incarnation());
    for (int task = 0; task < kTasks; ++task) {
      leaving.push_back(std::make_shared<Pending<jax::ShutdownTaskResponse>>());
      request.set_source_task_id(task);
      make_call(*proxy, next_call_id(), request, answers_to(leaving.back()));
    }
    ASSERT_TRUE(server.wait_until_all_left(seconds(60)));
    server.stop();
    for (const auto& each : leaving) {
      const auto answer = each->wait_until(deadline);
      ASSERT_TRUE(answer.has_value());
      ASSERT_TRUE(answer->status.ok()) << answer->status.message;
    }
  }
}

TEST(HostProxy, WhenTheCoordinatorEnds_TellsItsProcesses) {
  auto server = std::make_unique<CoordinationServer>();
  server->start(server_options(1));
  HostProxy proxy(proxy_options(server->address()));
  std::promise<void> heard;
  auto client = client_through(proxy.address(), 0, 1, [&](const JobError&) { heard.set_value(); });
  client->connect();
  server.reset();
  EXPECT_EQ(heard.get_future().wait_for(seconds(60)), std::future_status::ready);
}

TEST(HostProxy, WhenItEnds_OtherProcessesContinue) {
  CoordinationServer server;
  server.start(server_options(2));
  auto proxy = std::make_unique<HostProxy>(proxy_options(server.address()));
  auto here = client_through(proxy->address(), 0, 2), there = client_through(server.address(), 1, 2);
  {
    std::jthread other([&] { there->connect(); });
    here->connect();
  }
  auto waiting = std::async(std::launch::async,
                            [&] { EXPECT_THROW(here->key_value_store().get("never", seconds(60)), Error); });
  std::this_thread::sleep_for(milliseconds(20));
  proxy.reset();
  waiting.get();
  there->key_value_store().set("key", "value");
  EXPECT_EQ(there->key_value_store().get("key", seconds(60)), "value");
}

}  // namespace
}  // namespace lockstep::coordination
