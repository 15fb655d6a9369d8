// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::internal {

/// The number of derivatives that will be taken of the code that this thread is tracing: 2 for f in
/// grad(grad(f)), and 1 within a derivative rule inside of that. A function with a rule of its own only uses
/// the rule if this is not 0, so a rule may call the function to which it belongs.
class DerivativeDepth {
 public:
  static int current();

  /// Sets it for its lifetime.
  explicit DerivativeDepth(int depth);
  ~DerivativeDepth();
  DerivativeDepth(const DerivativeDepth&) = delete;
  DerivativeDepth& operator=(const DerivativeDepth&) = delete;

 private:
  int saved_;
};

}  // namespace lockstep::internal
