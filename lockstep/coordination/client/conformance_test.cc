// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordination.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/conformance_test.h"
#include "lockstep/coordination/protocol/calls.h"

// Tests of what every implementation of CoordinationClient promises: the one over gRPC, also by way of a
// proxy, and the one in memory.

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr seconds kLong(60);  // A deadline for what must happen; nothing waits for it to pass.

/// The error that a client was told, for the test's thread to wait for.
class Heard {
 public:
  std::function<void(const JobError&)> callback() {
    return [this](const JobError& error) {
      std::lock_guard lock(mutex_);
      errors_.push_back(error);
      heard_.notify_all();
    };
  }
  JobError wait() {
    std::unique_lock lock(mutex_);
    if (!heard_.wait_for(lock, kLong, [this] { return !errors_.empty(); })) {
      ADD_FAILURE() << "no error was told";
      return {};
    }
    EXPECT_EQ(errors_.size(), 1u);
    return errors_.front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<JobError> errors_;
};

template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error was thrown: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

void wait_until(const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "what was waited for did not happen";
    std::this_thread::sleep_for(milliseconds(1));
  }
}

template <class Implementation>
class ClientConformance : public ::testing::Test {
 protected:
  void SetUp() override {
    server_options_.register_timeout = kLong;
    server_options_.heartbeat_timeout = kLong;
    server_options_.shutdown_timeout = kLong;
  }

  void serve(int num_processes) {
    server_options_.num_processes = num_processes;
    heard_ = std::vector<Heard>(num_processes);
    job_ = std::make_unique<Implementation>(server_options_);
  }

  std::unique_ptr<CoordinationClient> make(int process) {
    ClientOptions options;
    options.process_id = process;
    options.num_processes = server_options_.num_processes;
    options.initialization_timeout = kLong;
    options.shutdown_timeout = kLong;
    options.heartbeat_interval = heartbeat_interval_;
    if (process < static_cast<int>(heard_.size())) options.on_error = heard_[process].callback();
    return job_->make_client(std::move(options));
  }

  /// Runs the action for each process, each in a thread of its own.
  void each(const std::function<void(int, CoordinationClient&)>& action) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      threads.emplace_back([&, i] { action(static_cast<int>(i), *clients_[i]); });
    }
    for (auto& thread : threads) thread.join();
  }

  /// A job of connected clients.
  void start(int num_processes) {
    serve(num_processes);
    for (int i = 0; i < num_processes; ++i) clients_.push_back(make(i));
    each([](int, CoordinationClient& client) { client.connect(); });
  }

  KeyValueStore& store(int process) { return clients_[process]->key_value_store(); }

  ManualClock clock_;
  ServerOptions server_options_;
  milliseconds heartbeat_interval_{1000};
  std::vector<Heard> heard_;
  std::unique_ptr<Implementation> job_;
  std::vector<std::unique_ptr<CoordinationClient>> clients_;
};

using Implementations = ::testing::Types<Memory, Grpc, Proxied>;
TYPED_TEST_SUITE(ClientConformance, Implementations);

TYPED_TEST(ClientConformance, ConnectAndShutdown_AllTogether_LeavesNobody) {
  this->start(4);
  for (const TaskInfo& task : this->job_->coordinator().tasks()) EXPECT_EQ(task.state, TaskState::kConnected);
  EXPECT_FALSE(this->job_->coordinator().all_left());
  this->each([](int, CoordinationClient& client) { client.shutdown(); });
  EXPECT_TRUE(this->job_->coordinator().wait_until_all_left(kLong));
  this->clients_[0]->shutdown();
  EXPECT_FALSE(this->clients_[0]->error());
}

TYPED_TEST(ClientConformance, Keys_AreSharedByAll) {
  this->start(2);
  std::string bytes("\0\xff/\n", 4);
  this->store(0).set("/a//b/", bytes);
  EXPECT_EQ(this->store(1).get("a/b", kLong), bytes);
  EXPECT_EQ(this->store(1).try_get("a"), std::nullopt);
  this->store(1).set("a/c", "2");
  EXPECT_THAT(this->store(0).get_directory("a"),
              ::testing::ElementsAre(::testing::Pair("a/b", bytes), ::testing::Pair("a/c", "2")));
  EXPECT_EQ(this->store(0).increment("n", 40), 40);
  EXPECT_EQ(this->store(1).increment("n", 2), 42);
  EXPECT_THAT(message_of<Error>([&] { this->store(0).set("a/b", ""); }), HasSubstr("'a/b' exists already"));
  this->store(0).set("a/b", "3", true);
  EXPECT_EQ(this->store(1).try_get("a/b"), "3");
  this->store(0).erase("a");
  EXPECT_EQ(this->store(1).try_get("a/b"), std::nullopt);
  this->store(0).set("text", "x");
  EXPECT_THAT(message_of<Error>([&] { this->store(1).increment("text", 1); }),
              HasSubstr("not a decimal number"));
}

