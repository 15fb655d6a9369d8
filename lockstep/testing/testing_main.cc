// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/testing/child.h"
#include "lockstep/testing/process_logs.h"

int main(int argc, char** argv) {
  int status = 0;
  if (lockstep::testing::run_as_child(argc, argv, &status)) return status;
  ::testing::InitGoogleMock(&argc, argv);
  lockstep::testing::print_process_logs_of_failed_tests();
  return RUN_ALL_TESTS();
}
