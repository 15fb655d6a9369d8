# SPDX-License-Identifier: Apache-2.0
# Dependencies of Lockstep's libraries: found here for its own build and, installed beside LockstepConfig.cmake, for its
# users' builds.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)           # HMAC, SHA-256, TLS
find_package(CURL REQUIRED)              # object stores
pkg_check_modules(GRPCPP REQUIRED QUIET IMPORTED_TARGET grpc++)
pkg_check_modules(HWY REQUIRED QUIET IMPORTED_TARGET libhwy)
pkg_check_modules(ZIP REQUIRED QUIET IMPORTED_TARGET libzip)
pkg_check_modules(XXHASH REQUIRED QUIET IMPORTED_TARGET libxxhash)
