// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/identity/status.h"

// How the two ends of a connection without TLS prove to each other that they have the job's secret, before
// anything else is read from either. Numbers are little endian; every answer begins with kMagic:
//   connecting side   kMagic, a random number (16 bytes)
//   accepting side    'c', a random number (16 bytes)
//   connecting side   the size of its credential (2 bytes), its credential for both numbers (credential.h)
//   accepting side    'p', its proof for both numbers (32 bytes)
// Instead of each answer the accepting side may refuse, and end the connection:
//   accepting side    'r', the size of the reason (2 bytes), the reason

namespace lockstep::coordination {

/// The bytes with which each connection begins; gRPC's first bytes are not fewer.
inline constexpr std::size_t kFirstBytes = 32;

/// Whether the bytes, of which there are kFirstBytes, begin a greeting.
bool begins_greeting(std::string_view bytes);

/// An answer that refuses, with as much of the reason as a greeting may have.
std::string greeting_refusal(std::string_view reason);

/// The accepting side, without its socket: its owner passes what comes to it, and sends what it returns. A
/// stranger's bytes never take more memory than a credential, of at most 4 KiB.
class GreetingAnswer {
 public:
  /// `gate` must outlive it.
  explicit GreetingAnswer(const Gate& gate);

  /// How many bytes it waits for: never more are to be passed to it. 0: it is over.
  std::size_t missing() const { return missing_; }

  /// Passes some bytes, and returns what to send.
  std::string receive(std::string_view bytes);

  /// Whether the other side has proved that it belongs to the job; only once it is over.
  bool proved() const { return proved_; }

 private:
  std::string refuse(std::string_view reason);

  enum class Next { kNumber, kSize, kCredential };

  const Gate& gate_;
  Next next_ = Next::kNumber;
  std::size_t missing_ = kFirstBytes;
  std::string received_, numbers_;
  bool proved_ = false;
};

/// The connecting side, in the same way.
class GreetingCall {
 public:
  GreetingCall(const Identity& identity, Whereabouts where);

  std::string first_bytes() const;
  std::size_t missing() const { return missing_; }
  std::string receive(std::string_view bytes);

  /// OK if the other side has proved that it has the secret. Otherwise PERMISSION_DENIED with its reason, or
  /// INTERNAL if it does not speak this protocol. Only once it is over.
  const Status& result() const { return result_; }

 private:
  void end(Status result);

  enum class Next { kKind, kNumber, kProof, kSize, kReason };

  const Identity identity_;
  const Whereabouts where_;
  const std::string number_;
  Next next_ = Next::kKind;
  std::size_t missing_;
  std::string received_, numbers_;
  Status result_;
};

}  // namespace lockstep::coordination
