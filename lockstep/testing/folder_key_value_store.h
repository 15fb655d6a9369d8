// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <utility>

#include "lockstep/coordination/client/key_value_store.h"

namespace lockstep::testing {

/// A store in a folder that the processes of one host share, with one file for each key: for tests and
/// benchmarks without a coordinator. Counters and directories are not supported: `increment` and
/// `get_directory` throw Error.
class FolderKeyValueStore : public coordination::KeyValueStore {
 public:
  explicit FolderKeyValueStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value, bool allow_overwrite = false) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::int64_t increment(const std::string& key, std::int64_t by) override;
  std::vector<std::pair<std::string, std::string>> get_directory(const std::string& directory) override;
  void erase(const std::string& key) override;

 private:
  std::filesystem::path path(std::string key) const;

  const std::filesystem::path folder_;
};

}  // namespace lockstep::testing
