// SPDX-License-Identifier: Apache-2.0
// Small models of eight families that transformers wrote (hf/generate.py): logits, greedy tokens and
// gradients are those that torch computes, on one device, and with parameters split over two, by their first
// dimension or by heads and hidden units. The Llama kind, Mixtral among them, generates in llm_test.cc;
// bert_test.cc has BERT.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/llm.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/models/families.h"

namespace lockstep {
namespace {

using test::Gpt2, test::T5, test::Vit;
using Rows = std::vector<std::vector<std::int32_t>>;

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
};
[[maybe_unused]] const auto* const two_devices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

std::string folder_of(const std::string& family) { return LOCKSTEP_HF_MODELS_DIR "/" + family; }

nlohmann::json expected_of(const std::string& family) {
  std::ifstream in(folder_of(family) + "/expected.json");
  return nlohmann::json::parse(in);
}

Array array_of(const Rows& rows) {
  std::vector<std::int32_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return array(all).reshape({static_cast<std::int64_t>(rows.size()), -1});
}

/// The largest difference of arrays of the trees, divided by the largest number of `expected`.
template <class Tree>
double difference(const Tree& found, const Tree& expected) {
  const std::vector<Array> a = tree::leaves(found), b = tree::leaves(expected);
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    EXPECT_EQ(a[i].shape(), b[i].shape());
    worst = std::max(worst, static_cast<double>(max(abs(a[i] - b[i])).template item<float>()));
    largest = std::max(largest, static_cast<double>(max(abs(b[i])).template item<float>()));
  }
  EXPECT_GT(largest, 0);
  return worst / largest;
}

/// Calls `check` with the model of the family on one device, by FSDP over two, and by tensor parallelism over
/// two; with the gradients that torch computed, and the sharding of a batch.
template <class Model, class Check>
void on_all_placements(const std::string& family, const Model& layers, const checkpoint::hf::Rules& rules,
                       Check check) {
  const auto like = jit([&] { return nn::init(layers, random::key(0)); }).eval_shape();
  const Model gradients = checkpoint::hf::restore(folder_of(family) + "/gradients", like, rules);
  const Mesh one = make_mesh({{"data", 1}}, {devices()[0]}), fsdp = make_mesh({{"data", 2}}),
             tensor = make_mesh({{"data", 1}, {"tensor", 2}});
  const std::pair<const Mesh&, tree::Rules<P>> placements[] = {
      {one, {{"*", P()}}},
      {fsdp,
       {{"cls_token.kernel", P()}, {"positions.kernel", P()}, {"classifier.bias", P()}, {"*", P("data")}}},
      {tensor, nn::partition_rules(layers, {{"heads", "tensor"}, {"hidden", "tensor"}})}};
  for (const auto& [mesh, specs] : placements) {
    SCOPED_TRACE(mesh.to_string());
    const Model model = checkpoint::hf::restore(folder_of(family), like, rules,
                                                {.sharding = nn::named_shardings(mesh, specs)});
    check(model, gradients, NamedSharding(mesh, P("data")));
  }
}

Array loss_of(const Array& logits, const Array& labels) {
  return mean(nn::softmax_cross_entropy_with_integer_labels(logits, labels));
}

/// The loss of the next tokens of the batch, and its gradient.
template <class Model, class Logits>
void expect_gradients(const Model& model, const Model& expected, const Array& batch, Logits logits) {
  auto loss = [&](const Model& model, const Array& batch) {
    return loss_of(logits(model, batch)[{slice(), slice(0, -1)}], batch[{slice(), slice(1, none)}]);
  };
  EXPECT_LT(difference(jit(grad(loss))(model, batch), expected), 1e-4);
}

