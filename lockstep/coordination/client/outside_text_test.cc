// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordination.grpc.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/client/conformance_test.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/wire.h"
#include "lockstep/coordination/state/key_value_table.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/outside_texts.h"

// Texts from outside in every call of a client and in every text field of the protocol: each call gives the
// right value or the right error, the right process is blamed, and the job goes on.

namespace lockstep::coordination {
namespace {

using lockstep::testing::error_of;
using lockstep::testing::outside_texts;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr seconds kLong(60);
const std::string kByte(
    "donn\xe9"
    "es"),
    kEscape("donn\\xe9es");  // what the first is shown as

MATCHER(IsUtf8, "is UTF-8") { return is_utf8(arg); }

/// A job of two processes, in which each call is made by both at the same time or by the first.
template <class Implementation>
class OutsideText : public ::testing::Test {
 protected:
  void start() {
    ServerOptions server;
    server.num_processes = 2;
    server.register_timeout = server.heartbeat_timeout = server.shutdown_timeout = kLong;
    clients_.clear();
    job_ = std::make_unique<Implementation>(server);
    told_ = std::make_shared<std::promise<JobError>>();
    for (int process = 0; process < 2; ++process) {
      ClientOptions options;
      options.process_id = process;
      options.num_processes = 2;
      options.initialization_timeout = options.shutdown_timeout = kLong;
      if (process == 0) options.on_error = [told = told_](const JobError& error) { told->set_value(error); };
      clients_.push_back(job_->make_client(std::move(options)));
    }
    both([](CoordinationClient& client) { client.connect(); });
  }

  void both(const std::function<void(CoordinationClient&)>& action) {
    std::thread second([&] { action(*clients_[1]); });
    action(*clients_[0]);
    second.join();
  }

  KeyValueStore& store(int process) { return clients_[static_cast<std::size_t>(process)]->key_value_store(); }

  void end() {
    EXPECT_FALSE(clients_[0]->error());
    both([](CoordinationClient& client) { client.shutdown(); });
    EXPECT_TRUE(job_->coordinator().wait_until_all_left(kLong));
  }

  std::unique_ptr<Implementation> job_;
  std::vector<std::unique_ptr<CoordinationClient>> clients_;
  std::shared_ptr<std::promise<JobError>> told_;  // of the first process
};

using Implementations = ::testing::Types<Memory, Grpc, Proxied>;
TYPED_TEST_SUITE(OutsideText, Implementations);

TYPED_TEST(OutsideText, AsAKey_WorksIfItIsUtf8_AndIsRefusedOtherwise) {
  this->start();
  KeyValueStore &one = this->store(0), &other = this->store(1);
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    const std::string key = "k/" + text;
    if (is_utf8(text)) {
      one.set(key, text, /*allow_overwrite=*/true);
      EXPECT_EQ(other.get(key, kLong), text);
      EXPECT_EQ(other.try_get(key), text);
      if (!normalize_key(text).empty()) {
        EXPECT_THAT(other.get_directory("k"), Contains(Pair(normalize_key(key), text)));
      }
      std::promise<std::optional<std::string>> set;
      this->clients_[1]->when_set(key,
                                  [&](std::optional<std::string> value) { set.set_value(std::move(value)); });
      EXPECT_EQ(set.get_future().get(), text);
      EXPECT_EQ(one.increment(key + "/n", 2), 2);
      EXPECT_THAT(error_of<Error>([&] { one.set(key, ""); }), AllOf(IsUtf8(), HasSubstr("exists already")));
      EXPECT_THAT(error_of<TimeoutError>([&] { one.get("no" + key, milliseconds(1)); }),
                  AllOf(IsUtf8(), HasSubstr(shown("no" + key))));
      if (text.find_first_not_of("0123456789") != text.npos) {
        EXPECT_THAT(error_of<Error>([&] { one.increment(key, 1); }),
                    AllOf(IsUtf8(), HasSubstr("cannot be incremented")));
      }
      one.erase(key);
      EXPECT_EQ(other.try_get(key), std::nullopt);
      continue;
    }
    const std::function<void()> calls[] = {
        [&] { one.set(key, "v"); },
        [&] { one.get(key, kLong); },
        [&] { one.try_get(key); },
        [&] { one.increment(key, 1); },
        [&] { one.get_directory(key); },
        [&] { one.erase(key); },
        [&] { this->clients_[0]->when_set(key, [](const std::optional<std::string>&) {}); },
    };
    for (const auto& call : calls)
      EXPECT_THAT(error_of<Error>(call), AllOf(IsUtf8(), HasSubstr("process 0 of 2"), HasSubstr(shown(key)),
                                               HasSubstr("is not UTF-8")));
    one.set("value", text, /*allow_overwrite=*/true);
    EXPECT_EQ(other.get("value", kLong), text);
  }
  this->end();
}

TYPED_TEST(OutsideText, AsABarriersId_NamesOneBarrier) {
  this->start();
  std::vector<std::thread> alone;
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    for (int use = 0; use < 2; ++use)
      this->both([&, text = text](CoordinationClient& client) { client.barrier(text, kLong); });
    alone.emplace_back([this, what = what, text = text] {
      SCOPED_TRACE(what);
      EXPECT_THAT(
          error_of<TimeoutError>([&] { this->clients_[0]->barrier("alone " + text, milliseconds(1)); }),
          AllOf(IsUtf8(), HasSubstr("barrier 'alone "), HasSubstr("missing: process 1 of 2")));
    });
  }
  for (std::thread& thread : alone) thread.join();
  // Two ids that are shown alike are two barriers.
  EXPECT_EQ(shown(kByte), kEscape);
  this->both([&](CoordinationClient& client) {
    const std::string& id = client.process_id() == 0 ? kByte : kEscape;
    EXPECT_THAT(error_of<TimeoutError>([&] { client.barrier(id, milliseconds(200)); }), HasSubstr(kEscape));
  });
  this->end();
}

