// SPDX-License-Identifier: Apache-2.0
// Reinforcement learning: an agent learns to balance a pole on a cart, by proximal policy optimization
// (Schulman and others, 2017). All carts are one array, split over the devices.
//
//   $ lockstep run -n 2 -- build/release/examples/ppo_cartpole
//   ...
//   [0] learned

#include <lockstep/lockstep.h>

#include <cstdio>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

#include "examples/support/command_line.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P, ls::random::Key;

constexpr int kSteps = 64, kEpochs = 4, kMinibatches = 8;  // of an iteration
constexpr double kDiscount = 0.99, kLambda = 0.95, kClip = 0.2, kEntropy = 0.01;

struct Mlp {
  nn::Linear hidden, out;
  Array operator()(const Array& x) const { return out(ls::tanh(hidden(x))); }
};

struct Agent {
  Mlp policy{{.in_features = 4, .out_features = 64}, {.in_features = 64, .out_features = 2}};
  Mlp critic{{.in_features = 4, .out_features = 64}, {.in_features = 64, .out_features = 1}};
  Array value(const Array& state) const { return critic(state)[{ls::ellipsis, 0}]; }
};

struct Environment {
  Array state;                ///< position, speed, angle and angular speed
  Array steps, last_episode;  ///< the steps of this episode; the length of the one before
};

struct Transition {
  Array state, action, log_prob, next_state, failed, done;
};

auto optimizer() { return ls::optim::chain(ls::optim::clip_by_global_norm(0.5), ls::optim::adam(3e-3)); }

struct Learner {
  Agent agent;
  decltype(optimizer().init(Agent())) moments;
};

/// The state 0.02 s later, when the cart is pushed with 10 N to the left (0) or right (1): the equations of
/// Barto, Sutton and Anderson (1983), with the numbers of Gymnasium's CartPole-v1.
Array moved(const Array& state, const Array& action) {
  const double pole = 0.1, mass = 1 + pole, length = 0.5;  // kg, kg with the cart, half of the pole in m
  const Array sine = ls::sin(state[2]), cosine = ls::cos(state[2]);
  const Array push = (20.0 * action - 10.0 + pole * length * ls::square(state[3]) * sine) / mass;
  const Array inertia = length * (4.0 / 3 - pole * ls::square(cosine) / mass);
  const Array turn = (9.8 * sine - cosine * push) / inertia;
  return state + 0.02 * ls::stack({state[1], push - pole * length * turn * cosine / mass, state[3], turn});
}

Array start(const Key& key) { return ls::random::uniform(key, {4}, ls::float32, -0.05, 0.05); }
Array log_prob(const Array& logits, const Array& action) {
  return -nn::softmax_cross_entropy_with_integer_labels(logits, action);
}

/// A step of one environment. An episode is done when the pole has fallen, or after 500 steps.
std::pair<Environment, Transition> step(const Agent& agent, const Environment& now, const Key& key) {
  const auto [action_key, start_key] = ls::random::split<2>(key);
  const Array logits = agent.policy(now.state), action = ls::random::categorical(action_key, logits);
  const Array next = moved(now.state, action), steps = now.steps + 1;
  const Array failed = (ls::abs(next[0]) > 2.4) | (ls::abs(next[2]) > std::numbers::pi / 15);
  const Array done = failed | (steps == 500);
  return {{ls::where(done, start(start_key), next), ls::where(done, 0, steps),
           ls::where(done, steps, now.last_episode)},
          {now.state, action, log_prob(logits, action), next, failed, done}};
}

/// Generalized advantage estimation with reward 1. An episode of 500 steps has not failed: its future counts.
Array advantages(const Agent& agent, const Transition& t) {
  const Array next_value = ls::where(t.failed, 0, agent.value(t.next_state));
  const Array delta = 1 + kDiscount * next_value - agent.value(t.state);
  auto accumulate = [](const Array& later, const std::pair<Array, Array>& now) {
    const Array advantage = now.first + kDiscount * kLambda * ls::where(now.second, 0, later);
    return std::pair(advantage, advantage);
  };
  return ls::scan(accumulate, ls::zeros_like(delta[0]), std::pair(delta, t.done), {.reverse = true}).second;
}

