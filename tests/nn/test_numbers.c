/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a model: how it starts (pinned by a hash), its gradients against differences, that
 * neither depends on how a batch is cut, and what a pass without labels gives.
 */
#include "model_of.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

enum { ROWS = 4, LENGTH = 5, VOCAB = 7 };

static cadre_model *open_model(cadre_settings *set) {
    cadre_model *m = NULL;
    OK(cadre_model_open(&m, set));
    cadre_settings_close(&set);
    return m;
}

/* ---- how a model starts ---- */

/* Every name and element is the key of a draw, so this value is permanent: it is the start of every
 * gpt2-char that was ever trained. */
static void pinned_start(void **state) {
    (void)state;
    uint64_t hash = 0;
    cadre_model *m = open_model(SETTINGS("model.vocab", "65"));
    for (int id = 0; id < cadre_model_param_count(m); id++) {
        const cadre_parameter *p = cadre_model_param(m, id);
        int64_t n = cadre_dims_count(&p->dims);
        float *values = malloc((size_t)n * sizeof *values);
        cadre_model_draw(m, p, 0, n, p->dtype, values);
        hash = cadre_hash(values, (size_t)n * sizeof *values, hash);
        free(values);
    }
    cadre_model_close(&m);
    assert_int_equal(hash, 0xad24c30caf18efb9);
}

static void spread(const cadre_model *m, const char *name, double *ret_mean, double *ret_std) {
    const cadre_parameter *p = cadre_model_find(m, name);
    int64_t n = cadre_dims_count(&p->dims);
    float *values = malloc((size_t)n * sizeof *values);
    double sum = 0, squares = 0;
    cadre_model_draw(m, p, 0, n, p->dtype, values);
    for (int64_t i = 0; i < n; i++) sum += values[i];
    for (int64_t i = 0; i < n; i++) squares += values[i] * (double)values[i];
    *ret_mean = sum / (double)n;
    *ret_std = sqrt(squares / (double)n);
    free(values);
}

static void spreads(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double mean, std;
    } want[] = {
        {"transformer.wte.weight", 0, 0.02},
        {"transformer.wpe.weight", 0, 0.02},
        {"transformer.h.1.attn.c_attn.weight", 0, 0.02},
        {"transformer.h.1.attn.c_proj.weight", 0, 0.02 / 2.8284271247461903},
        {"transformer.h.3.mlp.c_proj.weight", 0, 0.02 / 2.8284271247461903},
        {"transformer.h.1.mlp.c_fc.weight", 0, 0.02},
        {"transformer.h.1.mlp.c_fc.bias", 0, 0},
        {"transformer.h.1.ln_1.weight", 1, 1},
        {"transformer.ln_f.bias", 0, 0},
    };
    cadre_model *m = open_model(SETTINGS("model.vocab", "65"));
    for (int i = 0; i < CADRE_COUNT(want); i++) {
        double mean, std;
        spread(m, want[i].name, &mean, &std);
        assert_true(fabs(mean - want[i].mean) <= 0.0006);
        assert_true(fabs(std - want[i].std) <= 0.03 * want[i].std);
    }
    cadre_model_close(&m);
}

/* Any part of a parameter can be drawn, in either type; other seeds and names give other draws. */
static void parts_of_a_draw(void **state) {
    (void)state;
    float whole[101], part[101], other[101];
    double wide[101];
    cadre_model *m = open_model(SETTINGS("model.vocab", "65"));
    cadre_model *m64 = open_model(SETTINGS("model.vocab", "65", "precision.compute", "f64"));
    cadre_model *seeded = open_model(SETTINGS("model.vocab", "65", "train.seed", "2"));
    const cadre_parameter *p = cadre_model_param(m, 0);
    cadre_model_draw(m, p, 0, 101, p->dtype, whole);
    for (int first = 0; first < 8; first++)
        for (int count = 0; count < 9; count++) {
            cadre_model_draw(m, p, first, count, p->dtype, part);
            assert_memory_equal(part, whole + first, (size_t)count * sizeof *part);
        }
    assert_int_equal(cadre_model_dtype(m64), CADRE_F64);
    cadre_model_draw(m64, cadre_model_param(m64, 0), 0, 101, cadre_model_param(m64, 0)->dtype,
                     wide);
    for (int i = 0; i < 101; i++) assert_true(wide[i] == whole[i]);
    cadre_model_draw(seeded, p, 0, 101, p->dtype, other);
    assert_memory_not_equal(other, whole, sizeof whole);
    cadre_model_draw(m, cadre_model_param(m, 1), 0, 101, cadre_model_param(m, 1)->dtype, other);
    assert_memory_not_equal(other, whole, sizeof whole);
    cadre_model_close(&m);
    cadre_model_close(&m64);
    cadre_model_close(&seeded);
}

