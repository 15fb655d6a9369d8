// SPDX-License-Identifier: Apache-2.0
// The load of coordination_load (load.cc), with a proxy on each host: N clients register, ask who serves,
// poll for errors and send a heartbeat, exchange their topology as the runtime does, pass a barrier and
// leave, by way of proxies, each of which has one stream to the coordinator. Every message of a stream proves
// LOCKSTEP_JOB_SECRET.
//
// coordination_proxied ADDRESS CLIENTS CLIENTS_PER_HOST
//
// Simulated: all proxies are in this process, and the clients call them directly and not over their hosts'
// loopback. What goes to the coordinator, and what it does, is as with as many hosts. Prints the seconds of
// each step, and of all, as JSON.

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/proxy/relay_client.h"

namespace {

using namespace lockstep::coordination;
using Clock = std::chrono::steady_clock;

/// Counts answers; the main thread waits until all have come.
class Step {
 public:
  explicit Step(int expected) : open_(expected) {}
  void answered(const Status& status, const char* call) {
    if (!status.ok()) {
      std::fprintf(stderr, "%s failed: %s\n", call, status.message.c_str());
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

class Load {
 public:
  Load(const std::string& address, int clients, int per_host) : clients_(clients), per_host_(per_host) {
    const char* secret = std::getenv("LOCKSTEP_JOB_SECRET");
    const Identity identity{"", 0, secret != nullptr ? secret : ""};
    for (int first = 0; first < clients; first += per_host)
      proxies_.push_back(make_relay_client(parse_address(address), identity, {}));
  }

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
  RelayClient& proxy(int client) { return *proxies_[static_cast<std::size_t>(client / per_host_)]; }
  static std::uint64_t incarnation(int client) {
    return 0x1234'5678'9abc'0000u + static_cast<std::uint64_t>(client);
  }

  template <class Request>
  Request of_service() const {
    Request request;
    request.mutable_incarnations()->set_service_incarnation(service_);
    return request;
  }
  template <class Request>
  Request of_client(int client) const {
    auto request = of_service<Request>();
    request.set_source_task_id(client);
    return request;
  }
  template <class Request>
  void call(int client, const Request& request, Step& step) {
    make_call(proxy(client), next_call_id(), request,
              [&step](const Status& status, const ResponseTo<Request>&) {
                step.answered(status, procedure_of(static_cast<const Request*>(nullptr)).path);
              });
  }
  void insert(int client, const std::string& key, const std::string& value, Step& step) {
    auto request = of_service<jax::InsertKeyValueRequest>();
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value(value);
    call(client, request, step);
  }

  void register_all() {
    Step step(clients_), described(clients_);
    for (int client = 0; client < clients_; ++client) {
      jax::RegisterTaskRequest request;
      request.set_source_task_id(client);
      request.set_incarnation(incarnation(client));
      const auto answered = [&](const Status& status, const jax::RegisterTaskResponse& response) {
        service_ = response.service_incarnation();
        step.answered(status, "RegisterTask");
      };
      make_call(proxy(client), next_call_id(), request, answered,
                {{"host-0123", 471100 + client % per_host_}});
    }
    step.wait();
    for (int client = 0; client < clients_; ++client) {
      call(client, DescribeRequest(), described);
    }
    described.wait();
    for (int client = 0; client < clients_; ++client) {
      make_call(proxy(client), next_call_id(), of_client<jax::PollForErrorRequest>(client),
                [](const Status&, const jax::PollForErrorResponse&) {});
    }
  }

  void heartbeat_all() {
    Step step(clients_);
    for (int client = 0; client < clients_; ++client) {
      auto request = of_client<jax::HeartbeatRequest>(client);
      request.set_incarnation(incarnation(client));
      call(client, request, step);
    }
    step.wait();
  }

  /// Each client's own part has some 75 bytes, and the whole some 12 for each client and 40 for each host.
  void exchange_topology() {
    Step set(clients_);
    for (int client = 0; client < clients_; ++client) {
      char key[40];
      std::snprintf(key, sizeof key, "topology/local/%08d", client);
      insert(client, key, std::string(75, 't'), set);
    }
    set.wait();
    pass_barrier("topology");
    Step collected(1), published(1), read(clients_ - 1);
    auto all = of_service<jax::GetKeyValueDirRequest>();
    all.set_directory_key("topology/local");
    make_call(proxy(0), next_call_id(), all,
              [&](const Status& status, const jax::GetKeyValueDirResponse& found) {
                if (found.kv_size() != clients_) std::exit(1);
                collected.answered(status, "GetKeyValueDir");
              });
    auto global = of_service<jax::GetKeyValueRequest>();
    global.set_key("topology/global");
    for (int client = 1; client < clients_; ++client) call(client, global, read);
    collected.wait();
    const std::size_t bytes = 12 * static_cast<std::size_t>(clients_) + 40 * proxies_.size();
    insert(0, "topology/global", std::string(bytes, 'T'), published);
    published.wait();
    read.wait();
  }

  void pass_barrier(const std::string& id) {
    Step step(clients_);
    for (int client = 0; client < clients_; ++client) {
      auto request = of_client<jax::BarrierRequest>(client);
      request.set_barrier_id(id);
      request.set_barrier_timeout_in_ms(600'000);
      call(client, request, step);
    }
    step.wait();
  }

  void leave_all() {
    Step step(clients_);
    for (int client = 0; client < clients_; ++client) {
      call(client, of_client<jax::ShutdownTaskRequest>(client), step);
    }
    step.wait();
  }

  const int clients_, per_host_;
  std::vector<std::unique_ptr<RelayClient>> proxies_;
  std::atomic<std::uint64_t> service_ = 0;
  std::string times_ = "{";
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "coordination_proxied ADDRESS CLIENTS CLIENTS_PER_HOST\n");
    return 2;
  }
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  auto* load = new Load(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  load->run();
  std::fflush(stdout);
  std::_Exit(0);
}
