// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/serves_already.h"

#include <utility>

#include "coordination.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/coordination/client/remote_service.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/pending.h"
#include "lockstep/coordination/tls/tls_probe.h"

namespace lockstep::coordination {
namespace {
constexpr std::chrono::milliseconds kToConnect(1000), kForAnswer(10000);
}

bool serves_already(const ClientOptions& options, std::string* found) {
  const auto set_found = [found](std::string text) {
    if (found != nullptr) *found = std::move(text);
    return false;
  };
  set_found("");
  HostPort address = parse_address(options.address);
  if (!why_unreachable(address, kToConnect).empty()) return false;
  auto service = make_remote_service(address, options.identity, options.tls);
  // Every coordinator returns the right incarnation to a caller with a wrong one, such as none.
  const auto answer = ask(*service, kForAnswer, jax::WatchTasksRequest());
  if (!answer || (!answer->status.service_error && answer->status.code == Code::kUnavailable)) {
    const std::string why = why_no_common_tls(address, options.tls, kToConnect);
    if (why.empty()) {
      return set_found(answer
                           ? fmt::format("does not answer as a coordinator does ({})", answer->status.message)
                           : fmt::format("accepts connections, but has not answered for {} s: it may be this "
                                         "job's coordinator, on a busy host, or another program",
                                         kForAnswer.count() / 1000));
    }
    fail<InitializationError>("[process {} of {}] cannot join the job at the coordinator {}: {}",
                              options.process_id, options.num_processes, options.address, why);
  }
  const auto throw_if_denied = [&](const Status& status) {
    if (!status.service_error || status.code != Code::kPermissionDenied) return;
    fail<InitializationError>("[process {} of {}] cannot join the job at the coordinator {}: {}",
                              options.process_id, options.num_processes, options.address, status.message);
  };
  throw_if_denied(answer->status);
  if (!answer->status.right_service_incarnation)
    return set_found(fmt::format("does not answer as a coordinator does ({})", answer->status.message));
  const auto proof =
      ask<Nothing>(*service, kForAnswer, [&](CallId id, auto done) { service->prove(id, std::move(done)); });
  if (proof) throw_if_denied(proof->status);
  if (proof && proof->status.ok()) return true;
  return set_found("answers as a coordinator does, but has not proved the job's secret in time");
}

}  // namespace lockstep::coordination
