# SPDX-License-Identifier: Apache-2.0
"""Writes the small random models of this folder, with what transformers computes of them.

    python3 tests/models/hf/generate.py       # needs torch and transformers (5.x)

For each family a folder as transformers saves it, and expected.json: for each row of tokens the logits of all its
places, and the tokens that generate() adds greedily.
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
    "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=True, use_sliding_window=False,
                                      rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
}
ROWS = [[5, 17, 42, 3, 60, 8, 31, 22, 9], [50, 2, 33], [7, 7, 12, 40, 1]]
NEW_TOKENS = 24


def main():
    here = pathlib.Path(__file__).parent
    for name, config in MODELS.items():
        torch.manual_seed(0)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for path, weight in model.named_parameters():
                if path.endswith("bias") or "norm" in path:  # which are zeros and ones
                    weight.add_(0.3 * torch.randn_like(weight))
        model.save_pretrained(here / name)
        (here / name / "generation_config.json").unlink(missing_ok=True)
        logits, greedy = [], []
        for row in ROWS:
            tokens = torch.tensor([row])
            with torch.no_grad():
                logits.append([[float(f"{x:.7g}") for x in place] for place in model(tokens).logits[0].tolist()])
                more = model.generate(tokens, max_new_tokens=NEW_TOKENS, do_sample=False)
            greedy.append(more[0, len(row):].tolist())
        expected = {"transformers": transformers.__version__, "rows": ROWS, "greedy": greedy, "logits": logits}
        (here / name / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
