# SPDX-License-Identifier: Apache-2.0
# Everything Lockstep stands on. scripts/setup installs the packages and fetches the plugin and its headers.
include(LockstepLinkDependencies)
pkg_check_modules(HWLOC REQUIRED QUIET IMPORTED_TARGET hwloc)   # the tool
pkg_check_modules(DW REQUIRED QUIET IMPORTED_TARGET libdw)      # the tool
find_library(LOCKSTEP_IBERTY iberty REQUIRED)                   # the tool
find_path(LOCKSTEP_UCX_INCLUDE_DIR ucp/api/ucp.h REQUIRED)      # only its headers: the library is loaded when needed
find_path(LOCKSTEP_CURL_INCLUDE_DIR curl/curl.h REQUIRED)       # likewise
find_program(LOCKSTEP_FLATC flatc REQUIRED)                     # what jax.export writes; with flatbuffers/flatbuffers.h
find_path(LOCKSTEP_FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
find_package(CLI11 REQUIRED)                                    # the tool
find_package(Boost 1.74 REQUIRED)                               # the tool: Asio and Beast, headers only
if(LOCKSTEP_BUILD_EXAMPLES)
  find_package(PNG REQUIRED)                                    # examples/train_diffusion.cc
endif()
if(LOCKSTEP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(LOCKSTEP_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

# The PJRT C API and XLA FFI headers, as scripts/setup lays them out.
set(LOCKSTEP_XLA_INCLUDE_DIR ${PROJECT_SOURCE_DIR}/third_party/xla/include CACHE PATH
    "Folder that holds xla/pjrt/c/pjrt_c_api.h and xla/ffi/api/c_api.h")
if(NOT EXISTS ${LOCKSTEP_XLA_INCLUDE_DIR}/xla/pjrt/c/pjrt_c_api.h)
  message(FATAL_ERROR "No xla/pjrt/c/pjrt_c_api.h in ${LOCKSTEP_XLA_INCLUDE_DIR}: run scripts/setup first.")
endif()
add_library(lockstep_xla_headers INTERFACE)
target_include_directories(lockstep_xla_headers SYSTEM INTERFACE $<BUILD_INTERFACE:${LOCKSTEP_XLA_INCLUDE_DIR}>)