TYPED_TEST(ClientConformance, Keys_LargeValues_PassWhole) {
  this->start(1);
#ifdef __SANITIZE_THREAD__
  std::string large(1 << 16, 'x');  // Each word that gRPC hands from thread to thread is looked at for long.
#else
  std::string large(8 << 20, 'x');
#endif
  large.back() = 'y';
  this->store(0).set("large", large);
  EXPECT_TRUE(this->store(0).get("large", kLong) == large);
}

TYPED_TEST(ClientConformance, Get_WaitsUntilAnotherSets) {
  this->start(2);
  this->each([&](int process, CoordinationClient& client) {
    auto& store = client.key_value_store();
    store.set(process == 0 ? "from0" : "from1", std::to_string(process));
    EXPECT_EQ(store.get(process == 0 ? "from1" : "from0", kLong), std::to_string(1 - process));
  });
}

TYPED_TEST(ClientConformance, Get_Timeout_NamesKeyAndTime) {
  this->start(1);
  std::string message =
      message_of<TimeoutError>([&] { this->store(0).get("never/set", milliseconds(1500)); });
  EXPECT_THAT(message, HasSubstr("'never/set' within 1.5 s"));
  EXPECT_THAT(message, HasSubstr("process 0 of 1"));
}

TYPED_TEST(ClientConformance, Barrier_CanBeUsedRepeatedly) {
  this->start(3);
  std::atomic<int> arrived{0};
  this->each([&](int, CoordinationClient& client) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      client.barrier("b", kLong);
      EXPECT_GE(arrived, 3 * round);
    }
  });
}

TYPED_TEST(ClientConformance, Barrier_OfSomeProcesses_DoesNotWaitForOthers) {
  this->start(3);
  this->each([](int process, CoordinationClient& client) {
    if (process != 1) client.barrier("b", kLong, {0, 2});
  });
  EXPECT_THAT(message_of<Error>([&] {
                this->clients_[1]->barrier("b", kLong, {0, 2});
              }),
              HasSubstr("process 1 called it, but only processes 0, 2 of 3 take part"));
}

TYPED_TEST(ClientConformance, Barrier_Timeout_NamesTheMissing_AndTheNextUseWorks) {
  this->start(3);
  this->each([](int process, CoordinationClient& client) {
    if (process == 1) return;
    EXPECT_THAT(message_of<TimeoutError>([&] { client.barrier("b", milliseconds(300)); }),
                HasSubstr("missing: process"));
  });
  EXPECT_THAT(message_of<TimeoutError>([&] { this->clients_[1]->barrier("b", kLong); }),
              HasSubstr("missing: process"));
  this->each([](int, CoordinationClient& client) { client.barrier("b", kLong); });
}

TYPED_TEST(ClientConformance, Connect_IdOutOfRange_SaysTheRange) {
  this->serve(2);
  std::string message = message_of<InitializationError>([&] { this->make(2)->connect(); });
  EXPECT_THAT(message, HasSubstr("process id 2 is out of range: the job has 2 processes, with ids 0 to 1"));
}

TYPED_TEST(ClientConformance, Connect_IdTakenByAnother_FailsAndEndsTheJob) {
  this->start(2);
  std::string message = message_of<InitializationError>([&] { this->make(1)->connect(); });
  EXPECT_THAT(message, HasSubstr("two processes were given the same process id"));
  JobError error = this->heard_[0].wait();
  EXPECT_EQ(error.process, 1);
  EXPECT_THAT(error.message, HasSubstr("process 1 of 2 came a second time"));
}

