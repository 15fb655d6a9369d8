// SPDX-License-Identifier: Apache-2.0
// A text as token ids and back, as a model's tokenizer.json says.
//
//   $ lockstep run -n 1 -- build/release/examples/tokenize lockstep/tokenizers/testdata/bert.json
//   [0] ids: 2 553 990 610 999 297 742 680 24 741 11 3
//   [0] tokens: [CLS] the old ho ##us ##e stands by a river . [SEP]
//   [0] text: the old house stands by a river.

#include <lockstep/tokenizers/tokenizer.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize TOKENIZER.JSON\n");
    return 2;
  }
  const auto tokenizer = lockstep::tokenizers::Tokenizer::from_file(argv[1]);
  const std::vector<std::int32_t> ids = tokenizer.encode("The old house stands by a river.");
  std::printf("ids:");
  for (const std::int32_t id : ids) std::printf(" %d", static_cast<int>(id));
  std::printf("\ntokens:");
  for (const std::int32_t id : ids) std::printf(" %s", tokenizer.id_to_token(id)->c_str());
  std::printf("\ntext: %s\n", tokenizer.decode(ids).c_str());
}