TYPED_TEST(OutsideText, AsAnError_IsReportedWithTheProcessThatEnded) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    this->start();
    this->clients_[1]->report_own_error(text);
    const JobError error = this->told_->get_future().get();
    EXPECT_EQ(error.process, 1);
    EXPECT_THAT(error.message, AllOf(IsUtf8(), StartsWith("process 1"), HasSubstr("ended with an error: "),
                                     HasSubstr(std::string(first_bytes(shown_lines(text), 100)))));
    EXPECT_THAT(error_of<PeerFailure>([&] { this->clients_[0]->barrier(text, kLong); }),
                AllOf(IsUtf8(), StartsWith("process 1")));
  }
}

TYPED_TEST(OutsideText, AsADivergence_IsReportedAsTheFirstCause) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    this->start();
    this->clients_[0]->report_failure({FailureKind::kDiverged, {{1, 0}}, text});
    this->clients_[0]->finish_reports();
    this->both([&](CoordinationClient& client) { client.barrier("goes on", kLong); });
    this->clients_[0]->report_own_error("the second");
    const JobError error = this->told_->get_future().get();
    EXPECT_EQ(error.process, 1);
    EXPECT_THAT(error.message, AllOf(IsUtf8(), StartsWith("process 1"), HasSubstr(" diverged: ")));
  }
}

TEST(OutsideTextOfAJob, AsItsIdAndHosts_LetsInOnlyItsProcesses) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    ServerOptions server;
    server.num_processes = 1;
    server.identity = {text, 0, "secret " + text};
    CoordinationServer coordinator;
    coordinator.start(server);
    coordinator.set_whereabouts(0, {text, 17});
    EXPECT_THAT(coordinator.tasks().front().where.host, AllOf(IsUtf8(), Not(HasSubstr("\n"))));
    ClientOptions client;
    client.address = coordinator.address();
    client.identity = {"other " + text, 0, server.identity.secret};
    if (!text.empty()) {
      EXPECT_THAT(error_of<InitializationError>([&] { make_grpc_client(client)->connect(); }),
                  AllOf(IsUtf8(), HasSubstr("but the coordinator serves job '")));
    }
    client.identity = server.identity;
    const auto process = make_grpc_client(client);
    process->connect();
    process->shutdown();
    coordinator.report_task_failure(0, text);
    EXPECT_EQ(coordinator.first_failure()->message, shown_lines(text));
  }
}

