# SPDX-License-Identifier: Apache-2.0
"""Writes the models of sentencepiece in this folder, with what the package makes of texts in some 20 scripts.

    python3 lockstep/tokenizers/testdata/make_sentencepiece.py    # needs sentencepiece (0.2.1)

bpe.model is as Llama's: bytes for unknown characters, white space is kept. unigram.model is as T5's: characters are
normalized, white space is collapsed. plain.model is a BPE without bytes and without a space before the text.
sentencepiece.json has, for each, texts, their ids and the text of the ids.
"""
import io
import json
import pathlib
import random

import sentencepiece

HERE = pathlib.Path(__file__).parent
RULES = {"\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "", "…": "...", "²": "2", "½": "1/2", "ﬁ": "fi",
         "e\u0301": "é", "a\u0308": "ä", "ﾊ": "ハ", "ﾝ": "ン"} | {chr(c): chr(c - 0xfee0) for c in range(0xff01, 0xff5f)}
COMMON = dict(num_threads=1, minloglevel=2, hard_vocab_limit=False, character_coverage=0.98)
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=1100, byte_fallback=True, normalization_rule_name="identity",
                remove_extra_whitespaces=False, user_defined_symbols=["<usr>", "\n\n"]),
    "unigram": dict(model_type="unigram", vocab_size=700, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    "plain": dict(model_type="bpe", vocab_size=700, normalization_rule_name="identity", add_dummy_prefix=False),
}


def texts():
    """Those of the other tokenizers here, without the ones with special tokens and those that text cannot have."""
    all_texts = []
    for case in json.loads((HERE / "expected.json").read_text())["cases"]:
        for text, *_ in case["texts"]:
            if text not in all_texts and not any(mark in text for mark in ("<s>", "</s>", "<unk>", "<pad>", "\x00", "\u2581")):
                all_texts.append(text)
    return all_texts[:160] + ["a<usr>b <usr> c", "one\n\ntwo\n\n\nthree", "  two  spaces  ", "ends in space "]


def main():
    every = texts()
    draw = random.Random(1)
    lines = every[:27] * 4  # the sentences, and words of them, so that there is something to count
    lines += [" ".join(draw.choices(sentence.split(), k=8)) for sentence in every[:27] for _ in range(8)]
    table = HERE / "rules.tsv"
    table.write_text("".join(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n"
                             for key, value in RULES.items()))
    cases = []
    for name, options in MODELS.items():
        if "normalization_rule_name" not in options:
            options = options | {"normalization_rule_tsv": str(table)}
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **COMMON, **options)
        (HERE / f"{name}.model").write_bytes(out.getvalue())
        model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        rows = []
        for text in every:
            if name != "bpe" and "<usr>" in text:
                continue
            ids = model.encode(text)
            rows.append([text, ids, model.decode(ids)])
        cases.append({"model": name, "texts": rows, "pieces": [model.id_to_piece(i) for i in range(12)]})
    table.unlink()
    (HERE / "sentencepiece.json").write_text(
        "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases) + "\n]\n")


main()
