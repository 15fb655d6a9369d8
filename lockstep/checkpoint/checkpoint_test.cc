// SPDX-License-Identifier: Apache-2.0
// Trees that are saved and restored in one process of four devices.

#include "lockstep/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>

#include "lockstep/array/device_put.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/test_trees.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

const bool four_devices = ::setenv("LOCKSTEP_NUM_CPU_DEVICES", "4", 0) == 0;

enum class Mode { kCold = -3, kWarm = 7 };

struct Layer {
  Array w, b;
};

struct State {
  std::vector<Layer> layers;
  std::map<std::string, Array> named;
  std::optional<Array> maybe;
  std::int64_t step = 0;
  std::uint64_t position = 0;
  double rate = 0;
  float small = 0;
  bool done = false;
  Mode mode = Mode::kCold;
  std::string text;
  std::array<int, 2> pair{};
};

State state() {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  State s;
  s.layers = {{test::made(DType::kF32, {8, 6}, NamedSharding(mesh, P("x", "y")), 1), full({6}, 0.5)},
              {test::made(DType::kBF16, {4, 4}, NamedSharding(mesh, P(nullptr, "x")), 2), Array(3)}};
  s.named = {{"plain", arange(5)}, {"with.dots and @:\"", zeros({0, 3})}};
  s.maybe = ones({2});
  s.step = -5;
  s.position = std::numeric_limits<std::uint64_t>::max();
  s.rate = -std::numeric_limits<double>::infinity();
  s.small = 0.1f;
  s.done = true;
  s.mode = Mode::kWarm;
  s.text = std::string("text \xff\n\0!", 9);
  s.pair = {1, -1};
  return s;
}

std::string bytes_of(const Array& x) {
  std::string all;
  for (const Shard& shard : x.addressable_shards())
    all.append(static_cast<const char*>(shard.data),
               static_cast<std::size_t>(num_elements(shard.shape)) * size_of(shard.dtype));
  return all;
}

TEST(Checkpoint, ATree_IsRestoredAsItWasSaved) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const State saved = state();
  save(url, saved);
  State like = state();
  like = tree::map([](const Array& x) { return zeros_like(x); }, like);
  like.layers[0].w = test::made(DType::kF32, {8, 6}, saved.layers[0].w.sharding(), 9);
  like.layers[1].w = test::made(DType::kBF16, {4, 4}, saved.layers[1].w.sharding(), 9);
  like.step = 0, like.position = 0, like.rate = 0, like.small = 0, like.done = false, like.text = "";
  like.mode = Mode::kCold, like.pair = {};
  const State restored = restore(url, like);
  const auto a = tree::leaves_with_path(saved), b = tree::leaves_with_path(restored);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].second.aval(), b[i].second.aval()) << a[i].first;
    EXPECT_EQ(a[i].second.sharding(), b[i].second.sharding()) << a[i].first;
    EXPECT_EQ(internal::is_committed(a[i].second), internal::is_committed(b[i].second)) << a[i].first;
    EXPECT_EQ(bytes_of(a[i].second), bytes_of(b[i].second)) << a[i].first;
  }
  EXPECT_EQ(restored.step, saved.step);
  EXPECT_EQ(restored.position, saved.position);
  EXPECT_EQ(restored.rate, saved.rate);
  EXPECT_EQ(restored.small, saved.small);
  EXPECT_EQ(restored.done, saved.done);
  EXPECT_EQ(restored.mode, saved.mode);
  EXPECT_EQ(restored.text, saved.text);
  EXPECT_EQ(restored.pair, saved.pair);
}

TEST(Checkpoint, IsRestoredOntoTheShardingsOfRules) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const Mesh mesh = make_mesh({{"x", 4}});
  const NamedSharding rows(mesh, P("x")), whole(mesh, P());
  const std::map<std::string, Layer> saved{{"a", {full({8, 2}, 1), full({4}, 2)}},
                                           {"b", {full({4, 2}, 3), full({4}, 4)}}};
  save(url, saved);
  const auto restored =
      restore(url, saved, {.sharding = tree::Rules<Sharding>{{"*.w", rows}, {"[\"a\"].b", whole}}});
  for (const auto& [path, x] : tree::leaves_with_path(restored)) {
    const bool by_rule = path != "[\"b\"].b";
    EXPECT_EQ(x.sharding(), path.ends_with(".w") ? Sharding(rows)
                            : by_rule            ? Sharding(whole)
                                                 : saved.at("b").b.sharding())
        << path;
  }
  EXPECT_EQ(restored.at("b").w.to_host<std::int32_t>(), std::vector<std::int32_t>(8, 3));
}

