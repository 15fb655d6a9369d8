// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cluster/test_system.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// As the kubelet writes it for a pod with a subdomain.
TestSystem pod(const std::string& host, const std::string& subdomain = "workers") {
  TestSystem system;
  system.files["/etc/hostname"] = host + "\n";
  system.files["/etc/hosts"] =
      "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
      "10.244.1.7\t" +
      (subdomain.empty() ? "" : host + "." + subdomain + ".default.svc.cluster.local\t") + host + "\n";
  return system;
}

/// Pod 2 of an indexed Job of 4.
const Variables kJob = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                        {"KUBERNETES_SERVICE_PORT", "443"},
                        {"HOSTNAME", "train-2"},
                        {"JOB_COMPLETION_INDEX", "2"},
                        {"LOCKSTEP_NUM_PROCESSES", "4"}};

TEST(Kubernetes, IndexedJob_MeetsAtThePodOfIndexZero) {
  Place place = place_of(kJob, "", pod("train-2"));
  EXPECT_EQ(place.cluster, "k8s");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 2);
  EXPECT_EQ(place.coordinator_address, "train-0.workers.default.svc.cluster.local:55527");
  EXPECT_EQ(place.job_id, "k8s-train.workers.default.svc.cluster.local");
  EXPECT_FALSE(place.local_process_id);
}

TEST(Kubernetes, WithoutHostnameVariable_ReadsTheFile) {
  EXPECT_EQ(place_of(without(kJob, {"HOSTNAME"}), "", pod("train-2")).coordinator_address,
            "train-0.workers.default.svc.cluster.local:55527");
}

TEST(Kubernetes, JobSetOfOneJob_MeetsAtItsFirstPod) {
  // A JobSet names its pods JOBSET-REPLICATEDJOB-JOB-POD and makes the service itself.
  Place place =
      place_of(with(kJob, {{"HOSTNAME", "digits-workers-0-2"}}), "", pod("digits-workers-0-2", "digits"));
  EXPECT_EQ(place.coordinator_address, "digits-workers-0-0.digits.default.svc.cluster.local:55527");
  EXPECT_EQ(place.process_id, 2);
}

TEST(Kubernetes, JobSetOfSeveralJobs_NumbersProcessesAcrossJobs) {
  const Variables second = with(kJob, {{"HOSTNAME", "digits-workers-1-2"},
                                       {"JOB_INDEX", "1"},
                                       {"PROCESSES_IN_JOB", "4"},
                                       {"LOCKSTEP_NUM_PROCESSES", "8"}});
  Place place = place_of(second, "", pod("digits-workers-1-2", "digits"));
  EXPECT_EQ(place.num_processes, 8);
  EXPECT_EQ(place.process_id, 6);
  EXPECT_EQ(place.coordinator_address, "digits-workers-0-0.digits.default.svc.cluster.local:55527");
  EXPECT_THAT(error_of(without(second, {"PROCESSES_IN_JOB"}), "", pod("digits-workers-1-2", "digits")),
              AllOf(HasSubstr("JOB_INDEX=1"), HasSubstr("PROCESSES_IN_JOB missing")));
}

TEST(Kubernetes, WithoutTheNumberOfPods_SaysWhatTheManifestMustSet) {
  EXPECT_THAT(error_of(without(kJob, {"LOCKSTEP_NUM_PROCESSES"}), "", pod("train-2")),
              AllOf(HasSubstr("JOB_COMPLETION_INDEX=2 set"), HasSubstr("LOCKSTEP_NUM_PROCESSES missing"),
                    HasSubstr("manifest")));
  EXPECT_THAT(error_of(without(kJob, {"JOB_COMPLETION_INDEX"}), "", pod("train-2")),
              AllOf(HasSubstr("JOB_COMPLETION_INDEX missing"), HasSubstr("completionMode: Indexed")));
  EXPECT_THAT(error_of(with(kJob, {{"LOCKSTEP_NUM_PROCESSES", "2"}}), "", pod("train-2")),
              HasSubstr("this pod is process 2"));
}

