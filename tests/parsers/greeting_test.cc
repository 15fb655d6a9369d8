// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/greeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "lockstep/base/fail.h"
#include "lockstep/coordination/server/expand.h"
#include "lockstep/coordination/server/http_refusal.h"
#include "lockstep/testing/gzip.h"
#include "tests/parsers/fuzz.h"

// The first bytes of a connection to the coordinator, on both sides.

namespace lockstep::parsers {
namespace {

using namespace coordination;

constexpr std::size_t kMostMissing = 4096;
const Identity kJob{"job", 1, "a secret of the tests"};

template <class Side>
std::string pass(Side& side, const std::string& bytes) {
  std::string answer;
  for (std::size_t at = 0; at < bytes.size() && side.missing() != 0;) {
    if (side.missing() > kMostMissing) throw std::logic_error("it waits for too many bytes");
    const std::string some = bytes.substr(at, side.missing());
    at += some.size();
    answer += side.receive(some);
  }
  return answer;
}

TEST(Greeting, AConnectingStranger_ProvesNothing) {
  const Gate gate(kJob, false);
  const std::string hello = GreetingCall(kJob, {"host", 4711}).first_bytes();
  const std::string credential = make_credential(kJob, {"host", 4711}, {"lockstep greeting 1", "numbers"});
  const std::string size = {static_cast<char>(credential.size()), static_cast<char>(credential.size() >> 8)};
  fuzz<Error>({.name = "greeting of a connecting side",
               .seeds = {hello, hello + size + credential},
               .read = [&](const std::string& bytes) {
                 GreetingAnswer side(gate);
                 const std::string answer = pass(side, bytes);
                 if (side.proved()) throw std::logic_error("it is let in");
                 if (answer.size() > 2 * kMostMissing) throw std::logic_error("it is told too much");
                 if (answer.find("not a greeting") != answer.npos || answer.find("size") != answer.npos)
                   fail<Error>("refused");
               }});
}

TEST(Greeting, AListeningStranger_ProvesNothing) {
  const std::string magic = GreetingCall(kJob, {}).first_bytes().substr(0, 16);
  fuzz<Error>({.name = "greeting of a listening side",
               .seeds = {magic + 'c' + std::string(16, 'n'), greeting_refusal("another \xc3\xa9 job"),
                         magic + 'c' + std::string(16, 'n') + greeting_refusal("it has another secret")},
               .read = [](const std::string& bytes) {
                 GreetingCall side(kJob, {"host", 4711});
                 const std::string answer = pass(side, bytes);
                 if (side.missing() != 0) return;
                 if (side.result().ok()) throw std::logic_error("it is believed");
                 if (answer.find(kJob.secret) != answer.npos) throw std::logic_error("it is told the secret");
                 if (side.result().code != Code::kPermissionDenied) fail<Error>("refused");
               }});
}

TEST(HttpRefusal, AnyFrames_GetABoundedAnswer) {
  using namespace std::literals;
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s + "\0\0\0\4\0\0\0\0\0"s;
  fuzz<Error>({.name = "frames of HTTP/2",
               .seeds = {preface, preface + "\0\0\3\1\4\0\0\0\1abc"s,
                         preface + "\0\0\4\x8\0\0\0\0\0\0\0\xff\xff\0\0\1\1\5\0\0\0\3x"s},
               .read =
                   [](const std::string& bytes) {
                     HttpRefusal refusal(Status::of_service(Code::kPermissionDenied, "no \xff secret"));
                     std::string answer;
                     for (std::size_t at = 0; at < bytes.size() && !refusal.is_over(); at += 7)
                       answer += refusal.receive(std::string_view(bytes).substr(at, 7));
                     if (answer.size() > kMostMissing) throw std::logic_error("it is told too much");
                   },
               .refuses = false});
}

TEST(Expanded, AnyBytes_StayWithinTheLimit) {
  const std::string packed = testing::gzip("lockstep lockstep lockstep");
  ASSERT_EQ(expanded(packed, 4096), "lockstep lockstep lockstep");
  fuzz<Error>({.name = "compressed requests",
               .seeds = {packed, testing::gzip(std::string(100'000, 'x')), "plain"},
               .read =
                   [](const std::string& bytes) {
                     const auto plain = expanded(bytes, 4096);
                     if (plain && plain->size() > 4096) throw std::logic_error("it is larger");
                   },
               .refuses = false,
               .memory = 1 << 20});
}

}  // namespace
}  // namespace lockstep::parsers
