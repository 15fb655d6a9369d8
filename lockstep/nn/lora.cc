// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/lora.h"

#include <map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape.h"
#include "lockstep/tree/paths.h"

namespace lockstep::nn {

void Lora::tree_parts(Lora& self, tree::Parts& part) {
  part("paths", std::as_const(self.paths))("scale", std::as_const(self.scale));
  for (std::size_t i = 0; i < self.adapters.size(); ++i) part(self.paths[i], self.adapters[i]);
}

void Lora::merge_into(tree::TreeRef model, const std::source_location& where) const {
  CallSiteScope here(CallSite::from(where));
  std::map<std::string, const Adapter*> left;
  for (std::size_t i = 0; i < paths.size(); ++i) left[paths[i]] = &adapters[i];
  tree::internal::call_with_paths(model, true, [&](const std::string& path, Array& array) {
    const auto found = left.find(path);
    if (found == left.end()) return;
    const Adapter& own = *found->second;
    left.erase(found);
    if (own.a.shape()[0] * own.b.shape()[1] != array.size()) {
      fail<ShapeError>("[nn::Lora] expected an array of {} x {} elements at {}, got {}{}", own.a.shape()[0],
                       own.b.shape()[1], path, to_string(array.aval()), ops::at());
    }
    array = astype(array + scale * reshape(matmul(own.a, own.b), array.shape()), array.dtype());
  });
  if (!left.empty())
    fail("[nn::Lora] expected a model with an array at {}, got none{}", left.begin()->first, ops::at());
}

namespace internal {

Lora lora(tree::TreeRef model, const random::Key& key, const LoraOptions& options,
          const std::source_location& where) {
  CallSiteScope here(CallSite::from(where));
  check_sizes("lora", "a rank", {options.rank});
  if (!options.inputs)
    fail("[nn::lora] expected options.inputs, which say what is adapted, got none{}", ops::at());
  using namespace initializers;
  const Initializer by_inputs = variance_scaling(1.0 / 3, Fan::kIn, Distribution::kUniform);
  Lora all;
  all.scale = options.alpha == 0 ? 1 : options.alpha / static_cast<double>(options.rank);
  for (const auto& [path, array] : tree::internal::leaves_with_path(model)) {
    const std::int64_t count = options.inputs(path, array);
    if (count == 0) continue;
    const Shape& shape = array.shape();
    if (count < 0 || count >= static_cast<std::int64_t>(shape.size())) {
      fail<ShapeError>("[nn::lora] expected fewer input dimensions than {} has, {}, got {}{}", path,
                       to_string(array.aval()), count, ops::at());
    }
    const std::int64_t inputs = num_elements(Shape(shape.begin(), shape.begin() + count));
    const std::int64_t outputs = num_elements(Shape(shape.begin() + count, shape.end()));
    all.paths.push_back(path);
    all.adapters.push_back({(options.a_init.valid() ? options.a_init : by_inputs)(
                                key_at(key, path), {inputs, options.rank}, options.dtype),
                            initializers::zeros({}, {options.rank, outputs}, options.dtype)});
  }
  if (all.paths.empty())
    fail("[nn::lora] expected an array that options.inputs select, got none{}", ops::at());
  return all;
}

}  // namespace internal
}  // namespace lockstep::nn
