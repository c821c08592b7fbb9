# SPDX-License-Identifier: Apache-2.0
"""The same training by Cadre and by PyTorch, in turn, in one run: tokens a second, their ratio, peak memory a rank.

    python3 bench/peers/side_by_side.py [--configs 124m,small,wide] [--dtypes f32,bf16] [--layouts 1x2,2x1] [--rounds 3]

A layout is RANKSxTHREADS. Cadre is its command (`cadre train` on a file of random tokens, with its loader and its
step lines); PyTorch is gpt2_torch.py, eager and compiled. Needs Python alone; a contender that cannot run is named
with the way to get it, and left out. bench/README.md defines the numbers.
"""
import argparse
import array
import json
import os
import platform
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

# batch: samples of one step, of each rank ("rank") or of all ranks together ("step").
SIZES = ("layers", "heads", "width", "positions", "vocab", "batch", "of", "context", "warmup", "steps")
CONFIGS = {
    "124m": dict(zip(SIZES, (12, 12, 768, 1024, 50257, 4, "rank", 256, 1, 3))),
    "small": dict(zip(SIZES, (4, 4, 128, 64, 65, 12, "step", 64, 10, 100))),
    "wide": dict(zip(SIZES, (6, 6, 384, 256, 65, 12, "step", 256, 2, 8))),
    "smoke": dict(zip(SIZES, (1, 2, 32, 16, 65, 4, "step", 16, 1, 5))),
}
CONTENDERS = ("cadre", "torch-eager", "torch-compiled")
SECONDS_MOST = 1800
SAMPLE_S = 0.02
HERE = os.path.dirname(os.path.abspath(__file__))


class Failure(Exception):
    pass


# ---- processes ----


def children_of(pid):
    found, at = [pid], 0
    while at < len(found):
        try:
            for task in os.listdir(f"/proc/{found[at]}/task"):
                with open(f"/proc/{found[at]}/task/{task}/children") as f:
                    found += [int(word) for word in f.read().split()]
        except OSError:
            pass
        at += 1
    return found


def pss_of(pid, must_say):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if must_say not in f.read():
                return 0
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    except OSError:
        return 0


