#include "lockstep/tree/tree.h"

#include "lockstep/base/error.h"

namespace lockstep::tree::internal {

void check_count(std::size_t places, std::size_t arrays) {
  if (places == arrays) return;
  throw ShapeError("[tree::unflatten] the structure has " + std::to_string(places) + " places, got " +
                   std::to_string(arrays) + " arrays");
}

}  // namespace lockstep::tree::internal