/// A class that names its parts. The number of calls is const to the tree, and so not saved.
class Counter {
 public:
  Counter() = default;
  Counter(Array x, int steps, int calls) : x_(std::move(x)), steps_(steps), calls_(calls) {}
  static void tree_parts(Counter& self, tree::Parts& part) {
    part("x", self.x_)("steps", self.steps_)("calls", std::as_const(self.calls_));
  }
  int steps() const { return steps_; }
  int calls() const { return calls_; }

 private:
  Array x_;
  int steps_ = 0, calls_ = 0;
};

struct AllKinds {
  std::shared_ptr<Counter> shared;
  std::unordered_map<std::string, Counter> by_name;
  std::map<int, Array> by_number;
  std::variant<int, Counter, Array> either;
  std::vector<bool> flags;
  std::deque<Array> queue;
};

TEST(Checkpoint, EachKindOfTree_IsSavedAndRestored) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const AllKinds saved{.shared = std::make_shared<Counter>(full({2}, 1), 3, 4),
                       .by_name = {{"b", {full({2}, 2), 5, 6}}, {"a", {full({3}, 3), 7, 8}}},
                       .by_number = {{-4, full({}, 4)}, {5, full({1}, 5)}},
                       .either = Counter(full({2}, 6), 9, 10),
                       .flags = {true, false, true},
                       .queue = {full({2}, 7)}};
  save(url, saved);
  const AllKinds like{.shared = std::make_shared<Counter>(Array(), 0, -1),
                      .by_name = {{"a", {Array(), 0, -2}}, {"b", {Array(), 0, -3}}},
                      .by_number = {{-4, Array()}, {5, Array()}},
                      .either = Counter(Array(), 0, -4),
                      .flags = {false, false, false},
                      .queue = {Array()}};
  const AllKinds restored = restore(url, like);
  EXPECT_THAT(tree::paths(restored),
              ::testing::ElementsAre("shared.x", "by_name[\"a\"].x", "by_name[\"b\"].x", "by_number[-4]",
                                     "by_number[5]", "either.x", "queue[0]"));
  const auto a = tree::leaves(saved), b = tree::leaves(restored);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(bytes_of(a[i]), bytes_of(b[i])) << i;
  EXPECT_EQ(restored.shared->steps(), 3);
  EXPECT_EQ(restored.shared->calls(), -1);
  EXPECT_EQ(like.shared->steps(), 0) << "what was only looked at";
  EXPECT_EQ(restored.by_name.at("a").steps(), 7);
  EXPECT_EQ(restored.by_name.at("b").steps(), 5);
  EXPECT_EQ(std::get<Counter>(restored.either).steps(), 9);
  EXPECT_EQ(restored.flags, saved.flags);
  EXPECT_THAT(error_of<CheckpointError>([&] {
                AllKinds other = like;
                other.either = 3;
                restore(url, other);
              }),
              HasSubstr("either"));
}