TEST(Kubernetes, WithoutASubdomain_SaysWhatTheManifestMustSet) {
  EXPECT_THAT(error_of(kJob, "", pod("train-2", "")),
              AllOf(HasSubstr("headless service"), HasSubstr("`subdomain`")));
  const Variables by_hand = with(kJob, {{"LOCKSTEP_COORDINATOR_ADDRESS", "train-0.workers:5"}});
  EXPECT_EQ(place_of(by_hand, "", pod("train-2", "")).coordinator_address, "train-0.workers:5");
}

TEST(Kubernetes, HostNameThatDoesNotEndWithThePodsIndex_IsAnError) {
  EXPECT_THAT(error_of(with(kJob, {{"HOSTNAME", "worker"}}), "", pod("worker")),
              AllOf(HasSubstr("'worker'"), HasSubstr("'-2'"), HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS")));
}

TEST(Kubernetes, PodOutsideOfAJob_IsASingleProcess) {
  EXPECT_EQ(place_of({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}}, "", pod("notebook")).cluster, "single");
}

/// Worker 1 of a slice of two hosts under GKE.
const Variables kGke = {{"TPU_WORKER_ID", "1"},
                        {"TPU_WORKER_HOSTNAMES", "job-0.svc,job-1.svc"},
                        {"TPU_ACCELERATOR_TYPE", "v5litepod-8"},
                        {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                        {"JOB_COMPLETION_INDEX", "1"}};

TEST(GkeTpu, SliceOfSeveralHosts_MeetsAtTheFirstWorker) {
  Place place = place_of(kGke);
  EXPECT_EQ(place.cluster, "gketpu");
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "job-0.svc:8482");
}

TEST(GkeTpu, SingleHost_IsOneProcess) {
  Place place = place_of(with(kGke, {{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}}));
  EXPECT_EQ(place.num_processes, 1);
  EXPECT_EQ(place.coordinator_address, "");
}

TEST(GkeTpu, ProcessAddresses_WinOverHostNames) {
  Place place =
      place_of(with(kGke, {{"TPU_PROCESS_ADDRESSES", "10.0.0.1:8471,10.0.0.2:8471,10.0.0.3:8471"}}));
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.coordinator_address, "10.0.0.1:8482");
}

TEST(GkeTpu, SeveralSlices_NumberProcessesAcrossSlices) {
  const Variables slices = with(kGke, {{"MEGASCALE_NUM_SLICES", "3"},
                                       {"MEGASCALE_SLICE_ID", "2"},
                                       {"MEGASCALE_COORDINATOR_ADDRESS", "first.svc:8080"}});
  Place place = place_of(slices);
  EXPECT_EQ(place.num_processes, 6);
  EXPECT_EQ(place.process_id, 5);
  EXPECT_EQ(place.coordinator_address, "first.svc:8482");
  EXPECT_THAT(error_of(without(slices, {"MEGASCALE_SLICE_ID"})), HasSubstr("MEGASCALE_SLICE_ID is missing"));
  EXPECT_THAT(error_of(without(slices, {"MEGASCALE_COORDINATOR_ADDRESS"})),
              HasSubstr("MEGASCALE_COORDINATOR_ADDRESS is missing"));
  EXPECT_THAT(error_of(with(slices, {{"MEGASCALE_SLICE_ID", "3"}})), HasSubstr("out of range"));
}

TEST(GkeTpu, HalfSet_IsOneErrorThatListsSetAndMissing) {
  EXPECT_THAT(
      error_of(without(kGke, {"TPU_WORKER_ID"})),
      AllOf(HasSubstr("TPU_WORKER_HOSTNAMES=job-0.svc,job-1.svc"), HasSubstr("TPU_WORKER_ID missing")));
  EXPECT_THAT(error_of(without(kGke, {"TPU_WORKER_HOSTNAMES"})), HasSubstr("TPU_WORKER_HOSTNAMES missing"));
  EXPECT_THAT(error_of(with(kGke, {{"TPU_WORKER_ID", "2"}})), HasSubstr("TPU_WORKER_ID=2 is out of range"));
}

