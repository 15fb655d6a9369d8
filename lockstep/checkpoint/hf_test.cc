// SPDX-License-Identifier: Apache-2.0
// Trees of which Hugging Face's files have the arrays under other names, and in other layouts.

#include "lockstep/checkpoint/hf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/make_array.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/hf_config.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/tree/tree.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

const bool four_devices_here = ::setenv("LOCKSTEP_NUM_CPU_DEVICES", "4", 0) == 0;

using Tensors = std::map<std::string, Array>;

/// 0, 1, 2, … from a number on.
Array counted(const Shape& shape, double from = 0) {
  return reshape(arange(from, from + static_cast<double>(num_elements(shape)), 1, DType::kF32), shape);
}

std::vector<float> elements(const Array& x) { return astype(x, float32).to_host<float>(); }

struct Attention {
  Array query, key, out;
};
struct Block {
  Attention attention;
  std::map<std::string, Array> norms;
};
struct Model {
  Array embedding;
  std::vector<Block> blocks;
  int heads = 2;
};

const hf::Rules kRules{
    {"embedding", "model.embed.weight"},
    {"blocks.{}.attention.out", "model.layers.{}.attn.o.weight", "o (h d) -> h d o", {{"h", 2}}},
    {"blocks.{}.attention.{}", "model.layers.{}.attn.{}_proj.weight", "(h d) i -> i h d", {{"h", 2}}},
    {"blocks.{}.norms.{}", "model.layers.{}.{}.weight"},
};

Tensors model_tensors() {
  Tensors all{{"model.embed.weight", counted({8, 4})}};
  for (int i = 0; i < 2; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    all[layer + "attn.query_proj.weight"] = counted({6, 4}, 100 + i);
    all[layer + "attn.key_proj.weight"] = counted({6, 4}, 200 + i);
    all[layer + "attn.o.weight"] = counted({4, 6}, 300 + i);
    all[layer + "first.weight"] = counted({4}, 400 + i);
    all[layer + "second.weight"] = counted({4}, 500 + i);
  }
  return all;
}

Model empty_model() {
  Model model;
  model.blocks.resize(2);
  for (Block& block : model.blocks) block.norms = {{"first", {}}, {"second", {}}};
  return model;
}

TEST(Hf, TensorsWithOtherNamesAndLayouts_AreRestoredByRules) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "model";
  const Tensors tensors = model_tensors();
  hf::save(url, tensors);
  const Model model = hf::restore(url, empty_model(), kRules);
  EXPECT_EQ(elements(model.embedding), elements(tensors.at("model.embed.weight")));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const Attention& attention = model.blocks[i].attention;
    EXPECT_EQ(attention.key.shape(), Shape({4, 2, 3}));
    EXPECT_EQ(
        elements(attention.query),
        elements(transpose(reshape(tensors.at(layer + "attn.query_proj.weight"), {2, 3, 4}), {2, 0, 1})));
    EXPECT_EQ(elements(attention.key),
              elements(transpose(reshape(tensors.at(layer + "attn.key_proj.weight"), {2, 3, 4}), {2, 0, 1})));
    EXPECT_EQ(elements(attention.out),
              elements(transpose(reshape(tensors.at(layer + "attn.o.weight"), {4, 2, 3}), {1, 2, 0})));
    EXPECT_EQ(elements(model.blocks[i].norms.at("second")), elements(tensors.at(layer + "second.weight")));
  }
  EXPECT_EQ(model.heads, 2);
}

