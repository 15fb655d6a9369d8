# SPDX-License-Identifier: Apache-2.0
"""Loads folders that Lockstep wrote in transformers, and compares their logits with those of this folder's models.

    LOCKSTEP_TEST_FOLDERS=/tmp/written build/release/tests/models/families_test --gtest_filter='*WrittenToAFolder*'
    python3 tests/models/hf/load.py /tmp/written       # needs torch and transformers (5.x)
"""

import pathlib
import sys

import torch
import transformers

KINDS = {"t5": transformers.AutoModelForSeq2SeqLM, "vit": transformers.AutoModelForImageClassification}
TOKENS = torch.tensor([[5, 17, 42, 3, 60, 8, 31, 22, 9, 11]])


def logits(family, folder):
    model, loading = KINDS.get(family, transformers.AutoModelForCausalLM).from_pretrained(folder, output_loading_info=True)
    wrong = {what: names for what, names in loading.items() if names}
    if wrong:
        sys.exit(f"{folder}: {wrong}")
    with torch.no_grad():
        if family == "vit":
            return model.eval()(torch.sin(torch.arange(768.0)).reshape(1, 3, 16, 16)).logits
        more = {"decoder_input_ids": TOKENS} if family == "t5" else {}
        return model.eval()(TOKENS, **more).logits


def main():
    folders = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir())
    if not folders:
        sys.exit(f"{sys.argv[1]} has no folders")
    for folder in folders:
        own = logits(folder.name, folder)
        theirs = logits(folder.name, pathlib.Path(__file__).parent / folder.name)
        if not torch.equal(own, theirs):
            sys.exit(f"{folder}: logits differ by {(own - theirs).abs().max().item()}")
        print(f"{folder.name}: equal logits")


if __name__ == "__main__":
    main()
