#pragma once

// For the sources of this folder only: it shows the types of the PJRT C API.

#include <exception>
#include <mutex>

#include "lockstep/pjrt/client.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace lockstep::pjrt {

/// The callbacks of a client, as long as the plugin may call them.
struct Client::KeyValues {
  explicit KeyValues(KeyValueCallbacks callbacks) : callbacks(std::move(callbacks)) {}

  /// Names them to the plugin; it gets none where there are none.
  void offer(PJRT_Client_Create_Args& args);

  /// The first exception that one of them threw, or nullptr.
  std::exception_ptr first_error();

  /// The exception that is being handled, as an error of the plugin's; it is kept if it is the first.
  PJRT_Error* failed(PJRT_CallbackError* make_error);

  const KeyValueCallbacks callbacks;

 private:
  std::mutex mutex_;
  std::exception_ptr first_error_;
};

}  // namespace lockstep::pjrt
