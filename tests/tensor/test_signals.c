/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals that arrive while products run leave no trace in data: the handler's frame must not lie
 * where a kernel works.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "support/check.h"
#include "tensor/ops/cpu/dnnl.h"

enum { MOST = 1024 * 512, RUNS = 300 };

static volatile sig_atomic_t ticks, astray;
static const char *stack_low, *stack_high;

/* A frame outside this thread's stack lies in somebody's data. */
static void tick(int number) {
    const char *at = __builtin_frame_address(0);
    (void)number;
    ticks++;
    astray += at < stack_low || at >= stack_high;
}

static void find_stack(void) {
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &low, &bytes), 0);
    pthread_attr_destroy(&attributes);
    stack_low = low;
    stack_high = stack_low + bytes;
}

static void set_timer(long microseconds) {
    const struct itimerval often = {{0, microseconds}, {0, microseconds}};
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static float *numbers(int seed) {
    float *x = aligned_alloc(64, MOST * sizeof *x);
    if (!x) abort();
    for (int64_t i = 0; i < MOST; i++) x[i] = (float)((i * 7919 + seed) % 1000) / 500 - 1;
    return x;
}

static const cadre_product shapes[] = {
    {.m = 96, .n = 384, .k = 128, .lda = 128, .ldb = 384, .ldc = 384},
    {.m = 96, .n = 128, .k = 512, .lda = 512, .ldb = 512, .ldc = 128, .b_transposed = true},
    {.m = 64, .n = 512, .k = 768, .lda = 128, .ldb = 512, .ldc = 512, .a_transposed = true},
    {.m = 64,
     .n = 128,
     .k = 768,
     .lda = 65,
     .ldb = 128,
     .ldc = 128,
     .a_transposed = true,
     .add = true},
};

static void products_under_a_storm_of_signals(void **state) {
    (void)state;
    float *a = numbers(1), *b = numbers(2), *c = numbers(3);
    struct sigaction action, before;
    find_stack();
    memset(&action, 0, sizeof action);
    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before);
    set_timer(100);
    for (int i = 0; i < RUNS; i++)
        for (int k = 0; k < CADRE_COUNT(shapes); k++) OK(cadre_product_run(&shapes[k], a, b, c));
    set_timer(0);
    sigaction(SIGALRM, &before, NULL);
    assert_true(ticks > 100);
    assert_int_equal(astray, 0);
    free(a);
    free(b);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_under_a_storm_of_signals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
