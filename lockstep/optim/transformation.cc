#include "lockstep/optim/transformation.h"

namespace lockstep::optim::internal {

Array zero_count(std::span<const Array> params) {
  if (params.empty()) return zeros({}, DType::kI32);
  return sum(zeros_like(params.front(), DType::kI32));
}

Array incremented(const Array& count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return where(count < kMost, count + 1, kMost);
}

Array bias_scale(double decay, const Array& count) { return 1.0 / (1.0 - power(decay, count)); }

}  // namespace lockstep::optim::internal