TYPED_TEST(ClientConformance, Connect_IdTakenWhileWaiting_FailsTheFirstCaller) {
  this->serve(2);
  auto first = this->make(0), second = this->make(0), other = this->make(1);
  std::thread waiting([&] {
    EXPECT_THAT(message_of<InitializationError>([&] { first->connect(); }),
                HasSubstr("the id of process 0 of 2 was taken by another process"));
  });
  auto came = [&] { return this->job_->coordinator().tasks()[0].incarnation; };
  wait_until([&] { return came() != 0; });
  std::uint64_t first_incarnation = came();
  std::thread successor([&] { second->connect(); });
  wait_until([&] { return came() != first_incarnation; });
  other->connect();
  waiting.join();
  successor.join();
}

TYPED_TEST(ClientConformance, Connect_FewerProcessesThanExpected_NamesTheMissing) {
  this->server_options_.register_timeout = milliseconds(300);
  this->serve(3);
  std::string message = message_of<InitializationError>([&] { this->make(1)->connect(); });
  EXPECT_THAT(message, HasSubstr("after 0.3 s 1 of 3 processes have joined: 1"));
  EXPECT_THAT(message, HasSubstr("missing: processes 0, 2 of 3"));
}

TYPED_TEST(ClientConformance, Connect_ServerWaitsLongerThanTheClient_TheClientNamesTheMissing) {
  this->serve(3);
  ClientOptions options;
  options.process_id = 1;
  options.num_processes = 3;
  options.initialization_timeout = milliseconds(200);
  auto client = this->job_->make_client(options);
  EXPECT_THAT(message_of<InitializationError>([&] { client->connect(); }),
              HasSubstr("missing: processes 0, 2 of 3"));
  wait_until([&] { return this->job_->coordinator().tasks()[1].incarnation == 0; });
}

TYPED_TEST(ClientConformance, Connect_AnotherProcessDies_FailsAtOnce) {
  this->serve(2);
  auto client = this->make(0);
  std::thread waiting([&] {
    EXPECT_EQ(
        message_of<PeerFailure>([&] { client->connect(); }),
        "process 1 (host b, pid 4711) died: signal 9\nconsequence: joining the job ended in process 0 of 2");
  });
  wait_until([&] { return this->job_->coordinator().tasks()[0].incarnation != 0; });
  this->job_->coordinator().report_task_failure(1, "process 1 (host b, pid 4711) died: signal 9");
  waiting.join();
}

TYPED_TEST(ClientConformance, ReportedDeath_EndsAllWaits_NamingTheFirstCause) {
  this->start(4);
  std::thread reporter([&] {
    wait_until([&] { return this->store(3).try_get("ready") == "2"; });
    this->job_->coordinator().report_task_failure(3, "process 3 died: signal 9");
  });
  this->each([&](int process, CoordinationClient& client) {
    if (process == 3) return;
    if (process < 2) client.key_value_store().increment("ready", 1);
    std::string message = message_of<PeerFailure>([&] {
      if (process == 0) client.barrier("b", kLong);
      if (process == 1) client.key_value_store().get("k", kLong);
      if (process == 2) {
        this->heard_[2].wait();
        client.barrier("other", kLong);
      }
    });
    EXPECT_THAT(message, ::testing::StartsWith("process 3 died: signal 9\nconsequence: "));
    EXPECT_THAT(message, HasSubstr("ended in process " + std::to_string(process) + " of 4"));
    JobError error = this->heard_[process].wait();
    EXPECT_EQ(error.message, "process 3 died: signal 9");
    EXPECT_EQ(error.process, 3);
    ASSERT_TRUE(client.error());
    EXPECT_EQ(client.error()->process, 3);
    client.key_value_store().set("still/" + std::to_string(process), "works");
    client.shutdown();
  });
  reporter.join();
}

TYPED_TEST(ClientConformance, PeerSeenDying_IsTheFirstCauseForAll) {
  this->start(3);
  const std::string self = Whereabouts::own().to_string();
  this->clients_[0]->report_failure({FailureKind::kDied, {{2}}, "its connections closed"});
  for (int process : {0, 1}) {
    JobError error = this->heard_[process].wait();
    EXPECT_EQ(error.message, "process 2" + self + " died: its connections closed");
    EXPECT_EQ(error.process, 2);
  }
  this->clients_[1]->report_own_error("bad input");
  EXPECT_THAT(message_of<PeerFailure>([&] { this->clients_[1]->barrier("b", kLong); }),
              ::testing::StartsWith("process 2" + self + " died: its connections closed\n"));
}

