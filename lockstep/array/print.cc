// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/print.h"

#include <ostream>
#include <vector>

#include "lockstep/array/print_elements.h"

namespace lockstep {

std::string array_str(const Array& x) {
  if (!x.valid() || x.is_tracer() || x.is_deleted()) return x.to_string();
  if (!x.is_fully_addressable() && !x.is_fully_replicated()) return x.to_string();
  std::vector<char> bytes(static_cast<std::size_t>(x.aval().bytes()));
  if (x.size() > 0) x.copy_to_host(bytes.data(), x.dtype());
  std::string text = elements_str(bytes.data(), x.dtype(), x.shape());
  if (x.sharding().devices().size() > 1) text += "\n" + x.sharding().to_string();
  return text;
}

std::ostream& operator<<(std::ostream& out, const Array& x) { return out << array_str(x); }

}  // namespace lockstep
