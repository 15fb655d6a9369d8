// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the sources of this folder: it includes the types of the PJRT C API.

#include <exception>
#include <mutex>

#include "lockstep/pjrt/client.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace lockstep::pjrt {

/// The callbacks of a client, which live as long as the plugin may call them.
struct Client::KeyValues {
  explicit KeyValues(KeyValueCallbacks callbacks) : callbacks(std::move(callbacks)) {}

  /// Sets the callbacks in the plugin's arguments, if there are any.
  void offer(PJRT_Client_Create_Args& args);

  /// The first exception that a callback threw, or nullptr.
  std::exception_ptr first_error();

  /// Converts the exception that is being handled to an error of the plugin; keeps it if it is the first one.
  PJRT_Error* failed(PJRT_CallbackError* make_error);

  const KeyValueCallbacks callbacks;

 private:
  std::mutex mutex_;
  std::exception_ptr first_error_;
};

}  // namespace lockstep::pjrt
