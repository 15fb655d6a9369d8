// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/store.h"

#include "lockstep/base/fail.h"
#include "lockstep/storage/folder_store.h"
#include "lockstep/storage/object_store.h"

namespace lockstep::storage {
namespace {

constexpr std::string_view kObjects = "s3://", kFiles = "file://";

std::string without_scheme(const std::string& url) {
  return url.starts_with(kFiles) ? url.substr(kFiles.size()) : url;
}

}  // namespace

std::unique_ptr<Store> open_store(const std::string& url, bool make) {
  if (url.starts_with(kObjects)) return open_object_store(url);
  return open_folder(without_scheme(url), make);
}

std::unique_ptr<Reader> open_file(const std::string& url) {
  if (url.starts_with(kObjects)) return open_object(url);
  return open_local_file(without_scheme(url));
}

std::pair<std::string, std::string> split_url(std::string url) {
  while (url.size() > 1 && url.ends_with('/')) url.pop_back();
  const std::size_t slash = url.find_last_of('/');
  if (slash == std::string::npos) return {".", url};
  return {slash == 0 ? "/" : url.substr(0, slash), url.substr(slash + 1)};
}

std::string read_whole(const Reader& file, std::uint64_t limit) {
  if (file.size() > limit)
    fail<StorageError>("{} has {} bytes, expected at most {}", file.url(), file.size(), limit);
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace lockstep::storage
