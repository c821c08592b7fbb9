# SPDX-License-Identifier: Apache-2.0
"""Writes tests/optim/golden.h: values of PyTorch's optimizers, of its clip_grad_norm_ and of nanoGPT's schedule.

    python tests/golden/optim_golden.py > tests/optim/golden.h

Values and gradients are exact binary fractions by formulas that tests/optim/test_golden.c repeats.
"""
import math

import torch

N, STEPS, KEEP = 19, 12, (1, 2, 12)


def value(i):
    return ((i * 5) % 11 - 5) / 4.0


def gradient(i, t):
    return ((i * 7 + t * 13) % 17 - 8) / 8.0


CASES = [
    ("adamw", dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
    ("adamw", dict(lr=3e-3, betas=(0.8, 0.999), eps=1e-6, weight_decay=0.0)),
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, weight_decay=0.01)),
    ("sgd", dict(lr=0.05, momentum=0.9)),
    ("sgd", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)),
]


def numbers(xs):
    return ", ".join("%.17g" % x for x in xs)


def run(kind, options):
    p = torch.nn.Parameter(torch.tensor([value(i) for i in range(N)], dtype=torch.float64))
    make = torch.optim.AdamW if kind == "adamw" else torch.optim.SGD
    optimizer = make([p], **options)
    kept = []
    for t in range(1, STEPS + 1):
        p.grad = torch.tensor([gradient(i, t) for i in range(N)], dtype=torch.float64)
        optimizer.step()
        if t in KEEP:
            kept.append(p.detach().tolist())
    return kept


def nanogpt_lr(it, lr, min_lr, warmup, decay):
    if it < warmup:
        return lr * (it + 1) / (warmup + 1)
    if it > decay:
        return min_lr
    ratio = (it - warmup) / (decay - warmup)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (lr - min_lr)


def main():
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" *")
    print(" * Written by tests/golden/optim_golden.py with PyTorch %s: do not edit. */" % torch.__version__)
    print("/* clang-format off */")
    print("enum { GOLDEN_N = %d, GOLDEN_STEPS = %d, GOLDEN_KEPT = %d };" % (N, STEPS, len(KEEP)))
    print("static const int golden_kept[GOLDEN_KEPT] = {%s};" % ", ".join(map(str, KEEP)))
    print("typedef struct golden_case {")
    print("    int kind; /* 0 adamw, 1 sgd */")
    print("    double lr, beta1, beta2, eps, decay, momentum;")
    print("    int nesterov;")
    print("    double after[GOLDEN_KEPT][GOLDEN_N];")
    print("} golden_case;")
    print("static const golden_case golden_cases[] = {")
    for kind, o in CASES:
        b1, b2 = o.get("betas", (0, 0))
        print("    {%d, %s, %d, {" % (kind == "sgd", numbers(
            [o["lr"], b1, b2, o.get("eps", 0), o.get("weight_decay", 0), o.get("momentum", 0)]), o.get("nesterov", False)))
        for row in run(kind, o):
            print("        {%s}," % numbers(row))
        print("    }},")
    print("};")

    p = torch.nn.Parameter(torch.zeros(N, dtype=torch.float64))
    p.grad = torch.tensor([gradient(i, 1) for i in range(N)], dtype=torch.float64)
    before = p.grad.clone()
    norm = torch.nn.utils.clip_grad_norm_([p], 1.0)
    print("/* clip_grad_norm_ of the gradients of step 1 to 1: the norm before, and the factor. */")
    print("static const double golden_norm = %.17g, golden_clip = %.17g;" % (norm, (p.grad / before)[0]))

    print("/* nanoGPT's get_lr(it) for lr 1e-3, min_lr 1e-4, warm-up 10, decay 100: it, lr. */")
    print("static const double golden_lr[][2] = {")
    for it in (0, 1, 5, 9, 10, 11, 40, 55, 99, 100, 101, 1000):
        print("    {%d, %.17g}," % (it, nanogpt_lr(it, 1e-3, 1e-4, 10, 100)))
    print("};")


main()
