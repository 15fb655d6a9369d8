// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/storage/store.h"

namespace lockstep::storage {

/// The scheme of an object store: how a prefix of a bucket and one object are opened by their URL.
struct Scheme {
  std::string_view name;  ///< in lower case: "s3"
  std::unique_ptr<Store> (*open_store)(const std::string& url);
  std::unique_ptr<Reader> (*open_file)(const std::string& url);
};

/// Each is defined in the source of its store.
extern const Scheme kS3;

/// All schemes, which `locate` (url.h) takes.
inline constexpr const Scheme* kSchemes[] = {&kS3};

}  // namespace lockstep::storage
