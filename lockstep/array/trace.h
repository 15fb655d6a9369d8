// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/program/program.h"

namespace lockstep {

/// A function being traced: its operations go to a program instead of a device. Traces nest, on one thread;
/// operations belong to the innermost. Arrays from outside that the function uses become further inputs of
/// its program.
class Trace {
 public:
  explicit Trace(std::string name);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The innermost trace of this thread, or nullptr outside of any.
  static Trace* current();

  struct Life;

  ir::Builder& builder() { return builder_; }

  /// A tracer for a new input; all of them are made before the function is called.
  Array input(const Aval& aval);

  /// A tracer for a value of this trace's program.
  Array wrap(const ir::Value& value);

  /// The value of an array in this program. An array from outside, concrete or of an enclosing trace, becomes
  /// an input. Throws TraceError for a tracer whose function has ended: it has leaked.
  ir::Value value_of(const Array& array);

  /// The arrays from outside, in the order of their inputs, which follow those that `input` made.
  const std::vector<Array>& captures() const { return captures_; }

  /// Ends the trace; its program's inputs are those made by `input`, then the captures.
  ir::Program finish(std::span<const Array> outputs);

 private:
  ir::Builder builder_;
  Trace* enclosing_;
  std::shared_ptr<Life> life_;
  std::vector<Array> captures_;
  std::unordered_map<const void*, ir::Value> captured_;
};

/// Like apply_primitive for values: in a trace it adds an equation; outside it computes the operation on
/// devices.
std::vector<Array> apply_primitive(const ir::Primitive& primitive, ir::OpParams params,
                                   std::span<const Array> inputs);
Array apply_primitive_like(const Array& like, const ir::Primitive& primitive, ir::OpParams params);

/// An operation composed of primitives. In a trace `compose` is called; outside, it is traced once for each
/// signature of the operands, compiled as one program, and run. `key` distinguishes operations with the same
/// name and operands: the parameters, as text.
std::vector<Array> run_operation(const std::string& name, const std::string& key,
                                 std::span<const Array> operands,
                                 const std::function<std::vector<Array>(std::span<const Array>)>& compose);

}  // namespace lockstep
