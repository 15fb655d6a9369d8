// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <google/protobuf/stubs/logging.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/connection.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/state/state_machine.h"
#include "lockstep/runtime/compile_cache.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/parsers/fuzz.h"
#include "tests/parsers/sockets.h"

// Tests of what the processes of a job send to each other and to the coordinator, and find on disk.

namespace lockstep::parsers {
namespace {

using namespace coordination;

/// Makes relayed calls of the service; counts answers.
class Calls {
 public:
  explicit Calls(Service& service) : service_(service) {}

  void serve(const RelayCall& call) {
    const CallId id = next_call_id();
    if (call.cancel()) {
      if (const auto found = open_.find(call.id()); found != open_.end()) service_.cancel(found->second);
      return;
    }
    const Procedure* const procedure = find_procedure(call.procedure());
    if (procedure == nullptr) return;
    open_[call.id()] = id;
    ++asked_;
    service_.call(*procedure, id, {{call.host(), call.pid()}, call.attempt()}, call.request(),
                  [this](const Status&, const Payload&) { ++answered_; });
  }

  bool all_answered() const { return asked_ == answered_; }

 private:
  Service& service_;
  std::map<std::uint64_t, CallId> open_;
  int asked_ = 0, answered_ = 0;
};

/// A call with this request, for which the fields are set that most have.
template <class Request>
RelayCall call_of(Request request, int task, const std::string& text = "") {
  static std::uint64_t id = 0;
  if constexpr (requires { request.mutable_incarnations(); }) {
    request.mutable_incarnations()->set_service_incarnation(77);
  }
  if constexpr (requires { request.set_source_task_id(task); }) request.set_source_task_id(task);
  if constexpr (requires { request.set_incarnation(100); }) request.set_incarnation(100);
  if constexpr (requires { request.set_key(text); }) request.set_key(text);
  if constexpr (requires { request.set_directory_key(text); }) request.set_directory_key(text);
  if constexpr (requires { request.set_barrier_id(text); }) request.set_barrier_id(text);
  if constexpr (requires { request.set_barrier_timeout_in_ms(1000); }) {
    request.set_barrier_timeout_in_ms(1000);
  }
  RelayCall call;
  call.set_procedure(std::string(procedure_of(&request).name()));
  call.set_id(++id);
  call.set_request(request.SerializeAsString());
  call.set_host("node");
  call.set_pid(4711);
  return call;
}

std::string batch_of(const std::vector<RelayCall>& calls) {
  RelayBatch batch;
  for (const RelayCall& call : calls) *batch.add_calls() = call;
  return batch.SerializeAsString();
}

TEST(CoordinationMessages, Mutated_AreAnsweredOnce) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each text that is no UTF-8
  namespace jax = xla::coordination;
  ReportFailureRequest report;
  report.set_service_incarnation(77);
  report.mutable_report()->set_how("it is gone");
  report.mutable_report()->add_subjects()->set_task_id(1);
  jax::BarrierRequest of_both;
  of_both.add_task_ids(0);
  of_both.add_task_ids(1);
  const RelayCall barrier = call_of(of_both, 0, "b");
  RelayCall cancel;
  cancel.set_cancel(true);
  cancel.set_id(barrier.id());
  jax::InsertKeyValueRequest insert;
  insert.mutable_kv()->set_key("a/b");
  insert.mutable_kv()->set_value("12");
  const auto of_each = [](const auto& request, const std::string& text = "") {
    return std::vector<RelayCall>{call_of(request, 0, text), call_of(request, 1, text)};
  };
  const auto joined = [&](std::vector<RelayCall> calls) {
    const std::vector<RelayCall> join = of_each(jax::RegisterTaskRequest());
    calls.insert(calls.begin(), join.begin(), join.end());
    return batch_of(calls);
  };
  fuzz<Error>(
      {.name = "coordination messages",
       .seeds = {joined({call_of(insert, 0), call_of(jax::GetKeyValueRequest(), 1, "a/b"),
                         call_of(jax::TryGetKeyValueRequest(), 1, "c"),
                         call_of(jax::IncrementKeyValueRequest(), 1, "a/b"),
                         call_of(jax::GetKeyValueDirRequest(), 0, "a"),
                         call_of(jax::DeleteKeyValueRequest(), 0, "a")}),
                 joined({barrier, call_of(jax::BarrierRequest(), 1, "b"),
                         call_of(jax::CancelBarrierRequest(), 0, "b"), cancel}),
                 joined({call_of(jax::HeartbeatRequest(), 0), call_of(jax::PollForErrorRequest(), 1),
                         call_of(jax::WatchTasksRequest(), 0), call_of(jax::GetAliveTasksRequest(), 1),
                         call_of(DescribeRequest(), 0), call_of(report, 1)}),
                 joined(of_each(jax::ShutdownTaskRequest())),
                 batch_of(of_each(jax::BarrierRequest(), "early"))},
       .read = [](const std::string& bytes) {
         RelayBatch batch;
         if (!batch.ParseFromString(bytes)) fail<Error>("no batch");
         ManualClock clock;
         ServerOptions options;
         options.num_processes = 2;
         StateMachine machine(options, clock, 77);
         Calls calls(machine);
         for (const RelayCall& call : batch.calls()) {
           calls.serve(call);
           clock.advance(std::chrono::milliseconds(700));
           machine.tick();
           for (const TaskInfo& task : machine.tasks())
             if (task.task < 0 || task.task > 1) throw std::logic_error("a task that is none");
         }
         machine.stop();
         if (!calls.all_answered()) throw std::logic_error("a call was not answered once");
       }});
}

std::string frame_of(collectives::MessageType type, const std::string& text) {
  collectives::Header header{};
  header.type = type;
  header.from = 1;
  header.pid = 4711;
  return as_bytes(static_cast<std::uint32_t>(sizeof header + text.size())) + as_bytes(header) + text;
}

TEST(PeersMessages, MutatedAfterTheGreeting_AreReadOrEndTheConnection) {
  using namespace collectives;
  const std::string waits = encode(std::vector<Wait>{{}});
  fuzz<Error>({.name = "messages of peers over TCP",
               .seeds = {frame_of(MessageType::kHello, "node") + frame_of(MessageType::kWaits, waits),
                         frame_of(MessageType::kDivergence, "psum differs") + frame_of(MessageType::kBye, ""),
                         frame_of(MessageType::kAsk, std::string(kMaxText, 'x'))},
               .read =
                   [](const std::string& bytes) {
                     auto [here, there] = socket_pair();
                     const auto accepted =
                         tcp_connection(std::move(here), {.key = "k", .self = 0, .process = -1});
                     const auto called =
                         tcp_connection(std::move(there), {.key = "k", .self = 1, .process = 0});
                     collectives::Message message;
                     FileDescriptor none;
                     for (int i = 0; i < 4 && !(accepted->is_proved() && called->is_proved()); ++i) {
                       accepted->hear(message, none);
                       called->hear(message, none);
                     }
                     if (!accepted->is_proved() || accepted->process != 1)
                       throw std::logic_error("no greeting");
                     // Less than the socket takes at a time.
                     send_all(called->descriptor(), bytes.substr(0, 100 << 10));
                     Connection::Heard heard;
                     while ((heard = accepted->hear(message, none)) == Connection::Heard::kMessage) {
                       if (message.text.size() > kMaxText)
                         throw std::logic_error("a message that is too long");
                       if (message.header.type == MessageType::kWaits) find_ring(decode(message.text), 0);
                     }
                     if (heard == Connection::Heard::kEnd) fail<Error>("ended");
                   },
               .mutations = 1000,
               .memory = std::size_t{8} << 20});
}

TEST(PeersMessages, MutatedGreetings_ProveNothing) {
  using namespace collectives;
  fuzz<Error>(
      {.name = "greetings of peers over TCP",
       .seeds = {as_bytes(std::uint32_t{40}) + "1 0 0123456789abcdef0123456789abcdef 012",
                 frame_of(MessageType::kHello, "node"), as_bytes(std::uint32_t{256}) + std::string(256, '1')},
       .read =
           [](const std::string& bytes) {
             auto [here, there] = socket_pair();
             const auto accepted = tcp_connection(std::move(here), {.key = "k", .self = 0, .process = -1});
             send_all(there.get(), bytes.substr(0, 100 << 10));
             collectives::Message message;
             FileDescriptor none;
             const auto heard = accepted->hear(message, none);
             if (heard == Connection::Heard::kMessage || accepted->is_proved())
               throw std::logic_error("a stranger was believed");
           },
       .mutations = 1000,
       .refuses = false,
       .memory = std::size_t{1} << 20});
}

TEST(CacheEntries, Mutated_AreUsedUnchangedOrNotAtAll) {
  const testing::TemporaryFolder folder;
  const std::string key = "the program and the machine", code(500, 'c');
  runtime::CompileCache cache({.folder = (folder.path() / "cache").string()});
  logging::set_level(logging::Level::kOff);
  cache.store(key, code);
  const std::string path = cache.path_of(key);
  std::ifstream file(path, std::ios::binary);
  const std::string entry{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(entry.size(), code.size());
  fuzz<Error>({.name = "entries of the compilation cache",
               .seeds = {entry},
               .read =
                   [&](const std::string& bytes) {
                     std::filesystem::remove(path);
                     std::ofstream(path, std::ios::binary) << bytes;
                     std::filesystem::permissions(path, std::filesystem::perms(0600));
                     const auto found = cache.find(key);
                     if (!found) fail<Error>("not used");
                     if (*found != code) throw std::logic_error("other code than was kept");
                   },
               .mutations = 1000});
  logging::set_level(logging::Level::kInfo);
}

}  // namespace
}  // namespace lockstep::parsers
