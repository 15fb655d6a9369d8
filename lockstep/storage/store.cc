// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/store.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/storage/folder_store.h"
#include "lockstep/storage/schemes.h"
#include "lockstep/storage/url.h"

namespace lockstep::storage {
namespace {

const Scheme& scheme_of(const Location& place) {
  return **std::ranges::find(kSchemes, place.scheme, &Scheme::name);
}

}  // namespace

std::unique_ptr<Store> open_store(const std::string& url, bool make) {
  const Location place = locate(url);
  return place.is_object ? scheme_of(place).open_store(url) : open_folder(place.path, make);
}

std::unique_ptr<Reader> open_file(const std::string& url) {
  const Location place = locate(url);
  return place.is_object ? scheme_of(place).open_file(url) : open_local_file(place.path);
}

std::pair<std::string, std::string> split_url(const std::string& url) {
  const Location place = locate(url);
  const std::string bucket = place.scheme + "://" + place.bucket;
  std::string path = place.is_object ? place.key : place.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  std::string folder = slash == path.npos ? "" : path.substr(0, slash), name = path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..") {
    fail<StorageError>("\"{}\" does not end in a name; expected one, as in {}/name", printable(url),
                       place.is_object ? bucket : "folder");
  }
  if (place.is_object) return {bucket + "/" + folder, name};
  if (slash == 0) folder = "/";
  if (slash == path.npos) folder = ".";
  return {folder, name};
}

std::string read_whole(const Reader& file, std::uint64_t limit) {
  if (file.size() > limit)
    fail<StorageError>("{} has {} bytes, expected at most {}", file.url(), file.size(), limit);
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::optional<std::string> read_if_there(const Store& store, const std::string& name) {
  if (!store.exists(name)) return std::nullopt;
  try {
    return read_whole(*store.open(name));
  } catch (const StorageError&) {
    if (store.exists(name)) throw;
    return std::nullopt;  // removed meanwhile
  }
}

}  // namespace lockstep::storage
