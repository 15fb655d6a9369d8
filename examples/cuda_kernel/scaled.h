// SPDX-License-Identifier: Apache-2.0
#pragma once

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/// y = by * x on a GPU, for f32 of any shape.
extern "C" XLA_FFI_Error* scaled_on_gpu(XLA_FFI_CallFrame* frame);
