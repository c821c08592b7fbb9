/* SPDX-License-Identifier: Apache-2.0
 *
 * Where and how operations run: a backend (a table of kernels), a pool of threads, and a queue.
 * Every operation takes a queue; on cpu it is immediate, later backends may only enqueue. Waiting
 * for results is a call of its own.
 */
#ifndef CADRE_TENSOR_DEVICE_H
#define CADRE_TENSOR_DEVICE_H

#include "base/threads.h"
#include "tensor/tensor.h"

/* What an operation costs; summed by the meta backend and compared with measured times by insight.
 */
typedef struct cadre_cost {
    double flops;        /* multiply-adds count two */
    double matmul_flops; /* the part of it in matrix products */
    double bytes;        /* moved to and from memory, at least */
} cadre_cost;

/* Bytes that kernels keep a thread: scratch of our own (counted as workspace), and operands that
 * oneDNN packs for a product (not counted: its own). */
typedef struct cadre_kept {
    int64_t scratch, packed;
} cadre_kept;

typedef struct cadre_queue {
    const struct cadre_backend *backend; /* tensor/ops/ops.h */
    cadre_pool *pool;                    /* borrowed; NULL: the caller alone */
    bool meta;                           /* shapes and costs only, no data */
    cadre_cost cost; /* of all operations since the queue was opened (counted on every backend) */
    cadre_kept kept; /* on meta: the most of all operations so far */
    struct cadre_op_watch *watch; /* tensor/ops/ops.h; NULL: nobody looks */
} cadre_queue;

/* `backend`: "ref", "cpu" or "meta"; an unknown name is CADRE_EUSAGE and lists them. */
cadre_status cadre_queue_open(cadre_queue **ret_queue, const char *backend, cadre_pool *pool);
/* Blocks the host until all that was enqueued is done. */
cadre_status cadre_queue_wait(cadre_queue *q);
void cadre_queue_close(cadre_queue **q);
/* The numbers that a run computes in: "f32", "bf16", "f64", or "auto": bf16 where the processor has
 * instructions for it, else f32. */
cadre_status cadre_compute_dtype(const char *name, cadre_dtype *ret_dtype);
bool cadre_has_bf16(void); /* does this processor have instructions for bf16? */
/* What a pool thread must run once before it calls kernels (one OpenMP thread a pool thread). */
void cadre_kernel_thread_start(int worker);
/* What the library of matrix products takes for itself in a process of so many threads that pack so
 * much: pages of its code, generated kernels, packing memory. No library says; measured
 * (tensor/README.md). */
int64_t cadre_library_bytes(int threads, int64_t packed);

#endif