TEST(OutsideTextOnTheWire, StatusMessage_IsUtf8_AndFitsIntoTheHeaders) {
  for (const auto& [what, text] : outside_texts()) {
    for (std::size_t before = 0; before < 4; ++before) {
      SCOPED_TRACE(what + " after " + std::to_string(before));
      const std::string message = std::string(before, 'x') + text + text;
      Status status = Status::of_service(Code::kInternal, message, 3);
      status.barrier = BarrierInstance{is_utf8(text) ? text : "", 7};
      const grpc::Status wire = to_grpc(status);
      std::size_t encoded = 0;
      for (const char c : wire.error_message()) encoded += c >= 0x20 && c < 0x7f && c != '%' ? 1 : 3;
      EXPECT_LE(encoded, 3072u);
      EXPECT_LE(encoded + wire.error_details().size() * 4 / 3, 7000u);
      EXPECT_THAT(wire.error_message(), IsUtf8());
      EXPECT_THAT(shown_lines(message),
                  StartsWith(wire.error_message().substr(0, wire.error_message().size() - 3)));
      EXPECT_GE(wire.error_message().size(), std::min<std::size_t>(shown_lines(message).size(), 1000));
      const Status back = from_grpc(wire);
      EXPECT_EQ(back.service_error->source_task, 3);
      EXPECT_EQ(back.barrier->counter, 7);
    }
  }
}

// Fields of the protocol, as any program may fill them.

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The protocol with the names of its fields, which the generated messages do not have.
class Schema {
 public:
  Schema() {
    google::protobuf::FileDescriptorSet files;
    std::ifstream in(LOCKSTEP_PROTOCOL_DESCRIPTORS, std::ios::binary);
    if (!files.ParseFromIstream(&in)) fail<Error>("cannot read {}", LOCKSTEP_PROTOCOL_DESCRIPTORS);
    for (const auto& file : files.file()) pool_.BuildFile(file);
  }

  const google::protobuf::ServiceDescriptor* service(const std::string& name) const {
    return pool_.FindServiceByName(name);
  }
  std::unique_ptr<Message> make(const Descriptor* type) {
    return std::unique_ptr<Message>(factory_.GetPrototype(type)->New());
  }
  std::unique_ptr<Message> make(const std::string& name) { return make(pool_.FindMessageTypeByName(name)); }

 private:
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_{&pool_};
};

/// Sets one text field of the message, or of a message in it, after the other, and calls `visit` for each;
/// `service` is set in all of them, so that calls are not refused.
void with_each_text(Message& message, const std::string& text, std::uint64_t service,
                    const std::function<void(const std::string& field)>& visit) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->name() == "service_incarnation") reflection.SetUInt64(&message, field, service);
    if (field->name() == "incarnations")
      with_each_text(*reflection.MutableMessage(&message, field), "", service, [](const std::string&) {});
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated()) {
      reflection.SetString(&message, field, text);
      visit(field->full_name());
      reflection.ClearField(&message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->name() != "subjects" &&
               field->name() != "incarnations") {
      Message& inner = field->is_repeated() ? *reflection.AddMessage(&message, field)
                                            : *reflection.MutableMessage(&message, field);
      with_each_text(inner, text, service, visit);
      reflection.ClearField(&message, field);
    }
  }
}

class OutsideTextInTheProtocol : public OutsideText<Grpc> {
 protected:
  void SetUp() override {
    route_grpc_log();
    start();
    channel_ = grpc::CreateChannel(job_->coordinator().address(), grpc::InsecureChannelCredentials());
    Job::NewStub(channel_)->Describe(std::make_unique<grpc::ClientContext>().get(), {}, &description_);
  }

  /// Each process still reaches the other through the store and a barrier, and nothing has failed.
  void expect_well() {
    both([](CoordinationClient& client) {
      client.key_value_store().set("well/" + std::to_string(client.process_id()), "yes", true);
      client.barrier("well", kLong);
      EXPECT_EQ(client.key_value_store().get_directory("well").size(), 2u);
    });
    EXPECT_FALSE(job_->coordinator().first_failure());
  }

  /// Any call, with these bytes as its request.
  grpc::Status call(const std::string& method, const std::string& request, const std::string& identity = "") {
    grpc::ClientContext context;
    // Nobody answers these calls.
    const bool waits = method.ends_with("/Barrier") || method.ends_with("/GetKeyValue");
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(waits ? 50 : 20000));
    if (!identity.empty()) context.AddMetadata(kIdentityMetadata, identity);
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    const grpc::Slice slice(request);
    auto reader = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
    reader->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    reader->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  /// A request for each procedure, from a process that the job does not have, and one for none.
  std::map<std::string, std::string> requests_of_nobody() {
    std::map<std::string, std::string> requests = {{"NoSuchCall", ""}};
    for_each_procedure([&](const Procedure& procedure) {
      const std::unique_ptr<Message> request = schema_.make(procedure.request_type);
      with_each_text(*request, "", description_.service_incarnation(), [](const std::string&) {});
      for (const char* task : {"source_task_id", "requesting_task_id"}) {
        if (const FieldDescriptor* const field = request->GetDescriptor()->FindFieldByName(task))
          request->GetReflection()->SetInt32(request.get(), field, 2);
      }
      requests.emplace(procedure.name(), request->SerializeAsString());
    });
    return requests;
  }

