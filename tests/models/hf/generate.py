# SPDX-License-Identifier: Apache-2.0
"""Writes the small random models of this folder, with what transformers computes of them.

    python3 tests/models/hf/generate.py       # needs torch and transformers (5.x)

For each family a folder as transformers saves it, and expected.json: for each row of tokens the logits of all its
places, and the tokens that generate() adds greedily. For bert, a classifier of texts: the logits of the texts of
train.tsv, the losses of a training on them, all in one batch, and the logits after it. For the others gradients/ has the
derivatives of a loss, as a model of the same names: of language models that of the next token of BATCH, of t5 with the
rows the other way round as input, of vit that of the classes 0 and 1 of two pictures.
"""

import json
import pathlib

import torch
import transformers

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=None,
             pad_token_id=None, initializer_range=0.3)
MODELS = {
    "llama": transformers.LlamaConfig(
        **SIZES, rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
    "mistral": transformers.MistralConfig(**SIZES, head_dim=16, sliding_window=6, tie_word_embeddings=False,
                                          rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
    "mixtral": transformers.MixtralConfig(**SIZES | {"intermediate_size": 24}, num_local_experts=4, num_experts_per_tok=2,
                                          sliding_window=None, tie_word_embeddings=False,
                                          rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
    "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=True, use_sliding_window=False,
                                      rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
}
MODELS["gpt2"] = transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None,
                                         eos_token_id=None, pad_token_id=None, initializer_range=0.3)
T5 = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, eos_token_id=None,
                           pad_token_id=0, decoder_start_token_id=0, relative_attention_num_buckets=8,
                           relative_attention_max_distance=16)
VIT = transformers.ViTConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16,
                             patch_size=4, initializer_range=0.3, num_labels=5)
BATCH = [[5, 17, 42, 3, 60, 8, 31, 22, 9, 11], [50, 2, 33, 7, 7, 12, 40, 1, 63, 20]]
ROWS = [[5, 17, 42, 3, 60, 8, 31, 22, 9], [50, 2, 33], [7, 7, 12, 40, 1]]
NEW_TOKENS = 24

BERT = transformers.BertConfig(vocab_size=1024, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                               num_attention_heads=2, max_position_embeddings=48, initializer_range=0.3,
                               id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1})
TEXTS = """good\tThe old house stands by a river.
bad\tWe'll never read that book, it was cheaper last year.
good\tChildren read books.
bad\tThe mill doesn't turn any more, and nobody is there in 2026!
good\tA small river, a small house.
bad\tIt is colder (by 12.50 %) than last year's winter.
good\tThey stand by the old mill and read.
bad\tNo.
"""
STEPS, RATE, DECAY = 8, 0.005, 0.01


def rounded(rows):
    return [[float(f"{x:.7g}") for x in row] for row in rows.tolist()]


def perturb(model):
    """Changes biases, and scales of norms, which are zeros and ones."""
    with torch.no_grad():
        for path, weight in model.named_parameters():
            if path.endswith("bias") or "norm" in path.lower():
                weight.add_(0.3 * torch.randn_like(weight))


def bert(folder):
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(BERT).eval()  # without dropout
    perturb(model)
    model.save_pretrained(folder)
    (folder / "train.tsv").write_text(TEXTS)
    tokens = folder.parents[3] / "lockstep" / "tokenizers" / "testdata" / "bert.json"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokens), pad_token="[PAD]")
    labels, texts = zip(*(line.split("\t") for line in TEXTS.splitlines()))
    batch = tokenizer(list(texts), padding=True, return_tensors="pt")
    batch = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"],
             "labels": torch.tensor([BERT.label2id[label] for label in labels])}
    decayed = [path.endswith("weight") and "LayerNorm" not in path for path, _ in model.named_parameters()]
    optimizer = torch.optim.AdamW([{"params": [p for p, own in zip(model.parameters(), decayed) if own == which],
                                    "weight_decay": DECAY if which else 0.0} for which in (True, False)], lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    expected = {"transformers": transformers.__version__, "losses": []}
    for step in range(STEPS + 1):
        output = model(**batch)
        if step == 0:
            expected["logits"] = rounded(output.logits)
        if step == STEPS:
            expected["trained_logits"] = rounded(output.logits)
            break
        expected["losses"].append(float(f"{output.loss.item():.7g}"))
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        schedule.step()
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def save_gradients(folder, model, loss):
    """As a model of its own, so that it is saved under the names of the weights."""
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.grad)
    model.save_pretrained(folder / "gradients")
    for file in (folder / "gradients").iterdir():
        if file.suffix != ".safetensors":
            file.unlink()


def next_token_loss(logits, tokens):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def write(folder, expected):
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "expected.json").write_text(json.dumps({"transformers": transformers.__version__, **expected}) + "\n")


def t5(folder):
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(T5).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.2 * torch.randn_like(weight) + (weight.dim() == 1))
    model.save_pretrained(folder)
    outputs = torch.tensor(BATCH)
    inputs = outputs.flip(1)
    start = torch.zeros(2, 1, dtype=torch.long)
    with torch.no_grad():
        greedy = model.generate(inputs, max_new_tokens=NEW_TOKENS, do_sample=False)[:, 1:].tolist()
    logits = model(input_ids=inputs, decoder_input_ids=torch.cat((start, outputs[:, :-1]), 1)).logits
    expected = {"batch": BATCH, "greedy": greedy, "logits": [rounded(row) for row in logits]}
    save_gradients(folder, model, next_token_loss(logits, outputs))
    write(folder, expected)


def vit(folder):
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(VIT).eval()
    perturb(model)
    model.save_pretrained(folder)
    numbers = torch.arange(2 * 3 * 16 * 16, dtype=torch.float64)
    pictures = torch.sin(0.37 * numbers * numbers.remainder(101)).float().reshape(2, 3, 16, 16)
    logits = model(pictures).logits
    expected = {"logits": rounded(logits), "first_pixels": rounded(pictures[0, 0, :1])}
    save_gradients(folder, model, next_token_loss(logits.unsqueeze(0), torch.tensor([0, 1])))
    write(folder, expected)


def main():
    here = pathlib.Path(__file__).parent
    bert(here / "bert")
    t5(here / "t5")
    vit(here / "vit")
    for name, config in MODELS.items():
        torch.manual_seed(0)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        perturb(model)
        model.save_pretrained(here / name)
        logits, greedy = [], []
        for row in ROWS:
            tokens = torch.tensor([row])
            with torch.no_grad():
                logits.append(rounded(model(tokens).logits[0]))
                more = model.generate(tokens, max_new_tokens=NEW_TOKENS, do_sample=False)
            greedy.append(more[0, len(row):].tolist())
        batch = torch.tensor(BATCH)
        save_gradients(here / name, model, next_token_loss(model(batch).logits[:, :-1], batch[:, 1:]))
        write(here / name, {"rows": ROWS, "batch": BATCH, "greedy": greedy, "logits": logits})


if __name__ == "__main__":
    main()
