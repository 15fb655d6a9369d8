// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "coordination.grpc.pb.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/client/serves_already.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/wire.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/temporary_folder.h"

// Tests of which processes are let in, and of which job's coordinator serves at an address.

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Steady = std::chrono::steady_clock;

const Identity kIdentity{"job-b", 1, "the right secret"};

ClientOptions client_options(const std::string& address, const Identity& identity, const TlsFiles& tls = {}) {
  ClientOptions options;
  options.address = address;
  options.identity = identity;
  options.tls = tls;
  options.initialization_timeout = seconds(60);
  return options;
}

class Serving {
 public:
  explicit Serving(const Identity& identity, bool allow_jax = false, const TlsFiles& tls = {},
                   const std::string& bind = "127.0.0.1:0") {
    ServerOptions options;
    options.bind_address = bind;
    options.identity = identity;
    options.allow_jax = allow_jax;
    options.tls = tls;
    server_.start(options);
  }
  std::string address() const { return server_.address(); }

  /// "" where it comes in, and the error where it does not.
  std::string why_refused(const Identity& identity, const TlsFiles& tls = {},
                          milliseconds timeout = seconds(60)) const {
    ClientOptions options = client_options(address(), identity, tls);
    options.initialization_timeout = timeout;
    try {
      auto client = make_grpc_client(options);
      client->connect();
      client->shutdown();
    } catch (const InitializationError& error) {
      return error.what();
    }
    return "";
  }

 private:
  CoordinationServer server_;
};

TEST(Identity, TheJobsOwnProcess_IsAccepted) {
  EXPECT_EQ(Serving(kIdentity).why_refused(kIdentity), "");
  EXPECT_EQ(Serving({}).why_refused({}), "");
  EXPECT_EQ(Serving({}).why_refused({kIdentity.job_id, kIdentity.attempt, ""}), "")
      << "a coordinator that asks for nothing";
  EXPECT_EQ(Serving({"", 0, "s"}).why_refused({"job-a", 3, "s"}), "") << "a coordinator without a job id";
}

TEST(Identity, StaleOrForeignProcess_IsRefusedWithinASecond_WithBothIds) {
  Serving job(kIdentity);
  struct Case {
    Identity identity;
    std::string theirs;
  };
  for (const Case& each : std::vector<Case>{{{"job-b", 0, kIdentity.secret}, "job 'job-b', attempt 0"},
                                            {{"job-a", 1, kIdentity.secret}, "job 'job-a', attempt 1"},
                                            {{"job-b", 1, "another secret"}, "job 'job-b', attempt 1"}}) {
    std::string why;
    auto quickest = Steady::duration::max();
    for (int i = 0; i < 3; ++i) {  // A busy machine may hold one up.
      auto began = Steady::now();
      why = job.why_refused(each.identity);
      quickest = std::min(quickest, Steady::now() - began);
    }
    EXPECT_LT(quickest, seconds(1)) << why;
    EXPECT_THAT(why, AllOf(HasSubstr("process 0 of 1"), HasSubstr(each.theirs),
                           HasSubstr("serves job 'job-b', attempt 1")));
    EXPECT_THAT(why,
                AllOf(Not(HasSubstr(kIdentity.secret)), Not(HasSubstr("another secret than the right"))));
    EXPECT_THAT(why, HasSubstr(Whereabouts::own().to_string()));
  }
}

TEST(Identity, ProcessWithoutTheSecret_IsRefusedWithTheReason) {
  Serving job(kIdentity);
  for (const Identity& identity : {Identity{"job-b", 1, ""}, Identity{"job-a", 1, ""}, Identity{}}) {
    EXPECT_THAT(job.why_refused(identity),
                AllOf(HasSubstr("process 0 of 1"), HasSubstr("serves job 'job-b', attempt 1"),
                      HasSubstr("a process of Lockstep needs the same LOCKSTEP_JOB_SECRET"),
                      HasSubstr("a process of JAX is let in by --allow-jax")));
  }
}

SignedRequest request(const std::string& bytes = "bytes") { return {"Request", bytes}; }

