// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/nn/initializers.h"
#include "lockstep/nn/layer.h"

/// Low-rank adaptation (Hu and others, 2021) of any tree: a model is trained by two thin matrices a and b
/// for some of its arrays, while the arrays themselves stay. The adapters are a tree of their own, which is
/// what the optimizer and the checkpoint of the training see:
///
///   nn::Lora lora = nn::lora(model, random::key(0),
///                            {.rank = 8, .inputs = tree::Rules<int>{{"*query.kernel", 1}, {"*out.kernel",
///                            2}, {"*", 0}}});
///   auto loss = [](const nn::Lora& lora, const Model& model, const Array& x) {
///     return loss_of(lora.merged(model), x);
///   };
///   auto grads = grad(loss)(lora, model, x);  // of the adapters alone
namespace lockstep::nn {

struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 0;  ///< the product is scaled by alpha / rank; 0: alpha = rank

  /// How many of the array's first dimensions are inputs; 0: it is not adapted. For a Linear's kernel the
  /// number of its in_features: 1, and 2 for the `out` of a MultiHeadAttention. A function of the path and
  /// the array, or a tree::Rules<int>.
  std::function<std::int64_t(const std::string& path, const Array& array)> inputs = {};

  Initializer a_init = {};  ///< by default uniform up to 1 / sqrt(inputs), as in Hugging Face's PEFT
  DType dtype = DType::kF32;
};

/// The adapters of some arrays.
struct Lora {
  struct Adapter {
    Array a;  ///< [product of the input dimensions, rank]
    Array b;  ///< [rank, product of the others]: initially zeros, so that the model is as before
  };
  std::vector<std::string> paths;  ///< of the adapted arrays
  std::vector<Adapter> adapters;
  double scale = 1;

  /// The model with array + scale * a b in place of each adapted array, in its dtype. In a step this makes
  /// an array of the same size for each; for a model that is used without further training, keep the result.
  /// Throws Error if the model has no array at one of the paths, ShapeError if its size does not fit.
  template <class Model>
  Model merged(Model model, std::source_location where = std::source_location::current()) const {
    merge_into(tree::tree_ref(model), where);
    return model;
  }

  static void tree_parts(Lora& self, tree::Parts& part);

 private:
  void merge_into(tree::TreeRef model, const std::source_location& where) const;
};

namespace internal {
Lora lora(tree::TreeRef model, const random::Key& key, const LoraOptions& options,
          const std::source_location& where);
}  // namespace internal

/// Adapters for the arrays that options.inputs selects. Each `a` is made with key_at(key, its array's path).
/// The arrays may be those of shape_of. Throws ShapeError for a number of inputs that leaves no output
/// dimension, and Error if no array is selected.
template <class Model>
Lora lora(const Model& model, const random::Key& key, const LoraOptions& options,
          std::source_location where = std::source_location::current()) {
  return internal::lora(tree::tree_ref(model), key, options, where);
}

}  // namespace lockstep::nn
