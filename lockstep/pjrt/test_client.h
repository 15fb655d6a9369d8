// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the tests of this folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/pjrt/client.h"

namespace lockstep::pjrt {

inline std::shared_ptr<Client> make_client(std::int64_t devices = 1, bool asynchronous = false) {
  return Client::create(Plugin::load(find_plugin()),
                        {{"cpu_device_count", devices}, {"asynchronous", asynchronous}});
}

/// The message of the PjrtError that `action` throws; the test fails if it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const PjrtError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no PjrtError was thrown";
  return "";
}

template <class T>
Buffer to_device(const Client& client, const std::vector<T>& values, const std::vector<std::int64_t>& dims,
                 int device = 0) {
  return client.buffer_from_host(values.data(), dtype_of<T>, dims, *client.addressable_devices().at(device));
}

template <class T>
std::vector<T> to_host(const Buffer& buffer) {
  std::vector<T> values(buffer.size_bytes() / sizeof(T));
  buffer.to_host(values.data(), values.size() * sizeof(T));
  return values;
}

inline std::vector<Buffer> run(const Executable& executable, std::vector<Buffer*> arguments,
                               const Device& device, const ExecuteOptions& options = {}) {
  return executable.execute(std::span<Buffer* const>(arguments), device, options);
}

}  // namespace lockstep::pjrt
