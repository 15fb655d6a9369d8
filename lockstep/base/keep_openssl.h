// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Call it before a function of OpenSSL, or of a library that uses it, which costs nothing but the first
/// time: what OpenSSL allocates is then not freed at exit(), when other threads may still use it.
void keep_openssl_at_exit();

}  // namespace lockstep
