// SPDX-License-Identifier: Apache-2.0
#include "lockstep/onednn/library.h"

#include <fmt/format.h>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/onednn/onednn.h"

namespace lockstep::onednn {
namespace {

constexpr const char* kName = "libdnnl.so.3";

/// The beginning of oneDNN's dnnl_version_t.
struct Version {
  int major, minor, patch;
};

struct Found {
  bool is_there = false;
  Library library;
};

Found load() {
  Found found;
  Library& library = found.library;
  void* handle = load_trusted_library(kName, &library.description);
  if (handle == nullptr) return found;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    if (!find_function(handle, name, function)) missing = name;
  };
#define LOCKSTEP_FIND(name) find(library.call.name, "dnnl_" #name);
  LOCKSTEP_FIND(engine_create)
  LOCKSTEP_FIND(stream_create)
  LOCKSTEP_FIND(stream_destroy)
  LOCKSTEP_FIND(primitive_attr_create)
  LOCKSTEP_FIND(primitive_attr_set_scratchpad_mode)
  LOCKSTEP_FIND(memory_desc_create_with_strides)
  LOCKSTEP_FIND(memory_desc_create_with_tag)
  LOCKSTEP_FIND(memory_desc_clone)
  LOCKSTEP_FIND(memory_desc_destroy)
  LOCKSTEP_FIND(memory_desc_equal)
  LOCKSTEP_FIND(memory_desc_get_size)
  LOCKSTEP_FIND(memory_create)
  LOCKSTEP_FIND(memory_destroy)
  LOCKSTEP_FIND(convolution_forward_primitive_desc_create)
  LOCKSTEP_FIND(convolution_backward_data_primitive_desc_create)
  LOCKSTEP_FIND(convolution_backward_weights_primitive_desc_create)
  LOCKSTEP_FIND(matmul_primitive_desc_create)
  LOCKSTEP_FIND(reorder_primitive_desc_create)
  LOCKSTEP_FIND(primitive_desc_query)
  LOCKSTEP_FIND(primitive_desc_query_md)
  LOCKSTEP_FIND(primitive_desc_destroy)
  LOCKSTEP_FIND(primitive_create)
  LOCKSTEP_FIND(primitive_destroy)
  LOCKSTEP_FIND(primitive_execute)
  LOCKSTEP_FIND(sgemm)
#undef LOCKSTEP_FIND
  const Version* (*version)() = nullptr;
  find(version, "dnnl_version");
  find(library.omp_get_max_threads, "omp_get_max_threads");
  find(library.omp_set_num_threads, "omp_set_num_threads");
  if (!missing.empty()) {
    library.description =
        fmt::format("{} has no {}: it is another version than 3, or built without OpenMP", kName, missing);
    return found;
  }
  if (library.call.engine_create(&library.engine, kCpu, 0) != 0 ||
      library.call.primitive_attr_create(&library.attributes) != 0 ||
      library.call.primitive_attr_set_scratchpad_mode(library.attributes, kScratchpadOfCaller) != 0) {
    library.description = fmt::format("{} cannot be initialized", kName);
    return found;
  }
  library.description = fmt::format("oneDNN {}.{}.{}", version()->major, version()->minor, version()->patch);
  found.is_there = true;
  return found;
}

const Found& found() {
  static const Found& found = *new Found(load());  // also for threads that end after main
  return found;
}

}  // namespace

const Library* find_library() { return found().is_there ? &found().library : nullptr; }

bool is_available() { return find_library() != nullptr; }

std::string description() { return found().library.description; }

void sgemm(const Library& library, char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
           std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
           float* c, std::int64_t ldc) {
  const int status = library.call.sgemm(transpose_a, transpose_b, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
  if (status != 0) fail("{} failed in sgemm (status {})", library.description, status);
}

Stream* stream_of(const Library& library) {
  thread_local StreamHandle stream;
  if (stream == nullptr) {
    Stream* made = nullptr;
    if (library.call.stream_create(&made, library.engine, kInOrder) != 0)
      fail("{} makes no stream", library.description);
    stream.reset(made);
  }
  return stream.get();
}

}  // namespace lockstep::onednn
