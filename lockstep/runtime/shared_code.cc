// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/shared_code.h"

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/collectives/handouts.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

using collectives::SealedBytes;
using collectives::TakeOutcome;

constexpr collectives::TakeLimits kLimits{std::chrono::seconds(2), std::chrono::seconds(300)};
constexpr std::size_t kCodeBytes = 32;  ///< Of the HMAC, which comes before the machine code.

CodeTree tree_of(const ir::LoweredProgram& program, const Mesh& mesh, Runtime& runtime) {
  if (runtime.process_count() == 1 || program.native_collectives || runtime.job_secret().empty()) return {};
  std::vector<int> processes;
  bool takes_part = false;
  for (Device device : mesh.devices()) {
    const int process = device.process_index();
    if (processes.empty() || processes.back() != process) processes.push_back(process);
    takes_part = takes_part || process == runtime.process_index();
  }
  if (!takes_part) return {};
  const Topology& topology = runtime.topology();
  return code_tree(
      processes, runtime.process_index(), [&](int process) { return topology.host_of(process); },
      [&](int a, int b) { return topology.shape(a).machine == topology.shape(b).machine; });
}

std::string_view name_of(TakeOutcome outcome) {
  switch (outcome) {
    case TakeOutcome::kNotBegun:
      return "it has not begun to compile";
    case TakeOutcome::kLate:
      return "it does not finish";
    default:
      return "it does not have it";
  }
}

}  // namespace

SharedCode::SharedCode(const ir::LoweredProgram& program, const Mesh& mesh, std::string_view options)
    : tree_(tree_of(program, mesh, runtime_)), key_(key(program, options)) {}

SharedCode::~SharedCode() {
  if (begun_) runtime_.handouts().give_up(key_);
}

bool SharedCode::comes_from_another_host() const {
  const Topology& topology = runtime_.topology();
  return giver() >= 0 && topology.host_of(giver()) != topology.host_of(runtime_.process_index());
}

std::string SharedCode::key(const ir::LoweredProgram& program, std::string_view options) {
  return "code/" + digest(program.stablehlo + std::string(options));
}

std::string SharedCode::authentication_of(std::string_view code) const {
  return coordination::authentication_code(runtime_.job_secret(), "machine code of " + key_, code);
}

void SharedCode::begin() {
  if (!has_takers()) return;
  runtime_.handouts().begin(key_);
  begun_ = true;
}

void SharedCode::give(std::shared_ptr<const SealedBytes> bytes) {
  runtime_.handouts().give(key_, std::move(bytes), tree_.takers);
  begun_ = false;
}

void SharedCode::give(std::string_view code) {
  if (!has_takers()) return;
  SealedBytes::Writer writer(kCodeBytes + code.size());
  writer.append(authentication_of(code));
  writer.append(code);
  give(writer.seal());
}

void SharedCode::give_in_cache() {
  if (has_takers()) give(SealedBytes::copy_of(""));
}

std::optional<SharedCode::Code> SharedCode::take(const std::string& name) {
  const watch::Doing waiting(watch::Kind::kAnswer,
                             fmt::format("machine code of {}, which process {} compiles", name, tree_.giver));
  watch::waits_for(std::array{tree_.giver}, 0);
  const collectives::Taken taken = runtime_.handouts().take(tree_.giver, key_, kLimits);
  if (taken.outcome != TakeOutcome::kTaken) {
    logging::debug("process {} does not give {}: {}; compiling for itself", tree_.giver, name,
                   name_of(taken.outcome));
    return std::nullopt;
  }
  const std::string_view all = taken.bytes->view();
  if (all.empty()) return Code{all, taken.bytes};
  const std::string_view claimed = all.substr(0, kCodeBytes), code = all.substr(claimed.size());
  if (!coordination::same_code(claimed, authentication_of(code))) {
    logging::warning(
        "the machine code of {} that process {} gives was not made by a process that has the job's secret; "
        "this process compiles it itself",
        name, tree_.giver);
    return std::nullopt;
  }
  if (has_takers()) give(taken.bytes);
  return Code{code, taken.bytes};
}

}  // namespace lockstep::runtime
