// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/generate.h"

#include <algorithm>
#include <functional>
#include <set>

#include "lockstep/jit/test_devices.h"
#include "lockstep/nn/nn.h"
#include "lockstep/random/random.h"
#include "lockstep/tree/tree.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::HasSubstr;

struct Block {
  nn::RMSNorm norm;
  nn::MultiHeadAttention attention;
  nn::Linear out;
};

/// A small decoder.
struct Decoder {
  nn::Embedding tokens;
  std::vector<Block> blocks;
};

constexpr std::int64_t kVocabulary = 40;

Decoder decoder(DType dtype = DType::kF32) {
  const nn::Initializer wide = nn::initializers::normal(0.6);
  const Block block{.norm = {.features = 16, .dtype = dtype},
                    .attention = {.num_heads = 4,
                                  .in_features = 16,
                                  .num_key_heads = 2,
                                  .use_bias = false,
                                  .rotary_base = 100,
                                  .kernel_init = wide,
                                  .out_kernel_init = wide,
                                  .dtype = dtype},
                    .out = {.in_features = 16, .out_features = 16, .kernel_init = wide, .dtype = dtype}};
  const Decoder layers{.tokens = {.num_embeddings = kVocabulary,
                                  .features = 16,
                                  .embedding_init = nn::initializers::normal(1),
                                  .dtype = dtype},
                       .blocks = {block, block}};
  return jit([&] { return nn::init(layers, random::key(3)); })();
}

using Caches = std::vector<nn::KvCache>;

Array attended(const Decoder& model, const Array& tokens,
               const std::function<Array(const nn::MultiHeadAttention&, std::size_t, const Array&)>& attend) {
  Array x = model.tokens(tokens);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const Block& block = model.blocks[i];
    x = x + attend(block.attention, i, block.norm(x));
    x = tanh(block.out(x));  // no sum: tied embeddings would repeat the last token
  }
  return x;
}

std::pair<Array, Caches> step(const Decoder& model, const Array& tokens, const Array& lengths,
                              const Caches& before) {
  Caches caches = before;
  const Array x =
      attended(model, tokens, [&](const nn::MultiHeadAttention& layer, std::size_t i, const Array& x) {
        return layer(x, caches[i], {.query_seq_lengths = lengths});
      });
  return {model.tokens.attend(nn::last_rows(x, lengths)), caches};
}

Caches make_caches(const Decoder& model, std::int64_t batch, std::int64_t capacity, std::int64_t window = 0) {
  Caches caches;
  for (const Block& block : model.blocks)
    caches.push_back(block.attention.make_cache(batch, capacity, window));
  return caches;
}

const std::vector<std::vector<std::int32_t>> kPrompts = {
    {5, 17, 31, 3, 22, 8}, {9, 2}, {7, 7, 12}, {1, 30, 6, 6}};

/// The prompts, padded on the right.
Array padded() {
  std::vector<std::int32_t> all;
  for (std::vector<std::int32_t> row : kPrompts) {
    row.resize(6, 39);
    all.insert(all.end(), row.begin(), row.end());
  }
  return array(all, {4, 6});
}
Array prompt_lengths() { return array(std::vector<std::int32_t>{6, 2, 3, 4}); }

/// Greedy tokens, each by computing all rows again without a cache, one example at a time.
std::vector<std::vector<std::int32_t>> recomputed(const Decoder& model, std::int64_t count,
                                                  std::int64_t window = 0) {
  auto next = jit([&](const Array& tokens, const Array& length) {
    nn::AttentionOptions options{.is_causal = true};
    if (window > 0) options.local_window_size = {window - 1, 0};
    const Array x = attended(
        model, expand_dims(tokens, 0),
        [&](const nn::MultiHeadAttention& layer, std::size_t, const Array& x) { return layer(x, options); });
    return argmax(model.tokens.attend(nn::last_rows(x, expand_dims(length, 0))), -1);
  });
  std::vector<std::vector<std::int32_t>> all;
  for (std::vector<std::int32_t> row : kPrompts) {
    const auto first = static_cast<std::ptrdiff_t>(row.size());
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::int32_t> whole = row;
      whole.resize(32);
      row.push_back(
          next(array(whole), array(std::vector<std::int32_t>{static_cast<std::int32_t>(row.size())}, Shape{}))
              .to_host<std::int32_t>()[0]);
    }
    all.emplace_back(row.begin() + first, row.end());
  }
  return all;
}

