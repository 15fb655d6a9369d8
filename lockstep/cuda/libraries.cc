// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cuda/libraries.h"

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/trusted_file.h"

namespace lockstep::cuda {
namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> all;
};

Folders& folders() {
  static auto& folders = *new Folders;
  return folders;
}

/// Null if it is not there or cannot be trusted.
void* load_from(const std::string& path) {
  if (!open_trusted_file(path)) return nullptr;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

void search_as(void* library) {
  Dl_serinfo size{};
  if (library == nullptr || dlinfo(library, RTLD_DI_SERINFOSIZE, &size) != 0) return;
  const auto memory = std::make_unique<std::max_align_t[]>(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(memory.get());
  info->dls_size = size.dls_size;
  info->dls_cnt = size.dls_cnt;
  if (dlinfo(library, RTLD_DI_SERINFO, info) != 0) return;
  std::lock_guard lock(folders().mutex);
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders().all.emplace_back(info->dls_serpath[i].dls_name);
}

void* load_library(std::initializer_list<const char*> names, std::string& description) {
  std::string why_not;
  for (const char* name : names) {
    std::string refused;
    void* library = load_trusted_library(name, &refused);
    std::lock_guard lock(folders().mutex);
    for (const std::string& folder : folders().all)
      if (library == nullptr) library = load_from(folder + "/" + name);
    if (library != nullptr) {
      description = name;
      return library;
    }
    if (!why_not.empty()) why_not += "; ";
    why_not += refused;
  }
  description = why_not;
  return nullptr;
}

}  // namespace lockstep::cuda
