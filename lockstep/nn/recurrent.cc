// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/recurrent.h"

#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {
namespace {

/// The two linear layers of a cell with this number of gates, before init.
template <class Cell>
void set_up(Cell& cell, const char* name, std::int64_t gates) {
  internal::check_sizes(name, "in_features and features", {cell.in_features, cell.features});
  cell.input = Linear{.in_features = cell.in_features,
                      .out_features = {gates, cell.features},
                      .kernel_init = cell.kernel_init,
                      .bias_init = cell.bias_init,
                      .axes = cell.axes,
                      .dtype = cell.dtype};
  cell.recurrent = cell.input;
  cell.recurrent.in_features = cell.features;
  // The matrix of each gate by itself: together they could not be orthogonal.
  const Initializer of_gate = cell.recurrent_kernel_init.valid() ? cell.recurrent_kernel_init
                                                                 : Initializer(initializers::orthogonal());
  cell.recurrent.kernel_init = [of_gate, gates, features = cell.features](const random::Key& key,
                                                                          const Shape&, DType dtype) {
    const random::Key keys = random::split(key, gates);
    std::vector<Array> all;
    for (std::int64_t g = 0; g < gates; ++g) all.push_back(of_gate(keys[g], {features, features}, dtype));
    return concatenate(all, 1);
  };
  // The input's axis is not the features'.
  std::vector<std::vector<std::string>> entries = {{}, cell.axes.axes(1), cell.axes.axes(2)};
  cell.recurrent.axes = PartitionSpec::from_entries(std::move(entries)).normalized();
}

/// Gate g of [..., gates, features].
Array gate(const Array& all, std::int64_t g) {
  Shape from(all.shape().size(), 0), to = all.shape();
  from[from.size() - 2] = g;
  to[to.size() - 2] = g + 1;
  return squeeze(slice(all, from, to), -2);
}

Array zero_state(Shape shape, std::int64_t features, DType dtype) {
  shape.push_back(features);
  return zeros(shape, dtype);
}

}  // namespace

LSTMCell LSTMCell::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  LSTMCell cell = *this;
  set_up(cell, "LSTMCell", 4);
  cell.input.use_bias = false;
  return init_parts(std::move(cell), key.as_array(), key.where());
}

std::pair<LSTMState, Array> LSTMCell::operator()(const LSTMState& state, const Operand& x) const {
  CallSiteScope here(x.site());
  internal::check_made("LSTMCell", recurrent.kernel);
  const Array gates = input(x) + recurrent(state.h);
  const Array c = sigmoid(gate(gates, 1)) * state.c + sigmoid(gate(gates, 0)) * tanh(gate(gates, 2));
  const Array h = sigmoid(gate(gates, 3)) * tanh(c);
  return {{c, h}, h};
}

LSTMState LSTMCell::initialize_carry(const Shape& batch) const {
  return {zero_state(batch, features, dtype), zero_state(batch, features, dtype)};
}

void LSTMCell::tree_parts(LSTMCell& self, tree::Parts& part) {
  part("input", self.input)("recurrent", self.recurrent);
}

GRUCell GRUCell::init(const random::KeyOperand& key) const {
  CallSiteScope here(key.site());
  GRUCell cell = *this;
  set_up(cell, "GRUCell", 3);
  cell.recurrent.use_bias = false;
  cell.bias = internal::made(bias_init, initializers::zeros, key, "bias", {features}, dtype);
  return init_parts(std::move(cell), key.as_array(), key.where());
}

std::pair<Array, Array> GRUCell::operator()(const Array& h, const Operand& x) const {
  CallSiteScope here(x.site());
  internal::check_made("GRUCell", recurrent.kernel);
  const Array in = input(x), before = recurrent(h);
  const Array r = sigmoid(gate(in, 0) + gate(before, 0)), z = sigmoid(gate(in, 1) + gate(before, 1));
  const Array n = tanh(gate(in, 2) + r * (gate(before, 2) + bias));
  const Array next = (1.0 - z) * n + z * h;
  return {next, next};
}

Array GRUCell::initialize_carry(const Shape& batch) const { return zero_state(batch, features, dtype); }

void GRUCell::tree_parts(GRUCell& self, tree::Parts& part) {
  part("input", self.input)("recurrent", self.recurrent)("bias", self.bias);
}

}  // namespace lockstep::nn
