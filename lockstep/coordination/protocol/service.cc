// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/service.h"

#include <atomic>

namespace lockstep::coordination {

CallId next_call_id() {
  static std::atomic<CallId> last{0};
  return ++last;
}

}  // namespace lockstep::coordination
