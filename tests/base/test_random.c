/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox against the known answers of Random123, what is drawn from it, permutations, hashes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/text.h"
#include "support/check.h"

static void philox_gives_the_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int r = 0; r < CADRE_COUNT(rows); r++) {
        cadre_philox got =
            cadre_philox_draw((uint64_t)rows[r].key[1] << 32 | rows[r].key[0],
                              (uint64_t)rows[r].counter[1] << 32 | rows[r].counter[0],
                              (uint64_t)rows[r].counter[3] << 32 | rows[r].counter[2]);
        for (int i = 0; i < 4; i++) assert_int_equal(got.v[i], rows[r].want[i]);
    }
}

static void keys_differ_by_seed_and_purpose(void **state) {
    (void)state;
    assert_true(cadre_rng_key(1, "weight") == cadre_rng_key(1, "weight"));
    assert_true(cadre_rng_key(1, "weight") != cadre_rng_key(2, "weight"));
    assert_true(cadre_rng_key(1, "weight") != cadre_rng_key(1, "shuffle"));
    /* Part of checkpoints and of a run's identity: permanent. */
    assert_true(cadre_rng_key(1, "weight") == cadre_hash("weight", 6, 1));
}

static void uniforms_stay_below_one(void **state) {
    (void)state;
    assert_true(cadre_uniform_f32(0) == 0);
    assert_true(cadre_uniform_f32(UINT32_MAX) < 1);
    assert_true(cadre_uniform_f32(0x80000000u) == 0.5f);
    assert_true(cadre_uniform_f64(UINT32_MAX, UINT32_MAX) < 1);
    assert_true(cadre_uniform_f64(0x80000000u, 0) == 0.5);
    assert_true(cadre_uniform_f64(0, 1u << 11) == 0x1p-53);
}

static void normals_have_the_moments(void **state) {
    (void)state;
    enum { N = 100000 };
    double sum = 0, square = 0, fourth = 0, product = 0, two[2];
    for (uint64_t i = 0; i < N; i++) {
        cadre_normal_pair(cadre_philox_draw(cadre_rng_key(3, "normal"), i, 0), two);
        for (int k = 0; k < 2; k++) {
            sum += two[k];
            square += two[k] * two[k];
            fourth += two[k] * two[k] * two[k] * two[k];
        }
        product += two[0] * two[1];
    }
    assert_true(fabs(sum / (2 * N)) < 0.01);
    assert_true(fabs(square / (2 * N) - 1) < 0.02);
    assert_true(fabs(fourth / (2 * N) - 3) < 0.1);
    assert_true(fabs(product / N) < 0.015);
    cadre_normal_pair((cadre_philox){{UINT32_MAX, UINT32_MAX, 0, 0}}, two); /* the farthest */
    assert_true(isfinite(two[0]) && two[0] > 8);
    cadre_normal_pair((cadre_philox){{0, 0, 0, 0}}, two);
    assert_true(two[0] == 0 && two[1] == 0);
}

static void below_is_even_and_in_range(void **state) {
    (void)state;
    int seen[7] = {0};
    for (uint64_t i = 0; i < 70000; i++) {
        cadre_philox b = cadre_philox_draw(5, i, 0);
        uint64_t at = cadre_below((uint64_t)b.v[0] << 32 | b.v[1], 7);
        assert_true(at < 7);
        seen[at]++;
    }
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9500, 10500);
    assert_int_equal(cadre_below(UINT64_MAX, 10), 9);
    assert_int_equal(cadre_below(0, 10), 0);
    assert_int_equal(cadre_below(UINT64_MAX, 1), 0);
}

static void permutations_are_one_to_one(void **state) {
    (void)state;
    enum { MOST = 2000 };
    static int seen[MOST];
    memset(seen, 0, sizeof seen);
    for (int n = 1; n <= MOST; n += n < 300 ? 1 : 17) {
        for (int i = 0; i < n; i++) {
            uint64_t at = cadre_permute(9, (uint64_t)n, (uint64_t)i);
            assert_true(at < (uint64_t)n);
            assert_int_not_equal(seen[at], n); /* n marks this round */
            seen[at] = n;
        }
    }
}

