# SPDX-License-Identifier: Apache-2.0
"""How far a correct bf16 run of the model of gpt2_golden.safetensors is from float64, as PyTorch computes it on a CPU.

    python tests/golden/bf16_error.py tests/golden/gpt2_golden.safetensors

Two ways of computing in bf16, both with sums in f32 inside an operation:
    autocast   f32 parameters and residual stream, products in bf16
    stored     parameters rounded to bf16, every activation and every gradient of one stored in bf16
For the golden file's own start and first batch, and for 64 other starts and batches of the same shape, prints: relative error of
the mean loss; for each group of parameters |g - g64| / |g64| (2-norm), the largest of its members; the same of all
gradients as one vector; error of the global norm. Then ten steps of AdamW on f32 master parameters against CASE/loss and CASE/norm of the
file, case plain: the largest relative error of a step's loss and of its global norm. README.md beside this file has the table and the bounds that follow.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, BATCH, OTHERS = 2, 2, 16, 8, 11, 3, 64
# The key part of the attention's bias has gradient zero, exactly: noise over nothing. It is left out of the groups.
GROUPS = {
    "embeddings": ("wte", "wpe"),
    "matrices": ("c_attn.weight", "c_proj.weight", "c_fc.weight"),
    "biases": ("c_attn.bias", "c_proj.bias", "c_fc.bias"),
    "norms": ("ln_1", "ln_2", "ln_f"),
}


def forward(p, ids):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(x, name):
        return F.linear(x, p[name + ".weight"].T, p[name + ".bias"])

    b, t = ids.shape
    x = F.embedding(ids, p["transformer.wte.weight"]) + p["transformer.wpe.weight"][:t]
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(WIDTH, dim=2)
        q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in qkv)
        mix = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(mix.transpose(1, 2).reshape(b, t, WIDTH), h + "attn.c_proj")
        y = F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + linear(y, h + "mlp.c_proj")
    return F.linear(norm(x, "transformer.ln_f"), p["transformer.wte.weight"])


def gradients(start, ids, labels, dtype, autocast):
    p = {name: x.detach().to(dtype, copy=True).requires_grad_() for name, x in start.items()}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = forward(p, ids)
    logits = logits if dtype == torch.float64 else logits.float()
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1), ignore_index=-1)
    loss.backward()
    return loss.item(), {name: x.grad.double() for name, x in p.items()}


def without_key_bias(name, g):
    return torch.cat((g[:WIDTH], g[2 * WIDTH :])) if name.endswith("c_attn.bias") else g


def errors(start, ids, labels, dtype, autocast):
    loss64, g64 = gradients(start, ids, labels, torch.float64, False)
    loss, g = gradients(start, ids, labels, dtype, autocast)
    out = {"loss": abs(loss - loss64) / loss64}
    for group, parts in GROUPS.items():
        names = [name for name in g if any(part in name for part in parts)]
        pairs = [(without_key_bias(n, g[n]), without_key_bias(n, g64[n])) for n in names]
        out[group] = max(float((a - b).norm() / b.norm()) for a, b in pairs)
    one, one64 = (torch.cat([x.flatten() for x in every.values()]) for every in (g, g64))
    out["all gradients"] = float((one - one64).norm() / one64.norm())
    out["global norm"] = float(abs(one.norm() - one64.norm()) / one64.norm())
    return out


def another(golden, seed):
    """The golden file's distribution of starts and batches, drawn anew."""
    g = torch.Generator().manual_seed(1000 + seed)
    start = {}
    for name, x in golden.items():
        start[name] = torch.randn(x.shape, generator=g, dtype=torch.float64) * 0.25
        if "ln_" in name and name.endswith("weight"):
            start[name] += 1
    ids, labels = (torch.randint(VOCAB, (BATCH, CONTEXT), generator=g) for _ in range(2))
    return start, ids, labels


def ten_steps(file, golden, dtype, autocast):
    """Errors of the golden file's training, largest of its steps; the gradients of bf16 copies reach f32 masters."""
    master = {name: x.float() for name, x in golden.items()}
    groups = [
        {"params": [x for x in master.values() if x.dim() >= 2], "weight_decay": 0.1},
        {"params": [x for x in master.values() if x.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    worst_loss = worst_norm = 0.0
    for step, (ids, labels) in enumerate(zip(file["inputs"].long(), file["labels"].long())):
        loss, g = gradients(master, ids, labels, dtype, autocast)
        norm = float(torch.cat([x.flatten() for x in g.values()]).norm())
        worst_loss = max(worst_loss, abs(loss / float(file["plain/loss"][step]) - 1))
        worst_norm = max(worst_norm, abs(norm / float(file["plain/norm"][step]) - 1))
        for name, x in master.items():
            x.grad = g[name].float()
        optimizer.step()
    return worst_loss, worst_norm


def main():
    torch.set_num_threads(1)
    file = load_file(sys.argv[1])
    golden = {name[5:]: x for name, x in file.items() if name.startswith("init/")}
    print("torch", torch.__version__)
    for way, dtype, autocast in (("autocast", torch.float32, True), ("stored", torch.bfloat16, False)):
        own = errors(golden, file["inputs"][0].long(), file["labels"][0].long(), dtype, autocast)
        rest = [errors(*another(golden, seed), dtype, autocast) for seed in range(OTHERS)]
        print(f"{way:<16}{'golden':>10}{'median':>10}{'largest':>10}   of {OTHERS} others")
        for what, value in own.items():
            every = sorted(r[what] for r in rest)
            print(f"  {what:<14}{value:>10.5f}{every[OTHERS // 2]:>10.5f}{every[-1]:>10.5f}")
        loss, norm = ten_steps(file, golden, dtype, autocast)
        print(f"  ten steps: loss {loss:.5f}, global norm {norm:.5f}")


main()