std::optional<Status> refusal_of(const Gate& gate, std::optional<std::string_view> credential) {
  Caller caller;
  return gate.refusal(
      credential, [] { return request(); }, caller);
}

TEST(Identity, AllowJax_AcceptsCallersWithoutACredential_ButNoWrongOne) {
  const Gate strict(kIdentity, false), open(kIdentity, true);
  auto refusal = refusal_of(strict, std::nullopt);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, Code::kPermissionDenied);
  EXPECT_THAT(refusal->message, AllOf(HasSubstr("serves job 'job-b', attempt 1"), HasSubstr("--allow-jax")));
  EXPECT_FALSE(refusal_of(open, std::nullopt));
  EXPECT_TRUE(refusal_of(open, make_credential({"job-a", 1, kIdentity.secret}, {"h", 1}, request())));
  EXPECT_TRUE(refusal_of(open, make_credential({"job-b", 1, ""}, {"h", 1}, request())));
}

TEST(Identity, Credential_HidesTheSecret_AndIsRefusedIfChanged) {
  std::string good = make_credential(kIdentity, {"host", 4711}, request());
  EXPECT_THAT(good, Not(HasSubstr(kIdentity.secret)));
  EXPECT_NE(good, make_credential(kIdentity, {"host", 4711}, request())) << "two never look alike";
  const Gate gate(kIdentity, false);
  Caller caller;
  EXPECT_FALSE(gate.refusal(
      good, [] { return request(); }, caller));
  EXPECT_EQ(caller.where.to_string(), " (host host, pid 4711)");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] ^= 1;
    EXPECT_TRUE(refusal_of(gate, changed)) << "byte " << i;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(refusal_of(gate, good.substr(0, size))) << size << " bytes";
  }
}

TEST(Identity, Credential_IsForOneRequestOnly) {
  const std::string good = make_credential(kIdentity, {"host", 4711}, request("process 3 writes 'a'"));
  const Gate gate(kIdentity, false);
  Caller caller;
  EXPECT_FALSE(gate.refusal(
      good, [] { return request("process 3 writes 'a'"); }, caller));
  EXPECT_TRUE(gate.refusal(
      good, [] { return request("process 2 writes 'a'"); }, caller));
  EXPECT_TRUE(gate.refusal(
      good,
      [] {
        return SignedRequest{"Another", "process 3 writes 'a'"};
      },
      caller));
}

TEST(Identity, LaterAttempts_AreAcceptedOnlyByACoordinatorThatStays) {
  const Gate once(kIdentity, false), stays(kIdentity, false, true);
  const auto of_attempt = [](int attempt) {
    return make_credential({kIdentity.job_id, attempt, kIdentity.secret}, {"h", 1}, request());
  };
  EXPECT_TRUE(refusal_of(once, of_attempt(kIdentity.attempt + 1)));
  EXPECT_FALSE(refusal_of(stays, of_attempt(kIdentity.attempt + 1)));
  EXPECT_TRUE(refusal_of(stays, of_attempt(kIdentity.attempt - 1)));
}

/// Somebody who has bound the coordinator's port before it, and lets everybody in.
class Imposter final : public xla::coordination::CoordinationService::Service {
 public:
  Imposter() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int registered() const { return registered_; }

  grpc::Status RegisterTask(grpc::ServerContext*, const xla::coordination::RegisterTaskRequest*,
                            xla::coordination::RegisterTaskResponse* response) override {
    ++registered_;
    response->set_service_incarnation(1);
    return grpc::Status::OK;
  }
  grpc::Status WatchTasks(grpc::ServerContext*, const xla::coordination::WatchTasksRequest*,
                          xla::coordination::WatchTasksResponse*) override {
    Status status = Status::of_service(Code::kInternal, "another coordinator");
    status.right_service_incarnation = 1;
    return to_grpc(status);
  }

