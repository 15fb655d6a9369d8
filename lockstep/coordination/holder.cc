// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/holder.h"

#include <utility>

#include "coordination.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/coordination/address.h"
#include "lockstep/coordination/pending.h"
#include "lockstep/coordination/remote_service.h"
#include "lockstep/coordination/tls_probe.h"

namespace lockstep::coordination {
namespace {
constexpr std::chrono::milliseconds kForConnecting(1000), kForAnswer(10000);
}

bool serves_already(const ClientOptions& options, std::string* holder) {
  const auto set_holder = [holder](std::string text) {
    if (holder != nullptr) *holder = std::move(text);
    return false;
  };
  set_holder("");
  HostPort address = parse_address(options.address);
  if (!why_unreachable(address, kForConnecting).empty()) return false;
  auto service = make_remote_service(address, options.identity, options.tls);
  // Every coordinator returns the right incarnation to a caller with a wrong one, such as none.
  const auto answer = ask(*service, kForAnswer, jax::WatchTasksRequest());
  if (!answer || (!answer->status.service_error && answer->status.code == Code::kUnavailable)) {
    const std::string why = why_no_common_tls(address, options.tls, kForConnecting);
    if (why.empty()) {
      return set_holder(
          answer ? fmt::format("does not answer as a coordinator does ({})", answer->status.message)
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
    return set_holder(fmt::format("does not answer as a coordinator does ({})", answer->status.message));
  const auto proof =
      ask<Nothing>(*service, kForAnswer, [&](CallId id, auto done) { service->prove(id, std::move(done)); });
  if (proof) throw_if_denied(proof->status);
  if (proof && proof->status.ok()) return true;
  return set_holder("answers as a coordinator does, but has not proved the job's secret in time");
}

}  // namespace lockstep::coordination