static void a_large_permutation_is_one_to_one(void **state) {
    (void)state;
    enum { N = 300007 };
    unsigned char *seen = calloc(N, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t at = cadre_permute(77, N, i);
        assert_true(at < N);
        assert_int_equal(seen[at], 0);
        seen[at] = 1;
    }
    free(seen);
    static const uint64_t big[] = {1ull << 40, (1ull << 40) + 1, (1ull << 62) + 3, UINT64_MAX};
    for (int k = 0; k < CADRE_COUNT(big); k++)
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t a = cadre_permute(1, big[k], i);
            assert_true(a < big[k]);
            assert_true(a != cadre_permute(1, big[k], i + 1000));
        }
}

/* Where elements go is not tied to where they were, and two keys are two orders. */
static void permutations_look_shuffled(void **state) {
    (void)state;
    enum { N = 5000 };
    double sum = 0;
    int fixed = 0, same = 0, rising = 0;
    uint64_t before = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t at = cadre_permute(4, N, i);
        sum += ((double)i - (N - 1) / 2.0) * ((double)at - (N - 1) / 2.0);
        fixed += at == i;
        same += at == cadre_permute(5, N, i);
        rising += i > 0 && at > before;
        before = at;
    }
    double correlation = sum / ((double)N * ((double)N * N - 1) / 12);
    assert_true(fabs(correlation) < 0.06);
    assert_true(fixed < 10);
    assert_true(same < 10);
    assert_in_range(rising, N / 2 - 150, N / 2 + 150);
}

/* Every order of three comes up about equally often over keys. */
static void small_permutations_cover_all_orders(void **state) {
    (void)state;
    int seen[27] = {0}, orders = 0;
    for (uint64_t key = 0; key < 6000; key++) {
        uint64_t word = 0;
        for (uint64_t i = 0; i < 3; i++) word = 3 * word + cadre_permute(key, 3, i);
        seen[word]++;
    }
    for (int i = 0; i < 27; i++) {
        if (!seen[i]) continue;
        orders++;
        assert_in_range(seen[i], 600, 1500);
    }
    assert_int_equal(orders, 6);
}

static void hashes_stream_to_the_same_value(void **state) {
    (void)state;
    unsigned char data[3000];
    for (int i = 0; i < 3000; i++) data[i] = (unsigned char)(i * 7 + i / 11);
    cadre_hasher *h = NULL;
    OK(cadre_hasher_open(&h));
    for (size_t at = 0, n = 1; at < sizeof data; at += n, n = n * 2 + 1) {
        if (n > sizeof data - at) n = sizeof data - at;
        cadre_hasher_add(h, data + at, n);
    }
    assert_true(cadre_hasher_value(h) == cadre_hash(data, sizeof data, 0));
    cadre_hasher_close(&h);
    assert_null(h);
    /* XXH3's published values: part of file formats. */
    assert_true(cadre_hash("", 0, 0) == 0x2d06800538d394c2ull);
    assert_true(cadre_hash_text("") == 0x2d06800538d394c2ull);
    assert_true(cadre_hash_text("abc") == 0x78af5f94892f3950ull);
    assert_true(cadre_hash("abc", 3, 1) != cadre_hash("abc", 3, 0));
}

/* The examples of FIPS 180, and lengths around the end of a block against `sha256sum`. */
static void sha256_gives_the_published_sums(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *sum;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"0123456789012345678901234567890123456789012345678901234",
         "f34d5a0f80c0cbf84c8c0b90218c22637abd199965249da736a20143c8c9c9d9"},
        {"0123456789012345678901234567890123456789012345678901234567890123",
         "9674d9e078535b7cec43284387a6ee39956188e735a85452b0050b55341cda56"},
    };
    static char many[1000000];
    char sum[65];
    for (int i = 0; i < CADRE_COUNT(rows); i++)
        assert_string_equal(cadre_sha256(sum, rows[i].text, strlen(rows[i].text)), rows[i].sum);
    memset(many, 'a', sizeof many);
    assert_string_equal(cadre_sha256(sum, many, sizeof many),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(keys_differ_by_seed_and_purpose),
        cmocka_unit_test(uniforms_stay_below_one),
        cmocka_unit_test(normals_have_the_moments),
        cmocka_unit_test(below_is_even_and_in_range),
        cmocka_unit_test(permutations_are_one_to_one),
        cmocka_unit_test(a_large_permutation_is_one_to_one),
        cmocka_unit_test(permutations_look_shuffled),
        cmocka_unit_test(small_permutations_cover_all_orders),
        cmocka_unit_test(hashes_stream_to_the_same_value),
        cmocka_unit_test(sha256_gives_the_published_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
