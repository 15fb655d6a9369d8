// SPDX-License-Identifier: Apache-2.0
// Fine-tunes a BERT from a folder in Hugging Face's format (config.json, model.safetensors, tokenizer.json)
// to classify texts, and writes such a folder, which transformers loads as BertForSequenceClassification.
//
//   $ lockstep run -n 2 -- build/release/examples/bert_classify --model FOLDER --data train.tsv --out NEW
//   $ lockstep run -n 2 -- build/release/examples/bert_classify --model NEW --predict texts.txt
//
// Each line of train.tsv is a label, a tab and a text. For each line of texts.txt the second command prints
// the label. The batches are split over the devices, and the model is on every device. Dropout is as
// config.json says, but for that of the attention's probabilities, which is left out.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/bert.h"
#include "examples/labeled_texts.h"
#include "examples/support/classifier_config.h"
#include "examples/support/command_line.h"
#include "examples/support/new_folder.h"
#include "examples/tokenizer.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using bert::Classifier, ls::Array, ls::P;

struct Options {
  std::string model, data, test, out, predict;
  std::int64_t epochs = 3, batch = 32, max_length = 128;
  double rate = 5e-5, weight_decay = 0.01, dropout = -1;
  bool print_losses = false, logits = false;
};

/// The loss's mean over the rows that are no filling, and how many of those are classified as they should.
std::pair<Array, Array> loss(const Classifier& model, const ls::data::Batch& batch,
                             const ls::random::Key& key) {
  const Array logits = model(batch["ids"], batch["length"], key);
  const Array losses = nn::softmax_cross_entropy_with_integer_labels(logits, batch["label"]);
  const Array right = batch.valid & (ls::argmax(logits, -1) == batch["label"]);
  return {ls::sum(ls::where(batch.valid, losses, 0.0)) / ls::sum(batch.valid), ls::sum(right)};
}

std::size_t best(const std::vector<float>& logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

void predict(const Options& o, const bert::Folder& folder) {
  const std::vector<std::string> labels = folder.labels();
  if (labels.empty()) throw ls::Error(o.model + "/config.json has no id2label: train the model first");
  const std::vector<labeled::Text> texts = labeled::read(o.predict, false);
  const Classifier model =
      bert::read(o.model, folder.config, std::ssize(labels), /*new_classifier=*/false, folder.replicated);
  for (const auto& logits : logits_of(model, folder.records(texts, labels, o.max_length), folder, o.batch)) {
    if (ls::process_index() != 0) continue;
    std::printf("%s", labels[best(logits)].c_str());
    for (std::size_t i = 0; o.logits && i < logits.size(); ++i) std::printf("\t%.8g", logits[i]);
    std::printf("\n");
  }
}

void train(const Options& o, const bert::Folder& folder) {
  const std::vector<labeled::Text> texts = labeled::read(o.data, true);
  const std::vector<std::string> labels = labeled::labels(texts);
  const ls::data::SourcePtr records = folder.records(texts, labels, o.max_length);
  const auto unseen = o.test.empty() ? std::vector<labeled::Text>() : labeled::read(o.test, true);
  const ls::data::SourcePtr test = folder.records(unseen, labels, o.max_length);
  const bool fresh = labels != folder.labels(), speaker = ls::process_index() == 0;
  Classifier model = bert::read(o.model, folder.config, std::ssize(labels), fresh, folder.replicated);
  if (fresh && speaker) std::printf("a new classifier of %zu labels\n", labels.size());

  const std::int64_t steps = (std::ssize(texts) + o.batch - 1) / o.batch * o.epochs;
  const auto optimizer =
      ls::optim::adamw({.learning_rate = ls::optim::linear_schedule(o.rate, 0, steps),
                        .weight_decay = o.weight_decay,
                        .mask = ls::tree::Rules<bool>{{"*bias", false}, {"*scale", false}, {"*", true}}});
  auto state = ls::jit([&](const Classifier& model) { return optimizer.init(model); },
                       {.out_shardings = {folder.replicated}, .name = "init"})(model);
  auto step = ls::jit(
      [&](Classifier model, decltype(state) state, const ls::data::Batch& batch, const Array& i) {
        const ls::random::Key key = ls::random::fold_in(ls::random::key(1), i);
        auto [value, grads] = ls::value_and_grad(loss)(model, batch, key);
        auto [updates, next] = optimizer.update(grads, state, model);
        return std::tuple(ls::optim::apply_updates(model, updates), next, value.first, value.second);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  for (std::int64_t epoch = 1, i = 0; epoch <= o.epochs; ++epoch) {
    ls::data::Loader loader(
        records, {.batch = {o.batch}, .sharding = folder.by_rows, .seed = static_cast<std::uint64_t>(epoch)});
    double sum = 0, right = 0;
    for (std::int64_t left = std::ssize(texts); left > 0; left -= o.batch) {
      Array value, correct;
      std::tie(model, state, value, correct) = step(model, state, *loader.next(), i++);
      if (o.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
      sum += value.item<float>() * static_cast<double>(std::min(left, o.batch));
      right += correct.item<std::int32_t>();
    }
    const auto count = static_cast<double>(texts.size());
    if (speaker)
      std::printf("epoch %d: loss %.4f, accuracy %.3f\n", static_cast<int>(epoch), sum / count,
                  right / count);
  }
  if (!unseen.empty()) {
    std::size_t right = 0;
    const auto found = logits_of(model, test, folder, o.batch);
    for (std::size_t i = 0; i < found.size(); ++i) right += labels[best(found[i])] == unseen[i].label;
    if (speaker) std::printf("test accuracy %.3f\n", static_cast<double>(right) / std::ssize(unseen));
  }
  hf::save(o.out, model, bert::rules(),
           {.config = classifier_config(folder.file.text(), "BertForSequenceClassification", labels)});
  copy_tokenizer(o.model, o.out);
  if (speaker) std::printf("%s has the model\n", o.out.c_str());
}

int main(int argc, char** argv) {
  Options o;
  CommandLine app{"Fine-tunes a BERT in Hugging Face's format to classify texts, or classifies texts."};
  app.option("--model", o.model, "the folder of config.json, the safetensors files and tokenizer.json");
  app.option("--data", o.data, "the texts to train on: lines of a label, a tab and a text");
  app.option("--test", o.test, "more lines of this form, to measure the accuracy after the training");
  app.option("--out", o.out, "the folder to write, which must not exist");
  app.option("--predict", o.predict, "instead of training, print the label of each line of this file");
  app.option("--epochs", o.epochs, "times through the texts");
  app.option("--batch-size", o.batch, "rows of a batch, over all devices");
  app.option("--max-length", o.max_length,
             "the largest number of tokens of a text; the rest of the text is ignored");
  app.option("--rate", o.rate, "the learning rate, which falls to 0 during the training");
  app.option("--weight-decay", o.weight_decay);
  app.option("--dropout", o.dropout, "instead of config.json's");
  app.flag("--print-losses", o.print_losses);
  app.flag("--logits", o.logits, "print the logits after each label");
  return app.run(argc, argv, [&] {
    if (o.predict.empty()) check_new_folder(o.out);
    ls::initialize();
    bert::Folder folder(o.model);
    if (o.dropout >= 0) folder.config.hidden_dropout_prob = o.dropout;
    if (o.dropout >= 0) folder.config.classifier_dropout = o.dropout;
    o.predict.empty() ? train(o, folder) : predict(o, folder);
  });
}
