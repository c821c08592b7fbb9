# SPDX-License-Identifier: Apache-2.0
# torch.distributed.all_reduce (gloo) of f32 sums, timed as src/insight/bench_allreduce.c times Cadre.
#   gloo_allreduce.py RANKS SECONDS BYTES...
import os
import subprocess
import sys
import tempfile
import time

SAMPLES_MOST, SAMPLES_LEAST = 2000, 5


def rank_main(rank, size, store, seconds, sizes):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if size <= len(cores):
        os.sched_setaffinity(0, {cores[rank * len(cores) // size]})
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=size)

    def burst_us(x, burst):
        begin = time.perf_counter()
        for _ in range(burst):
            dist.all_reduce(x)
        return (time.perf_counter() - begin) * 1e6 / burst

    for nbytes in sizes:
        x = torch.zeros(nbytes // 4)
        burst_us(x, 2)
        once = burst_us(x, 3)
        burst = int(100 / (once + 1e-3)) + 1 if once < 100 else 1
        samples = int(min(SAMPLES_MOST, max(SAMPLES_LEAST, seconds * 1e6 / (once * burst + 1e-3))))
        plan = torch.tensor([burst, samples])
        dist.broadcast(plan, 0)
        burst, samples = plan.tolist()
        us = sorted(burst_us(x, burst) for _ in range(samples))
        if rank == 0:
            print("row gloo %d %.3f %.3f %.3f %d" % (nbytes, us[samples // 2], us[0], us[-1], burst * samples), flush=True)
    dist.destroy_process_group()


def main():
    if sys.argv[1] == "--rank":
        rank_main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5]), [int(b) for b in sys.argv[6:]])
        return 0
    size = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        ranks = [
            subprocess.Popen([sys.executable, __file__, "--rank", str(r), str(size), store] + sys.argv[2:])
            for r in range(size)
        ]
        codes = [r.wait() for r in ranks]
    return max(abs(c) for c in codes)


sys.exit(main())