TYPED_TEST(ClientConformance, ClosedConnection_IsADeathThatAllAreTold) {
  this->start(3);
  this->clients_[2]->key_value_store().set("here", "");  // Its poll has come before.
  this->clients_[2].reset();
  for (int process : {0, 1}) {
    JobError error = this->heard_[process].wait();
    EXPECT_EQ(error.message, "process 2" + Whereabouts::own().to_string() + " died: its connections closed");
    EXPECT_EQ(error.process, 2);
  }
}

TYPED_TEST(ClientConformance, ReportOfAnEarlierIncarnation_IsIgnored) {
  this->start(3);
  const std::uint64_t life = this->clients_[2]->incarnation();
  EXPECT_NE(life, this->clients_[1]->incarnation());
  this->clients_[0]->report_failure({FailureKind::kDied, {{2, life + 1}}, "of a life before"});
  this->clients_[0]->finish_reports();
  EXPECT_EQ(this->job_->coordinator().tasks()[2].state, TaskState::kConnected);
  this->clients_[0]->report_failure({FailureKind::kDied, {{2, life}}, "its connections closed"});
  EXPECT_THAT(this->heard_[1].wait().message, HasSubstr("died: its connections closed"));
}

TYPED_TEST(ClientConformance, ReportedEarlyLeaver_IsTheFirstCauseForAllAndItself) {
  this->start(2);
  this->clients_[0]->report_failure({FailureKind::kLeftEarly, {{1}}, "process 0 of 2 waited for it"});
  for (int process : {0, 1}) {
    EXPECT_EQ(this->heard_[process].wait().message, "process 1" + Whereabouts::own().to_string() +
                                                        " left the job early: process 0 of 2 waited for it");
  }
}

TYPED_TEST(ClientConformance, OwnError_IsReportedToTheOthers) {
  this->start(2);
  this->clients_[1]->report_own_error("bad input");
  EXPECT_EQ(this->heard_[0].wait().message,
            "process 1" + Whereabouts::own().to_string() + " ended with an error: bad input");
  EXPECT_EQ(this->job_->coordinator().tasks()[1].state, TaskState::kError);
}

TYPED_TEST(ClientConformance, ReportsTooEarlyTooLateOrOutOfRange_AreIgnored) {
  this->serve(2);
  auto early = this->make(0);
  early->report_failure({FailureKind::kDied, {{1}}, "too early"});
  early->report_own_error("too early");
  early.reset();
  this->start(2);
  this->clients_[0]->report_failure({FailureKind::kDied, {{17}}, "out of range"});
  this->clients_[0]->report_failure({FailureKind::kDied, {{-1}}, "out of range"});
  this->each([](int, CoordinationClient& client) { client.shutdown(); });
  this->clients_[0]->report_failure({FailureKind::kDied, {{1}}, "too late"});
  EXPECT_TRUE(this->job_->coordinator().all_left());
}

TYPED_TEST(ClientConformance, Fail_EndsEveryBlockingCall_WithThatCause) {
  const JobError cause{"process 1 died: its connections closed", 1};
  const std::string first_line = cause.message + "\nconsequence: ";
  this->serve(2);
  auto joining = this->make(0);
  std::thread failing([&] {
    wait_until([&] { return this->job_->coordinator().tasks()[0].incarnation != 0; });
    joining->fail(cause);
  });
  EXPECT_THAT(message_of<PeerFailure>([&] { joining->connect(); }), ::testing::StartsWith(first_line));
  failing.join();
  wait_until([&] { return this->job_->coordinator().tasks()[0].incarnation == 0; });
  joining.reset();

  this->start(4);
  std::vector<std::thread> waiting;
  std::atomic<int> blocking{0};
  auto expect_failure = [&](const std::function<void()>& action) {
    waiting.emplace_back([&blocking, action, first_line] {
      ++blocking;
      EXPECT_THAT(message_of<PeerFailure>(action), ::testing::StartsWith(first_line));
    });
  };
  expect_failure([&] { this->clients_[0]->barrier("b", kLong); });
  expect_failure([&] { this->store(0).get("never", kLong); });
  expect_failure([&] { this->clients_[2]->shutdown(); });
  wait_until([&] { return blocking == 3 && this->job_->coordinator().tasks()[2].leaving; });
  for (int process : {0, 2}) this->clients_[process]->fail(cause);
  for (auto& thread : waiting) thread.join();
  this->clients_[0]->fail({"a later cause", 3});
  EXPECT_EQ(this->clients_[0]->error()->message, cause.message);
  EXPECT_EQ(this->heard_[0].wait().process, 1);
  EXPECT_THAT(message_of<PeerFailure>([&] { this->clients_[0]->barrier("other", kLong); }),
              ::testing::StartsWith(first_line));
  EXPECT_FALSE(this->clients_[1]->error());
}

