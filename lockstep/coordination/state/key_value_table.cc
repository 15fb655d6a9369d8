// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/state/key_value_table.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::coordination {

std::string normalize_key(const std::string& key) {
  std::string normalized;
  for (std::size_t begin = 0; begin < key.size();) {
    std::size_t end = std::min(key.find('/', begin), key.size());
    if (end > begin) {
      if (!normalized.empty()) normalized += '/';
      normalized.append(key, begin, end - begin);
    }
    begin = end + 1;
  }
  return normalized;
}

void KeyValueTable::store(const std::string& normalized, std::string text, Answers& answers) {
  Value value = std::make_shared<const std::string>(std::move(text));
  values_[normalized] = value;
  auto waiting = waiting_.find(normalized);
  if (waiting == waiting_.end()) return;
  for (auto& [call, done] : waiting->second) {
    key_of_call_.erase(call);
    answers.push_back([done = std::move(done), value] { done(Status{}, value); });
  }
  waiting_.erase(waiting);
}

Status KeyValueTable::insert(const std::string& key, const std::string& value, bool allow_overwrite,
                             Answers& answers) {
  std::string normalized = normalize_key(key);
  if (!allow_overwrite && values_.contains(normalized)) {
    return Status::bare(Code::kAlreadyExists,
                        fmt::format("the key '{}' exists already; set it with overwriting allowed, or choose "
                                    "another key",
                                    shown(key)));
  }
  store(normalized, value, answers);
  return {};
}

void KeyValueTable::get(CallId call, const std::string& key, DoneWith<Value> done, Answers& answers) {
  std::string normalized = normalize_key(key);
  if (auto found = values_.find(normalized); found != values_.end()) {
    answers.push_back([done = std::move(done), value = found->second] { done(Status{}, value); });
    return;
  }
  key_of_call_[call] = normalized;
  waiting_[normalized].emplace(call, std::move(done));
}

Value KeyValueTable::try_get(const std::string& key) const {
  auto found = values_.find(normalize_key(key));
  return found == values_.end() ? nullptr : found->second;
}

Status KeyValueTable::increment(const std::string& key, std::int64_t by, std::string& text,
                                Answers& answers) {
  std::string normalized = normalize_key(key);
  std::int64_t number = 0;
  if (auto found = values_.find(normalized); found != values_.end()) {
    const std::string& old = *found->second;
    auto [end, error] = std::from_chars(old.data(), old.data() + old.size(), number);
    if (error != std::errc() || end != old.data() + old.size()) {
      return Status::of_service(Code::kFailedPrecondition,
                                fmt::format("the key '{}' cannot be incremented: its value is not a decimal "
                                            "number of 64 bits",
                                            shown(key)));
    }
  }
  if (__builtin_add_overflow(number, by, &number)) {
    return Status::of_service(
        Code::kFailedPrecondition,
        fmt::format("the key '{}' cannot be incremented by {}: the sum has more than 64 "
                    "bits",
                    shown(key), by));
  }
  text = fmt::format("{}", number);
  store(normalized, text, answers);
  return {};
}

KeyValues KeyValueTable::get_directory(const std::string& key) const {
  std::string prefix = normalize_key(key) + "/";
  KeyValues found;
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    found.emplace_back(it->first, *it->second);
  }
  return found;
}

void KeyValueTable::erase(const std::string& key) {
  std::string normalized = normalize_key(key);
  values_.erase(normalized);
  std::string prefix = normalized + "/";
  auto begin = values_.lower_bound(prefix);
  auto end = begin;
  while (end != values_.end() && end->first.starts_with(prefix)) ++end;
  values_.erase(begin, end);
}

void KeyValueTable::cancel(CallId call, const Status& status, Answers& answers) {
  auto key = key_of_call_.find(call);
  if (key == key_of_call_.end()) return;
  auto waiting = waiting_.find(key->second);
  auto waiter = waiting->second.find(call);
  answers.push_back([done = std::move(waiter->second), status] { done(status, nullptr); });
  waiting->second.erase(waiter);
  if (waiting->second.empty()) waiting_.erase(waiting);
  key_of_call_.erase(key);
}

void KeyValueTable::cancel_all(const Status& status, Answers& answers) {
  for (auto& [key, waiters] : waiting_) {
    for (auto& [call, done] : waiters) {
      answers.push_back([done = std::move(done), status] { done(status, nullptr); });
    }
  }
  waiting_.clear();
  key_of_call_.clear();
}

}  // namespace lockstep::coordination
