// SPDX-License-Identifier: Apache-2.0
#pragma once

// The variables of processes of launchers and clouds, according to their documents and sources.

#include "lockstep/cluster/test_system.h"

namespace lockstep::cluster {

/// Process 5 of `torchrun --nnodes 2 --nproc-per-node 4`.
inline const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                    {"WORLD_SIZE", "8"},
                                    {"RANK", "5"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "4"},
                                    {"MASTER_ADDR", "node1"},
                                    {"MASTER_PORT", "29500"}};

/// Worker 0 of a PyTorchJob of a master and two workers.
inline const Variables kPyTorchJob = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                      {"HOSTNAME", "bert-worker-0"},
                                      {"PYTHONUNBUFFERED", "1"},
                                      {"MASTER_PORT", "23456"},
                                      {"PET_MASTER_PORT", "23456"},
                                      {"MASTER_ADDR", "bert-master-0"},
                                      {"PET_MASTER_ADDR", "bert-master-0"},
                                      {"WORLD_SIZE", "3"},
                                      {"RANK", "1"},
                                      {"PET_NODE_RANK", "1"},
                                      {"PET_NNODES", "3"}};

/// Process 1 of `horovodrun -np 4 -H a:2,b:2`.
inline const Variables kHorovod = {{"HOROVOD_HOSTNAME", "a"},
                                   {"HOROVOD_RANK", "1"},
                                   {"HOROVOD_SIZE", "4"},
                                   {"HOROVOD_LOCAL_RANK", "1"},
                                   {"HOROVOD_LOCAL_SIZE", "2"},
                                   {"HOROVOD_CROSS_RANK", "0"},
                                   {"HOROVOD_CROSS_SIZE", "2"},
                                   {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
                                   {"HOROVOD_GLOO_RENDEZVOUS_PORT", "40961"},
                                   {"HOROVOD_CONTROLLER", "gloo"},
                                   {"HOROVOD_CPU_OPERATIONS", "gloo"},
                                   {"HOROVOD_GLOO_IFACE", "eth0"}};

/// Worker 1 of a group of 4.
inline const Variables kLws = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                               {"HOSTNAME", "llm-2-1"},
                               {"LWS_LEADER_ADDRESS", "llm-2.llm.default"},
                               {"LWS_GROUP_SIZE", "4"},
                               {"LWS_WORKER_INDEX", "1"}};

/// Worker 1 of a JAXJob of 3.
inline const Variables kJaxJob = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                  {"HOSTNAME", "jaxjob-worker-1"},
                                  {"PYTHONUNBUFFERED", "1"},
                                  {"COORDINATOR_PORT", "6666"},
                                  {"COORDINATOR_ADDRESS", "jaxjob-worker-0"},
                                  {"NUM_PROCESSES", "3"},
                                  {"PROCESS_ID", "1"}};

/// Node 3 of 4, of which node 1 is the main one.
inline const Variables kBatch = {
    {"AWS_BATCH_JOB_ID", "9a8b#3"},         {"AWS_BATCH_JOB_ATTEMPT", "2"},
    {"AWS_BATCH_JOB_NUM_NODES", "4"},       {"AWS_BATCH_JOB_NODE_INDEX", "3"},
    {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "1"}, {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.0.7"}};

inline const Variables kSageMaker = {
    {"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}, {"TRAINING_JOB_NAME", "run-7"}};

inline const Variables kSkyPilot = {{"SKYPILOT_NUM_NODES", "2"},
                                    {"SKYPILOT_NODE_RANK", "1"},
                                    {"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2\n"},
                                    {"SKYPILOT_NUM_GPUS_PER_NODE", "8"},
                                    {"SKYPILOT_TASK_ID", "sky-2026-01-01-00-00-00-000000_train_1"}};

}  // namespace lockstep::cluster
