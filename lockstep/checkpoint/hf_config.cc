// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/hf_config.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/json_depth.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint::hf {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDeepest = 100;
constexpr std::uint64_t kLargest = 64 << 20;

const Json* json_of(const void* node) { return static_cast<const Json*>(node); }

std::string short_text(const Json& json) { return shown(json_text_of_any(json), 60); }

}  // namespace

struct Config::Root {
  std::string url, text;
  Json json;

  static Config of(std::string url, std::string text) {
    auto root = std::make_shared<Root>(Root{std::move(url), std::move(text), {}});
    if (json_depth(root->text) > kDeepest)
      fail<CheckpointError>("[checkpoint] {} is nested deeper than {} brackets", root->url, kDeepest);
    try {
      root->json = parse_json(root->text);
    } catch (const Json::exception& error) {
      fail<CheckpointError>("[checkpoint] {} is damaged: {}", root->url, error.what());
    }
    const void* node = &root->json;
    return {std::move(root), node, ""};
  }
};

Config::Config(std::shared_ptr<const Root> root, const void* node, std::string name)
    : root_(std::move(root)), node_(node), name_(std::move(name)) {}

Config Config::read(const std::string& url) {
  check_url(url);
  const std::string file = url.ends_with(".json") ? url : url + "/config.json";
  return as_checkpoint_error([&] {
    const auto reader = storage::open_file(file);
    if (reader->size() > kLargest)
      fail<CheckpointError>("[checkpoint] {} has {} bytes, but a config.json has at most {}", file,
                            reader->size(), kLargest);
    return Root::of(file, storage::read_whole(*reader));
  });
}

Config Config::parse(const std::string& json) { return Root::of("the config", json); }

const std::string& Config::text() const { return root_->text; }

bool Config::is_null() const { return node_ == nullptr || json_of(node_)->is_null(); }

Config Config::find(std::string_view name) const {
  Config found = *this;
  for (;;) {
    const std::size_t dot = name.find('.');
    const std::string key(name.substr(0, dot));
    const Json* json = json_of(found.node_);
    const bool there = json != nullptr && json->is_object() && json->contains(key);
    found = {root_, there ? &json->at(key) : nullptr, found.name_.empty() ? key : found.name_ + "." + key};
    if (dot == std::string_view::npos) return found;
    name.remove_prefix(dot + 1);
  }
}

Config Config::entry(std::string_view name) const {
  Config found = find(name);
  if (found.node_ != nullptr) return found;
  Manifest names;
  const Json* json = json_of(node_);
  if (json != nullptr && json->is_object())
    for (const auto& [key, value] : json->items()) names.arrays[key];
  const std::string nearest = nearest_name(std::string(name), names);
  fail<CheckpointError>("[checkpoint] {} has no {}{}", root_->url, shown(found.name_),
                        nearest.empty() ? "" : "; the nearest name there is " + shown(nearest));
}

Config Config::field(std::string_view key) const {
  const Json* json = json_of(node_);
  if (json == nullptr || !json->is_object()) {
    fail<CheckpointError>("[checkpoint] {}: {} is {}, expected an object", root_->url,
                          name_.empty() ? "the whole" : shown(name_),
                          json == nullptr ? "missing" : short_text(*json));
  }
  const std::string text(key);
  return {root_, json->contains(text) ? &json->at(text) : nullptr, name_.empty() ? text : name_ + "." + text};
}

Config Config::element(std::size_t i) const {
  return {root_, &json_of(node_)->at(i), fmt::format("{}[{}]", name_, i)};
}

namespace {

[[noreturn]] void wrong(const std::string& url, const std::string& name, const void* node,
                        const std::string& expected) {
  const std::string what = name.empty() ? "the whole" : shown(name);
  if (node == nullptr) fail<CheckpointError>("[checkpoint] {} has no {}, expected {}", url, what, expected);
  fail<CheckpointError>("[checkpoint] {}: {} is {}, expected {}", url, what, short_text(*json_of(node)),
                        expected);
}

}  // namespace

std::size_t Config::size() const {
  if (node_ == nullptr || !json_of(node_)->is_array()) wrong(root_->url, name_, node_, "a list");
  return json_of(node_)->size();
}

bool Config::boolean() const {
  if (node_ == nullptr || !json_of(node_)->is_boolean()) wrong(root_->url, name_, node_, "true or false");
  return json_of(node_)->get<bool>();
}

std::int64_t Config::integer(std::int64_t least, std::uint64_t most) const {
  const Json* json = json_of(node_);
  const auto expected = [&] { return fmt::format("a whole number from {} to {}", least, most); };
  if (json == nullptr || !json->is_number()) wrong(root_->url, name_, node_, expected());
  if (json->is_number_unsigned()) {
    const auto value = json->get<std::uint64_t>();
    if (value > most) wrong(root_->url, name_, node_, expected());
    return static_cast<std::int64_t>(value);
  }
  if (json->is_number_integer()) {
    const auto value = json->get<std::int64_t>();
    if (value < least || (value >= 0 && static_cast<std::uint64_t>(value) > most))
      wrong(root_->url, name_, node_, expected());
    return value;
  }
  // Such as 1e4.
  const auto value = json->get<double>();
  if (value != std::floor(value) || std::abs(value) > 0x1p53 || value < static_cast<double>(least) ||
      (value > 0 && value > static_cast<double>(most)))
    wrong(root_->url, name_, node_, expected());
  return static_cast<std::int64_t>(value);
}

double Config::real() const {
  if (node_ == nullptr || !json_of(node_)->is_number()) wrong(root_->url, name_, node_, "a number");
  return json_of(node_)->get<double>();
}

std::string Config::string() const {
  if (node_ == nullptr || !json_of(node_)->is_string()) wrong(root_->url, name_, node_, "a text");
  return json_of(node_)->get<std::string>();
}

}  // namespace lockstep::checkpoint::hf