  Schema schema_;
  std::shared_ptr<grpc::Channel> channel_;
  DescribeResponse description_;
};

TEST_F(OutsideTextInTheProtocol, InAnyFieldOfACall_FailsAtMostThatCall) {
  int fields = 0;
  for (const char* name : {"xla.coordination.CoordinationService", "lockstep.coordination.Job"}) {
    const auto* const service = schema_.service(name);
    ASSERT_NE(service, nullptr);
    for (int m = 0; m < service->method_count(); ++m) {
      const auto* const method = service->method(m);
      if (method->client_streaming()) continue;
      const std::unique_ptr<Message> request = schema_.make(method->input_type());
      for (const auto& [what, text] : outside_texts()) {
        with_each_text(*request, text, description_.service_incarnation(), [&](const std::string& field) {
          SCOPED_TRACE(method->full_name() + ", " + field + ", " + what);
          ++fields;
          const grpc::Status status =
              call("/" + service->full_name() + "/" + method->name(), request->SerializePartialAsString());
          EXPECT_THAT(status.error_message(), IsUtf8());
          EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
          EXPECT_NE(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
        });
      }
      expect_well();
    }
  }
  EXPECT_GE(fields, 200);
  end();
}

TEST_F(OutsideTextInTheProtocol, InAnIdentity_FailsAtMostThatCall) {
  const std::unique_ptr<Message> identity = schema_.make("lockstep.coordination.IdentityMessage");
  for (const auto& [what, text] : outside_texts()) {
    if (text.size() > 4000) continue;  // more than all headers may have
    with_each_text(*identity, text, 0, [&](const std::string& field) {
      SCOPED_TRACE(field + ", " + what);
      const grpc::Status status =
          call("/lockstep.coordination.Job/Describe", "", identity->SerializePartialAsString());
      EXPECT_THAT(status.error_message(), IsUtf8());
      if (is_utf8(text)) {
        EXPECT_TRUE(status.ok()) << status.error_message();
      }
    });
  }
  expect_well();
  end();
}

TEST_F(OutsideTextInTheProtocol, InACallOfARelay_EndsAtMostThatRelay) {
  const auto stub = Job::NewStub(channel_);
  for (const auto& [what, text] : outside_texts()) {
    for (const auto& [procedure, request] : requests_of_nobody()) {
      const std::unique_ptr<Message> filled = schema_.make("lockstep.coordination.RelayCall");
      with_each_text(*filled, text, description_.service_incarnation(), [&](const std::string& field) {
        SCOPED_TRACE(field + ", " + what + ", " + procedure);
        RelayCall numbers;
        if (!field.ends_with(".procedure")) numbers.set_procedure(procedure);
        numbers.set_request(field.ends_with(".request") ? request + text : request);
        numbers.set_id(1);
        RelayCalls calls;
        // The batch of this one call. Messages one after the other are merged.
        const std::string bytes = filled->SerializePartialAsString() + numbers.SerializePartialAsString();
        const std::unique_ptr<Message> batch_of_one = schema_.make("lockstep.coordination.RelayBatch");
        batch_of_one->GetReflection()->MutableUnknownFields(batch_of_one.get())->AddLengthDelimited(1, bytes);
        calls.set_batch(batch_of_one->SerializePartialAsString());
        grpc::ClientContext context;
        const auto stream = stub->Relay(&context);
        stream->Write(calls);
        stream->WritesDone();
        for (RelayAnswers answers; stream->Read(&answers);)
          for (const RelayAnswer& answer : answers.answers()) EXPECT_THAT(answer.error(), IsUtf8());
        const grpc::Status status = stream->Finish();
        EXPECT_THAT(status.error_message(), IsUtf8());
        if (is_utf8(text)) {
          EXPECT_TRUE(status.ok()) << status.error_message();
        }
      });
    }
    expect_well();
  }
  end();
}

}  // namespace
}  // namespace lockstep::coordination
