#include "lockstep/jit/vmap.h"

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::internal {
namespace {

/// x with dimension `from` moved to `to`; the others keep their order.
Value move_axis(const Value& x, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> permutation;
  for (std::int64_t i = 0; i < x.aval().rank(); ++i) {
    if (i != from) permutation.push_back(i);
  }
  permutation.insert(permutation.begin() + to, from);
  return lax::transpose(x, permutation);
}

std::int64_t checked(int axis, std::int64_t rank, const Aval& aval, const CallSite& site) {
  std::int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) {
    fail<ShapeError>("[vmap] axis {} is none of {}'s dimensions (at {})", axis, to_string(aval),
                     site.to_string());
  }
  return counted;
}

}  // namespace

Aval example_aval(const Aval& aval, std::optional<int> axis, const CallSite& site) {
  Aval example = aval;
  if (axis) example.shape.erase(example.shape.begin() + checked(*axis, aval.rank(), aval, site));
  return example;
}

std::int64_t count_examples(const std::vector<Array>& inputs, const std::vector<std::optional<int>>& axes,
                            const CallSite& site) {
  std::optional<std::int64_t> size;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!axes[i]) continue;
    const Aval& aval = inputs[i].aval();
    const std::int64_t here =
        aval.shape[static_cast<std::size_t>(checked(*axes[i], aval.rank(), aval, site))];
    if (size.value_or(here) != here) {
      fail<ShapeError>("[vmap] the mapped dimensions have different sizes, {} and {} (in {}; at {})", *size,
                       here, to_string(aval), site.to_string());
    }
    size = here;
  }
  if (!size) {
    fail<ShapeError>(
        "[vmap] no argument is mapped: give at least one array with an in_axes other than nullopt (at {})",
        site.to_string());
  }
  return *size;
}

std::vector<Array> map_program(const Program& program, const std::vector<Array>& inputs,
                               const std::vector<std::optional<int>>& axes, const VmapOptions& options,
                               const CallSite& site) {
  Trace& trace = *Trace::current();
  const std::int64_t size = count_examples(inputs, axes, site);
  std::vector<Value> values;
  std::vector<bool> batched;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Value value = trace.value_of(inputs[i]);
    batched.push_back(axes[i].has_value());
    if (axes[i]) value = move_axis(value, checked(*axes[i], value.aval().rank(), value.aval(), site), 0);
    values.push_back(value);
  }
  const Program mapped =
      transforms::vmap(program, batched, {size, options.axis_name, options.spmd_axis_name.names});
  std::vector<Array> outputs;
  for (const Value& value : transforms::inline_program(trace.builder(), mapped, values)) {
    outputs.push_back(
        trace.wrap(move_axis(value, 0, checked(options.out_axes, value.aval().rank(), value.aval(), site))));
  }
  return outputs;
}

}  // namespace lockstep::internal
