// SPDX-License-Identifier: Apache-2.0
// What exchange.py calls: arrays behind C functions. Arrays are pointers, which `drop` deletes.

#include <exception>
#include <string>

#include "lockstep/array/dlpack.h"
#include "lockstep/ops/ops.h"

namespace ls = lockstep;

namespace {

thread_local std::string last_error;

template <class F>
auto guarded(F action) -> decltype(action()) {
  try {
    return action();
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

}  // namespace

extern "C" {

const char* error_text() { return last_error.c_str(); }

/// 0, 1, 2, … of this dtype in rows of 4.
ls::Array* make(const char* dtype, int rows) {
  return guarded([&] {
    const ls::DType type = ls::dtype_named(dtype).value();
    return new ls::Array(
        ls::astype(ls::reshape(ls::arange(4 * rows, ls::int32), {rows, 4}), type).block_until_ready());
  });
}
ls::Array* take(DLManagedTensorVersioned* tensor, bool must_not_copy) {
  return guarded([&] {
    return new ls::Array(
        ls::from_dlpack(tensor, must_not_copy ? ls::HostCopy::kMustNotCopy : ls::HostCopy::kIfNeeded));
  });
}
ls::Array* take_unversioned(DLManagedTensor* tensor) {
  return guarded([&] { return new ls::Array(ls::from_dlpack(tensor)); });
}
DLManagedTensorVersioned* give(const ls::Array* x) {
  return guarded([&] { return ls::to_dlpack(*x).release(); });
}
DLManagedTensor* give_unversioned(const ls::Array* x) {
  return guarded([&] { return ls::to_unversioned_dlpack(*x).release(); });
}
const void* address(const ls::Array* x) { return x->addressable_shards()[0].data; }
const char* describe(const ls::Array* x) {
  thread_local std::string text;
  text = x->to_string();
  return text.c_str();
}
ls::Array* doubled(const ls::Array* x) {
  return guarded([&] { return new ls::Array((*x + *x).block_until_ready()); });
}
void drop(ls::Array* x) { delete x; }
}
