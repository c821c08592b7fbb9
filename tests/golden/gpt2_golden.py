# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/gpt2_golden.safetensors: a small GPT-2 in float64, as PyTorch computes it.

    python tests/golden/gpt2_golden.py tests/golden/gpt2_golden.safetensors

The model is written out in tensor formulas, with Hugging Face's names and orientation: 2 layers, 2 heads, width 16,
context 8, vocabulary 11, tied head. Tensors of the file (f64, tokens i32):

    init/NAME            parameters at the start (exact in f32)
    inputs, labels       (10, 3, 8): the batch of each step; label -1 does not count
    logits               (3, 8, 11) of the first batch with the initial parameters
    grad/NAME            gradients of its mean loss
    CASE/after/NAME      parameters after ten steps of AdamW, CASE = plain or clip (global norm at most 1)
    CASE/loss, CASE/norm (10): mean loss before each step, global norm of its gradient before clipping

The seeds are chosen so that no gradient is so near to zero that AdamW makes f32 noise a whole step: the same in float32
agrees to 2e-7, but for the key part of the attention bias, whose exact gradient is zero.

AdamW: lr 0.01, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1 on tensors of two dims and none on others.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, BATCH, STEPS = 2, 2, 16, 8, 11, 3, 10


def shapes():
    yield "transformer.wte.weight", (VOCAB, WIDTH)
    yield "transformer.wpe.weight", (CONTEXT, WIDTH)
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        yield h + "ln_1.weight", (WIDTH,)
        yield h + "ln_1.bias", (WIDTH,)
        yield h + "attn.c_attn.weight", (WIDTH, 3 * WIDTH)
        yield h + "attn.c_attn.bias", (3 * WIDTH,)
        yield h + "attn.c_proj.weight", (WIDTH, WIDTH)
        yield h + "attn.c_proj.bias", (WIDTH,)
        yield h + "ln_2.weight", (WIDTH,)
        yield h + "ln_2.bias", (WIDTH,)
        yield h + "mlp.c_fc.weight", (WIDTH, 4 * WIDTH)
        yield h + "mlp.c_fc.bias", (4 * WIDTH,)
        yield h + "mlp.c_proj.weight", (4 * WIDTH, WIDTH)
        yield h + "mlp.c_proj.bias", (WIDTH,)
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "transformer.ln_f.bias", (WIDTH,)


def start():
    g = torch.Generator().manual_seed(28)
    made = {}
    for name, shape in shapes():
        x = torch.randn(shape, generator=g, dtype=torch.float64) * 0.25
        if "ln_" in name and name.endswith("weight"):
            x += 1
        made[name] = x.float().double()
    return made


def forward(p, ids):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    b, t = ids.shape
    x = p["transformer.wte.weight"][ids] + p["transformer.wpe.weight"][:t]
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(WIDTH, dim=2)
        q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in qkv)
        scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        hidden = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        mix = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + linear(mix.transpose(1, 2).reshape(b, t, WIDTH), h + "attn.c_proj")
        y = F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + linear(y, h + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].T


def mean_loss(logits, labels):
    return F.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1), ignore_index=-1)


def train(inputs, labels, clip):
    p = {name: x.clone().requires_grad_() for name, x in start().items()}
    matrices = [x for x in p.values() if x.dim() >= 2]
    others = [x for x in p.values() if x.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(forward(p, inputs[step]), labels[step])
        loss.backward()
        limit = 1.0 if clip else float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(p.values(), limit)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return p, losses, norms


def main():
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(29)
    inputs = torch.randint(VOCAB, (STEPS, BATCH, CONTEXT), generator=g)
    labels = torch.randint(VOCAB, (STEPS, BATCH, CONTEXT), generator=g)
    labels[0, 1, 3] = labels[0, 2, 7] = labels[4, 0, 0] = -1
    p = {name: x.requires_grad_() for name, x in start().items()}
    out = {"init/" + name: x.detach() for name, x in p.items()}
    out["inputs"], out["labels"] = inputs.int(), labels.int()
    logits = forward(p, inputs[0])
    mean_loss(logits, labels[0]).backward()
    out["logits"] = logits.detach()
    out.update({"grad/" + name: x.grad for name, x in p.items()})
    for case in ("plain", "clip"):
        after, losses, norms = train(inputs, labels, case == "clip")
        out.update({f"{case}/after/{name}": x.detach() for name, x in after.items()})
        out[case + "/loss"] = torch.tensor(losses, dtype=torch.float64)
        out[case + "/norm"] = torch.tensor(norms, dtype=torch.float64)
        print(case, losses[0], losses[-1], norms)
    origin = {"origin": "tests/golden/gpt2_golden.py", "torch": torch.__version__}
    save_file({name: x.contiguous() for name, x in out.items()}, sys.argv[1], metadata=origin)


main()