TEST(Families, OfTheLlamaKind_HaveTorchsGradientsOnAllPlacements) {
  for (const std::string family : {"llama", "mistral", "mixtral", "qwen2"}) {
    SCOPED_TRACE(family);
    const auto file = checkpoint::hf::Config::read(folder_of(family));
    const auto config = file.as<llm::Config>();
    const Array batch = array_of(expected_of(family)["batch"]);
    on_all_placements(
        family, llm::layers(config), llm::rules(),
        [&](const llm::Model& model, const llm::Model& gradients, const NamedSharding& by_rows) {
          expect_gradients(model, gradients, device_put(batch, by_rows),
                           [&](const llm::Model& model, const Array& tokens) {
                             return llm::logits(model,
                                                llm::features(model, tokens, config, llm::rotary_of(file)));
                           });
        });
  }
}

TEST(Families, Gpt2_HasTorchsLogitsGradientsAndGreedyTokensOnAllPlacements) {
  const nlohmann::json expected = expected_of("gpt2");
  const Rows rows = expected["rows"], greedy = expected["greedy"];
  auto logits = jit([](const Gpt2& model, const Array& tokens) { return model(tokens); });
  on_all_placements(
      "gpt2", Gpt2(), Gpt2::rules(),
      [&](const Gpt2& model, const Gpt2& gradients, const NamedSharding& by_rows) {
        const auto whole = NamedSharding(by_rows.mesh(), P());
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const std::vector<std::vector<float>> want = expected["logits"][i];
          std::vector<float> all;
          for (const auto& place : want) all.insert(all.end(), place.begin(), place.end());
          // Of one length for all tokens: what comes after them does not matter.
          std::vector<std::int32_t> tokens = rows[i];
          tokens.resize(rows[i].size() + greedy[i].size());
          const auto count = static_cast<std::int64_t>(rows[i].size());
          const auto next = [&] { return logits(model, device_put(array_of({tokens}), whole)); };
          EXPECT_LT(difference(next()[0][slice(0, count)], array(all).reshape({count, -1})), 1e-5);
          for (std::size_t at = rows[i].size(); at < tokens.size(); ++at)
            tokens[at] = argmax(next()[{0, static_cast<int>(at) - 1}]).item<std::int32_t>();
          EXPECT_EQ(std::vector(tokens.begin() + count, tokens.end()), greedy[i]);
        }
        expect_gradients(model, gradients, device_put(array_of(expected["batch"]), by_rows),
                         [](const Gpt2& model, const Array& tokens) { return model(tokens); });
      });
}

TEST(Families, T5_HasTorchsLogitsGradientsAndGreedyTokensOnAllPlacements) {
  const nlohmann::json expected = expected_of("t5");
  const Rows batch = expected["batch"], greedy = expected["greedy"];
  const std::vector<std::vector<std::vector<float>>> want = expected["logits"];
  std::vector<float> all;
  for (const auto& row : want)
    for (const auto& place : row) all.insert(all.end(), place.begin(), place.end());
  const auto before = [](const Array& outputs) {  // the tokens before these; the first is the start, 0
    return concatenate({zeros({outputs.shape()[0], 1}, int32), outputs[{slice(), slice(0, -1)}]}, 1);
  };
  auto logits =
      jit([&](const T5& model, const Array& in, const Array& out) { return model(in, before(out)); });
  on_all_placements(
      "t5", T5(), T5::rules(), [&](const T5& model, const T5& gradients, const NamedSharding& by_rows) {
        const Array outputs = device_put(array_of(batch), by_rows), inputs = flip(outputs, 1);
        EXPECT_LT(difference(logits(model, inputs, outputs), array(all).reshape({2, 10, 64})), 1e-5);
        auto loss = [&](const T5& model, const Array& in, const Array& out) {
          return loss_of(model(in, before(out)), out);
        };
        EXPECT_LT(difference(jit(grad(loss))(model, inputs, outputs), gradients), 1e-4);

        Rows made(2, std::vector<std::int32_t>(greedy[0].size()));
        for (std::size_t at = 0; at < greedy[0].size(); ++at) {
          const Array next = argmax(
              logits(model, inputs, device_put(array_of(made), by_rows))[{slice(), static_cast<int>(at)}], 1);
          for (int row : {0, 1}) made[static_cast<std::size_t>(row)][at] = next[row].item<std::int32_t>();
        }
        EXPECT_EQ(made, greedy);
      });
}

