// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/hex.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdlib>

#include "lockstep/base/fail.h"

namespace lockstep {

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::strtoul(text.substr(i, 2).c_str(), nullptr, 16));
  }
  return bytes;
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  if (getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size()))
    fail("cannot get random bytes from the kernel");
  return to_hex(raw);
}

}  // namespace lockstep
