// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/array/dlpack.h"
#include "lockstep/array/dlpack_layout.h"

namespace lockstep::dlpack {

/// A tensor of another library, with 0, 1, 2, … in its memory, that counts how often it is deleted.
struct Foreign {
  explicit Foreign(Shape sizes, std::vector<std::int64_t> steps = {})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    std::iota(std::begin(memory), std::end(memory), 0.f);
    tensor.major = 1;
    tensor.context = this;
    tensor.deleter = [](Versioned* self) { static_cast<Foreign*>(self->context)->note_deleted(); };
    tensor.tensor = {.data = memory,
                     .device_type = dlpack::kCpu,
                     .device_id = 0,
                     .ndim = static_cast<std::int32_t>(shape.size()),
                     .type = {dlpack::kFloat, 32, 1},
                     .shape = shape.data(),
                     .strides = strides.empty() ? nullptr : strides.data(),
                     .byte_offset = 0};
  }
  void note_deleted() {
    if (++deleted == 1) gone.set_value();
  }
  DLManagedTensorVersioned* get() { return reinterpret_cast<DLManagedTensorVersioned*>(&tensor); }
  /// Blocks until it is deleted, which the plugin may do on a thread of its own; how often it was.
  int times_deleted() {
    gone.get_future().wait_for(std::chrono::seconds(60));
    return deleted;
  }

  alignas(64) float memory[64];
  Shape shape;
  std::vector<std::int64_t> strides;
  Versioned tensor{};
  std::atomic<int> deleted = 0;
  std::promise<void> gone;
};

}  // namespace lockstep::dlpack