TEST(Hf, ATreeSavedWithTheSameRules_HasTheSameTensors) {
  TemporaryFolder folder;
  const Tensors tensors = model_tensors();
  hf::save(folder.path() / "a", tensors, {}, {.largest_file = 300});
  const Model model = hf::restore(folder.path() / "a", empty_model(), kRules);
  hf::save(folder.path() / "b", model, kRules, {.config = "{\"heads\": 2}", .largest_file = 200});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "b" / "model-00002-of-00010.safetensors") ||
              std::filesystem::exists(folder.path() / "b" / "model.safetensors.index.json"));
  EXPECT_EQ(hf::Config::read(folder.path() / "b").get<int>("heads"), 2);
  const Numbers a = restore_numbers(folder.path() / "a"), b = restore_numbers(folder.path() / "b");
  ASSERT_EQ(b.arrays.size(), tensors.size());
  for (const auto& [name, array] : a.arrays) {
    ASSERT_TRUE(b.arrays.contains(name)) << name;
    EXPECT_EQ(b.arrays.at(name).shape, array.shape) << name;
    EXPECT_EQ(b.arrays.at(name).elements<float>(), array.elements<float>()) << name;
  }
}

/// Restores one array over four devices in every possible way, and saves it again.
void check(const Tensors& tensors, const hf::Rule& rule, const Array& expected) {
  TemporaryFolder folder;
  hf::save(folder.path() / "file", tensors);
  const hf::Rules rules{rule};
  const Tensors like{{"x", zeros_like(expected)}};
  std::vector<Sharding> shardings{like.at("x").sharding()};
  const Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
  for (std::size_t d = 0; d < expected.shape().size(); ++d) {
    for (const auto& axes : std::vector<std::vector<std::string>>{{"a"}, {"a", "b"}}) {
      if (expected.shape()[d] % (std::int64_t{1} << axes.size()) != 0) continue;
      std::vector<std::vector<std::string>> spec(expected.shape().size());
      spec[d] = axes;
      shardings.emplace_back(NamedSharding(mesh, P::from_entries(spec)));
    }
  }
  for (const Sharding& sharding : shardings) {
    const Tensors found =
        hf::restore(folder.path() / "file", like, rules, {.sharding = [&](auto&) { return sharding; }});
    EXPECT_EQ(found.at("x").shape(), expected.shape());
    EXPECT_EQ(elements(found.at("x")), elements(expected)) << to_string(sharding);
    const std::string again = folder.path() / ("again" + std::to_string(&sharding - shardings.data()));
    hf::save(again, found, rules);
    const Numbers written = restore_numbers(again);
    ASSERT_EQ(written.arrays.size(), tensors.size());
    for (const auto& [name, tensor] : tensors)
      EXPECT_EQ(written.arrays.at(name).elements<float>(), elements(tensor)) << name;
  }
}

TEST(Hf, EachLayout_IsReadAndWrittenInParts) {
  const Array a = counted({8, 12}), b = counted({8, 12}, 1000);
  check({{"t", a}}, {"x", "t"}, a);
  check({{"t", a}}, {"x", "t", "o i -> i o"}, transpose(a));
  check({{"t", a}}, {"x", "t", "o (h d) -> h d o", {{"h", 3}}}, transpose(reshape(a, {8, 3, 4}), {1, 2, 0}));
  check({{"t", a}}, {"x", "t", "(h d) i -> (d i) h", {{"h", 2}, {"d", 4}}},
        reshape(transpose(reshape(a, {2, 4, 12}), {1, 2, 0}), {48, 2}));
  check({{"t", a}}, {"x", "t", "(a b c) i -> (c b) (i a)", {{"a", 2}, {"b", 2}}},
        reshape(transpose(reshape(a, {2, 2, 2, 12}), {2, 1, 3, 0}), {4, 24}));
  check({{"t", a}}, {"x", "t", "o i -> 1 i o 1"}, reshape(transpose(a), {1, 12, 8, 1}));
  const Array both = stack({a, b});
  check({{"t.0.w", a}, {"t.1.w", b}}, {"x", "t.{e}.w"}, both);
  check({{"t.0.w", a}, {"t.1.w", b}}, {"x", "t.{e}.w", "o i -> i e o"}, transpose(both, {2, 0, 1}));
  check({{"t.up", a}, {"t.down", b}}, {"x", "t.{k:up,down}", "o i -> i (k o)"},
        transpose(reshape(both, {16, 12})));
  check({{"t.up", a}, {"t.down", b}}, {"x", "t.{k:up,down}", "o i -> (i k) o"},
        reshape(transpose(both, {2, 0, 1}), {24, 8}));
}