Array loss(const Agent& agent, const Transition& t, const Array& gain, const Array& target) {
  const Array logits = agent.policy(t.state), ratio = ls::exp(log_prob(logits, t.action) - t.log_prob);
  const Array clipped = ls::minimum(ratio * gain, ls::clip(ratio, 1 - kClip, 1 + kClip) * gain);
  const Array entropy = -ls::sum(nn::softmax(logits) * nn::log_softmax(logits), -1);
  return ls::mean(nn::l2_loss(agent.value(t.state), target) - clipped - kEntropy * entropy);
}

/// kSteps steps of all environments, and the updates by them. A minibatch has some steps of each environment,
/// so that only gradients, and the mean and variance of the advantages, are summed over the devices.
std::pair<Learner, Environment> iteration(const Learner& learner, const Environment& from, const Array& i) {
  const auto [step_key, order_key] = ls::random::split<2>(ls::random::fold_in(ls::random::key(2), i));
  auto step_all = [&](const Environment& now, const Key& key) {
    const Key keys = ls::random::split(key, now.steps.shape()[0]);
    return ls::vmap(step, {.in_axes = {std::nullopt, 0, 0}})(learner.agent, now, keys);
  };
  const auto [environments, taken] = ls::scan(step_all, from, ls::random::split(step_key, kSteps));
  const Array advantage = advantages(learner.agent, taken);
  const Array normalized = (advantage - ls::mean(advantage)) / (ls::std_(advantage) + 1e-8);
  const std::tuple batch(taken, normalized, advantage + learner.agent.value(taken.state));
  auto update = [&](const Learner& now, const Array& steps) {
    auto [t, gain, target] = ls::tree::map([&](const Array& x) { return ls::take(x, steps, 0); }, batch);
    const Agent grads = ls::grad(loss)(now.agent, t, gain, target);
    auto [updates, moments] = optimizer().update(grads, now.moments, now.agent);
    return std::pair(Learner{ls::optim::apply_updates(now.agent, updates), moments}, std::tuple());
  };
  auto shuffle = [](const Key& key) { return ls::random::permutation(key, kSteps); };
  const Array order = ls::vmap(shuffle)(ls::random::split(order_key, kEpochs));
  return {ls::scan(update, learner, ls::reshape(order, {kEpochs * kMinibatches, -1})).first, environments};
}

void train(int iterations, int count) {
  ls::initialize();
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding split(mesh, P("data")), replicated(mesh, P());
  auto init = [&] {
    const Agent agent = nn::init(Agent(), ls::random::key(0));
    const Array states = ls::vmap(start)(ls::random::split(ls::random::key(1), count));
    const Array zeros = ls::zeros({count}, ls::int32);
    return std::pair(Learner{agent, optimizer().init(agent)}, Environment{states, zeros, zeros});
  };
  auto [learner, environments] = ls::jit(init, {.out_shardings = {replicated, split}})();
  auto iterate = ls::jit(iteration, {.out_shardings = {replicated, split}, .donate_argnums = {0, 1}});
  float length = 0;
  for (int i = 1; i <= iterations; ++i) {
    std::tie(learner, environments) = iterate(learner, environments, i);
    length = ls::mean(environments.last_episode).item<float>();
    if (i % 5 == 0 && ls::process_index() == 0)
      std::printf("iteration %2d: mean episode %.1f steps\n", i, length);
  }
  if (ls::process_index() == 0) std::printf(length >= 150 ? "learned\n" : "not learned\n");
}

int main(int argc, char** argv) {
  int iterations = 30, environments = 64;
  CommandLine app{"Learns to balance a pole on a cart by proximal policy optimization."};
  app.option("--iterations", iterations);
  app.option("--environments", environments, "over all devices");
  return app.run(argc, argv, [&] { train(iterations, environments); });
}