 private:
  int port_ = 0;
  std::atomic<int> registered_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Identity, AServerWithoutTheSecret_IsRefusedByItsClient) {
  Imposter imposter;
  for (const bool holds : {false, true}) {
    try {
      const ClientOptions options = client_options(imposter.address(), kIdentity);
      if (holds) {
        serves_already(options);
      } else {
        make_grpc_client(options)->connect();
      }
      ADD_FAILURE() << "it was taken for the job's coordinator";
    } catch (const InitializationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot prove to have the job's secret"));
    }
  }
  EXPECT_EQ(imposter.registered(), 0);
  Serving open({kIdentity.job_id, kIdentity.attempt, ""});
  EXPECT_THROW(make_grpc_client(client_options(open.address(), kIdentity))->connect(), InitializationError);
}

TEST(Identity, ShortSecrets_AreRefused) {
  EXPECT_NO_THROW(refuse_short_secret(""));
  EXPECT_NO_THROW(refuse_short_secret("sixteen bytes, 0"));
  try {
    refuse_short_secret("fifteen bytes, ");
    ADD_FAILURE() << "it was taken";
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("15 bytes, expected at least 16"), HasSubstr("/dev/urandom"),
                                    Not(HasSubstr("fifteen"))));
  }
}

TEST(Identity, ServerOpenToAll_SaysSoOnce) {
  ::testing::internal::CaptureStderr();
  { Serving open({}, false, {}, "0.0.0.0:0"), closed(kIdentity, false, {}, "0.0.0.0:0"); }
  std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t first = log.find("is open to everybody who reaches it, because the job has no secret");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("is open to ", first + 1), std::string::npos) << log;
  ::testing::internal::CaptureStderr();
  { Serving local({}), with_jax(kIdentity, true), closed(kIdentity); }
  log = ::testing::internal::GetCapturedStderr();
  first = log.find("is open to all users of this host, because the job has no secret");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("is open to ", first + 1), std::string::npos) << log;
  ::testing::internal::CaptureStderr();
  { Serving with_jax(kIdentity, true, {}, "0.0.0.0:0"); }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("is open to everybody who reaches it, because --allow-jax accepts processes"));
}

// Tests of which job's coordinator serves at an address.

TEST(ServesAlready, WhereNobodyListens_NoCoordinatorServes) {
  std::string address;
  {
    Serving gone(kIdentity);
    address = gone.address();
  }
  EXPECT_FALSE(serves_already(client_options(address, kIdentity)));
}

TEST(ServesAlready, TheJobsCoordinator_IsFoundServing) {
  Serving job(kIdentity);
  EXPECT_TRUE(serves_already(client_options(job.address(), kIdentity)));
}

TEST(ServesAlready, AnotherJobsCoordinatorServes_IsAnErrorThatNamesBoth) {
  Serving job(kIdentity);
  try {
    serves_already(client_options(job.address(), {"job-b", 2, kIdentity.secret}));
    FAIL();
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("job 'job-b', attempt 2"), HasSubstr("job 'job-b', attempt 1")));
  }
}

TEST(ServesAlready, AddressOfAnotherHost_IsRecognized) {
  EXPECT_FALSE(is_of_this_host({"192.0.2.1", 1}));  // Of documentation's own network; nobody has it.
  EXPECT_FALSE(is_of_this_host({"no-such-host.invalid", 1}));
  EXPECT_TRUE(is_of_this_host({"127.0.0.1", 1}));
}

TEST(ServesAlready, LoopbackAddress_IsRecognized) {
  EXPECT_TRUE(is_loopback({"127.1.2.3", 1}));
  EXPECT_TRUE(is_loopback({"::1", 1}));
  EXPECT_FALSE(is_loopback({"0.0.0.0", 1}));
  EXPECT_FALSE(is_loopback({"::", 1}));
}

// TLS.

class Tls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    for (const std::string authority : {"ours", "foreign"}) {
      files_[authority] =
          lockstep::testing::TestAuthority(folder_->path(), authority).issue({.addresses = "IP:127.0.0.1"});
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static TlsFiles files(const std::string& authority) { return files_.at(authority); }

  static inline std::optional<lockstep::testing::TemporaryFolder> folder_;
  static inline std::map<std::string, TlsFiles> files_;
};

TEST_F(Tls, BothSidesOfOneAuthority_Connect) {
  Serving job(kIdentity, false, files("ours"));
  EXPECT_EQ(job.why_refused(kIdentity, files("ours")), "");
  EXPECT_THAT(job.why_refused({"job-a", 0, ""}, files("ours")), HasSubstr("serves job 'job-b'"));
  EXPECT_TRUE(serves_already(client_options(job.address(), kIdentity, files("ours"))));
}