TEST(Hf, ATensorOfSeveralArrays_IsSplitOnRestoreAndJoinedOnSave) {
  TemporaryFolder folder;
  const Array fused = counted({4, 12}), experts = counted({3, 2, 2}), mixed = counted({10});
  hf::save(folder.path() / "a", Tensors{{"attn.weight", fused}, {"experts", experts}, {"mixed", mixed}});
  const hf::Rules rules{{"q", "attn.weight", "i (part=0/3 h d) -> i h d", {{"h", 2}}},
                        {"k", "attn.weight", "i (part=1/3 h d) -> i h d", {{"h", 2}}},
                        {"v", "attn.weight", "i (part=2/3 h d) -> i h d", {{"h", 2}}},
                        {"experts.{}", "experts", "e={0} o i -> i o"},
                        {"first", "mixed", "o=0:6 -> o"},
                        {"second", "mixed", "o=6:10 -> o"}};
  struct Split {
    Array q, k, v, first, second;
    std::vector<Array> experts;
  };
  Split like;
  like.experts.resize(3);
  const Split split = hf::restore(folder.path() / "a", like, rules);
  EXPECT_EQ(split.k.shape(), Shape({4, 2, 2}));
  EXPECT_EQ(elements(split.v), elements(reshape(fused, {4, 3, 2, 2})[{slice(), 2}]));
  EXPECT_EQ(elements(split.experts[1]), (std::vector<float>{4, 6, 5, 7}));
  EXPECT_THAT(elements(split.second), ElementsAre(6, 7, 8, 9));
  hf::save(folder.path() / "b", split, rules);
  const Numbers again = restore_numbers(folder.path() / "b");
  EXPECT_EQ(again.arrays.at("attn.weight").elements<float>(), elements(fused));
  EXPECT_EQ(again.arrays.at("experts").elements<float>(), elements(experts));
  EXPECT_EQ(again.arrays.at("mixed").elements<float>(), elements(mixed));
  like.experts.resize(2);
  EXPECT_THAT(
      error_of<CheckpointError>([&] {
        hf::save(
            folder.path() / "c",
            Split{split.q, split.k, split.v, split.first, split.second, {split.experts[0], split.experts[2]}},
            {{"q", "attn.weight", "i (part=0/3 h d) -> i h d"}});
      }),
      HasSubstr("attn.weight is f32[4,12], but only 16 of its elements would be written, from q"));
  EXPECT_THAT(error_of<CheckpointError>([&] {
                hf::save(folder.path() / "c", Tensors{{"a", fused}, {"b", fused}}, {{"{}", "t"}});
              }),
              HasSubstr("[\"a\"] and [\"b\"] would both be written to t; if they are the same, set `tied`"));
}

TEST(Hf, ATiedArray_IsReadAndNotWritten) {
  TemporaryFolder folder;
  const Array embedding = counted({5, 2});
  hf::save(folder.path() / "a", Tensors{{"embed.weight", embedding}});
  const hf::Rules rules{{"embed", "embed.weight"}, {"head", "embed.weight", "v f -> f v", {}, true}};
  const Tensors tied = hf::restore(folder.path() / "a", Tensors{{"embed", {}}, {"head", {}}}, rules);
  EXPECT_EQ(elements(tied.at("head")), elements(transpose(embedding)));
  hf::save(folder.path() / "b", tied, rules);
  EXPECT_EQ(restore_numbers(folder.path() / "b").arrays.size(), 1u);
  EXPECT_THAT(
      error_of<CheckpointError>([&] {
        hf::save(folder.path() / "c", Tensors{{"head", embedding}}, rules);
      }),
      HasSubstr("[\"head\"] is tied to embed.weight, but no other array is written to that tensor (rule 2,"));
}