def end_group(p):
    """Ends a program with its ranks: it took too long, or this program is to end."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    p.wait()


def run(words, must_say, sample):
    """Standard output of a program, and the largest Pss of one of its processes, if that is to be sampled."""
    peak, done = 0, threading.Event()
    with tempfile.TemporaryFile("w+") as errors:
        p = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True, start_new_session=True
        )

        def look():
            nonlocal peak
            while not done.wait(SAMPLE_S):
                peak = max([peak] + [pss_of(pid, must_say) for pid in children_of(p.pid)])

        watcher = threading.Thread(target=look)
        alarm = threading.Timer(SECONDS_MOST, end_group, [p])
        alarm.start()
        if sample:
            watcher.start()
        try:
            out, _ = p.communicate()
        except BaseException:
            end_group(p)
            raise
        finally:
            alarm.cancel()
            done.set()
            if sample:
                watcher.join()
        code = p.returncode
        errors.seek(0)
        last = [line for line in errors.read().splitlines() if line.strip()][-1:] or ["nothing on standard error"]
    if code != 0:
        raise Failure(f"exit code {code}: {last[0].strip()}")
    return out, peak


# ---- contenders: each answers (list of step times in ms, peak bytes of a rank) ----


def micro_batch(cfg, ranks):
    return cfg["batch"] if cfg["of"] == "rank" else cfg["batch"] // ranks


def write_tokens(path, cfg, ranks):
    """Headerless uint16: enough random tokens for every step."""
    samples = micro_batch(cfg, ranks) * ranks * (cfg["warmup"] + cfg["steps"] + 1)
    draw = random.Random(1)
    with open(path, "wb") as f:
        array.array("H", (draw.randrange(cfg["vocab"]) for _ in range(samples * cfg["context"] + 1))).tofile(f)


def run_cadre(args, cfg, dtype, ranks, threads, sample):
    with tempfile.TemporaryDirectory() as folder:
        tokens = os.path.join(folder, "random.bin")
        write_tokens(tokens, cfg, ranks)
        words = shlex.split(args.cadre) + ["train", "--ranks", str(ranks)]
        words += [
            f"--{key}={value}"
            for key, value in {
                "model.kind": "gpt2",
                "model.layers": cfg["layers"],
                "model.heads": cfg["heads"],
                "model.width": cfg["width"],
                "model.context": cfg["positions"],
                "model.vocab": cfg["vocab"],
                "data.train": tokens,
                "train.context": cfg["context"],
                "train.micro_batch": micro_batch(cfg, ranks),
                "train.steps": cfg["warmup"] + cfg["steps"],
                "precision.compute": dtype,
                "run.threads": threads,
                "run.dir": folder,
                "run.name": "bench",
                "run.console": "quiet",
                "run.tensorboard": "false",
                "checkpoint.every": 0,
            }.items()
        ]
        _, peak = run(words, b"", sample)
        with open(os.path.join(folder, "bench", "metrics.jsonl")) as f:
            rows = [json.loads(line) for line in f]
    times = [row["step_ms"] for row in rows if "step_ms" in row]
    return times[cfg["warmup"] :], peak


def run_torch(args, cfg, dtype, ranks, threads, sample, compiled):
    asked = {key: cfg[key] for key in ("layers", "heads", "width", "positions", "vocab", "context", "warmup", "steps")}
    asked.update(ranks=ranks, threads=threads, dtype=dtype, compile=compiled, batch=micro_batch(cfg, ranks))
    words = shlex.split(args.python) + [os.path.join(HERE, "gpt2_torch.py"), json.dumps(asked)]
    out, peak = run(words, b"--rank", sample)
    return json.loads(out)["step_ms"], peak


def run_contender(who, args, cfg, dtype, ranks, threads, sample):
    if who == "cadre":
        return run_cadre(args, cfg, dtype, ranks, threads, sample)
    return run_torch(args, cfg, dtype, ranks, threads, sample, who == "torch-compiled")


def who_is_here(args, said):
    """The contenders that can run; what is missing goes to `said`, with the way to get it."""
    here = [who for who in CONTENDERS if who in args.who]
    if "cadre" in here and not shutil.which(shlex.split(args.cadre)[0]):
        said.append(f"cadre: there is no {args.cadre}; build it with: make")
        here.remove("cadre")
    if here == ["cadre"] or not here:
        return here, None
    probe = "import sysconfig, torch; print(torch.__version__, sysconfig.get_paths()['include'])"
    try:
        out, _ = run(shlex.split(args.python) + ["-c", probe], b"", False)
        version, include = out.split(None, 1)
    except (Failure, OSError, ValueError):
        said.append(
            f"torch: PyTorch is not installed for {args.python}; install it with: "
            "python3 -m venv ENV && ENV/bin/pip install torch, then: make bench-peers PYTHON=ENV/bin/python"
        )
        return [who for who in here if who == "cadre"], None
    compiler = os.environ.get("CXX", "g++")
    for there, need, package in (
        (shutil.which(compiler), compiler, "g++"),
        (os.path.exists(os.path.join(include.strip(), "Python.h")), "Python.h", "python3-dev"),
    ):
        if "torch-compiled" in here and not there:
            said.append(f"torch-compiled: torch.compile needs {need}; install it with: apt-get install {package}")
            here.remove("torch-compiled")
    return here, version


# ---- the run ----


def cells_of(args):
    return [(c, d, tuple(int(n) for n in l.split("x"))) for c in args.configs for d in args.dtypes for l in args.layouts]


def measure(args, here, said, tell):
    """{(config, dtype, layout, who): {"ms": one median a round, "peak": bytes}}; a first round, not timed, for memory."""
    found, broken = {}, set()
    for lap in range(args.rounds + 1):
        order = here if lap % 2 == 0 else here[::-1]
        for config, dtype, layout in cells_of(args):
            cfg = dict(CONFIGS[config], **({"steps": args.steps} if args.steps else {}))
            if lap == 0:
                cfg.update(warmup=1, steps=min(2, cfg["steps"]))
            for who in order:
                key = (config, dtype, layout, who)
                if key in broken:
                    continue
                try:
                    times, peak = run_contender(who, args, cfg, dtype, *layout, lap == 0)
                    ms = statistics.median(times)
                except (Failure, OSError, ValueError, KeyError, statistics.StatisticsError) as e:
                    said.append(f"{who} {config} {dtype} {layout[0]}x{layout[1]}: left out: {e}")
                    broken.add(key)
                    found.pop(key, None)
                    continue
                if lap == 0:
                    found[key] = {"ms": [], "peak": peak}
                    tell(f"memory: {config} {dtype} {layout[0]}x{layout[1]} {who}: {peak / 2**20:.0f} MiB")
                else:
                    found[key]["ms"].append(ms)
                    tell(f"round {lap}/{args.rounds}: {config} {dtype} {layout[0]}x{layout[1]} {who}: {ms:.1f} ms")
    return found


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def rows_of(found):
    rows = []
    for (config, dtype, (ranks, threads), who), one in found.items():
        cfg = CONFIGS[config]
        tokens = micro_batch(cfg, ranks) * ranks * cfg["context"]
        rows.append(
            {
                "model": config,
                "dtype": dtype,
                "ranks": ranks,
                "threads": threads,
                "micro_batch": micro_batch(cfg, ranks),
                "context": cfg["context"],
                "who": who,
                "step_ms": summary(one["ms"]),
                "tokens_per_s": summary([tokens * 1e3 / ms for ms in one["ms"]]),
                "rounds": [tokens * 1e3 / ms for ms in one["ms"]],
                "peak_bytes_per_rank": one["peak"],
            }
        )
    return rows


def best(rows):
    return max(rows, key=lambda row: row["tokens_per_s"]["median"])


def ratio(mine, theirs):
    """Ratio of medians; least and most are of the rounds taken one by one."""
    pairs = [a / b for a, b in zip(mine["rounds"], theirs["rounds"])]
    median = mine["tokens_per_s"]["median"] / theirs["tokens_per_s"]["median"]
    return {"median": median, "min": min(pairs), "max": max(pairs)}


def ratios_of(args, rows):
    """Cadre's tokens/s over a peer's: in each layout, and each side in its best one."""
    out = []
    for config in args.configs:
        for dtype in args.dtypes:
            mine = [r for r in rows if (r["model"], r["dtype"], r["who"]) == (config, dtype, "cadre")]
            for peer in CONTENDERS[1:]:
                theirs = [r for r in rows if (r["model"], r["dtype"], r["who"]) == (config, dtype, peer)]
                if not mine or not theirs:
                    continue
                pairs = [(a, b) for a in mine for b in theirs if a["ranks"] == b["ranks"] and a["threads"] == b["threads"]]
                named = [(f"{a['ranks']}x{a['threads']}", a, b) for a, b in pairs] + [("best", best(mine), best(theirs))]
                for layout, a, b in named:
                    memory = a["peak_bytes_per_rank"] / b["peak_bytes_per_rank"] if b["peak_bytes_per_rank"] else None
                    out.append(
                        {
                            "model": config,
                            "dtype": dtype,
                            "layout": layout,
                            "peer": peer,
                            "tokens_per_s_ratio": ratio(a, b),
                            "peak_memory_ratio": memory,
                        }
                    )
    return out


# ---- what is shown ----


def machine():
    name = platform.processor()
    try:
        with open("/proc/cpuinfo") as f:
            name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), name)
    except OSError:
        pass
    return {"cpus": len(os.sched_getaffinity(0)), "cpu": name, "system": platform.platform()}


def number(x):
    return f"{x:,.0f}"


def show(args, rows, ratios, version, said):
    print(f"{machine()['cpu']}, {machine()['cpus']} cores; PyTorch {version or 'not here'}; {args.rounds} rounds in turn")
    print("tokens/s: median (least to most) of the rounds; ratio: of the medians (least to most of the rounds one by one)")
    for config in args.configs:
        for dtype in args.dtypes:
            mine = [r for r in rows if (r["model"], r["dtype"]) == (config, dtype)]
            if not mine:
                continue
            cfg = CONFIGS[config]
            each = "a rank" if cfg["of"] == "rank" else "a step"
            sizes = f"width {cfg['width']}, {cfg['layers']} layers, {cfg['batch']} x {cfg['context']} tokens {each}"
            print(f"\n{config} {dtype}: {sizes}")
            for r in mine:
                t = r["tokens_per_s"]
                print(
                    f"  {r['ranks']} x {r['threads']}  {r['who']:<15}{number(t['median']):>9}  "
                    f"{'(' + number(t['min']) + ' to ' + number(t['max']) + ')':<22}"
                    f"peak {r['peak_bytes_per_rank'] / 2**20:>6,.0f} MiB a rank"
                )
            for q in ratios:
                if (q["model"], q["dtype"]) != (config, dtype):
                    continue
                t = q["tokens_per_s_ratio"]
                layout = "best layout of each" if q["layout"] == "best" else q["layout"].replace("x", " x ")
                memory = f", {q['peak_memory_ratio']:.2f}x the memory" if q["peak_memory_ratio"] else ""
                print(f"  {layout}: cadre = {t['median']:.2f}x {q['peer']} ({t['min']:.2f} to {t['max']:.2f}){memory}")
    if said:
        print()
    for line in said:
        print(line)


def read_args():
    cores = len(os.sched_getaffinity(0))
    layouts = f"1x{cores}" + (f",2x{cores // 2}" if cores > 1 else "")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--configs", default="124m,small,wide", help=", ".join(CONFIGS))
    p.add_argument("--dtypes", default="f32,bf16")
    p.add_argument("--layouts", default=layouts, help=f"RANKSxTHREADS, ... (here: {layouts})")
    p.add_argument("--who", default=",".join(CONTENDERS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=0, help="timed steps a round (0: the configuration's own number)")
    command = os.path.normpath(os.path.join(HERE, "../../build/release/cadre"))
    p.add_argument("--cadre", default=command, help="its command, words in front allowed")
    p.add_argument("--python", default="python3", help="the python that has torch, words in front allowed")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    for name, known in (("configs", CONFIGS), ("dtypes", ("f32", "bf16")), ("who", CONTENDERS)):
        words = [word for word in getattr(args, name).split(",") if word]
        wrong = [word for word in words if word not in known]
        if wrong or not words:
            p.error(f"--{name}: {wrong[0] if wrong else 'nothing'} is not one of {', '.join(known)}")
        setattr(args, name, words)
    args.layouts = [word for word in args.layouts.split(",") if word]
    for layout in args.layouts:
        ranks, _, threads = layout.partition("x")
        if not ranks.isdigit() or not threads.isdigit() or int(ranks) < 1 or int(threads) < 1:
            p.error(f"--layouts: {layout} is not RANKSxTHREADS, as 2x1 is")
        for config in args.configs:
            if CONFIGS[config]["of"] == "step" and CONFIGS[config]["batch"] % int(ranks):
                p.error(f"--layouts: {ranks} ranks do not divide the batch of {CONFIGS[config]['batch']} of {config}")
    if args.rounds < 1 or args.steps < 0:
        p.error("--rounds is at least 1, --steps at least 0")
    return args


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args, said = read_args(), []
    here, version = who_is_here(args, said)
    found = measure(args, here, said, lambda line: print(line, file=sys.stderr, flush=True))
    rows = rows_of(found)
    ratios = ratios_of(args, rows)
    if args.json:
        document = {"schema": 1, "bench": "peers", "machine": machine(), "torch": version}
        print(json.dumps(dict(document, rows=rows, ratios=ratios, said=said), indent=1))
    else:
        show(args, rows, ratios, version, said)
    return 0 if rows else 1


sys.exit(main())
