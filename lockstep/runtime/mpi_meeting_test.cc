// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/mpi_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

/// The ranks of a communicator as threads of this process.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), together_(size) {}

  MpiCommunicator of(int rank) {
    MpiCommunicator ranks;
    ranks.rank = rank;
    ranks.size = size_;
    ranks.all_gather = [this, rank](const void* mine, void* all, std::size_t bytes, std::chrono::seconds) {
      if (rank == 0) shared_.resize(bytes * static_cast<std::size_t>(size_));
      together_.arrive_and_wait();
      std::memcpy(shared_.data() + bytes * static_cast<std::size_t>(rank), mine, bytes);
      together_.arrive_and_wait();
      std::memcpy(all, shared_.data(), shared_.size());
      together_.arrive_and_wait();
    };
    ranks.broadcast = [this, rank](void* data, std::size_t bytes, std::chrono::seconds) {
      if (rank == 0) shared_.assign(static_cast<char*>(data), bytes);
      together_.arrive_and_wait();
      std::memcpy(data, shared_.data(), bytes);
      together_.arrive_and_wait();
    };
    return ranks;
  }

 private:
  int size_;
  std::barrier<> together_;
  std::string shared_;
};

Settings nothing_given() { return resolve({}, MapEnvironment({})); }

struct Met {
  Settings settings = nothing_given();
  bool serves = false;
  std::string error;
};

/// Three ranks meet, of which the first has these settings.
std::vector<Met> meet(const Settings& first) {
  ThreadRanks ranks(3);
  std::vector<Met> met(3);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<coordination::CoordinationServer>> servers(3);
  for (int rank = 0; rank < 3; ++rank) {
    Settings& settings = met[static_cast<std::size_t>(rank)].settings;
    if (rank == 0) settings = first;
    settings.place.process_id = rank;
    settings.place.num_processes = 3;
    settings.options.mpi = ranks.of(rank);
    threads.emplace_back([&, rank] {
      const auto i = static_cast<std::size_t>(rank);
      try {
        servers[i] = meet_by_mpi(met[i].settings);
        met[i].serves = servers[i] != nullptr;
      } catch (const InitializationError& error) {
        met[i].error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return met;
}

TEST(MeetByMpi, Ranks_GetTheSameAddressAndSecretAndTheirNumberOnTheHost) {
  const std::vector<Met> met = meet(nothing_given());
  const cluster::Place& first = met[0].settings.place;
  EXPECT_THAT(first.coordinator_address, HasSubstr("127.0.0.1:"));
  EXPECT_EQ(first.job_secret.size(), 32u);
  EXPECT_THAT(first.job_id, HasSubstr("mpi-"));
  for (int rank = 0; rank < 3; ++rank) {
    const Met& one = met[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.error, "");
    EXPECT_EQ(one.serves, rank == 0);
    EXPECT_EQ(one.settings.place.local_process_id, rank);
    EXPECT_EQ(one.settings.place.coordinator_address, first.coordinator_address);
    EXPECT_EQ(one.settings.place.job_secret, first.job_secret);
    EXPECT_EQ(one.settings.place.job_id, first.job_id);
  }
}

TEST(MeetByMpi, JobIdAndSecretOfRank0_AreUsedByAllRanks) {
  Settings given = nothing_given();
  given.place.job_id = "job 7";
  given.place.job_secret = "a secret of\nseveral lines\n";
  for (const Met& one : meet(given)) {
    EXPECT_EQ(one.settings.place.job_id, given.place.job_id);
    EXPECT_EQ(one.settings.place.job_secret, given.place.job_secret);
  }
}

TEST(MeetByMpi, IfRank0CannotListen_AllRanksThrowItsError) {
  Settings given = nothing_given();
  given.place.job_secret = std::string(3000, 's');
  for (const Met& one : meet(given)) {
    EXPECT_FALSE(one.serves);
    EXPECT_THAT(one.error, HasSubstr("rank 0 of the communicator cannot hold the coordinator"));
    EXPECT_THAT(one.error, HasSubstr("LOCKSTEP_JOB_SECRET"));
  }
  given.place.job_secret = "short";
  for (const Met& one : meet(given)) EXPECT_THAT(one.error, HasSubstr("expected at least 16"));
}

}  // namespace
}  // namespace lockstep::runtime
