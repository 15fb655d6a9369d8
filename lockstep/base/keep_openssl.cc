// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/keep_openssl.h"

#include <openssl/crypto.h>

namespace lockstep {

void keep_openssl_at_exit() {
  [[maybe_unused]] static const int once = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
}

}  // namespace lockstep