std::vector<std::vector<std::int32_t>> rows_of(const Array& tokens) {
  const std::vector<std::int32_t> flat = tokens.to_host<std::int32_t>();
  const auto places = static_cast<std::ptrdiff_t>(tokens.shape()[1]);
  std::vector<std::vector<std::int32_t>> rows;
  for (auto at = flat.begin(); at != flat.end(); at += places) rows.emplace_back(at, at + places);
  return rows;
}

TEST(Generate, GreedyWithACache_EqualsGreedyWithoutOne_ForPromptsOfDifferentLengths) {
  const Decoder model = decoder();
  const nn::Generated found = nn::generate(step, model, make_caches(model, 4, 24), padded(), prompt_lengths(),
                                           {.max_new_tokens = 16});
  const auto expected = recomputed(model, 16);
  EXPECT_EQ(rows_of(found.tokens), expected);
  EXPECT_GT(std::set<std::int32_t>(expected[1].begin(), expected[1].end()).size(), 4u) << "hardly any text";
  EXPECT_EQ(found.lengths.to_host<std::int32_t>(), (std::vector<std::int32_t>{16, 16, 16, 16}));
  EXPECT_EQ(found.prompt_tokens, 15);
  EXPECT_EQ(found.new_tokens, 64);
  EXPECT_THAT(found.speed(), HasSubstr("; new: 60 tokens in "));
}

TEST(Generate, WithARollingWindow_EqualsAttentionWithThatWindow) {
  const Decoder model = decoder();
  for (std::int64_t window : {1, 4, 7}) {
    const Caches caches = make_caches(model, 4, 24, window);
    EXPECT_EQ(caches[0].key.shape(), (Shape{4, 2, window, 4}));
    const nn::Generated found =
        nn::generate(step, model, caches, padded(), prompt_lengths(), {.max_new_tokens = 16});
    EXPECT_EQ(rows_of(found.tokens), recomputed(model, 16, window)) << window;
  }
}

TEST(Generate, AnExampleEndsAfterAStopToken_AndIsPadded) {
  const Decoder model = decoder();
  const std::vector<std::vector<std::int32_t>> all = recomputed(model, 16);
  const std::vector<std::int64_t> stops = {all[0][3], all[1][5]};
  const nn::Generated found = nn::generate(step, model, make_caches(model, 4, 24), padded(), prompt_lengths(),
                                           {.max_new_tokens = 16, .eos_token_id = stops, .pad_token_id = 38});
  std::vector<std::vector<std::int32_t>> expected = all;
  std::vector<std::int32_t> lengths;
  for (std::vector<std::int32_t>& row : expected) {
    auto end =
        std::ranges::find_if(row, [&](std::int32_t token) { return token == stops[0] || token == stops[1]; });
    if (end != row.end()) ++end;
    lengths.push_back(static_cast<std::int32_t>(end - row.begin()));
    std::fill(end, row.end(), 38);
  }
  EXPECT_EQ(rows_of(found.tokens), expected);
  EXPECT_EQ(found.lengths.to_host<std::int32_t>(), lengths);
  EXPECT_LE(lengths[0], 4);
  // One new token needs no loop.
  const nn::Generated one =
      nn::generate(step, model, make_caches(model, 4, 6), padded(), prompt_lengths(), {.max_new_tokens = 1});
  EXPECT_EQ(rows_of(one.tokens)[2], std::vector(all[2].begin(), all[2].begin() + 1));
}

TEST(Generate, OverDevicesSplitByHeadsOrBatch_GivesEqualTokens) {
  const Decoder model = decoder();
  const nn::GenerationOptions options{.max_new_tokens = 16};
  const auto expected = recomputed(model, 16);
  const Mesh mesh({devices()[0], devices()[1]}, {2}, {"d"});
  for (const bool by_heads : {true, false}) {
    const tree::Rules<Sharding> of_model{
        {"*attention.out.kernel", NamedSharding(mesh, by_heads ? P("d") : P())},
        {"*attention.*kernel", NamedSharding(mesh, by_heads ? P(nullptr, "d") : P())},
        {"*", NamedSharding(mesh, P())}};
    const tree::Rules<Sharding> of_cache{{"*length", NamedSharding(mesh, by_heads ? P() : P("d"))},
                                         {"*", NamedSharding(mesh, by_heads ? P(nullptr, "d") : P("d"))}};
    const NamedSharding of_rows(mesh, by_heads ? P() : P("d"));
    auto place = [](const tree::Rules<Sharding>& rules) {
      return [&rules](const std::string& path, const Array& x) { return device_put(x, rules(path, x)); };
    };
    for (std::int64_t window : {0, 5}) {
      const nn::Generated found =
          nn::generate(step, tree::map_with_path(place(of_model), model),
                       tree::map_with_path(place(of_cache), make_caches(model, 4, 24, window)),
                       device_put(padded(), of_rows), device_put(prompt_lengths(), of_rows), options);
      EXPECT_EQ(rows_of(found.tokens), window == 0 ? expected : recomputed(model, 16, window)) << by_heads;
    }
  }
}

