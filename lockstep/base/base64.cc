// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/base64.h"

#include <openssl/evp.h>

#include <cstddef>

namespace lockstep {

std::string to_base64(const std::string& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  text.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                                       static_cast<int>(bytes.size()))));
  return text;
}

}  // namespace lockstep
