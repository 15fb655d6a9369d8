#pragma once

#include "lockstep/base/error.h"

namespace lockstep {

/// A result holds a NaN or an infinity, and debug_nans or debug_infs asks to say so.
class FloatingPointError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