TEST(Hf, FloatingNumbers_AreRoundedToTheTreesDtype) {
  TemporaryFolder folder;
  const Array x = array({1.f, 1.00390625f, 65519.f, 1e-7f, -3.14159f}, {5});
  for (DType file : {float64, float32, bfloat16, float16}) {
    const std::string url = folder.path() / std::string(name(file));
    hf::save(url, Tensors{{"x", x}, {"n", arange(3)}}, {}, {.dtype = file});
    const Array stored = astype(x, file);
    for (DType wanted : {float64, float32, bfloat16, float16, float8_e5m2}) {
      const Tensors found = hf::restore(url, Tensors{{"x", zeros({5}, wanted)}, {"n", arange(3)}});
      EXPECT_EQ(found.at("x").dtype(), wanted);
      EXPECT_EQ(elements(found.at("x")), elements(astype(stored, wanted)))
          << name(file) << " " << name(wanted);
    }
    EXPECT_THAT(error_of<CheckpointError>([&] {
                  hf::restore(url, Tensors{{"x", zeros({5}, int32)}, {"n", arange(3)}});
                }),
                HasSubstr("[5], but the tree to restore has i32[5] there"));
  }
}

TEST(Hf, ATreeOfShapes_IsRestoredWithoutValues) {
  TemporaryFolder folder;
  const Array x = counted({4, 8});
  hf::save(folder.path() / "a", Tensors{{"x", x}});
  const NamedSharding rows(make_mesh({{"a", 4}}), P("a"));
  const Tensors found =
      hf::restore(folder.path() / "a", Tensors{{"x", lockstep::shape_of({8, 4}, bfloat16, rows)}},
                  {{"x", "x", "o i -> i o"}});
  EXPECT_EQ(found.at("x").sharding(), Sharding(rows));
  EXPECT_EQ(elements(found.at("x")), elements(transpose(x)));
}

TEST(Hf, MissingAndUnusedTensors_AreNamedWithTheirRules) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "model";
  hf::save(url, Tensors{{"layers.0.weight", counted({2})}, {"inv_freq", counted({2})}});
  hf::Rules rules{{"layers.{}.w", "layers.{}.weights"}};
  struct Layer {
    Array w;
  };
  struct Layers {
    std::vector<Layer> layers;
    Array norm;
  };
  EXPECT_THAT(error_of<CheckpointError>([&] {
                hf::restore(url, Layers{{{}}, {}}, rules);
              }),
              AllOf(HasSubstr("lacks tensors for the tree:\n  layers[0].w: no layers.0.weights (rule 1, "
                              "\"layers.{}.w\" from \"layers.{}.weights\"; the nearest name there is "
                              "layers.0.weight)"),
                    HasSubstr("norm: no norm (no rule is for its path")));
  rules = {{"layers.{}.w", "layers.{}.weight"}};
  const std::vector<std::map<std::string, Array>> one{{{"w", {}}}};
  const std::map<std::string, std::vector<Layer>> like{{"layers", {{}}}};
  EXPECT_THAT(error_of<CheckpointError>([&] { hf::restore(url, like, rules); }),
              HasSubstr("neither the tree nor a rule has a place; name them in Rules::ignore, or set "
                        "`partial`:\n  inv_freq, f32[2]"));
  rules.ignore("inv_{}");
  EXPECT_THAT(elements(hf::restore(url, like, rules).at("layers")[0].w), ElementsAre(0, 1));
  const auto partial = hf::restore(url, Layers{{{}, {}}, ones({3})}, rules, {.partial = true});
  EXPECT_THAT(elements(partial.norm), ElementsAre(1, 1, 1));
  EXPECT_FALSE(partial.layers[1].w.valid());
  rules = hf::Rules{{"layers.{}.w", "layers.{}.weight", "(a b) -> a b"}};
  EXPECT_THAT(error_of<CheckpointError>([&] { hf::restore(url, like, rules); }),
              HasSubstr("the layout \"(a b) -> a b\": the size of a is not known; give it in `sizes`"));
}