TEST(Checkpoint, AllDTypesAndShapes_AreRestoredOntoEachSharding) {
  TemporaryFolder folder;
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  const std::vector<PartitionSpec> specs{P(),         P("x"),        P(nullptr, "y"),
                                         P("x", "y"), P({"x", "y"}), P(nullptr, {"y", "x"})};
  std::map<std::string, Array> tree;
  std::uint64_t seed = 0;
  for (DType dtype : test::all_dtypes()) {
    for (const Shape& shape : {Shape{4, 8}, Shape{12, 20, 3}, Shape{0, 4}}) {
      const NamedSharding sharding(mesh, specs[seed % specs.size()]);
      tree[fmt::format("{} {}", name(dtype), lockstep::to_string(shape))] =
          test::made(dtype, shape, sharding, seed);
      ++seed;
    }
    tree[fmt::format("scalar {}", name(dtype))] = test::made(dtype, {}, NamedSharding(mesh, P()), seed++);
  }
  const std::string url = folder.path() / "saved";
  save(url, tree);
  for (const PartitionSpec& spec : specs) {
    for (bool map : {true, false}) {
      RestoreOptions options;
      options.map = map;
      options.sharding = [&](const std::string& path) -> std::optional<Sharding> {
        return path.find("scalar") != path.npos ? NamedSharding(mesh, P()) : NamedSharding(mesh, spec);
      };
      const auto restored = restore(url, tree, options);
      std::map<std::string, std::uint64_t> seeds;
      seed = 0;
      for (DType dtype : test::all_dtypes()) {
        for (const Shape& shape : {Shape{4, 8}, Shape{12, 20, 3}, Shape{0, 4}})
          seeds[fmt::format("{} {}", name(dtype), lockstep::to_string(shape))] = seed++;
        seeds[fmt::format("scalar {}", name(dtype))] = seed++;
      }
      for (const auto& [path, array] : restored) EXPECT_TRUE(test::is_made(array, seeds.at(path))) << path;
    }
  }
}

TEST(Checkpoint, ARestoredArray_MayBeDonatedAndComputedWith) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const Mesh mesh = make_mesh({{"x", 4}});
  for (const PartitionSpec& spec : {P(), P("x")}) {
    std::filesystem::remove_all(url);
    const Array x = device_put(arange(1 << 16), NamedSharding(mesh, spec));
    save(url, x);
    Array restored = restore(url, x);
    auto twice = jit([](Array a) { return a + a; }, {.donate_argnums = {0}});
    Array doubled = twice(restored);
    EXPECT_EQ(doubled[-1].item<std::int32_t>(), 2 * 65535);
    EXPECT_EQ(restore(url, x)[-1].item<std::int32_t>(), 65535) << "the file is as it was";
  }
}

TEST(Checkpoint, LargeParts_AreMappedWithoutACopy) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  const Array x = test::made(DType::kF32, {1024, 256}, SingleDeviceSharding(local_devices().front()), 1);
  save(url, x);
  RestoreReport report;
  const Array restored = restore(url, x, {}, &report);
  EXPECT_TRUE(test::is_made(restored, 1));
  EXPECT_EQ(report.bytes_mapped, 1u << 20);
  std::filesystem::remove_all(url);
  EXPECT_TRUE(test::is_made(restored, 1)) << "after the checkpoint was removed";
}

TEST(Checkpoint, RestoringIntoAnotherStructure_NamesTheFirstPathThatDiffers) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  struct Model {
    std::map<std::string, Array> weights;
    int depth = 0;
  };
  const Model model{{{"w", zeros({2, 3})}, {"bias", zeros({3})}}, 4};
  save(url, model);
  auto error = [&](auto like, RestoreOptions options = {}) {
    return error_of<CheckpointError>([&] { restore(url, like, options); });
  };
  Model other = model;
  other.weights["w"] = zeros({3, 2});
  EXPECT_THAT(error(other), HasSubstr("weights[\"w\"] is f32[2,3], but the tree to restore has f32[3,2]"));
  other = model;
  other.weights["w"] = zeros({2, 3}, float16);
  EXPECT_THAT(error(other), HasSubstr("weights[\"w\"] is f32[2,3], but the tree to restore has f16[2,3]"));
  other = model;
  other.weights["biases"] = zeros({3});
  EXPECT_THAT(error(other), HasSubstr("has no array weights[\"biases\"]; the nearest name there is "
                                      "weights[\"bias\"]"));
  other = model;
  other.weights.erase("bias");
  EXPECT_THAT(error(other), HasSubstr("has weights[\"bias\"], f32[3], for which the tree to restore has no "
                                      "place"));
  struct Text {
    std::map<std::string, Array> weights;
    std::string depth;
  };
  EXPECT_THAT(error(Text{model.weights, ""}),
              HasSubstr("depth is a whole number, 4, but the tree to restore has text there"));
  struct Narrow {
    std::map<std::string, Array> weights;
    std::int8_t depth = 0;
  };
  Model deep = model;
  deep.depth = 300;
  save(url + "-deep", deep);
  EXPECT_THAT(error_of<CheckpointError>([&] {
                restore(url + "-deep", Narrow{model.weights, 0});
              }),
              HasSubstr("depth is 300, which the tree's type cannot hold"));
  EXPECT_EQ(restore(url, Narrow{model.weights, 0}).depth, 4);
}

