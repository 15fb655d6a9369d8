# SPDX-License-Identifier: Apache-2.0
"""Writes the tokenizers of this folder, with what the package tokenizers makes of texts in some 20 scripts.

    python3 lockstep/tokenizers/testdata/make_tokenizers.py    # needs tokenizers (0.23.3), sentencepiece (0.2.3), protobuf

Each NAME.json is a tokenizer.json, trained on the texts below. expected.json has, for each of them and for variants with
other components, texts and their ids; and the text of the ids where it is another one.
"""

import base64
import copy
import io
import json
import pathlib
import random
import unicodedata

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SENTENCES = [
    "The small house stands by the river, and the old mill doesn't turn any more.",
    "We'll read 3 books in 2026; they're cheaper (by 12.50 %) than last year's.",
    "Das Mädchen aß süße Äpfel, während draußen der Straßenbahnfahrer hupte.",
    "Où est la bibliothèque ? L'élève naïf a reçu cinq œufs à Noël.",
    "Żółta łódź płynie, a çocuk İstanbul'da ılık süt içiyor.",
    "Tiếng Việt có nhiều dấu: ă, ơ, ế, ỗ, ự.",
    "Το μικρό σπίτι είναι δίπλα στη θάλασσα και ο ήλιος λάμπει.",
    "Маленький дом стоит у реки, а ёж ищет яблоки. Її кіт спить.",
    "البيت الصغير بجانب النهر، والكتاب على الطاولة ١٢٣٤.",
    "הבית הקטן עומד ליד הנהר והילדים קוראים ספר.",
    "छोटा घर नदी के पास है और बच्चे क्षमा की किताब पढ़ते हैं। १२३",
    "ছোট বাড়িটি নদীর পাশে আর শিশুরা বই পড়ছে।",
    "சிறிய வீடு ஆற்றின் அருகே உள்ளது, குழந்தைகள் படிக்கிறார்கள்.",
    "บ้านหลังเล็กอยู่ริมแม่น้ำ และเด็กๆ กำลังอ่านหนังสือ",
    "პატარა სახლი მდინარესთან დგას და ბავშვები კითხულობენ.",
    "Փոքր տունը գետի մոտ է, և երեխաները գիրք են կարդում։",
    "ትንሹ ቤት ከወንዙ አጠገብ ነው፤ ልጆቹም መጽሐፍ ያነባሉ።",
    "ផ្ទះតូចនៅក្បែរទន្លេ ហើយក្មេងៗកំពុងអានសៀវភៅ។",
    "အိမ်ငယ်လေးက မြစ်နားမှာရှိပြီး ကလေးတွေ စာဖတ်နေတယ်။",
    "ཁང་པ་ཆུང་ཆུང་ཞིག་ཆུ་འགྲམ་ལ་ཡོད།",
    "小さな家は川のそばにあり、子供たちはカタカナの本を読んでいます。ﾊﾝｶｸ。",
    "小房子在河边,孩子们正在读书。我们明天去北京!",
    "작은 집은 강가에 있고 아이들은 책을 읽고 있습니다.",
    "👩‍👩‍👧 reads 📚, 👍🏽 and 🇩🇪🇫🇷 wave ❤️ — 1️⃣ more… ☺",
    "e\u0301a\u0308o\u0323\u0302 \u1e69 s\u0323\u0307 \u212b ﬁne ²½ Ⅷ ﷺ ｆｕｌｌ Ω\u2126",
    "def f(x):\n\tif x >= 0x1F and y[i] != 'a':\n        return {**x, \"k\": [1, -2.5e10]}  # done\n\n\n",
    "https://example.org/a_b?c=d&e=%20#f <b>bold</b> a@b.c C:\\temp\\x.txt $HOME ~/.rc",
]
CURATED = SENTENCES + [
    "", " ", "  ", "   leading", "trailing   ", "a  b   c    d", "\t\ttabs\t", "\n", "\r\n\r\n x \r y", "a\u00a0b\u3000c\u2003d\u2028e",
    "zero\u200bwidth\u200d\u200cand\ufeffbom\u00ad", "\x00\x01\x1f\x7f\x85 controls \ufffd", "ALL CAPS İSTANBUL ΣΊΣΥΦΟΣ STRASSE",
    "<s>", "<s> a </s>", "a<mask>b", "a <mask> b", "x<new>y <new> z", "x  <left>", "<right>  y", "<s><s></s><mask>", "New NEW new_",
    "'s 'S 'll 'LL don't DON'T ’s", "0 12 345 6789 01234567 3.14 1,000,000", "?!... --- === ((([[[]]]))) ¿qué? «oui»", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x" * 110 + " end", "mixедЛατινкириλλ日本ひらカナ한글12", "▁ ▁▁a▁b Ġ Ċ ##a a##b </w> <0x41> <unk>", "\U0010ffff\ue000\U000e0001 \U00020000\U0002f800",
]
RANDOM_TEXTS = 40  # of each case
POOLS = ["".join(SENTENCES), " \t\n\r  \u00a0\u2009\u3000\u200b", "0123456789٣४໑²Ⅷ", "".join(map(chr, range(0x21, 0x7f))),
         "\u0300\u0301\u0308\u0323\u0327\u093e\u094d\u200d\ufe0f\u20dd\u0e34", "👩👧👍🏽🇩🇪❤️☺📚", "abcdefgh ABCDEFGH 'stremdl",
         # All that Unicode 3.2 has: later changes of Unicode do not matter.
         [chr(c) for c in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")]]
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def corpus():
    """The sentences, and words of them in random order, so that merges have something to count."""
    draw = random.Random(1)
    words = [sentence.split() for sentence in SENTENCES]
    lines = SENTENCES * 3
    for sentence in words:
        lines += [" ".join(draw.choices(sentence, k=8)) for _ in range(6)]
    return lines


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(pre_tokenizer, **model):
    """Byte-level BPE, as GPT-2 and Llama 3 have it."""
    tokenizer = tokenizers.Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trained(tokenizer, trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def gpt2():
    tokenizer = byte_level(GPT2)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    add_tokens(tokenizer, ["<s>", "</s>"])
    return tokenizer


def llama3():
    split = pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated")
    tokenizer = byte_level(pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                           ignore_merges=True)
    add_tokens(tokenizer, ["<s>", "</s>"])
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                             special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def llama2():
    """BPE of sentencepiece: characters, and bytes for those that are unknown."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # for training only
    trained(tokenizer, trainers.BpeTrainer(
        vocab_size=900, show_progress=False, limit_alphabet=300,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]))
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(tokenizer.to_str()), "added_tokens": [],
                                                          "pre_tokenizer": None}))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    add_tokens(tokenizer, ["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B",
                                                             special_tokens=[("<s>", 1)])
    return tokenizer


def bert():
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trained(tokenizer, trainers.WordPieceTrainer(vocab_size=1000, show_progress=False, limit_alphabet=280,
                                                 special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    add_tokens(tokenizer, ["<s>", "</s>"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def charsmap():
    """A small table of normalization, as sentencepiece makes it of rules."""
    rules = {"\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\ufeff": "", "\u00ad": "", "\x7f": "",
             "…": "...", "²": "2", "½": "1/2", "ﬁ": "fi", "Ⅷ": "VIII", "ﷺ": "صلى الله عليه وسلم", "\u212b": "Å", "\u2126": "Ω",
             "e\u0301": "é", "a\u0308": "ä", "s\u0323\u0307": "ṩ", "ﾊ": "ハ", "ﾝ": "ン", "ｶ": "カ", "ｸ": "ク", "ﾊﾞ": "バ"}
    rules |= {chr(c): chr(c - 0xfee0) for c in range(0xff01, 0xff5f)}
    lines = "".join(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n"
                    for key, value in rules.items())
    table = HERE / "rules.tsv"
    table.write_text(lines)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=model, vocab_size=1500, hard_vocab_limit=False, character_coverage=0.98,
            normalization_rule_tsv=str(table), num_threads=1, minloglevel=2)
    finally:
        table.unlink()
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()}


def t5():
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    trained(tokenizer, trainers.UnigramTrainer(vocab_size=900, show_progress=False, unk_token="<unk>",
                                               special_tokens=["<pad>", "</s>", "<unk>"]))
    add_tokens(tokenizer, ["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    file = json.loads(tokenizer.to_str())
    file["normalizer"] = {"type": "Sequence", "normalizers": [
        charsmap(), {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
    file["model"]["vocab"] = [[token, round(score, 4)] for token, score in file["model"]["vocab"]]
    return tokenizers.Tokenizer.from_str(json.dumps(file))


def add_tokens(tokenizer, special):
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    tokenizer.add_tokens([AddedToken("<new>", single_word=True, normalized=False), AddedToken("<left>", lstrip=True, normalized=False),
                          AddedToken("<right>", rstrip=True, normalized=False), AddedToken("new", normalized=True)])


def component(kind, **fields):
    return {"type": kind, **fields}


def sequence(kind, *parts):
    return component("Sequence", **{kind: list(parts)})


def split(pattern, behavior, invert=False):
    return component("Split", pattern={"Regex": pattern}, behavior=behavior, invert=invert)


BYTES = component("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
METASPACE = component("Metaspace", replacement="▁", prepend_scheme="first", split=False)
# The components that replace those of a tokenizer.
VARIANTS = {
    "gpt2": [
        {"pre_tokenizer": component("ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
         "post_processor": component("RobertaProcessing", sep=["</s>", 701], cls=["<s>", 700], trim_offsets=True, add_prefix_space=True)},
        {"pre_tokenizer": sequence("pretokenizers", split(GPT4O, "Removed", True), BYTES), "normalizer": component("NFC")},
        {"pre_tokenizer": sequence("pretokenizers", split(BLOOM, "Isolated"), BYTES), "normalizer": component("NFKC")},
        {"pre_tokenizer": sequence("pretokenizers", component("Punctuation", behavior="Contiguous"),
                                   component("Digits", individual_digits=True), component("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)),
         "normalizer": component("NFKD")},
        {"pre_tokenizer": sequence("pretokenizers", component("Whitespace"), BYTES), "normalizer": component("Lowercase"), "decoder": None},
        {"pre_tokenizer": sequence("pretokenizers", split(r"\w+\s?|\b", "MergedWithPrevious"), split("[aeiou]", "MergedWithNext"), BYTES),
         "truncation": {"direction": "Left", "max_length": 12, "strategy": "LongestFirst", "stride": 0},
         "padding": {"strategy": {"Fixed": 6}, "direction": "Left", "pad_to_multiple_of": 4, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"}},
    ],
    "llama2": [
        {"normalizer": None, "pre_tokenizer": METASPACE,
         "decoder": sequence("decoders", component("ByteFallback"), component("Metaspace", replacement="▁", prepend_scheme="first", split=False))},
        {"normalizer": component("Replace", pattern={"String": " "}, content="▁"),
         "pre_tokenizer": component("Split", pattern={"String": "▁"}, behavior="MergedWithPrevious", invert=False)},
        {"normalizer": sequence("normalizers", component("Strip", strip_left=True, strip_right=True), component("NFD"), component("StripAccents")),
         "pre_tokenizer": component("Metaspace", replacement="▁", prepend_scheme="always", split=True)},
        {"model": {"byte_fallback": False}, "decoder": component("Fuse")},
        {"model": {"byte_fallback": False, "fuse_unk": False}, "pre_tokenizer": component("Digits", individual_digits=False)},
        {"model": {"end_of_word_suffix": "."}, "decoder": component("BPEDecoder", suffix=".")},
    ],
    "bert": [
        {"normalizer": component("BertNormalizer", clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
         "decoder": component("WordPiece", prefix="##", cleanup=False)},
        {"normalizer": component("BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True),
         "pre_tokenizer": component("Whitespace"), "model": {"max_input_chars_per_word": 8}},
    ],
    "t5": [
        {"normalizer": None, "pre_tokenizer": METASPACE, "model": {"unk_id": 0}},
        {"pre_tokenizer": component("Metaspace", replacement="▁", prepend_scheme="never", split=True)},
    ],
}


def random_text(draw):
    return "".join(draw.choice(draw.choice(POOLS)) for _ in range(draw.randint(1, 24)))


def expected(tokenizer, texts, add):
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=add).ids
        decoded = tokenizer.decode(ids)
        rows.append([text, ids] + ([decoded] if decoded != text else []))
    return rows


def main():
    draw = random.Random(2)
    cases = []
    for make in (gpt2, llama3, llama2, bert, t5):
        name = make.__name__
        file = json.loads(make().to_str())
        (HERE / f"{name}.json").write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
        for number, changes in enumerate([{}] + VARIANTS.get(name, [])):
            changed = copy.deepcopy(file)
            for key, value in changes.items():
                if key == "model":
                    changed["model"].update(value)
                else:
                    changed[key] = value
            texts = (CURATED if number == 0 else CURATED[number % 2::2]) + [random_text(draw) for _ in range(RANDOM_TEXTS)]
            add = number % 3 != 2
            rows = expected(tokenizers.Tokenizer.from_str(json.dumps(changed)), texts, add)
            cases.append({"tokenizer": name, "changes": changes, "add_special_tokens": add, "texts": rows})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (HERE / "expected.json").write_text(f'{{"package":"tokenizers {tokenizers.__version__}","cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
