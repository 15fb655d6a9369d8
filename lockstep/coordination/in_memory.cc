#include "lockstep/coordination/in_memory.h"

#include <utility>

#include "lockstep/coordination/agent.h"
#include "lockstep/coordination/host.h"

namespace lockstep::coordination {

class InMemoryCoordinator::Impl {
 public:
  explicit Impl(const ServerOptions& options) : host(options) {}
  Host host;
};

InMemoryCoordinator::InMemoryCoordinator(const ServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
InMemoryCoordinator::~InMemoryCoordinator() = default;

std::unique_ptr<CoordinationClient> InMemoryCoordinator::make_client(ClientOptions options) {
  options.address = "(in memory)";
  std::shared_ptr<Service> service(&impl_->host.machine(), [](Service*) {});
  return make_agent(std::move(options), std::move(service), [] { return std::string(); });
}

void InMemoryCoordinator::report_task_failure(int task, const std::string& message, FailureKind kind) {
  impl_->host.machine().report_task_failure({kind, {task}, message});
}
std::vector<TaskInfo> InMemoryCoordinator::tasks() const { return impl_->host.machine().tasks(); }
bool InMemoryCoordinator::all_left() const { return impl_->host.machine().all_left(); }
bool InMemoryCoordinator::wait_until_all_left(std::chrono::milliseconds timeout) const {
  return impl_->host.machine().wait_until_all_left(timeout);
}
Service& InMemoryCoordinator::service() { return impl_->host.machine(); }

}  // namespace lockstep::coordination