static cadre_status uniform_params(cadre_block *b, const void *arg) {
    (void)arg;
    return cadre_param(b, "u", cadre_dims1(4000), cadre_uniform(0.5f));
}

static cadre_tensor *pass_through(cadre_tape *t, const cadre_block *b, cadre_tensor *x) {
    (void)t;
    (void)b;
    return x;
}

static void uniform_start(void **state) {
    (void)state;
    static float u[4000];
    cadre_model *m = NULL;
    double sum = 0, low = 1, high = -1;
    OK(cadre_model_chain(&m, &CADRE_BLOCK("a", uniform_params, pass_through, NULL), 1, NULL));
    cadre_model_draw(m, cadre_model_param(m, 0), 0, 4000, cadre_model_param(m, 0)->dtype, u);
    for (int i = 0; i < 4000; i++) {
        sum += u[i];
        low = fmin(low, u[i]);
        high = fmax(high, u[i]);
    }
    assert_true(low >= -0.5 && low < -0.495 && high <= 0.5 && high > 0.495);
    assert_true(fabs(sum / 4000) < 0.02);
    cadre_model_close(&m);
}

/* ---- gradients ---- */

static void tokens(int32_t *inputs, int32_t *labels) {
    for (int i = 0; i < ROWS * LENGTH; i++) {
        inputs[i] = (i * 5 + i / 3) % VOCAB;
        labels[i] = i % 9 == 4 ? -1 : (i * 3) % VOCAB;
    }
}

static double loss_at(rig *r, const cadre_pass *pass) {
    OK(cadre_tape_begin(r->tape, pass));
    cadre_tensor *loss = cadre_model_forward(r->model, r->tape);
    OK(cadre_tape_status(r->tape));
    return ((double *)cadre_tensor_data(loss))[0];
}

/* Central differences of fourth order. */
static double slope(rig *r, const cadre_pass *pass, double *at) {
    static const double weight[4] = {1, -8, 8, -1}, step = 1e-5;
    double kept = *at, sum = 0;
    for (int i = 0; i < 4; i++) {
        *at = kept + step * (i < 2 ? i - 2 : i - 1);
        sum += weight[i] * loss_at(r, pass);
    }
    *at = kept;
    return sum / (12 * step);
}

/* Every parameter, at a few of its elements. */
static void check_against_differences(rig *r, const cadre_pass *pass) {
    double loss[2];
    for (int id = 0; id < cadre_model_param_count(r->model);
         id++) { /* away from symmetric starts */
        double *v = cadre_plain_store_value(r->store, id);
        int64_t n = cadre_dims_count(&cadre_model_param(r->model, id)->dims);
        for (int64_t i = 0; i < n; i++) v[i] += 0.2 * sin(0.7 * (double)(i + 31 * id));
    }
    rig_step(r, pass, loss);
    /* Copies: every forward of a training pass adds the head's gradient to what is there. */
    double *kept[64];
    for (int id = 0; id < cadre_model_param_count(r->model); id++) {
        size_t bytes =
            (size_t)cadre_dims_count(&cadre_model_param(r->model, id)->dims) * sizeof(double);
        kept[id] = malloc(bytes);
        memcpy(kept[id], cadre_plain_store_gradient(r->store, id), bytes);
    }
    for (int id = 0; id < cadre_model_param_count(r->model); id++) {
        const cadre_parameter *p = cadre_model_param(r->model, id);
        int64_t n = cadre_dims_count(&p->dims), stride = n / 5 + 1;
        double *v = cadre_plain_store_value(r->store, id);
        const double *got = kept[id];
        for (int64_t i = 0; i < n; i += stride) {
            double want = slope(r, pass, &v[i]);
            if (!(fabs(got[i] - want) <= 1e-7 * (1 + fabs(want))))
                fail_msg("%s[%d]: %.12g, differences %.12g", p->name, (int)i, got[i], want);
        }
        free(kept[id]);
    }
}

