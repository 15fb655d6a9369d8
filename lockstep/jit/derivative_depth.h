#pragma once

namespace lockstep::internal {

/// How many derivatives are taken of what this thread traces now: what is within grad(grad(f)) is
/// differentiated twice, and a rule for a derivative within that, once. A function with a rule of its own
/// looks at the rule only where this is not 0, so a rule may call the function that it belongs to.
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