TEST(Checkpoint, APartOfATreeUnderOtherNames_IsRestored) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  std::map<std::string, Array> saved{{"old", full({2}, 1.0)}, {"other", full({3}, 2.0)}};
  save(url, saved);
  struct Now {
    Array renamed, added;
    int count = 17;
  };
  RestoreOptions options;
  options.partial = true;
  options.rename = [](const std::string& path) { return path == "renamed" ? "[\"old\"]" : path; };
  const Now now = restore(url, Now{zeros({2}), full({4}, 5.0)}, options);
  EXPECT_EQ(now.renamed.to_host<float>(), std::vector<float>(2, 1));
  EXPECT_EQ(now.added.to_host<float>(), std::vector<float>(4, 5));
  EXPECT_EQ(now.count, 17);
  EXPECT_THAT(
      error_of<CheckpointError>([&] {
        restore(url, Now{zeros({2, 1}), full({4}, 5.0)}, options);
      }),
      HasSubstr("renamed ([\"old\"] in the checkpoint) is f32[2], but the tree to restore has f32[2,1]"));
}

TEST(Checkpoint, APublishedCheckpoint_IsNotOverwritten) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  save(url, Array(1));
  EXPECT_THAT(error_of<CheckpointError>([&] { save(url, Array(2)); }), HasSubstr("it exists already"));
  EXPECT_EQ(restore(url, Array(0)).item<std::int32_t>(), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, ATreeThatCannotBeSaved_IsAnErrorThatSaysWhy) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  EXPECT_THAT(error_of<Error>([&] { save(url, std::vector<Array>{Array()}); }), HasSubstr("without a value"));
  Array gone = ones({2});
  gone.delete_();
  EXPECT_THAT(error_of<Error>([&] { save(url, gone); }), HasSubstr("deleted"));
  EXPECT_THAT(error_of<Error>([&] {
                jit([&](Array x) {
                  save(url, x);
                  return x;
                })(ones({2}));
              }),
              HasSubstr("traced"));
  std::map<std::string, Array> bytes{{"\xff", ones({2})}};
  EXPECT_THAT(error_of<CheckpointError>([&] { save(url, bytes); }), HasSubstr("not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(url));
}

TEST(Checkpoint, RestoreNumbers_ReadsChosenArraysWithoutDevices) {
  TemporaryFolder folder;
  const std::string url = folder.path() / "saved";
  struct Both {
    Array x, y;
    double rate;
  };
  save(url, Both{arange(6).at({0}).set(9), ones({2}), 0.25});
  const Numbers numbers = restore_numbers(url, [](const std::string& path) { return path == "x"; });
  ASSERT_EQ(numbers.arrays.size(), 1u);
  EXPECT_EQ(numbers.arrays.at("x").elements<std::int32_t>(), (std::vector<std::int32_t>{9, 1, 2, 3, 4, 5}));
  EXPECT_EQ(std::get<double>(numbers.values.at("rate")), 0.25);
  EXPECT_THAT(error_of<DTypeError>([&] { numbers.arrays.at("x").elements<float>(); }),
              HasSubstr("the elements are i32, and cannot be read as f32"));
}

TEST(Checkpoint, AFolderThatIsNoCheckpoint_IsAnErrorThatSaysWhy) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of<CheckpointError>([&] { restore(folder.path(), Array(1)); }),
              HasSubstr("is not a checkpoint: it has no manifest.json"));
  EXPECT_THAT(error_of<CheckpointError>([&] { restore(folder.path() / "missing", Array(1)); }),
              HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace lockstep::checkpoint
