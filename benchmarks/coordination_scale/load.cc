// SPDX-License-Identifier: Apache-2.0
// The load of a job's start and end on a coordinator, Lockstep's or JAX's own: N clients connect, register,
// ask who serves, poll for errors and send a heartbeat, exchange their topology as the runtime does, pass a
// barrier and leave. Each call carries a credential for its request, with the secret of LOCKSTEP_JOB_SECRET.
// The calls that JAX's service does not have are made too, and refused.
//
// coordination_load ADDRESS CLIENTS CONNECTIONS
//
// Simulated: all clients are in this process and share CONNECTIONS connections, and none does anything else.
// Prints the seconds of each step, and of all, as JSON.

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordination.grpc.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/coordination/client/proved_socket.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"

namespace {

namespace pb = xla::coordination;
using namespace lockstep::coordination;
using Clock = std::chrono::steady_clock;

/// Counts answers; the main thread waits until all have come.
class Step {
 public:
  explicit Step(int expected) : open_(expected) {}
  void answered(const grpc::Status& status, const char* call) {
    const bool not_of_jax = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
    if (!status.ok() && !not_of_jax) {
      std::fprintf(stderr, "%s failed: %s\n", call, status.error_message().c_str());
      std::exit(1);
    }
    if (open_.fetch_sub(1) != 1) return;
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }

 private:
  std::atomic<int> open_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

template <class Request, class Response>
struct Call {
  grpc::ClientContext context;
  Request request;
  Response response;
};

struct Stubs {
  std::unique_ptr<pb::CoordinationService::Stub> coordination;
  std::unique_ptr<Job::Stub> job;
};

class Load {
 public:
  Load(const std::string& address, int clients, int connections)
      : clients_(clients), address_(parse_address(address)), stubs_(static_cast<std::size_t>(connections)) {}

  void run() {
    const auto began = Clock::now();
    timed("register", [this] { register_all(); });
    timed("heartbeat", [this] { heartbeat_all(); });
    timed("topology", [this] { exchange_topology(); });
    timed("barrier", [this] { pass_barrier("b"); });
    timed("leave", [this] { leave_all(); });
    std::printf("%s\"total\": %.4f}\n", times_.c_str(), seconds_since(began));
  }

 private:
  /// As a process connects: with a secret, after a greeting.
  Stubs connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    std::shared_ptr<grpc::Channel> channel;
    if (identity_.secret.empty()) {
      channel =
          grpc::CreateCustomChannel(address_.to_string(), grpc::InsecureChannelCredentials(), arguments);
    } else {
      lockstep::FileDescriptor socket;
      const Status status = connect_proved(address_, identity_, /*wake=*/-1, socket);
      if (!status.ok()) {
        std::fprintf(stderr, "cannot connect to the coordinator: %s\n", status.message.c_str());
        std::exit(1);
      }
      channel = grpc::CreateCustomInsecureChannelFromFd("coordinator", socket.release(), arguments);
    }
    return {pb::CoordinationService::NewStub(channel), Job::NewStub(channel)};
  }

  static double seconds_since(Clock::time_point began) {
    return std::chrono::duration<double>(Clock::now() - began).count();
  }
  void timed(const char* name, const std::function<void()>& step) {
    const auto began = Clock::now();
    step();
    char text[64];
    std::snprintf(text, sizeof(text), "\"%s\": %.4f, ", name, seconds_since(began));
    times_ += text;
  }
  pb::CoordinationService::Stub::async_interface& stub(int client) {
    return *stubs_[static_cast<std::size_t>(client) % stubs_.size()].coordination->async();
  }

  /// One call of each client: start(client, call, callback).
  template <class Request, class Response, class Start>
  void for_all(const char* name, Start start) {
    Step step(clients_);
    std::vector<std::unique_ptr<Call<Request, Response>>> calls(static_cast<std::size_t>(clients_));
    for (int client = 0; client < clients_; ++client) {
      auto& call = calls[static_cast<std::size_t>(client)];
      call = std::make_unique<Call<Request, Response>>();
      start(client, *call, [&step, name](const grpc::Status& status) { step.answered(status, name); });
    }
    step.wait();
    if constexpr (std::is_same_v<Response, pb::RegisterTaskResponse>) {
      service_ = calls[0]->response.service_incarnation();
    }
  }
  Job::Stub::async_interface& job_stub(int client) {
    return *stubs_[static_cast<std::size_t>(client) % stubs_.size()].job->async();
  }
  template <class Request>
  void address_to_service(Request& request) const {
    request.mutable_incarnations()->set_service_incarnation(service_);
  }
  /// To be called once the request is whole.
  template <class OneCall>
  void prove(OneCall& call) const {
    const SignedRequest request{call.request.GetTypeName(), call.request.SerializeAsString()};
    call.context.AddMetadata(kIdentityMetadata, make_credential(identity_, where_, request));
  }