TEST(Generate, OverDevices_AnUpdateOfTheCacheCommunicatesNothing) {
  const Decoder model = decoder();
  const Mesh mesh({devices()[0], devices()[1]}, {2}, {"d"});
  for (const bool by_heads : {true, false}) {
    const PartitionSpec rows = by_heads ? P(nullptr, nullptr, "d") : P("d");
    auto update = jit([](nn::KvCache cache, const Array& x) {
      const nn::KvCache::Seen seen = cache.update(x, x);
      return std::pair(cache, nn::dot_product_attention(x, seen.key, seen.value, {.mask = seen.mask}));
    });
    const nn::KvCache cache = tree::map(
        [&](const Array& x) {
          const bool whole = x.shape().size() == 1;
          return device_put(x, NamedSharding(mesh, !by_heads ? P("d") : whole ? P() : P(nullptr, "d")));
        },
        nn::KvCache::make(4, 8, 2, 4));
    const Array x = device_put(test::waves({4, 1, 2, 4}), NamedSharding(mesh, rows));
    EXPECT_EQ(update.lower(cache, x).cost().communicated_bytes, 0) << by_heads;
  }
}

TEST(Generate, ABf16Model_KeepsABf16Cache_AndGivesTheTokensOfOneWithoutACache) {
  const Decoder model = decoder(DType::kBF16);
  const Caches caches = make_caches(model, 4, 24);
  EXPECT_EQ(caches[0].key.dtype(), DType::kBF16);
  const nn::Generated found =
      nn::generate(step, model, caches, padded(), prompt_lengths(), {.max_new_tokens = 8});
  // Sums of bf16 differ with the order of the terms, and so does a token whose logits are nearly equal.
  const auto rows = rows_of(found.tokens), expected = recomputed(model, 8);
  int equal = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) equal += rows[i] == expected[i];
  EXPECT_GE(equal, 3);
}

TEST(Generate, DrawnTokens_DependOnTheKey) {
  const Decoder model = decoder();
  nn::Generator generator(step, {.max_new_tokens = 12,
                                 .sampling = {.do_sample = true,
                                              .temperature = 0.8,
                                              .top_k = 20,
                                              .top_p = 0.9,
                                              .min_p = 0.01,
                                              .repetition_penalty = 1.2}});
  auto tokens = [&](int key) {
    return rows_of(
        generator(model, make_caches(model, 4, 24), padded(), prompt_lengths(), random::key(key)).tokens);
  };
  const auto first = tokens(1);
  EXPECT_EQ(tokens(1), first);
  EXPECT_NE(tokens(2), first);
  for (const auto& row : first) {
    for (std::int32_t token : row) EXPECT_TRUE(token >= 0 && token < kVocabulary);
  }
}

TEST(Generate, ALargeRepetitionPenalty_LeavesNoTokenTwice) {
  const Decoder model = decoder();
  const nn::Generated found = nn::generate(step, model, make_caches(model, 4, 24), padded(), prompt_lengths(),
                                           {.max_new_tokens = 12, .sampling = {.repetition_penalty = 1e6}});
  const auto rows = rows_of(found.tokens);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::int32_t> all = rows[i];
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << i;
    for (std::int32_t token : kPrompts[i]) EXPECT_FALSE(std::ranges::binary_search(all, token)) << token;
  }
}