TEST(Families, Vit_HasTorchsLogitsAndGradientsOnAllPlacements) {
  const nlohmann::json expected = expected_of("vit");
  std::vector<float> pixels, all;
  for (std::int64_t i = 0; i < 2 * 3 * 16 * 16; ++i)
    pixels.push_back(
        static_cast<float>(std::sin(0.37 * static_cast<double>(i) * static_cast<double>(i % 101))));
  for (const std::vector<float> row : expected["logits"]) all.insert(all.end(), row.begin(), row.end());
  const Array pictures = transpose(array(pixels).reshape({2, 3, 16, 16}), {0, 2, 3, 1});
  const std::vector<std::vector<float>> first = expected["first_pixels"];
  EXPECT_LT(difference(pictures[{0, 0, slice(), 0}], array(first[0])), 1e-6);
  on_all_placements(
      "vit", Vit(), Vit::rules(), [&](const Vit& model, const Vit& gradients, const NamedSharding& by_rows) {
        const Array batch = device_put(pictures, by_rows), labels = device_put(array({0, 1}), by_rows);
        const auto logits = jit([](const Vit& model, const Array& x) { return model(x); })(model, batch);
        EXPECT_LT(difference(logits, array(all).reshape({2, 5})), 1e-5);
        auto loss = [](const Vit& model, const Array& x, const Array& y) { return loss_of(model(x), y); };
        EXPECT_LT(difference(jit(grad(loss))(model, batch, labels), gradients), 1e-4);
      });
}

/// The tensors of a file of safetensors: name, dtype and shape, with their bytes.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::uint64_t size = 0;
  in.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  in.read(header.data(), static_cast<std::streamsize>(size));
  std::map<std::string, std::string> all;
  const nlohmann::json tensors = nlohmann::json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    const std::vector<std::uint64_t> place = tensor["data_offsets"];
    std::string bytes(place[1] - place[0], ' ');
    in.seekg(static_cast<std::streamoff>(sizeof size + size + place[0]));
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    all[name + " " + tensor["dtype"].get<std::string>() + tensor["shape"].dump()] = bytes;
  }
  EXPECT_TRUE(in.good()) << path;
  return all;
}

/// Reads the model of the family, and writes it to a folder, which has the tensors that transformers wrote.
/// With LOCKSTEP_TEST_FOLDERS=DIR, the folders stay there, for hf/load.py.
template <class Model>
void expect_the_same_folder(const std::string& family, const Model& layers,
                            const checkpoint::hf::Rules& rules) {
  SCOPED_TRACE(family);
  const testing::TemporaryFolder temporary;
  const char* kept = std::getenv("LOCKSTEP_TEST_FOLDERS");
  const std::string folder = (kept == nullptr ? temporary.path().string() : std::string(kept)) + "/" + family;
  const auto like = jit([&] { return nn::init(layers, random::key(0)); }).eval_shape();
  const Mesh mesh = make_mesh({{"tensor", 2}});
  const auto specs = nn::partition_rules(layers, {{"heads", "tensor"}, {"hidden", "tensor"}});
  const Model model =
      checkpoint::hf::restore(folder_of(family), like, rules, {.sharding = nn::named_shardings(mesh, specs)});
  std::ifstream config(folder_of(family) + "/config.json");
  checkpoint::hf::save(folder, model, rules, {.config = {std::istreambuf_iterator<char>(config), {}}});
  EXPECT_EQ(tensors_of(folder + "/model.safetensors"), tensors_of(folder_of(family) + "/model.safetensors"));
}

TEST(Families, WrittenToAFolder_HaveTheTensorsThatTransformersWrote) {
  for (const std::string family : {"llama", "mistral", "mixtral", "qwen2"}) {
    const auto config = checkpoint::hf::Config::read(folder_of(family)).as<llm::Config>();
    expect_the_same_folder(family, llm::layers(config), llm::rules());
  }
  expect_the_same_folder("gpt2", Gpt2(), Gpt2::rules());
  expect_the_same_folder("t5", T5(), T5::rules());
  expect_the_same_folder("vit", Vit(), Vit::rules());
}

}  // namespace
}  // namespace lockstep
