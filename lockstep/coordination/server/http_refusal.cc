// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/http_refusal.h"

#include <fmt/format.h>
#include <grpcpp/support/status.h>

#include <algorithm>

#include "lockstep/base/base64.h"
#include "lockstep/coordination/protocol/wire.h"

namespace lockstep::coordination {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t kHeader = 9;
constexpr char kHeaders = 1, kSettings = 4;
constexpr char kEndOfStream = 1, kEndOfHeaders = 4;

std::string big_endian(std::size_t number, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  return text;
}

std::string frame(char type, int flags, std::uint32_t stream, std::string_view payload) {
  return big_endian(payload.size(), 3).append(1, type).append(1, static_cast<char>(flags)) +
         big_endian(stream, 4).append(payload);
}

/// A text's size and the text (RFC 7541, 5.2, without Huffman's code).
std::string literal(std::string_view text) {
  constexpr std::size_t kInOneByte = 127;
  std::string bytes;
  if (text.size() < kInOneByte) {
    bytes += static_cast<char>(text.size());
  } else {
    bytes += static_cast<char>(kInOneByte);
    std::size_t left = text.size() - kInOneByte;
    for (; left >= 128; left >>= 7) bytes += static_cast<char>(left | 128);
    bytes += static_cast<char>(left);
  }
  return bytes.append(text);
}

std::string field(std::string_view name, std::string_view value) {
  return std::string(1, '\0') + literal(name) + literal(value);
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= 0x20 && c < 0x7f && c != '%') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace

bool begins_http2(std::string_view bytes) { return bytes.starts_with(kPreface); }

HttpRefusal::HttpRefusal(const Status& reason) : reason_(reason), skip_(kPreface.size()) {}

std::string HttpRefusal::receive(std::string_view bytes) {
  std::string out;
  // A client calls once it knows the settings.
  if (!std::exchange(greeted_, true)) out = frame(kSettings, 0, 0, "");
  while (!bytes.empty() && !over_) {
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    const std::size_t some = std::min(kHeader - header_.size(), bytes.size());
    header_ += bytes.substr(0, some);
    bytes.remove_prefix(some);
    if (header_.size() < kHeader) continue;
    const auto at = [this](std::size_t i) { return std::size_t{static_cast<unsigned char>(header_[i])}; };
    skip_ = at(0) << 16 | at(1) << 8 | at(2);
    if (header_[3] == kHeaders) {
      out += answer(static_cast<std::uint32_t>(at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8)) & 0x7fffffffu);
      over_ = true;
    }
    header_.clear();
  }
  return out;
}

std::string HttpRefusal::answer(std::uint32_t stream) const {
  const grpc::Status status = to_grpc(reason_);
  constexpr char kStatus200 = '\x88';  // in HPACK's table
  const std::string block = std::string(1, kStatus200) + field("content-type", "application/grpc") +
                            field("grpc-status", std::to_string(static_cast<int>(status.error_code()))) +
                            field("grpc-message", percent_encoded(status.error_message())) +
                            field("grpc-status-details-bin", to_base64(status.error_details()));
  return frame(kHeaders, kEndOfStream | kEndOfHeaders, stream, block);
}

}  // namespace lockstep::coordination