TEST(Hf, InvalidLayouts_AreRefused) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "model";
  hf::save(url, Tensors{{"t", counted({4, 6})}, {"s.0", counted({2})}});
  const auto refusal = [&](const hf::Rule& rule) {
    return error_of<CheckpointError>([&] {
      hf::restore(url, Tensors{{"x", {}}}, hf::Rules{rule}, {.partial = true});
    });
  };
  EXPECT_THAT(refusal({"x", "t", "a b"}), HasSubstr("expected \"axes of the tensor -> axes of the array\""));
  EXPECT_THAT(refusal({"x", "t", "a b -> a"}),
              HasSubstr("b is not in the array; to take one of its indices"));
  EXPECT_THAT(refusal({"x", "t", "a b -> a b c"}), HasSubstr("c is neither in the tensor nor, as {c}, in"));
  EXPECT_THAT(refusal({"x", "t", "a a -> a"}), HasSubstr("a is twice in the tensor"));
  EXPECT_THAT(refusal({"x", "t", "a b c -> a b c"}), HasSubstr("the tensor has 2 dimensions"));
  EXPECT_THAT(refusal({"x", "t", "(a b c -> a b c"}), HasSubstr("a ( without )"));
  EXPECT_THAT(refusal({"x", "t", "(a b) c -> a b c", {{"a", 3}}}),
              HasSubstr("dimension 0 of the tensor [4,6] has the size 4, which does not fit a=3, b"));
  EXPECT_THAT(refusal({"x", "t", "a=4 b -> b"}),
              HasSubstr("there is no index 4 of a's whole, whose size is 4"));
  EXPECT_THAT(refusal({"x", "t", "a=2:5 b -> a b"}), HasSubstr("there is no index 4 of a's whole"));
  EXPECT_THAT(refusal({"x", "t", "a b=x -> a b"}), HasSubstr("\"b=x\": expected an index, index/count or"));
  EXPECT_THAT(refusal({"x", "s.{e}", "i -> i"}), HasSubstr("the array has no e, of which the tensor's name"));
  EXPECT_THAT(refusal({"x", "s.{}"}), HasSubstr("\"s.{}\" needs 1 {} in the path, which has 0"));
  EXPECT_THAT(refusal({"x", "s.{"}), HasSubstr("has a { without }"));
}

TEST(Hf, ThePartOfADevice_IsReadWithoutTheRest) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "model";
  hf::save(url, Tensors{{"t", counted({1024, 1024})}});
  RestoreReport report;
  hf::restore(url, Tensors{{"x", {}}}, {{"x", "t", "(part=1/4 o) i -> i o"}}, {}, &report);
  EXPECT_EQ(report.bytes_needed, 1u << 20);
  EXPECT_EQ(report.bytes_read, 1u << 20);
}

using testing::child_arguments;

/// Restores a transposed stack over all processes, and writes it again from there.
LOCKSTEP_CHILD(turns_a_stack) {
  initialize();
  const NamedSharding rows(make_mesh({{"a", device_count()}}), P(nullptr, "a"));
  const hf::Rules rules{{"x", "t.{e}", "o i -> e i o"}};
  RestoreReport report;
  const auto found = hf::restore(child_arguments()[0], std::map<std::string, Array>{{"x", {}}}, rules,
                                 {.sharding = [&](auto&) { return rows; }}, &report);
  EXPECT_EQ(report.bytes_needed, 3u * 1024 * 1024 * 4 / static_cast<unsigned>(process_count()));
  EXPECT_LE(report.bytes_read, report.bytes_needed + (3u << 20));
  hf::save(child_arguments()[1], found, rules, {.dtype = float16});
}

