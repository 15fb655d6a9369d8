// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/post_processor.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::tokenizers {
namespace {

constexpr std::int64_t kMostIds = 1 << 20;     // of padding
constexpr std::size_t kMostSpecial = 1 << 16;  // of a template

using Ids = std::vector<std::int32_t>;

PostProcessor make_template(Settings& settings) {
  std::map<std::string, Ids> special;
  const nlohmann::json& tokens = settings.value("special_tokens");
  if (!tokens.is_object()) settings.refuse("special_tokens", "an object", tokens);
  for (const auto& [name, value] : tokens.items()) {
    Settings token(value, settings.where() + ".special_tokens");
    token.text("id");
    token.value("tokens");
    for (const nlohmann::json& id : token.value("ids")) special[name].push_back(id_of(id, token, "ids"));
    token.end();
  }
  std::vector<Ids> between(1);
  for (Settings& part : settings.objects("single")) {
    if (part.has("Sequence")) {
      Settings sequence = part.object("Sequence");
      sequence.choice("id", {"A"});
      sequence.number("type_id", 0, kMostIds);
      sequence.end();
      between.emplace_back();
    } else {
      Settings token = part.object("SpecialToken");
      const std::string name = token.text("id");
      token.number("type_id", 0, kMostIds);
      token.end();
      const auto found = special.find(name);
      if (found == special.end())
        fail<DataError>("[tokenizers] {}: \"{}\" is not in \"special_tokens\"", part.where(),
                        shown(name, 80));
      between.back().insert(between.back().end(), found->second.begin(), found->second.end());
      if (between.back().size() > kMostSpecial)
        settings.refuse("single", "shorter", settings.value("single"));
    }
    part.end();
  }
  if (between.size() != 2)
    settings.refuse("single", "one sequence A with special tokens", settings.value("single"));
  settings.value("pair");  // of two texts
  return [before = between[0], behind = between[1]](Ids& ids) {
    ids.insert(ids.begin(), before.begin(), before.end());
    ids.insert(ids.end(), behind.begin(), behind.end());
  };
}

/// A field ["token", id].
std::int32_t token_and_id(Settings& settings, std::string_view name) {
  const nlohmann::json& value = settings.value(name);
  if (!value.is_array() || value.size() != 2) settings.refuse(name, "a token and its id", value);
  return id_of(value[1], settings, name);
}

PostProcessor make_bert_processing(Settings& settings) {
  return [begin = token_and_id(settings, "cls"), end = token_and_id(settings, "sep")](Ids& ids) {
    ids.insert(ids.begin(), begin);
    ids.push_back(end);
  };
}

PostProcessor make_roberta_processing(Settings& settings) {
  settings.flag("trim_offsets", true);  // these two change no ids
  settings.flag("add_prefix_space", true);
  return make_bert_processing(settings);
}

PostProcessor make_byte_level_processor(Settings& settings) {
  for (const std::string_view name : {"add_prefix_space", "trim_offsets", "use_regex"})
    settings.flag(name, true);
  return [](Ids&) {};  // it changes offsets only
}

PostProcessor make_post_processor_sequence(Settings& settings) {
  std::vector<PostProcessor> steps;
  Ids added;
  for (const Settings& step : settings.objects("processors")) {
    steps.push_back(make_post_processor(step));
    const std::size_t before = added.size();
    steps.back()(added);
    if (before > 0 && added.size() > before)
      fail<DataError>("[tokenizers] {}: a second post-processor that adds tokens is not supported",
                      step.where());
  }
  return [steps = std::move(steps)](Ids& ids) {
    for (const PostProcessor& step : steps) step(ids);
  };
}

constexpr Kind<PostProcessor> kPostProcessors[] = {
    {"Sequence", make_post_processor_sequence}, {"TemplateProcessing", make_template},
    {"BertProcessing", make_bert_processing},   {"RobertaProcessing", make_roberta_processing},
    {"ByteLevel", make_byte_level_processor},
};

}  // namespace

PostProcessor make_post_processor(const Settings& settings) {
  return make_kind<PostProcessor>(settings, kPostProcessors);
}

Truncation::Truncation(Settings settings)
    : left_(settings.choice("direction", {"Right", "Left"}, 0) == 1),
      most_(static_cast<std::size_t>(settings.number("max_length", 0, std::int64_t{1} << 62))) {
  settings.choice("strategy", {"LongestFirst", "OnlyFirst"});  // they differ for two texts
  settings.number("stride", 0, std::int64_t{1} << 62);         // of what is cut off
  settings.end();
}

void Truncation::apply(std::vector<std::int32_t>& ids, std::size_t added) const {
  if (most_ < added || ids.size() <= most_ - added) return;
  const auto cut = static_cast<std::ptrdiff_t>(ids.size() - (most_ - added));
  ids.erase(left_ ? ids.begin() : ids.end() - cut, left_ ? ids.begin() + cut : ids.end());
}

Padding::Padding(Settings settings)
    : left_(settings.choice("direction", {"Right", "Left"}) == 1),
      id_(id_of(settings.value("pad_id"), settings, "pad_id")) {
  if (const nlohmann::json& strategy = settings.value("strategy"); strategy != "BatchLongest") {
    Settings fixed = settings.object("strategy");
    least_ = static_cast<std::size_t>(fixed.number("Fixed", 0, kMostIds));
    fixed.end();
  }
  if (settings.has("pad_to_multiple_of"))
    multiple_ = std::max<std::size_t>(
        1, static_cast<std::size_t>(settings.number("pad_to_multiple_of", 0, kMostIds)));
  settings.number("pad_type_id", 0, kMostIds);
  settings.text("pad_token");
  settings.end();
}

void Padding::apply(std::vector<std::int32_t>& ids) const {
  std::size_t size = least_ > 0 ? least_ : ids.size();
  size = (size + multiple_ - 1) / multiple_ * multiple_;
  if (size > ids.size()) ids.insert(left_ ? ids.begin() : ids.end(), size - ids.size(), id_);
}

}  // namespace lockstep::tokenizers