static void gradients_of_gpt2(void **state) {
    (void)state;
    static const char *const tied[] = {"true", "false"};
    int32_t inputs[ROWS * LENGTH], labels[ROWS * LENGTH];
    tokens(inputs, labels);
    for (int i = 0; i < 2; i++) {
        rig r;
        rig_open(&r,
                 open_model(SETTINGS("model.layers", "2", "model.heads", "2", "model.width", "8",
                                     "model.context", "6", "model.vocab", "7", "model.dropout",
                                     "0.2", "model.tied", tied[i], "precision.compute", "f64")),
                 "ref");
        cadre_pass pass = pass_of(inputs, labels, ROWS, LENGTH, true);
        pass.label_smoothing = 0.1;
        check_against_differences(&r, &pass);
        rig_close(&r);
    }
}

/* Features come in f32 whatever the model computes in. */
static void gradients_of_mlp(void **state) {
    (void)state;
    float features[ROWS * 3];
    int32_t labels[ROWS] = {2, 0, -1, 1};
    rig r;
    for (int i = 0; i < ROWS * 3; i++) features[i] = (float)sin(i * 2.3);
    rig_open(&r,
             open_model(SETTINGS("model.kind", "mlp", "model.width", "6", "model.context", "3",
                                 "model.vocab", "4", "model.dropout", "0.3", "precision.compute",
                                 "f64")),
             "ref");
    cadre_pass pass = pass_of(features, labels, ROWS, 3, true);
    pass.input[0].tensor.dtype = CADRE_F32;
    pass.input[1].tensor.dims = cadre_dims1(ROWS);
    check_against_differences(&r, &pass);
    rig_close(&r);
}

/* Two halves of a batch, accumulated, are the whole: also the masks of dropout. */
static void halves_make_the_whole(void **state) {
    (void)state;
    int32_t inputs[ROWS * LENGTH], labels[ROWS * LENGTH];
    double whole[2], half[2][2];
    rig r;
    tokens(inputs, labels);
    rig_open(&r,
             open_model(SETTINGS("model.layers", "1", "model.heads", "2", "model.width", "8",
                                 "model.context", "6", "model.vocab", "7", "model.dropout", "0.4",
                                 "precision.compute", "f64")),
             "ref");
    cadre_pass pass = pass_of(inputs, labels, ROWS, LENGTH, true);
    rig_step(&r, &pass, whole);
    int params = cadre_model_param_count(r.model);
    double *kept[64];
    for (int id = 0; id < params; id++) {
        size_t bytes =
            (size_t)cadre_dims_count(&cadre_model_param(r.model, id)->dims) * sizeof(double);
        kept[id] = malloc(bytes);
        memcpy(kept[id], cadre_plain_store_gradient(r.store, id), bytes);
    }
    cadre_plain_store_zero(r.store);
    for (int h = 0; h < 2; h++) {
        int at = h * ROWS / 2;
        cadre_pass part =
            pass_of(inputs + at * LENGTH, labels + at * LENGTH, ROWS / 2, LENGTH, true);
        part.key.samples += at;
        OK(cadre_tape_begin(r.tape, &part));
        cadre_tensor *loss = cadre_model_forward(r.model, r.tape);
        OK(cadre_tape_backward(r.tape, loss, NULL));
        memcpy(half[h], cadre_tensor_data(loss), sizeof half[h]);
    }
    assert_true(fabs(half[0][0] + half[1][0] - whole[0]) <= 1e-13 * whole[0]);
    assert_true(half[0][1] + half[1][1] == whole[1]);
    for (int id = 0; id < params; id++) {
        int64_t n = cadre_dims_count(&cadre_model_param(r.model, id)->dims);
        double most = 0;
        const double *got = cadre_plain_store_gradient(r.store, id);
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(got[i] - kept[id][i]));
        assert_true(most <= 1e-13);
        free(kept[id]);
    }
    rig_close(&r);
}

