// SPDX-License-Identifier: Apache-2.0
#pragma once

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/// Calls of host code from programs on NVIDIA GPUs.
namespace lockstep::cuda {

using Handler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*);

/// Calls a handler that was made for CPUs: with copies of the operands in host memory, once the program has
/// computed them, and copies its results to the GPU. Blocks the thread that launches the program.
XLA_FFI_Error* call_on_host(XLA_FFI_CallFrame* frame, Handler handler);

/// The handler for GPUs, an `XLA_FFI_Handler*`, of that which `kHandler` returns for CPUs.
template <void* (*kHandler)()>
void* on_host() {
  const Handler handler = [](XLA_FFI_CallFrame* frame) {
    return call_on_host(frame, reinterpret_cast<Handler>(kHandler()));
  };
  return reinterpret_cast<void*>(handler);
}

}  // namespace lockstep::cuda