TEST(Hf, SeveralProcesses_ReadAndWriteTheirParts) {
  TemporaryFolder folder;
  const std::string from = folder.path() / "a", to = folder.path() / "b";
  Tensors tensors;
  for (int e = 0; e < 3; ++e) tensors["t." + std::to_string(e)] = counted({1024, 1024}) % 1000. + e;
  hf::save(from, tensors);
  const auto results =
      testing::run_processes({.count = 2,
                              .child = "turns_a_stack",
                              .arguments = {from, to},
                              .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}, {"LOCKSTEP_LOG", "warning"}},
                              .coordinator = true,
                              .deadline = std::chrono::seconds(120)});
  for (const testing::ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
  Tensors like;
  for (const auto& [name, tensor] : tensors) like[name] = zeros_like(tensor);
  const Tensors again = hf::restore(to, like);
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(elements(again.at(name)), elements(tensor)) << name;
}

/// testdata/make_safetensors.py wrote it.
TEST(Hf, AFileOfPythonsSafetensors_IsRead) {
  const hf::Rules rules{{"linear", "model.linear.weight", "o i -> i o"},
                        {"experts", "model.experts.{e}.weight"}};
  const Tensors found = hf::restore(LOCKSTEP_CHECKPOINT_TESTDATA "/model.safetensors",
                                    Tensors{{"linear", {}}, {"experts", zeros({2, 2, 3})}}, rules);
  EXPECT_THAT(elements(found.at("linear")), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(found.at("experts").to_host<float>(), ElementsAre(0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15));
}

TEST(HfConfig, EntriesOfConfigJson_AreReadAsAStruct) {
  struct Scaling {
    double factor = 0;
    std::string rope_type;
  };
  struct Config {
    std::int64_t hidden_size = 0;
    std::optional<int> num_key_value_heads;
    double rope_theta = 0;
    bool tie_word_embeddings = false;
    std::vector<std::string> architectures;
    std::optional<Scaling> rope_scaling;
  };
  const std::string text = R"({"hidden_size": 64, "num_key_value_heads": null, "rope_theta": 1e4,
      "tie_word_embeddings": true, "architectures": ["A", "B"], "more": 1,
      "rope_scaling": {"factor": 8, "rope_type": "llama3"}})";
  const auto config = hf::Config::parse(text);
  const auto all = config.as<Config>();
  EXPECT_EQ(all.hidden_size, 64);
  EXPECT_FALSE(all.num_key_value_heads.has_value());
  EXPECT_EQ(all.rope_theta, 1e4);
  EXPECT_TRUE(all.tie_word_embeddings);
  EXPECT_THAT(all.architectures, ElementsAre("A", "B"));
  EXPECT_EQ(all.rope_scaling.value().factor, 8);
  EXPECT_EQ(config.get<std::string>("rope_scaling.rope_type"), "llama3");
  EXPECT_EQ(config.get("num_key_value_heads", 7), 7);
  EXPECT_FALSE(config.has("rope_scaling.nothing"));
  EXPECT_EQ(config.text(), text);
  EXPECT_THAT(error_of<CheckpointError>([&] { config.get<int>("hiden_size"); }),
              HasSubstr("has no hiden_size; the nearest name there is hidden_size"));
  EXPECT_THAT(error_of<CheckpointError>([&] { config.get<int>("architectures"); }),
              HasSubstr("architectures is [\"A\",\"B\"], expected a whole number from"));
  struct Other {
    Scaling rope_scaling;
    int layers = 0;
  };
  EXPECT_THAT(error_of<CheckpointError>([&] { config.as<Other>(); }), HasSubstr("has no layers, expected"));
  EXPECT_THAT(error_of<CheckpointError>([&] { hf::Config::parse("{"); }), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace lockstep::checkpoint
