// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/options.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The name's domain with its leading dot, as the kubelet writes it into /etc/hosts for a pod with a
/// subdomain: "10.1.0.5 job-2.workers.default.svc.cluster.local job-2".
std::optional<std::string> domain_of(const std::string& host, const System& system) {
  std::istringstream lines(system.read_file("/etc/hosts").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;)
      if (word.starts_with(host + ".")) return word.substr(host.size());
  }
  return std::nullopt;
}

std::string without_end(const std::string& text, const std::string& end, const std::string& why) {
  if (text.size() > end.size() && text.ends_with(end)) return text.substr(0, text.size() - end.size());
  fail<InitializationError>(
      "the pod's host name '{}' does not end with '{}' ({}): set "
      "LOCKSTEP_COORDINATOR_ADDRESS to the host name and port of process 0's pod",
      text, end, why);
}

}  // namespace

std::optional<Place> k8s_place(const Environment& environment, const System& system) {
  if (!find_variable(environment, {"KUBERNETES_SERVICE_HOST"})) return std::nullopt;
  Signs signs(environment);
  auto num_processes = signs.need(variables_of(options::kNumProcesses));
  auto index = signs.need({"JOB_COMPLETION_INDEX"});
  if (signs.there().empty()) return std::nullopt;  // a pod that belongs to no job
  // Kubeflow numbers pods by an indexed Job, too, and tells them more.
  if (!num_processes && find_variable(environment, {"PET_NNODES", "WORLD_SIZE", "PROCESS_ID"}))
    return std::nullopt;
  auto job_index = signs.want({"JOB_INDEX"});
  auto pods_of_job = signs.want({"PROCESSES_IN_JOB"});
  if (job_index && !pods_of_job) signs.need({"PROCESSES_IN_JOB"});
  if (pods_of_job && !job_index) signs.need({"JOB_INDEX"});
  signs.check("Kubernetes",
              "the manifest must say `completionMode: Indexed` and set LOCKSTEP_NUM_PROCESSES to the number "
              "of pods; JOB_INDEX and PROCESSES_IN_JOB only for a JobSet of several jobs");

  Place place;
  place.cluster = "k8s";
  place.why = signs.there();
  place.num_processes = number_in(*num_processes, 1);
  place.process_id = number_in(*index, 0);
  if (job_index) place.process_id += number_in(*job_index, 0) * number_in(*pods_of_job, 1);
  if (place.process_id >= place.num_processes) {
    fail<InitializationError>(
        "this pod is process {} ({}), out of range: set LOCKSTEP_NUM_PROCESSES to the "
        "number of pods",
        place.process_id, place.why);
  }
  const std::string host = pod_name(environment, system);
  auto address = given_address(environment);
  if (address) place.coordinator_address = address->value;
  if (address || place.num_processes == 1) {
    place.job_id = "k8s-" + host.substr(0, host.rfind('-'));
    return place;
  }
  std::string job = without_end(host, "-" + index->value, index->to_string());
  const auto domain = domain_of(host, system);
  if (!domain) {
    fail<InitializationError>(
        "Kubernetes started this pod as process {} of {} ({}), but it has no subdomain by which the pods can "
        "find each other (/etc/hosts has no name that starts with '{}.'); make a headless service "
        "(`clusterIP: None`, `publishNotReadyAddresses: true`) and name it as `subdomain` in the pod's "
        "template, or set LOCKSTEP_COORDINATOR_ADDRESS",
        place.process_id, place.num_processes, place.why, host);
  }
  if (job_index) job = without_end(job, "-" + job_index->value, job_index->to_string());
  const std::string first = job + (job_index ? "-0-0" : "-0");
  place.job_id = "k8s-" + job + *domain;
  place.coordinator_address = coordinator_at(environment, first + *domain, kCoordinatorPort);
  return place;
}

}  // namespace lockstep::cluster
