// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/key_values.h"

#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::pjrt {
namespace {

/// A copy for the plugin, which frees it by `free_copy`.
char* copied(const std::string& value) {
  char* bytes = new char[value.size() + 1];
  std::memcpy(bytes, value.c_str(), value.size() + 1);
  return bytes;
}

void free_copy(char* value) { delete[] value; }

PJRT_Error* error_of(PJRT_CallbackError* make_error, PJRT_Error_Code code, const std::string& message) {
  return (*make_error)(code, message.data(), message.size());
}

}  // namespace

PJRT_Error* Client::KeyValues::failed(PJRT_CallbackError* make_error) {
  {
    std::lock_guard lock(mutex_);
    if (!first_error_) first_error_ = std::current_exception();
  }
  try {
    throw;
  } catch (const TimeoutError& error) {
    return error_of(make_error, PJRT_Error_Code_DEADLINE_EXCEEDED, error.what());
  } catch (const std::exception& error) {
    return error_of(make_error, PJRT_Error_Code_INTERNAL, error.what());
  } catch (...) {
    return error_of(make_error, PJRT_Error_Code_INTERNAL, "the job's store cannot be used");
  }
}

std::exception_ptr Client::KeyValues::first_error() {
  std::lock_guard lock(mutex_);
  return first_error_;
}

void Client::KeyValues::offer(PJRT_Client_Create_Args& args) {
  if (!callbacks.get) return;
  args.kv_get_user_arg = args.kv_try_get_user_arg = args.kv_put_user_arg = this;
  args.kv_get_callback = [](PJRT_KeyValueGetCallback_Args* call) -> PJRT_Error* {
    auto* self = static_cast<KeyValues*>(call->user_arg);
    try {
      const std::string value = self->callbacks.get(std::string(call->key, call->key_size),
                                                    std::chrono::milliseconds(call->timeout_in_ms));
      call->value = copied(value);
      call->value_size = value.size();
      call->value_deleter_callback = free_copy;
      return nullptr;
    } catch (...) {
      return self->failed(call->callback_error);
    }
  };
  args.kv_try_get_callback = [](PJRT_KeyValueTryGetCallback_Args* call) -> PJRT_Error* {
    auto* self = static_cast<KeyValues*>(call->user_arg);
    const std::string key(call->key, call->key_size);
    try {
      const std::optional<std::string> value = self->callbacks.try_get(key);
      if (!value) {
        return error_of(call->callback_error, PJRT_Error_Code_NOT_FOUND, "there is no key " + key);
      }
      call->value = copied(*value);
      call->value_size = value->size();
      call->value_deleter_callback = free_copy;
      return nullptr;
    } catch (...) {
      return self->failed(call->callback_error);
    }
  };
  args.kv_put_callback = [](PJRT_KeyValuePutCallback_Args* call) -> PJRT_Error* {
    auto* self = static_cast<KeyValues*>(call->user_arg);
    try {
      self->callbacks.put(std::string(call->key, call->key_size), std::string(call->value, call->value_size));
      return nullptr;
    } catch (...) {
      return self->failed(call->callback_error);
    }
  };
}

}  // namespace lockstep::pjrt
