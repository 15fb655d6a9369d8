// SPDX-License-Identifier: Apache-2.0
// A library that answers GetPjrtApi with a table of the version and size that it was compiled for.
#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api = [] {
    PJRT_Api table{};
    table.struct_size = FAKE_API_SIZE;
    table.pjrt_api_version.major_version = FAKE_API_MAJOR;
    table.pjrt_api_version.minor_version = 1;
    return table;
  }();
  return &api;
}
