// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::coordination {

/// The job's shared store of text keys and byte values. Keys are paths; empty parts are dropped, so
/// "//a///b/" is "a/b". Every method may be called from any thread; each throws Error if the store cannot be
/// reached, and, before it asks it, if the key is not UTF-8, which JAX's protocol requires. Values may have
/// any bytes.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Stores the value and wakes all waiters for the key. Throws Error if the key exists and `allow_overwrite`
  /// is false.
  virtual void set(const std::string& key, const std::string& value, bool allow_overwrite = false) = 0;

  /// Blocks until the key exists. Throws TimeoutError, with the key and the time, after the timeout.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// The value, or nullopt if there is none now. Does not wait for it.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;

  /// Adds to the decimal number under the key, or to 0 if there is none, and returns the result.
  virtual std::int64_t increment(const std::string& key, std::int64_t by) = 0;

  /// All keys below the directory, at any depth, sorted, with their values.
  virtual std::vector<std::pair<std::string, std::string>> get_directory(const std::string& directory) = 0;

  /// Removes the key and all keys below it.
  virtual void erase(const std::string& key) = 0;
};

}  // namespace lockstep::coordination
