# SPDX-License-Identifier: Apache-2.0
# GPT-2 from PyTorch's own modules, trained on random tokens, each step timed. Same parameters, shapes and work as Cadre's
# gpt2: GELU in its tanh form, tied head, weight decay on matrices alone, clipping at a global norm of 1, AdamW. What makes
# PyTorch fast here is on: fused AdamW, scaled_dot_product_attention, gradients as views of DDP's buckets, ranks pinned.
# Nothing of a step is read back into Python.
#
#   gpt2_torch.py '{"ranks": 2, "threads": 1, "dtype": "bf16", "compile": false, "layers": 4, "heads": 4, "width": 128,
#                   "positions": 64, "vocab": 65, "batch": 12, "context": 64, "warmup": 2, "steps": 20}'
#
# Prints one JSON object: step_ms (a list), loss (of the last step), parameters, version. One process a rank.
import json
import os
import subprocess
import sys
import tempfile
import time


def build(torch, nn, F, cfg):
    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.ln_1 = nn.LayerNorm(width)
            self.c_attn = nn.Linear(width, 3 * width)
            self.attn_proj = nn.Linear(width, width)
            self.ln_2 = nn.LayerNorm(width)
            self.c_fc = nn.Linear(width, 4 * width)
            self.gelu = nn.GELU(approximate="tanh")
            self.mlp_proj = nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            qkv = self.c_attn(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads)
            q, k, v = (y.transpose(1, 2) for y in qkv.unbind(2))
            mix = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_proj(mix.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp_proj(self.gelu(self.c_fc(self.ln_2(x))))

    class GPT2(nn.Module):
        def __init__(self, layers, heads, width, positions, vocab):
            super().__init__()
            self.wte = nn.Embedding(vocab, width)
            self.wpe = nn.Embedding(positions, width)
            self.h = nn.ModuleList(Layer(width, heads) for _ in range(layers))
            self.ln_f = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocab, bias=False)
            self.apply(self.start)
            self.head.weight = self.wte.weight

        @staticmethod
        def start(module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, ids, labels):
            x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
            for layer in self.h:
                x = layer(x)
            logits = self.head(self.ln_f(x))
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))

    return GPT2(cfg["layers"], cfg["heads"], cfg["width"], cfg["positions"], cfg["vocab"])


def optimizer_of(torch, model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)


def train(cfg, rank):
    import torch
    import torch.distributed as dist
    import torch.nn as nn
    import torch.nn.functional as F

    torch.manual_seed(1)
    model = build(torch, nn, F, cfg)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = optimizer_of(torch, model)
    if cfg["ranks"] > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    run = torch.compile(model) if cfg["compile"] else model
    bf16 = cfg["dtype"] == "bf16"
    torch.manual_seed(2 + rank)
    tokens = torch.randint(cfg["vocab"], (8, cfg["batch"], cfg["context"] + 1))
    batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens]
    parameter_list = list(model.parameters())
    step_ms, loss = [], None
    for step in range(cfg["warmup"] + cfg["steps"]):
        begin = time.perf_counter()
        ids, labels = batches[step % len(batches)]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = run(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(parameter_list, 1.0, foreach=True)
        optimizer.step()
        step_ms.append((time.perf_counter() - begin) * 1e3)
    if cfg["ranks"] > 1:
        dist.barrier()
    if rank == 0:
        row = {
            "step_ms": step_ms[cfg["warmup"] :],
            "loss": float(loss.detach()),
            "parameters": parameters,
            "version": torch.__version__,
        }
        print(json.dumps(row), flush=True)


# A rank's share of the cores is set before torch is imported: its OpenMP threads inherit it.
def rank_main(cfg, rank, store):
    size, threads = cfg["ranks"], cfg["threads"]
    cores = sorted(os.sched_getaffinity(0))
    if size * threads <= len(cores):
        os.sched_setaffinity(0, cores[rank * threads : (rank + 1) * threads])
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(threads)
    if size > 1:
        dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=size)
    train(cfg, rank)
    if size > 1:
        dist.destroy_process_group()


def main():
    if sys.argv[1] == "--rank":
        rank_main(json.loads(sys.argv[4]), int(sys.argv[2]), sys.argv[3])
        return 0
    cfg = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        words = [sys.executable, __file__, "--rank"]
        ranks = [subprocess.Popen(words + [str(r), store, sys.argv[1]]) for r in range(cfg["ranks"])]
        codes = [r.wait() for r in ranks]
    return max(abs(c) for c in codes)


sys.exit(main())
