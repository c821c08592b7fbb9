#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# MPI's sum over RANKS ranks, compiled here and now: sh open_mpi.sh RANKS SECONDS BYTES...
# Prints "row WHO BYTES MEDIAN MIN MAX REPEATS" (us), or "missing ..." when there is no MPI.
set -eu
ranks=$1
shift
if ! command -v mpicc >/dev/null 2>&1 || ! command -v mpirun >/dev/null 2>&1; then
    echo "missing open-mpi: no mpicc or mpirun here; install it with: apt-get install openmpi-bin libopenmpi-dev"
    exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -O3 -o "$work/mpi_allreduce" "$here/mpi_allreduce.c"
who=mpi
flags=
case $(mpirun --version 2>&1) in
*"Open MPI"* | *OpenRTE*)
    who=open-mpi
    flags="--allow-run-as-root"
    [ "$ranks" -le "$(nproc)" ] || flags="$flags --oversubscribe"
    ;;
*HYDRA* | *MPICH*) who=mpich ;;
esac
# shellcheck disable=SC2086
mpirun $flags -np "$ranks" "$work/mpi_allreduce" "$who" "$@"
