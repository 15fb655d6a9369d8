// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/coordination/protocol/service.h"
#include "lockstep/coordination/state/answers.h"

namespace lockstep::coordination {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// "//a///b/" as "a/b".
std::string normalize_key(const std::string& key);

/// The keys and values of the service, and the waiters of each key. Not thread-safe.
class KeyValueTable {
 public:
  Status insert(const std::string& key, const std::string& value, bool allow_overwrite, Answers& answers);
  void get(CallId call, const std::string& key, DoneWith<Value> done, Answers& answers);

  /// Null if there is none.
  Value try_get(const std::string& key) const;

  /// Sets `text` to the new value.
  Status increment(const std::string& key, std::int64_t by, std::string& text, Answers& answers);

  KeyValues get_directory(const std::string& key) const;
  void erase(const std::string& key);

  /// Answers the waiting get with `status`; does nothing if there is none with this id.
  void cancel(CallId call, const Status& status, Answers& answers);

  /// Answers every waiting get with `status`.
  void cancel_all(const Status& status, Answers& answers);

 private:
  void store(const std::string& normalized, std::string text, Answers& answers);

  std::map<std::string, Value> values_;
  std::unordered_map<std::string, std::map<CallId, DoneWith<Value>>> waiting_;
  std::unordered_map<CallId, std::string> key_of_call_;
};

}  // namespace lockstep::coordination
