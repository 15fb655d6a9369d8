// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>

namespace lockstep::storage {

/// The functions of libcurl, which is loaded when it is first needed: with its own libraries it takes as long
/// to load as a tenth of a small job's start, and most programs read no URLs.
struct LibCurl {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&(curl_easy_setopt)) easy_setopt;
  decltype(&(curl_easy_getinfo)) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;

  /// Ready for requests. Throws StorageError if the library is not there, or cannot be used.
  static const LibCurl& get();
};

}  // namespace lockstep::storage
