// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/folder_key_value_store.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/base/fail.h"

namespace lockstep::testing {

void FolderKeyValueStore::set(const std::string& key, const std::string& value, bool allow_overwrite) {
  if (!allow_overwrite && std::filesystem::exists(path(key))) fail("the key {} exists", key);
  const auto part = path(fmt::format("{}.{}.part", key, getpid()));
  std::ofstream(part) << value;
  std::filesystem::rename(part, path(key));  // So that nobody sees half of it.
}

std::string FolderKeyValueStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  do {
    if (auto value = try_get(key)) return *value;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < end);
  fail<TimeoutError>("the key {} was not set within {} ms", key, timeout.count());
}

std::optional<std::string> FolderKeyValueStore::try_get(const std::string& key) {
  std::ifstream file(path(key));
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::int64_t FolderKeyValueStore::increment(const std::string& key, std::int64_t) {
  fail("a key-value store in a folder cannot increment keys ({})", key);
}

std::vector<std::pair<std::string, std::string>> FolderKeyValueStore::get_directory(
    const std::string& directory) {
  fail("a key-value store in a folder cannot list directories ({})", directory);
}

void FolderKeyValueStore::erase(const std::string& key) { std::filesystem::remove(path(key)); }

std::filesystem::path FolderKeyValueStore::path(std::string key) const {
  std::replace(key.begin(), key.end(), '/', '_');
  return folder_ / key;
}

}  // namespace lockstep::testing