TEST(Generate, ArgumentsThatDoNotFit_AreErrors) {
  const Decoder model = decoder();
  auto call = [&](const Array& prompt, const Array& lengths, const nn::GenerationOptions& options = {}) {
    return [=] { nn::generate(step, model, make_caches(model, 4, 32), prompt, lengths, options); };
  };
  EXPECT_THAT(
      error_of<ShapeError>(call(padded(), ones({3}, DType::kI32))),
      HasSubstr("[nn::generate] expected tokens [batch, places] and lengths [batch], got i32[4,6] and "
                "i32[3]"));
  EXPECT_THAT(error_of<DTypeError>(call(padded(), ones({4}))),
              HasSubstr("[nn::generate] expected tokens and lengths of i32, got i32[4,6] and f32[4]"));
  EXPECT_THAT(error_of<Error>(call(padded(), prompt_lengths(), {.sampling = {.do_sample = true}})),
              HasSubstr("[nn::generate] expected a key to draw by, got none"));
  EXPECT_THAT(error_of<Error>(call(padded(), prompt_lengths(), {.max_new_tokens = 0})),
              HasSubstr("[nn::generate] expected max_new_tokens of at least 1, got 0"));
  EXPECT_THAT(error_of<Error>(call(padded(), prompt_lengths(), {.eos_token_id = {-1}})),
              HasSubstr("[nn::generate] expected a token from 0 as eos_token_id, got -1"));
  EXPECT_THAT(
      error_of<ShapeError>([] {
        nn::last_rows(ones({2, 3}), ones({2}, DType::kI32));
      }),
      HasSubstr("[nn::last_rows] expected [batch, rows, features] and lengths [batch], got f32[2,3]"));
}

TEST(KvCache, ExamplesWithDifferentNumbersOfRows_AreSeenByLaterQueries) {
  nn::KvCache cache = nn::KvCache::make(2, 5, 1, 1);
  auto rows = [](float from) {
    return reshape(array(std::vector<float>{from, from + 1, from + 2, from + 3}), {2, 2, 1, 1});
  };
  cache.update(rows(1), rows(1), array(std::vector<std::int32_t>{2, 1}));
  const nn::KvCache::Seen seen = cache.update(rows(5), rows(5), array(std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(cache.length.to_host<std::int32_t>(), (std::vector<std::int32_t>{3, 3}));
  const std::vector<float> key = cache.key.to_host<float>();
  EXPECT_EQ(std::vector<float>(key.begin(), key.begin() + 3), (std::vector<float>{1, 2, 5}));
  EXPECT_EQ(std::vector<float>(key.begin() + 5, key.begin() + 8), (std::vector<float>{3, 7, 8}));
  EXPECT_EQ(seen.queries.to_host<std::int32_t>(), (std::vector<std::int32_t>{2, 3, 1, 2}));
  EXPECT_EQ(seen.mask.shape(), (Shape{2, 1, 2, 5}));
  EXPECT_FALSE(any(cache.has_lost()).item<bool>());
  cache.update(rows(0), rows(0));
  cache.update(rows(0), rows(0), array(std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(cache.has_lost().to_host<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1}));
}

TEST(KvCache, AWindowOfMoreThanTheCapacity_DoesNotRoll) {
  nn::KvCache cache = nn::KvCache::make(1, 2, 1, 1, {.window = 3});
  const Array row = ones({1, 1, 1, 1});
  for (bool lost : {false, false, true}) {
    cache.update(row, row);
    EXPECT_EQ(cache.has_lost().item<bool>(), lost);
  }
}

TEST(KvCache, ArraysThatDoNotFit_AreErrors) {
  EXPECT_THAT(error_of<ShapeError>([] { nn::KvCache::make(1, 0, 1, 1); }),
              HasSubstr("[nn::KvCache] expected a batch, capacity, key heads and features"));
  EXPECT_THAT(error_of<ShapeError>([] { nn::KvCache::make(1, 1, 1, 1, {.window = -1}); }),
              HasSubstr("[nn::KvCache] expected a window of at least 0, got -1"));
  nn::KvCache cache = nn::KvCache::make(2, 3, 2, 4);
  const Array rows = ones({2, 1, 2, 4});
  EXPECT_THAT(error_of<ShapeError>([&] {
                cache.update(ones({2, 1, 4, 2}), rows);
              }),
              HasSubstr("of f32[2,2,3,4], got f32[2,1,4,2] and f32[2,1,2,4]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                cache.update(ones({2, 4, 2, 4}), ones({2, 4, 2, 4}));
              }),
              HasSubstr("got f32[2,4,2,4]"));
  EXPECT_THAT(error_of<ShapeError>([&] { cache.update(rows, rows, ones({1}, DType::kI32)); }),
              HasSubstr("expected lengths of 2 examples, got i32[1]"));
  EXPECT_THAT(error_of<DTypeError>([&] { cache.update(rows, rows, ones({2})); }),
              HasSubstr("expected integers as lengths, got f32[2]"));
}

}  // namespace
}  // namespace lockstep
