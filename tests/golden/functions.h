#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/array/array.h"

namespace lockstep::golden {

using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;
using Functions = std::map<std::string, Function>;

/// The functions that golden.json has numbers of, by their names there.
void add_elementwise(Functions& all);
void add_special(Functions& all);
void add_reductions(Functions& all);
void add_linear_algebra(Functions& all);
void add_neural(Functions& all);

}  // namespace lockstep::golden