/* Without labels the logits come out; dropout does nothing outside training; a shorter text than
 * the context is fine. */
static void without_labels(void **state) {
    (void)state;
    int32_t inputs[ROWS * LENGTH], labels[ROWS * LENGTH];
    rig r;
    tokens(inputs, labels);
    rig_open(&r,
             open_model(SETTINGS("model.layers", "2", "model.heads", "2", "model.width", "8",
                                 "model.context", "6", "model.vocab", "7", "model.dropout", "0.5",
                                 "precision.compute", "f64")),
             "ref");
    cadre_pass pass = pass_of(inputs, labels, ROWS, LENGTH, false);
    double loss = loss_at(&r, &pass), sum = 0;
    pass = pass_of(inputs, NULL, ROWS, LENGTH, false);
    OK(cadre_tape_begin(r.tape, &pass));
    cadre_tensor *out = cadre_model_forward(r.model, r.tape);
    OK(cadre_tape_status(r.tape));
    cadre_dims dims = cadre_tensor_dims(out), want = cadre_dims3(ROWS, LENGTH, VOCAB);
    assert_true(cadre_dims_equal(&dims, &want));
    const double *logits = cadre_tensor_data(out);
    for (int i = 0; i < ROWS * LENGTH; i++) {
        double all = 0;
        for (int v = 0; v < VOCAB; v++) all += exp(logits[i * VOCAB + v]);
        if (labels[i] >= 0) sum += log(all) - logits[i * VOCAB + labels[i]];
    }
    assert_true(fabs(loss - sum) <= 1e-12 * sum);
    pass = pass_of(inputs, NULL, 1, 7, false);
    OK(cadre_tape_begin(r.tape, &pass));
    (void)cadre_model_forward(r.model, r.tape);
    FAILS(cadre_tape_status(r.tape), CADRE_EUSAGE, "7");
    rig_close(&r);
}

/* The dry pass of a whole model counts what the real one holds. */
static void dry_pass_counts_the_same(void **state) {
    (void)state;
    static const char *const backends[] = {"meta", "cpu", "ref"};
    int32_t inputs[ROWS * LENGTH], labels[ROWS * LENGTH];
    size_t peak[3][2];
    double flops[3];
    tokens(inputs, labels);
    for (int i = 0; i < 3; i++) {
        rig r;
        double loss[2];
        rig_open(&r,
                 open_model(SETTINGS("model.layers", "3", "model.heads", "2", "model.width", "16",
                                     "model.context", "6", "model.vocab", "7")),
                 backends[i]);
        cadre_pass pass = pass_of(inputs, labels, ROWS, LENGTH, false);
        OK(cadre_tape_begin(r.tape, &pass));
        (void)cadre_model_forward(r.model, r.tape);
        OK(cadre_tape_status(r.tape));
        peak[i][0] = cadre_tape_peak_bytes(r.tape);
        pass.training = true;
        if (i > 0) {
            rig_step(&r, &pass, loss);
        } else {
            OK(cadre_tape_begin(r.tape, &pass));
            OK(cadre_tape_backward(r.tape, cadre_model_forward(r.model, r.tape), NULL));
        }
        peak[i][1] = cadre_tape_peak_bytes(r.tape);
        flops[i] = r.queue->cost.flops;
        rig_close(&r);
    }
    for (int i = 1; i < 3; i++) {
        assert_int_equal(peak[i][0], peak[0][0]);
        assert_int_equal(peak[i][1], peak[0][1]);
        assert_true(flops[i] == flops[0]);
    }
    assert_true(peak[0][0] < peak[0][1] / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_start),
        cmocka_unit_test(spreads),
        cmocka_unit_test(parts_of_a_draw),
        cmocka_unit_test(uniform_start),
        cmocka_unit_test(gradients_of_gpt2),
        cmocka_unit_test(gradients_of_mlp),
        cmocka_unit_test(halves_make_the_whole),
        cmocka_unit_test(without_labels),
        cmocka_unit_test(dry_pass_counts_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
