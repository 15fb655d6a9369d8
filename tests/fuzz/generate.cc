// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/generate.h"

#include <algorithm>

#include "tests/fuzz/generator.h"
#include "tests/fuzz/golden.h"

namespace lockstep::fuzz {

Generator::Generator(std::uint64_t seed) : random_(seed), decides_(seed >= kGoldenPrograms) {
  program_.seed = seed;
  // Rules hold references to types and facts while they make others.
  program_.types.reserve(4096);
  facts_.reserve(4096);
}

Shape Generator::random_shape() {
  Shape shape;
  static const std::vector<std::int64_t> ranks{0, 1, 1, 1, 2, 2, 2, 3};
  do {
    shape.clear();
    for (std::int64_t n = random_.pick(ranks); n > 0; --n) shape.push_back(random_.pick(sizes_));
  } while (!fits(shape));
  return shape;
}

void Generator::add_inputs(Scope& scope) {
  for (std::int64_t n = random_.within(2, 4); n > 0; --n) {
    Input input;
    const Type t{random_.pick(dtypes_), random_shape()};
    input.value = add_input(scope, t, {2, 2, {}});
    const std::int64_t elements = num_elements(t.shape) * (t.dtype == DType::kC64 ? 2 : 1);
    for (std::int64_t i = 0; i < elements; ++i) {
      switch (dtype_class(t.dtype)) {
        case kB:
          input.data.push_back(static_cast<double>(random_.below(2)));
          break;
        case kU:
          input.data.push_back(static_cast<double>(random_.below(6)));
          break;
        case kI:
          input.data.push_back(static_cast<double>(random_.within(-4, 6)));
          break;
        default:
          input.data.push_back(static_cast<double>(random_.within(-8, 8)) / 4);
      }
    }
    if (!is(input.value, kF | kC)) fact(input.value).bound = 6;
    if (is(input.value, kC)) fact(input.value).bound = 3;
    const std::int64_t role = random_.below(10);
    input.role = role < 7 ? Role::kArgument : role < 9 ? Role::kDonated : Role::kCaptured;
    input.spec = random_spec(t.shape, axes_of(program_.mesh));
    if (decides_ && !input.spec.empty()) placed_.insert(input.value);
    // Now and then it comes from elsewhere, over another mesh.
    static const std::vector<std::vector<std::int64_t>> meshes{{8}, {2, 4}, {4, 2}, {2, 2, 2}};
    while (random_.percent(25) && input.before.size() < 2) {
      const std::vector<std::int64_t> own = program_.mesh;
      program_.mesh = random_.pick(meshes);
      const Spec spec = random_spec(t.shape, axes_of(program_.mesh));
      input.before.emplace_back(program_.mesh, spec);
      program_.mesh = own;
    }
    program_.inputs.push_back(std::move(input));
  }
}

bool Generator::step(Scope& scope) {
  struct Choice {
    Rule rule;
    int weight;
    bool nested;
    int first_weight = weight;  ///< of the first seeds
  };
  static const std::vector<Choice> choices{
      {&Generator::unary, 14, false},
      {&Generator::binary, 14, false},
      {&Generator::with_number, 6, false},
      {&Generator::reduce, 7, false},
      {&Generator::along_axis, 6, false},
      {&Generator::choice, 3, false},
      {&Generator::conversion, 4, false},
      {&Generator::rearrange, 9, false},
      {&Generator::join, 4, false},
      {&Generator::cut, 6, false},
      {&Generator::indexed, 7, false},
      {&Generator::stencil, 2, false},
      {&Generator::product, 8, false},
      {&Generator::window, 2, false},
      {&Generator::decomposition, 2, false},
      {&Generator::shard_map, 28, false},
      {&Generator::constraint, 12, false},
      {&Generator::collective, 10, false},
      {&Generator::mapped_collective, 14, false},
      {&Generator::call, 4, true},
      {&Generator::map_examples, 6, true},
      {&Generator::scan, 6, true},
      {&Generator::while_loop, 0, true, 2},
      {&Generator::decided_loop, 14, true, 0},
      {&Generator::branches, 6, true, 4},
      {&Generator::pole, 3, true, 0},
      {&Generator::sort_by, 3, false, 0},
      {&Generator::fourier, 4, false, 0},
      {&Generator::gradient, 4, true},
      {&Generator::forward, 3, true},
      {&Generator::backward, 2, true},
      {&Generator::jacobian, 2, true},
      {&Generator::own_derivative, 6, false},
  };
  const auto weight = [this](const Choice& each) { return decides_ ? each.weight : each.first_weight; };
  int total = 0;
  for (const Choice& each : choices) total += weight(each);
  std::int64_t at = random_.below(total);
  for (const Choice& each : choices) {
    at -= weight(each);
    if (at >= 0) continue;
    if (each.nested && scope.depth >= 2) return false;
    // A rule that gives up has perhaps made operations on the way; they stay, and what is not used goes.
    return (this->*each.rule)(scope);
  }
  return false;
}

void Generator::grow(Scope& scope, int nodes) {
  for (int tries = 0; nodes > 0 && tries < 8 * nodes + 20; ++tries) {
    if (step(scope)) --nodes;
  }
}

/// Values that the scope has made itself, most of them such as nothing else reads.
std::vector<Value> Generator::choose_outputs(Scope& scope, std::int64_t most) {
  std::vector<Value> made;
  std::set<Value> read;
  for (const Node& node : scope.body.nodes) {
    made.insert(made.end(), node.results.begin(), node.results.end());
    read.insert(node.operands.begin(), node.operands.end());
    for (const Body& inner : node.bodies) read.merge(free_values(inner));
  }
  std::vector<Value> outputs;
  for (std::int64_t n = random_.within(1, most); n > 0 && !made.empty(); --n) {
    std::vector<Value> last = made;
    std::erase_if(last, [&](Value v) { return read.contains(v); });
    if (last.empty() || random_.percent(20)) last = made;
    const auto size = static_cast<std::int64_t>(last.size());
    const Value v =
        last[static_cast<std::size_t>(size - 1 - std::min(random_.below(size), random_.below(size)))];
    outputs.push_back(v);
    std::erase(made, v);
  }
  return outputs;
}

void Generator::add_shardings(const std::vector<Value>& outputs) {
  // One sharding for all of a group: what divides each of them.
  auto common = [&](const std::vector<Shape>& shapes) {
    Spec spec;
    if (shapes.empty()) return spec;
    spec = random_spec(shapes[0], axes_of(program_.mesh));
    for (const Shape& shape : shapes) {
      while (!spec.empty() && !divides(program_, spec, shape)) spec.pop_back();
    }
    return spec;
  };
  std::vector<Shape> arguments, donated, values, derivatives;
  for (const Input& input : program_.inputs) {
    if (input.role == Role::kArgument) arguments.push_back(shape(input.value));
    if (input.role == Role::kDonated) donated.push_back(shape(input.value));
    if (is_inexact(dtype(input.value))) derivatives.push_back(shape(input.value));
  }
  for (Value v : outputs) values.push_back(shape(v));
  program_.has_in_shardings = random_.percent(30);
  program_.has_out_shardings = random_.percent(40);
  program_.in_argument = common(arguments);
  program_.in_donated = common(donated);
  program_.out_values = common(values);
  program_.out_derivatives = common(derivatives);
}

Program Generator::run() {
  static const std::vector<std::vector<std::int64_t>> meshes{{8}, {2, 4}, {4, 2}, {2, 2, 2}, {2, 2, 2}},
      fewer{{3}, {5}, {6}, {7}, {2, 3}, {3, 2}};
  program_.mesh = random_.pick(decides_ && random_.percent(40) ? fewer : meshes);
  // Few sizes and dtypes, so that values fit together; the sizes that meshes divide are the likelier.
  static const std::vector<std::int64_t> sizes{8, 8, 8, 8, 4, 4, 4, 2, 2, 0, 1, 3, 5, 6, 7, 9};
  for (int i = 0; i < 3; ++i) sizes_.push_back(random_.pick(sizes));
  if (decides_ && program_.mesh.size() == 1) sizes_.push_back(program_.mesh[0]);
  static const std::vector<DType> dtypes{DType::kF32, DType::kF32,  DType::kF32, DType::kF32,  DType::kF32,
                                         DType::kI32, DType::kI32,  DType::kF64, DType::kBF16, DType::kF16,
                                         DType::kC64, DType::kBool, DType::kI8,  DType::kI16,  DType::kI64,
                                         DType::kU8,  DType::kU16,  DType::kU32, DType::kU64};
  static const std::vector<DType> wholes{DType::kI32, DType::kI32, DType::kI32, DType::kU8,
                                         DType::kI8,  DType::kI16, DType::kI64, DType::kBool};
  const std::int64_t kind = decides_ ? random_.below(10) : 0;
  if (kind < 7) {
    dtypes_ = {DType::kF32};
    for (int i = 0; i < 3; ++i) dtypes_.push_back(random_.pick(dtypes));
  } else if (kind < 8) {
    dtypes_ = {DType::kC64, DType::kC64, DType::kF32};
  } else {
    for (int i = 0; i < 3; ++i) dtypes_.push_back(random_.pick(wholes));
  }
  Scope scope;
  add_inputs(scope);
  grow(scope, static_cast<int>(random_.within(4, 10)));
  const std::vector<Value> outputs = choose_outputs(scope, 4);
  program_.derivatives = static_cast<int>(random_.within(0, 9)) < 2 ? 1 : 2;
  program_.forward_over_reverse = random_.percent(60);
  add_shardings(outputs);
  program_.body = finish(scope, outputs);
  return std::move(program_);
}

Program generate(std::uint64_t seed) {
  Program program = Generator(seed).run();
  remove_unused(program);
  check(program);
  return program;
}

}  // namespace lockstep::fuzz
