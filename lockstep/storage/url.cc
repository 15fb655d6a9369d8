// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/url.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/storage/schemes.h"

namespace lockstep::storage {
namespace {

/// S3's limit of a key.
constexpr std::size_t kLongestKey = 1024;

constexpr std::size_t kMostPrinted = 300;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

bool is_object_scheme(std::string_view scheme) {
  return std::ranges::find(kSchemes, scheme, &Scheme::name) != std::end(kSchemes);
}

/// The scheme of "SCHEME:/...", of "s3:..." and of "file:...", in lower case; "" if this is a path.
std::string scheme_of(std::string_view url) {
  const std::size_t end = static_cast<std::size_t>(
      std::ranges::find_if_not(
          url, [](char c) { return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.'; }) -
      url.begin());
  if (end == 0 || end == url.size() || url[end] != ':' || !is_letter(url[0])) return "";
  std::string scheme = lower(url.substr(0, end));
  const bool is_url = url.substr(end + 1).starts_with('/') || is_object_scheme(scheme) || scheme == "file";
  return is_url ? scheme : "";
}

Location file_of(std::string_view url, std::string_view rest) {
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    const std::string_view host = rest.substr(0, std::min(rest.find('/'), rest.size()));
    if (!host.empty() && lower(host) != "localhost") {
      fail<StorageError>(
          "\"{}\" names a file of the host '{}'; expected file:///PATH, or a path without file://",
          printable(url), printable(host));
    }
    rest.remove_prefix(host.size());
  }
  if (!rest.starts_with('/')) fail<StorageError>("\"{}\" has no path; expected file:///PATH", printable(url));
  return {.path = std::string(rest)};
}

Location object_of(std::string_view url, const std::string& scheme, std::string_view rest) {
  if (!rest.starts_with("//"))
    fail<StorageError>("\"{}\" is not the URL of an object store; expected {}://bucket/prefix",
                       printable(url), scheme);
  rest.remove_prefix(2);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  Location place{.is_object = true, .scheme = scheme, .bucket = std::string(rest.substr(0, slash))};
  const bool valid =
      place.bucket.size() >= 3 && place.bucket.size() <= 255 && std::ranges::all_of(place.bucket, [](char c) {
        return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
      });
  if (!valid) {
    fail<StorageError>("\"{}\": \"{}\" is not the name of a bucket; expected {}://bucket/prefix",
                       printable(url), printable(place.bucket), scheme);
  }
  place.key = rest.substr(std::min(slash + 1, rest.size()));
  while (place.key.ends_with('/')) place.key.pop_back();
  if (place.key.size() > kLongestKey) {
    fail<StorageError>("\"{}\" has a key of {} bytes; expected at most {}", printable(url), place.key.size(),
                       kLongestKey);
  }
  if (!is_utf8(place.key)) fail<StorageError>("\"{}\" has a key that is not UTF-8", printable(url));
  for (std::size_t begin = 0; begin <= place.key.size();) {
    const std::size_t end = std::min(place.key.find('/', begin), place.key.size());
    const std::string part = place.key.substr(begin, end - begin);
    if (part == "." || part == "..")
      fail<StorageError>("\"{}\": a part of its key is \"{}\", which an object store does not resolve",
                         printable(url), part);
    begin = end + 1;
  }
  return place;
}

}  // namespace

Location locate(std::string_view url) {
  if (url.empty()) fail<StorageError>("expected a path or URL, got an empty text");
  if (url.find('\0') != url.npos) fail<StorageError>("\"{}\" contains a NUL byte", printable(url));
  const std::string scheme = scheme_of(url);
  if (scheme.empty()) return {.path = std::string(url)};
  const std::string_view rest = url.substr(scheme.size() + 1);
  if (scheme == "file") return file_of(url, rest);
  if (is_object_scheme(scheme)) return object_of(url, scheme, rest);
  std::string objects;
  for (const Scheme* each : kSchemes) objects += fmt::format(" or {}://bucket/prefix", each->name);
  fail<StorageError>(
      "\"{}\" has the scheme '{}', which is not supported; expected a path, file:///PATH{} (a folder named "
      "'{}:' is \"./{}:\")",
      printable(url), scheme, objects, url.substr(0, scheme.size()), url.substr(0, scheme.size()));
}

std::string local_path(std::string_view url) {
  Location place = locate(url);
  if (place.is_object)
    fail<StorageError>("\"{}\" is in an object store; expected a path in a file system", printable(url));
  return std::move(place.path);
}

std::string printable(std::string_view url) { return shown(url, kMostPrinted); }

}  // namespace lockstep::storage
