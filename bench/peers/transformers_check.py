# SPDX-License-Identifier: Apache-2.0
"""Weights between Cadre and Hugging Face's transformers, both ways, compared by logits.

    python bench/peers/transformers_check.py BUILD [--text FILE] [--bpe FOLDER]      (torch, transformers)

BUILD is a build folder with its tests (build/release). Out: short runs with tokenizer char, byte and BPE (FOLDER with
encoder.json and vocab.bpe), tied and untied; their checkpoint folders and exports are loaded by from_pretrained as they
are, no key missing or left over, AutoTokenizer gives the ids of `cadre data pack`. In: models made by transformers, saved
whole, in shards, in f16 and bf16, are read by Cadre. Logits: ||a - b|| / ||b|| against float64 of PyTorch, at most 1e-5.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

LIMIT = 1e-5
WINDOWS = 4
failed = False


def say(good, text):
    global failed
    failed |= not good
    print("ok    " if good else "NOT OK", text, flush=True)


def cadre(build, *words):
    done = subprocess.run([build / "cadre", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cadre {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def compare(build, work, folder, label):
    """Logits of both for random tokens."""
    model, info = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64, output_loading_info=True)
    odd = [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info.get(kind, ())]
    say(not odd, f"{label}: every key loads" + (f", but {odd[:4]}" if odd else ""))
    config = model.config
    tokens = torch.randint(0, config.vocab_size, (WINDOWS, config.n_positions), generator=torch.Generator().manual_seed(1))
    tokens.numpy().astype("<u2").tofile(work / "tokens.bin")
    done = subprocess.run([build / "tests" / "train_test_weights", folder, work / "tokens.bin", work / "logits"], capture_output=True,
                          text=True)
    if done.returncode:
        return say(False, f"{label}: {done.stderr.strip()}")
    ours = torch.from_numpy(numpy.fromfile(work / "logits", "<f4").astype("f8")).view(WINDOWS, config.n_positions, -1)
    with torch.no_grad():
        theirs = model.eval()(tokens).logits
    gap = ((ours - theirs).norm() / theirs.norm()).item()
    say(gap <= LIMIT, f"{label}: logits of {config.vocab_size} tokens differ by {gap:.1e}")


def outwards(build, work, text, name, tokenizer):
    packed = work / f"{name}.bin"
    cadre(build, "data", "pack", "--tokenizer", tokenizer, "--out", packed, text)
    ids = numpy.fromfile(packed, "<u2", offset=1024)
    for tied in "true", "false":
        cadre(build, "train", "-q", f"--data.train={text}", f"--data.tokenizer={tokenizer}", "--model.layers=2", "--model.heads=2", "--model.width=32",
              "--model.context=16", f"--model.tied={tied}", "--train.batch=8", "--train.steps=20", "--optim.lr=1e-2", f"--run.dir={work}/runs",
              f"--run.name={name}-{tied}")
        checkpoint = work / "runs" / f"{name}-{tied}" / "checkpoints" / "step-00000020"
        cadre(build, "checkpoint", "export", checkpoint, "--to", work / f"{name}-{tied}")
        label = f"{name}, {'tied' if tied == 'true' else 'untied'}"
        compare(build, work, checkpoint, f"{label}, checkpoint")
        compare(build, work, work / f"{name}-{tied}", f"{label}, export")
    theirs = AutoTokenizer.from_pretrained(work / f"{name}-true")
    words = text.read_text()
    got = theirs(words, add_special_tokens=False)["input_ids"]
    say(got == ids.tolist(), f"{name}: AutoTokenizer gives the same {len(ids)} ids")
    say(theirs.decode(got, clean_up_tokenization_spaces=False) == words, f"{name}: and their text")


def inwards(build, work):
    shards = {"max_shard_size": "100KB"}
    for label, tied, dtype, how in (("whole", True, torch.float32, {}), ("untied", False, torch.float32, {}), ("shards", True, torch.float32, shards),
                                    ("f16 shards", False, torch.float16, shards), ("bf16", True, torch.bfloat16, {}), ("f64", True, torch.float64, {})):
        torch.manual_seed(5)
        model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_head=4, n_embd=64, n_positions=32, vocab_size=199, initializer_range=0.1,
                                           tie_word_embeddings=tied))
        folder = work / f"in-{label.replace(' ', '-')}"
        model.to(dtype).save_pretrained(folder, **how)
        files = len(list(folder.glob("*.safetensors")))
        compare(build, work, folder, f"from transformers, {label}, {files} file{'s' if files > 1 else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--bpe", type=pathlib.Path)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {cadre(args.build.resolve(), '--version').strip()}")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        text = work / "text.txt"
        text.write_text(args.text.read_text()[:100000] if args.text else "The cat sat on a mat; \u00fcber 1,234 times, it's said.\n\n" * 400)
        build = args.build.resolve()
        for label, tokenizer in ("char", "char"), ("byte", "byte"), ("bpe", args.bpe):
            if tokenizer:
                outwards(build, work, text, label, tokenizer)
            else:
                print("skipped bpe: --bpe FOLDER with encoder.json and vocab.bpe")
        inwards(build, work)
    sys.exit(failed)


main()