TEST_F(Tls, ForeignOrNoCertificate_IsRefusedWithTheReason_BeforeTheTimeout) {
  const Serving secret(kIdentity, false, files("ours")), plain(kIdentity);
  struct Case {
    const Serving& job;
    TlsFiles files;
    std::string why;
  };
  for (const Case& each : std::vector<Case>{
           {secret, files("foreign"), "is not accepted by the authority in '" + files("foreign").authority},
           {secret, {}, "it speaks TLS, but this process has no certificate: set LOCKSTEP_TLS_CERTIFICATE"},
           {plain, files("ours"),
            "it does not speak TLS, but this process has certificates: give the coordinator"},
       }) {
    const auto began = Steady::now();
    EXPECT_THAT(
        each.job.why_refused(kIdentity, each.files, seconds(300)),
        AllOf(HasSubstr("[process 0 of 1] cannot join the job at the coordinator " + each.job.address()),
              HasSubstr(each.why)));
    try {
      serves_already(client_options(each.job.address(), kIdentity, each.files));
      ADD_FAILURE() << "nothing was said where the coordinator is looked for: " << each.why;
    } catch (const InitializationError& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.why));
    }
    EXPECT_LT(Steady::now() - began, seconds(30));
  }
}

TEST_F(Tls, TheCoordinatorsCertificate_MustNameItsAddress) {
  const Serving job(kIdentity, false, files("ours"), "0.0.0.0:0");
  const std::string port = job.address().substr(job.address().rfind(':'));
  for (const std::string host : {"127.0.0.1", "127.0.0.2"}) {
    std::string why;
    try {
      auto client = make_grpc_client(client_options(host + port, kIdentity, files("ours")));
      client->connect();
      client->shutdown();
    } catch (const InitializationError& error) {
      why = error.what();
    }
    if (host == "127.0.0.1") {
      EXPECT_EQ(why, "");
    } else {
      EXPECT_THAT(why, HasSubstr("its certificate does not name '127.0.0.2' in its subjectAltName"));
    }
  }
}

TEST_F(Tls, CertificateForAnotherUse_IsRefusedByItsOwnSide) {
  const testing::TemporaryFolder folder;
  const testing::TestAuthority authority(folder.path(), "uses");
  struct Case {
    const char *usage, *client, *server;
  };
  for (const Case& each : {Case{"clientAuth,serverAuth", "", ""}, Case{"clientAuth", "", "lacks serverAuth"},
                           Case{"serverAuth", "lacks clientAuth", ""},
                           Case{"codeSigning", "lacks clientAuth", "lacks serverAuth"}}) {
    SCOPED_TRACE(each.usage);
    const TlsFiles own = authority.issue({.usage = each.usage});
    const auto client = [&] { make_grpc_client(client_options("127.0.0.1:1", kIdentity, own)); };
    const auto server = [&] { Serving{kIdentity, false, own}; };
    for (const auto& [start, why] : {std::pair<std::function<void()>, std::string>{client, each.client},
                                     std::pair<std::function<void()>, std::string>{server, each.server}}) {
      try {
        start();
        EXPECT_EQ(why, "");
      } catch (const InitializationError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(why), HasSubstr(own.certificate)));
        EXPECT_NE(why, "") << error.what();
      }
    }
  }
}

TEST_F(Tls, MissingFilesOrJaxWithTls_AreRefused) {
  TlsFiles missing = files("ours");
  missing.key = folder_->path() / "no-such-file";
  try {
    Serving{kIdentity, false, missing};
    FAIL();
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the key for TLS"), HasSubstr("no-such-file")));
  }
  missing.key = "";
  EXPECT_THROW(make_grpc_client(client_options("127.0.0.1:1", kIdentity, missing)), InitializationError);
  EXPECT_THROW(Serving(kIdentity, true, files("ours")), InitializationError) << "JAX does not speak TLS";
}

}  // namespace
}  // namespace lockstep::coordination
