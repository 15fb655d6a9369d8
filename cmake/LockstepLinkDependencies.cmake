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
pkg_check_modules(HWY REQUIRED QUIET IMPORTED_TARGET libhwy)
pkg_check_modules(HWY_CONTRIB REQUIRED QUIET IMPORTED_TARGET libhwy-contrib)  # sorting
pkg_check_modules(ZIP REQUIRED QUIET IMPORTED_TARGET libzip)
pkg_check_modules(PCRE2 REQUIRED QUIET IMPORTED_TARGET libpcre2-8>=10.40)  # with names of properties, such as Alphabetic
pkg_check_modules(UTF8PROC REQUIRED QUIET IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED QUIET IMPORTED_TARGET libxxhash)

# gRPC needs so many packages that pkg-config takes a second for it; pkg_check_modules calls it seventeen times.
if(NOT TARGET PkgConfig::GRPCPP)
  if(NOT LOCKSTEP_GRPC_FLAGS)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --cflags --libs grpc++ OUTPUT_VARIABLE flags RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed)
      message(FATAL_ERROR "pkg-config does not find grpc++ (Debian: libgrpc++-dev)")
    endif()
    separate_arguments(flags UNIX_COMMAND "${flags}")
    set(LOCKSTEP_GRPC_FLAGS "${flags}" CACHE INTERNAL "What pkg-config says of grpc++")
  endif()
  add_library(PkgConfig::GRPCPP INTERFACE IMPORTED)
  foreach(flag IN LISTS LOCKSTEP_GRPC_FLAGS)
    if(flag MATCHES "^-I(.+)")
      target_include_directories(PkgConfig::GRPCPP INTERFACE ${CMAKE_MATCH_1})
    elseif(flag MATCHES "^-l|^-pthread$")
      target_link_libraries(PkgConfig::GRPCPP INTERFACE ${flag})
    elseif(flag MATCHES "^-(L|Wl,)")
      target_link_options(PkgConfig::GRPCPP INTERFACE ${flag})
    else()
      target_compile_options(PkgConfig::GRPCPP INTERFACE ${flag})
    endif()
  endforeach()
endif()
