// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/coordination/identity/status.h"

namespace lockstep::coordination {

/// Whether the bytes, of which there are at least 24, begin a connection of HTTP/2.
bool begins_http2(std::string_view bytes);

/// Answers the first call of a gRPC client with a reason, without gRPC: of what the client sends only the
/// headers of frames are looked at. Without its socket, as GreetingAnswer.
class HttpRefusal {
 public:
  explicit HttpRefusal(const Status& reason);

  /// Passes some bytes, and returns what to send.
  std::string receive(std::string_view bytes);

  bool is_over() const { return over_; }

 private:
  std::string answer(std::uint32_t stream) const;

  const Status reason_;
  std::size_t skip_;
  std::string header_;
  bool greeted_ = false, over_ = false;
};

}  // namespace lockstep::coordination
