#include "lockstep/jit/pmap.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::internal {

Mesh all_devices_mesh(const std::string& axis) { return make_mesh({{axis, device_count()}}); }

Mesh local_devices_mesh(const std::string& axis) {
  return Mesh(local_devices(), {local_device_count()}, {axis});
}

Aval device_aval(const Aval& aval, const std::string& axis, const CallSite& site) {
  if (aval.shape.empty() || aval.shape.front() != local_device_count()) {
    fail<ShardingError>(
        "[pmap] expected arrays with a leading dimension of {}, the number of local devices, got {} (at {})",
        local_device_count(), to_string(aval), site.to_string());
  }
  Aval part = aval;
  part.shape.front() = 1;
  part.weak_type = false;
  part.varying = {axis};
  return part;
}

Array with_leading(const Array& array) {
  Shape shape = array.shape();
  shape.insert(shape.begin(), 1);
  return lax::reshape(array, shape);
}

Array without_leading(const Array& array) {
  return lax::reshape(array, Shape(array.shape().begin() + 1, array.shape().end()));
}

}  // namespace lockstep::internal
