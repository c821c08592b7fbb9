#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PyTorch's Gloo: sh gloo.sh RANKS SECONDS BYTES... Prints rows as open_mpi.sh does.
set -eu
if ! python3 -c 'import torch.distributed as d; assert d.is_gloo_available()' >/dev/null 2>&1; then
    echo "missing gloo: python3 here has no torch; install it with: pip install torch (in a virtual environment on the PATH)"
    exit 0
fi
exec python3 "$(dirname "$0")/gloo_allreduce.py" "$@"
