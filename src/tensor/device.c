/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues, and what a thread must set up before it runs kernels.
 */
#include "tensor/device.h"

#include <omp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tensor/ops/ops.h"

void cadre_kernel_thread_start(int worker) {
    (void)worker;
    /* Our pool cuts the work; a second pool on the same cores would cost a third. */
    omp_set_num_threads(1);
}

bool cadre_has_bf16(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

cadre_status cadre_compute_dtype(const char *name, cadre_dtype *ret_dtype) {
    static const cadre_dtype dtypes[] = {CADRE_F32, CADRE_BF16, CADRE_F64};
    cadre_dtype dtype = CADRE_DTYPES;
    for (int i = 0; i < CADRE_COUNT(dtypes); i++)
        if (strcmp(name, cadre_dtype_name(dtypes[i])) == 0) dtype = dtypes[i];
    if (strcmp(name, "auto") == 0) dtype = cadre_has_bf16() ? CADRE_BF16 : CADRE_F32;
    CADRE_CHECK(dtype < CADRE_DTYPES, CADRE_EUSAGE,
                "precision.compute=%s: it takes f32, bf16, auto or f64", name);
    *ret_dtype = dtype;
    return CADRE_OK;
}

int64_t cadre_library_bytes(int threads, int64_t packed) {
    enum { PROCESS = 6 << 20, THREAD = 2 << 20, HELD = 4 };
    return PROCESS + threads * (THREAD + HELD * packed);
}

cadre_status cadre_queue_open(cadre_queue **ret_queue, const char *backend, cadre_pool *pool) {
    const cadre_backend *b = cadre_backend_find(backend);
    if (!b) {
        char names[128] = "";
        for (int i = 0; i < cadre_backend_count(); i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                     cadre_backend_at(i)->name);
        return CADRE_FAIL(CADRE_EUSAGE, "unknown backend %s; it takes %s", backend, names);
    }
    cadre_queue *q = NULL;
    CADRE_TRY(cadre_alloc(&q, CADRE_MEM_OTHER, sizeof *q));
    q->backend = b;
    q->pool = pool;
    q->meta = strcmp(b->name, "meta") == 0;
    cadre_kernel_thread_start(0);
    *ret_queue = q;
    return CADRE_OK;
}

/* Every kernel of the backends here has finished when it returns. */
cadre_status cadre_queue_wait(cadre_queue *q) {
    (void)q;
    return CADRE_OK;
}

void cadre_queue_close(cadre_queue **q) {
    cadre_free(q);
}
