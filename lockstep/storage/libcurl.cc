// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/libcurl.h"

#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/storage/store.h"

namespace lockstep::storage {
namespace {

constexpr const char* kFile = "libcurl.so.4";

template <class Function>
void find(void* library, const char* name, Function* function) {
  if (!find_function(library, name, *function)) fail<StorageError>("{} has no function {}", kFile, name);
}

LibCurl loaded() {
  std::string why_not;
  void* const library = load_trusted_library(kFile, &why_not);
  if (library == nullptr) {
    fail<StorageError>(
        "libcurl, which object stores and URLs need, cannot be loaded: {}. Install it (Debian: libcurl4), or "
        "name its folder in LD_LIBRARY_PATH",
        why_not);
  }
  LibCurl curl;
  decltype(&curl_global_init) global_init;
  find(library, "curl_global_init", &global_init);
  find(library, "curl_easy_init", &curl.easy_init);
  find(library, "curl_easy_cleanup", &curl.easy_cleanup);
  find(library, "curl_easy_reset", &curl.easy_reset);
  find(library, "curl_easy_perform", &curl.easy_perform);
  find(library, "curl_easy_setopt", &curl.easy_setopt);
  find(library, "curl_easy_getinfo", &curl.easy_getinfo);
  find(library, "curl_easy_strerror", &curl.easy_strerror);
  find(library, "curl_slist_append", &curl.slist_append);
  find(library, "curl_slist_free_all", &curl.slist_free_all);
  keep_openssl_at_exit();
  if (const CURLcode ready = global_init(CURL_GLOBAL_DEFAULT); ready != CURLE_OK)
    fail<StorageError>("libcurl cannot be used: {}", curl.easy_strerror(ready));
  return curl;
}

}  // namespace

const LibCurl& LibCurl::get() {
  static const LibCurl curl = loaded();
  return curl;
}

}  // namespace lockstep::storage