/// A TPU VM: one chip, Google's network card, and a disk controller.
TestSystem tpu_vm() {
  TestSystem system;
  const std::string pci = "/sys/bus/pci/devices/";
  system.files = {{pci + "0000:00:03.0/vendor", "0x1af4\n"}, {pci + "0000:00:03.0/device", "0x1004\n"},
                  {pci + "0000:00:04.0/vendor", "0x1ae0\n"}, {pci + "0000:00:04.0/device", "0x0042\n"},
                  {pci + "0000:00:05.0/vendor", "0x1ae0\n"}, {pci + "0000:00:05.0/device", "0x0063\n"}};
  system.attributes = {{"agent-worker-number", "1"},
                       {"worker-network-endpoints", "unknown:unknown:10.130.0.2,unknown:unknown:10.130.0.3"},
                       {"tpu-env", "ACCELERATOR_TYPE: 'v5litepod-16'\nWORKER_ID: '1'\n"}};
  return system;
}

TEST(GceTpu, PodSlice_MeetsAtTheFirstEndpoint) {
  Place place = place_of({}, "", tpu_vm());
  EXPECT_EQ(place.cluster, "gcetpu");
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "10.130.0.2:8482");
}

TEST(GceTpu, EndpointsAsHostNames_AreRead) {
  TestSystem system = tpu_vm();
  system.attributes["worker-network-endpoints"] = "t1v-n-0,t1v-n-1,t1v-n-2\n";
  EXPECT_EQ(place_of({}, "", system).coordinator_address, "t1v-n-0:8482");
  system.attributes["worker-network-endpoints"] = "a:b";
  EXPECT_THAT(error_of({}, "", system), HasSubstr("'a:b'"));
}

TEST(GceTpu, SingleHost_IsOneProcess) {
  TestSystem system = tpu_vm();
  system.attributes["agent-worker-number"] = "0";
  system.attributes["worker-network-endpoints"] = "unknown:unknown:10.130.0.2";
  Place place = place_of({}, "", system);
  EXPECT_EQ(place.cluster, "gcetpu");
  EXPECT_EQ(place.num_processes, 1);
}

TEST(GceTpu, SeveralSlices_AreReadFromTheMetadata) {
  TestSystem system = tpu_vm();
  system.attributes["tpu-env"] =
      "MEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\nMEGASCALE_COORDINATOR_ADDRESS: "
      "'10.128.0.9:8080'\n";
  Place place = place_of({}, "", system);
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 3);
  EXPECT_EQ(place.coordinator_address, "10.128.0.9:8482");
}

TEST(GceTpu, MachineWithoutChips_DoesNotAskTheMetadataServer) {
  TestSystem system = tpu_vm();
  system.files.erase("/sys/bus/pci/devices/0000:00:05.0/device");
  EXPECT_EQ(place_of({}, "", system).cluster, "single");
  EXPECT_EQ(system.questions, 0);
  EXPECT_EQ(place_of({{"TPU_SKIP_MDS_QUERY", "1"}}, "", tpu_vm()).cluster, "single");
}

TEST(GceTpu, MetadataThatIsIncompleteOrOutOfReach_IsAnError) {
  TestSystem system = tpu_vm();
  system.attributes.erase("worker-network-endpoints");
  EXPECT_THAT(error_of({}, "", system),
              AllOf(HasSubstr("agent-worker-number=1 set"), HasSubstr("worker-network-endpoints missing")));
  system.server = "10.0.0.1";
  EXPECT_THAT(error_of({}, "", system), HasSubstr("cannot ask http://metadata.google.internal"));
  EXPECT_EQ(place_of({{"GCE_METADATA_IP", "10.0.0.1"},
                      {"LOCKSTEP_NUM_PROCESSES", "2"},
                      {"LOCKSTEP_PROCESS_ID", "1"},
                      {"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}},
                     "", system)
                .cluster,
            "explicit");
}

}  // namespace
}  // namespace lockstep::cluster