TYPED_TEST(ClientConformance, SilentProcess_IsReportedDead_AndTheOthersAreNot) {
  this->server_options_.clock = &this->clock_;
  this->server_options_.heartbeat_timeout = seconds(10);
  this->heartbeat_interval_ = milliseconds(5);
  this->serve(3);
  jax::RegisterTaskRequest silent;
  silent.set_source_task_id(1);
  silent.set_incarnation(1);
  make_call(this->job_->service(), next_call_id(), silent, [](const auto&, const auto&) {});
  this->clients_.push_back(this->make(0));
  this->clients_.push_back(this->make(2));
  this->each([](int, CoordinationClient& client) { client.connect(); });
  for (int step = 0; step < 3; ++step) {
    this->clock_.advance(seconds(4));
    for (int process : {0, 2}) {
      wait_until([&] { return this->job_->coordinator().tasks()[process].silent_for.count() == 0; });
    }
  }
  for (int process : {0, 2}) {
    JobError error = this->heard_[process].wait();
    EXPECT_EQ(error.process, 1);
    EXPECT_THAT(error.message, ::testing::ContainsRegex("process 1( .*)? died: no heartbeat for 10 s"));
  }
  EXPECT_EQ(this->job_->coordinator().tasks()[0].state, TaskState::kConnected);
}

TYPED_TEST(ClientConformance, Recoverable_ADeadProcessReconnects_AndTheOthersContinue) {
  this->server_options_.recoverable = true;
  this->start(3);
  this->each([](int, CoordinationClient& client) { client.barrier("b", kLong); });
  std::thread waiting([&] { this->clients_[0]->barrier("b", kLong); });
  this->job_->coordinator().report_task_failure(2, "process 2 died: signal 9");
  EXPECT_EQ(this->job_->coordinator().tasks()[2].state, TaskState::kError);
  this->clients_[2] = this->make(2);
  this->clients_[2]->connect();
  EXPECT_EQ(this->job_->coordinator().tasks()[2].state, TaskState::kConnected);
  std::thread others([&] { this->clients_[1]->barrier("b", kLong); });
  this->clients_[2]->barrier("b", kLong);
  others.join();
  waiting.join();
  this->each([](int, CoordinationClient& client) { client.barrier("b", kLong); });
  EXPECT_FALSE(this->clients_[0]->error());
  EXPECT_FALSE(this->clients_[1]->error());
  this->clients_[0]->shutdown();
  EXPECT_FALSE(this->job_->coordinator().all_left());
  this->clients_[1]->shutdown();
  this->clients_[2]->shutdown();
  EXPECT_TRUE(this->job_->coordinator().all_left());
}

TYPED_TEST(ClientConformance, Recoverable_AnotherProcessOfTheSameId_TakesOver) {
  this->server_options_.recoverable = true;
  this->start(2);
  auto successor = this->make(1);
  successor->connect();
  std::thread other([&] { this->clients_[0]->barrier("b", kLong); });
  successor->barrier("b", kLong);
  other.join();
  EXPECT_FALSE(this->clients_[0]->error());
  successor->shutdown();
}

TYPED_TEST(ClientConformance, Shutdown_AMissingProcess_IsNamed) {
  this->server_options_.shutdown_timeout = milliseconds(300);
  this->start(2);
  EXPECT_THAT(message_of<TimeoutError>([&] { this->clients_[0]->shutdown(); }),
              HasSubstr("these have not called shutdown: process 1 of 2"));
  EXPECT_THAT(this->heard_[1].wait().message, HasSubstr("process 1 of 2"));
}

TYPED_TEST(ClientConformance, Shutdown_ADeathMeanwhile_FailsWithIt) {
  this->start(2);
  std::thread leaving([&] {
    EXPECT_THAT(message_of<PeerFailure>([&] { this->clients_[0]->shutdown(); }), HasSubstr("signal 9"));
  });
  wait_until([&] { return this->job_->coordinator().tasks()[0].leaving; });
  this->job_->coordinator().report_task_failure(1, "process 1 died: signal 9");
  leaving.join();
}

}  // namespace
}  // namespace lockstep::coordination
