// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/greeting.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/coordination/identity/proof.h"

namespace lockstep::coordination {
namespace {

constexpr std::string_view kMagic = "lockstep hello 1";
constexpr std::size_t kNumber = 16, kProof = 32, kSize = 2, kMostCredential = 4096, kMostReason = 4096;
static_assert(kMagic.size() + kNumber == kFirstBytes);

constexpr char kChallenge = 'c', kProved = 'p', kRefused = 'r';

/// Stands for a request's type in the credential.
constexpr std::string_view kCredential = "lockstep greeting 1";
constexpr std::string_view kAnswer = "lockstep greeting 1 answer";

std::string size_of(std::size_t size) {
  return {static_cast<char>(size & 0xff), static_cast<char>(size >> 8 & 0xff)};
}
std::size_t size_in(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[0]) | std::size_t{static_cast<unsigned char>(bytes[1])} << 8;
}

std::string answer(char kind, std::string_view rest) {
  return std::string(kMagic).append(1, kind).append(rest);
}

/// Takes as many of the bytes as are missing.
bool is_complete(std::string& received, std::size_t& missing, std::string_view bytes) {
  bytes = bytes.substr(0, missing);
  received += bytes;
  missing -= bytes.size();
  return missing == 0 && !received.empty();
}

}  // namespace

bool begins_greeting(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::string greeting_refusal(std::string_view reason) {
  const std::string text(first_bytes(reason, kMostReason));
  return answer(kRefused, size_of(text.size()) + text);
}

GreetingAnswer::GreetingAnswer(const Gate& gate) : gate_(gate) {}

std::string GreetingAnswer::refuse(std::string_view reason) {
  missing_ = 0;
  return greeting_refusal(reason);
}

std::string GreetingAnswer::receive(std::string_view bytes) {
  if (!is_complete(received_, missing_, bytes)) return "";
  const std::string part = std::exchange(received_, "");
  const std::string& secret = gate_.identity().secret;
  switch (next_) {
    case Next::kNumber:
      if (!begins_greeting(part)) return refuse("the first bytes are not a greeting");
      if (secret.empty()) {
        return refuse(
            "the process has a secret of its job, but the coordinator has none; give both the same "
            "LOCKSTEP_JOB_SECRET");
      }
      numbers_ = part.substr(kMagic.size()) + random_nonce();
      next_ = Next::kSize;
      missing_ = kSize;
      return answer(kChallenge, std::string_view(numbers_).substr(kNumber));
    case Next::kSize:
      missing_ = size_in(part);
      if (missing_ == 0 || missing_ > kMostCredential) return refuse("the credential has a wrong size");
      next_ = Next::kCredential;
      return "";
    case Next::kCredential:
      break;
  }
  Caller caller;
  const auto refusal = gate_.refusal(
      part,
      [&] {
        return SignedRequest{std::string(kCredential), numbers_};
      },
      caller);
  if (refusal) return refuse(refusal->message);
  proved_ = true;
  return answer(kProved, authentication_code(secret, kAnswer, numbers_));
}

GreetingCall::GreetingCall(const Identity& identity, Whereabouts where)
    : identity_(identity), where_(std::move(where)), number_(random_nonce()), missing_(kMagic.size() + 1) {}

std::string GreetingCall::first_bytes() const { return std::string(kMagic) + number_; }

void GreetingCall::end(Status result) {
  missing_ = 0;
  result_ = std::move(result);
}

std::string GreetingCall::receive(std::string_view bytes) {
  const bool complete = is_complete(received_, missing_, bytes);
  if (next_ == Next::kKind && !kMagic.starts_with(std::string_view(received_).substr(0, kMagic.size()))) {
    end(Status::bare(Code::kInternal, "it does not speak this protocol"));
    return "";
  }
  if (!complete) return "";
  const std::string part = std::exchange(received_, "");
  const auto unknown = [this] {
    end(Status::bare(Code::kInternal, "it does not speak this protocol"));
    return "";
  };
  switch (next_) {
    case Next::kKind:
      if (part.back() == kChallenge && numbers_.empty()) {
        next_ = Next::kNumber;
        missing_ = kNumber;
      } else if (part.back() == kProved && !numbers_.empty()) {
        next_ = Next::kProof;
        missing_ = kProof;
      } else if (part.back() == kRefused) {
        next_ = Next::kSize;
        missing_ = kSize;
      } else {
        return unknown();
      }
      return "";
    case Next::kNumber: {
      numbers_ = number_ + part;
      const std::string credential = make_credential(identity_, where_, {std::string(kCredential), numbers_});
      next_ = Next::kKind;
      missing_ = kMagic.size() + 1;
      return size_of(credential.size()) + credential;
    }
    case Next::kProof:
      if (same_code(part, authentication_code(identity_.secret, kAnswer, numbers_))) {
        end({});
      } else {
        end(Status::bare(Code::kInternal, "its proof is wrong"));
      }
      return "";
    case Next::kSize:
      missing_ = std::min(size_in(part), kMostReason);
      if (missing_ == 0) return unknown();
      next_ = Next::kReason;
      return "";
    case Next::kReason:
      end(Status::of_service(Code::kPermissionDenied, shown_lines(part)));
  }
  return "";
}

}  // namespace lockstep::coordination