  void register_all() {
    {
      std::vector<std::jthread> connecting;
      for (Stubs& each : stubs_) connecting.emplace_back([this, &each] { each = connect(); });
    }
    for_all<pb::RegisterTaskRequest, pb::RegisterTaskResponse>(
        "RegisterTask", [&](int client, auto& call, auto done) {
          call.context.set_wait_for_ready(true);
          call.request.set_source_task_id(client);
          call.request.set_incarnation(static_cast<std::uint64_t>(client) + 1);
          prove(call);
          stub(client).RegisterTask(&call.context, &call.request, &call.response, done);
        });
    for_all<DescribeRequest, DescribeResponse>("Describe", [&](int client, auto& call, auto done) {
      prove(call);
      job_stub(client).Describe(&call.context, &call.request, &call.response, done);
    });
    for (int client = 0; client < clients_; ++client) {
      auto& call = polls_.emplace_back();
      address_to_service(call.request);
      call.request.set_source_task_id(client);
      prove(call);
      stub(client).PollForError(&call.context, &call.request, &call.response, [](const grpc::Status&) {});
    }
  }

  void heartbeat_all() {
    for_all<pb::HeartbeatRequest, pb::HeartbeatResponse>("Heartbeat", [&](int client, auto& call, auto done) {
      address_to_service(call.request);
      call.request.set_source_task_id(client);
      call.request.set_incarnation(static_cast<std::uint64_t>(client) + 1);
      prove(call);
      stub(client).Heartbeat(&call.context, &call.request, &call.response, done);
    });
  }

  void set(const std::string& key, const std::string& value) {
    Step step(1);
    Call<pb::InsertKeyValueRequest, pb::InsertKeyValueResponse> call;
    address_to_service(call.request);
    call.request.mutable_kv()->set_key(key);
    call.request.mutable_kv()->set_value(value);
    prove(call);
    stub(0).InsertKeyValue(&call.context, &call.request, &call.response,
                           [&](const grpc::Status& status) { step.answered(status, "InsertKeyValue"); });
    step.wait();
  }

  /// Each sets its key, some 75 bytes; when all have, process 0 reads the keys together, and the others one
  /// value of 12 bytes for each of them.
  void exchange_topology() {
    for_all<pb::InsertKeyValueRequest, pb::InsertKeyValueResponse>(
        "InsertKeyValue", [&](int client, auto& call, auto done) {
          char key[40];
          std::snprintf(key, sizeof key, "topology/local/%08d", client);
          address_to_service(call.request);
          call.request.mutable_kv()->set_key(key);
          call.request.mutable_kv()->set_value(std::string(75, 't'));
          prove(call);
          stub(client).InsertKeyValue(&call.context, &call.request, &call.response, done);
        });
    pass_barrier("topology");
    Step all_read(clients_ - 1), collected(1);
    std::list<Call<pb::GetKeyValueRequest, pb::GetKeyValueResponse>> gets;
    for (int client = 1; client < clients_; ++client) {
      auto& whole = gets.emplace_back();
      address_to_service(whole.request);
      whole.request.set_key("topology/global");
      prove(whole);
      stub(client).GetKeyValue(&whole.context, &whole.request, &whole.response,
                               [&](const grpc::Status& read) { all_read.answered(read, "GetKeyValue"); });
    }
    Call<pb::GetKeyValueDirRequest, pb::GetKeyValueDirResponse> local;
    address_to_service(local.request);
    local.request.set_directory_key("topology/local");
    prove(local);
    stub(0).GetKeyValueDir(&local.context, &local.request, &local.response,
                           [&](const grpc::Status& status) { collected.answered(status, "GetKeyValueDir"); });
    collected.wait();
    if (local.response.kv_size() != clients_) std::exit(1);
    set("topology/global", std::string(12 * static_cast<std::size_t>(clients_), 'T'));
    all_read.wait();
  }

  void pass_barrier(const std::string& id) {
    for_all<pb::BarrierRequest, pb::BarrierResponse>("Barrier", [&](int client, auto& call, auto done) {
      address_to_service(call.request);
      call.request.set_barrier_id(id);
      call.request.set_barrier_timeout_in_ms(600000);
      call.request.set_source_task_id(client);
      prove(call);
      stub(client).Barrier(&call.context, &call.request, &call.response, done);
    });
  }

  void leave_all() {
    for_all<pb::ShutdownTaskRequest, pb::ShutdownTaskResponse>(
        "ShutdownTask", [&](int client, auto& call, auto done) {
          address_to_service(call.request);
          call.request.set_source_task_id(client);
          prove(call);
          stub(client).ShutdownTask(&call.context, &call.request, &call.response, done);
        });
  }

  const int clients_;
  const Identity identity_ = {"", 0,
                              std::getenv("LOCKSTEP_JOB_SECRET") ? std::getenv("LOCKSTEP_JOB_SECRET") : ""};
  const Whereabouts where_ = Whereabouts::own();
  const HostPort address_;
  std::vector<Stubs> stubs_;
  std::uint64_t service_ = 0;
  std::list<Call<pb::PollForErrorRequest, pb::PollForErrorResponse>> polls_;
  std::string times_ = "{";
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "coordination_load ADDRESS CLIENTS CONNECTIONS\n");
    return 2;
  }
  // Neither the channels nor the open polls are taken down in order: they end with the process.
  auto* load = new Load(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  load->run();
  std::fflush(stdout);
  std::_Exit(0);
}
