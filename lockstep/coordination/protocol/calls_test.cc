// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/calls.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "coordination.pb.h"
#include "lockstep/coordination/server/relay_server.h"
#include "lockstep/coordination/state/state_machine_test.h"

namespace lockstep::coordination {
namespace {

using ::testing::HasSubstr;

TEST(CallTable, ListsEveryCallOfTheProtocol) {
  std::map<std::string, std::string> ours, protocols;  // the types of requests by path
  const auto add = [&](const Procedure& procedure) { ours[procedure.path] = procedure.request_type; };
  for_each_procedure(add);
  add(kProve);
  ours[kRelayPath] = kRelayStream;
  google::protobuf::FileDescriptorSet files;
  std::ifstream in(LOCKSTEP_PROTOCOL_DESCRIPTORS, std::ios::binary);
  ASSERT_TRUE(files.ParseFromIstream(&in));
  for (const auto& file : files.file()) {
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        const std::string path = "/" + file.package() + "." + service.name() + "/" + method.name();
        protocols[path] = method.input_type().substr(1);
      }
    }
  }
  EXPECT_EQ(ours, protocols);
}

TEST(CallTable, FindsACallByItsName) {
  for_each_procedure(
      [](const Procedure& procedure) { EXPECT_EQ(find_procedure(procedure.name()), &procedure); });
  EXPECT_EQ(find_procedure("NoSuchCall"), nullptr);
}

TEST_F(StateMachineTest, AnyCallWithBytesThatAreNoMessage_IsRefusedInWords) {
  start(1);
  for_each_procedure([this](const Procedure& procedure) {
    Plain reply;
    machine_->call(procedure, reply.id, {}, "\xff",
                   [done = reply.done()](const Status& status, const Payload&) { done(status, {}); });
    EXPECT_EQ(reply.code(), Code::kInternal) << procedure.path;
    EXPECT_EQ(reply.message(),
              "cannot parse the request; use the same version of Lockstep for the coordinator and all "
              "processes");
  });
}

/// A service whose answers are no messages.
class Garbled : public Service {
 public:
  void call(const Procedure&, CallId, const Caller&, std::string, Answered done) override {
    done({}, {.head = "\xff"});
  }
  void cancel(CallId) override {}
};

TEST(MakeCall, ResponseThatIsNoMessage_IsAnErrorInWords) {
  Garbled service;
  Status heard;
  make_call(service, next_call_id(), jax::BarrierRequest(),
            [&](const Status& status, const jax::BarrierResponse&) { heard = status; });
  EXPECT_EQ(heard.code, Code::kInternal);
  EXPECT_THAT(heard.message, HasSubstr("cannot parse the response"));
}

TEST(MakeCall, ResponseInAHeadAndATail_IsRead) {
  jax::BarrierResponse response;
  response.set_counter(1000);
  const std::string bytes = response.SerializeAsString();
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    jax::BarrierResponse read;
    EXPECT_TRUE(
        parse({bytes.substr(0, size), std::make_shared<const std::string>(bytes.substr(size))}, read));
    EXPECT_EQ(read.counter(), 1000);
  }
}

}  // namespace
}  // namespace lockstep::coordination
