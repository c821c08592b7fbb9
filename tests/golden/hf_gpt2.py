# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/hf_gpt2*: a small GPT-2 as Hugging Face's transformers save it, and its loss.

    python tests/golden/hf_gpt2.py tests/golden        (torch, transformers)

hf_gpt2/            config.json, model.safetensors: 2 layers, 2 heads, width 8, context 8, vocabulary 13, tied, f32
hf_gpt2_sharded/    the same weights in files of at most 4 KB with model.safetensors.index.json
hf_gpt2_untied/     a model without its own prefix "transformer.", in f16, with a head of its own
hf_gpt2.bin         33 tokens, uint16 without header
hf_gpt2.txt         NAME LOSS: mean loss (nats) over windows of 8 inputs each, in float64
hf_gpt2.safetensors NAME: their logits (4, 8, 13), float64

Written once with transformers 5.24.0 and PyTorch 2.15.0.
"""
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

CONTEXT, VOCAB, WINDOWS = 8, 13, 4


def make(tied):
    torch.manual_seed(28)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=8, n_positions=CONTEXT, vocab_size=VOCAB, tie_word_embeddings=tied,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn_like(p)
    return model.eval()


def loss_of(model, tokens):
    model = model.double()
    x = tokens[:-1].view(WINDOWS, CONTEXT)
    y = tokens[1:].view(WINDOWS, CONTEXT)
    with torch.no_grad():
        logits = model(x).logits
    return torch.nn.functional.cross_entropy(logits.view(-1, VOCAB), y.reshape(-1)).item(), logits


def save(model, folder, **how):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **how)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()


def main(root):
    tokens = torch.randint(0, VOCAB, (WINDOWS * CONTEXT + 1,), generator=torch.Generator().manual_seed(3))
    tokens.numpy().astype("<u2").tofile(root / "hf_gpt2.bin")
    tied, untied = make(True), make(False)
    save(tied, root / "hf_gpt2")
    save(tied, root / "hf_gpt2_sharded", max_shard_size="4KB")
    save(untied.half(), root / "hf_gpt2_untied")
    file = root / "hf_gpt2_untied" / "model.safetensors"
    weights = {k.removeprefix("transformer."): v for k, v in load_file(file).items()}
    weights["h.0.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril().bool()
    weights["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(weights, file, {"format": "pt"})
    logits = {}
    with open(root / "hf_gpt2.txt", "w") as out:
        for name, model in ("hf_gpt2", tied), ("hf_gpt2_sharded", tied), ("hf_gpt2_untied", untied):
            loss, logits[name] = loss_of(model, tokens)
            print(name, repr(loss), file=out)
    save_file({name: x.clone() for name, x in logits.items()}, root / "hf_gpt2.safetensors")


main(pathlib.Path(sys.argv[1]))
