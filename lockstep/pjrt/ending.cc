// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/ending.h"

#include <utility>

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {

struct Ending::Told {
  std::shared_ptr<Ending> ending;
  std::shared_ptr<const void> kept;
  const PJRT_Api* api;
};

std::shared_ptr<const Ending> Ending::of(const PJRT_Api* api, PJRT_Event* event, std::string_view what,
                                         std::shared_ptr<const void> kept) {
  const std::shared_ptr<Ending> ending(new Ending(what));
  auto told = std::make_unique<Told>(Told{ending, std::move(kept), api});
  LOCKSTEP_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event;
  args.user_arg = told.get();
  args.callback = [](PJRT_Error* error, void* argument) {
    const std::unique_ptr<Told> told(static_cast<Told*>(argument));
    told->ending->end(told->api, error);
  };
  PJRT_Error* refused = api->PJRT_Event_OnReady(&args);
  destroy(api, event);
  check(api, refused, what);
  told.release();
  return ending;
}

void Ending::end(const PJRT_Api* api, PJRT_Error* error) {
  std::exception_ptr thrown;
  try {
    check(api, error, what_);
  } catch (...) {
    thrown = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    error_ = thrown;
  }
  changed_.notify_all();
}

bool Ending::await_for(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [&] { return ended_; })) return false;
  if (error_) std::rethrow_exception(error_);
  return true;
}

}  // namespace lockstep::pjrt
