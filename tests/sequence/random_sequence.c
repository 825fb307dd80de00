/* Random sequences against the same calls alone. */
#include "sequence/random_sequence.h"

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every tensor is [m, n], a row of n, or the transpose of one: [n, m]. */
typedef enum form { FORM_MN, FORM_NM, FORM_N, FORM_HALF, N_FORMS } form;
static const char *const size_text[N_FORMS] = {"m, n", "n, m", "n", "m // 2, n"};

enum {
    MAX_TENSORS = 160,
    MAX_CALLS = 80,
    MAX_EXTERNALS = 12,
    MAX_SIZE = 40,
    MAX_BYTES = (MAX_SIZE + 8) * (MAX_SIZE + 8) * 4
};

typedef struct tensor {
    int32_t id, base; /* base: -1, else the tensor that it views */
    form form;
    bool is_written, is_transposed, is_input;
    int external; /* -1: none */
    int offset_rows; /* 1: the second half of the rows */
} tensor;

typedef struct call {
    int op; /* -1: the callback */
    int tensor[3];
    int n;
} call;

enum { N_OPS = 8 };
static const struct {
    const char *formula;
    form out, in[2];
    int n_in;
} kinds[N_OPS] = {
    {"Y[i,j] = min(2 * X[i,j] + 1, 1000)", FORM_MN, {FORM_MN}, 1},
    {"Y[i,j] = max(A[i,j] - B[i,j], -500)", FORM_MN, {FORM_MN, FORM_MN}, 2},
    {"Y[i,j] = min(A[i,j] + B[j,i], 700)", FORM_MN, {FORM_MN, FORM_NM}, 2},
    {"Y[j] = sum[i](max(min(X[i,j], 9), -9))", FORM_N, {FORM_MN}, 1},
    {"Y[i,j] = max(X[i,j] - R[j], -300)", FORM_MN, {FORM_MN, FORM_N}, 2},
    {"scalar s; Y[i,j] = min(A[i,j] + s * R[j], 900)", FORM_MN, {FORM_MN, FORM_N}, 2},
    {"Y[i,j] = min(sum[k](min(X[i,k], 50)) - X[i,j], 800)", FORM_MN, {FORM_MN}, 1},
    {"Y[j] = sum[i](max(min(X[i,j], 9), -9))", FORM_N, {FORM_HALF}, 1},
};

struct random_sequence {
    md_sequence *sequence;
    md_op *op[N_OPS];
    tensor tensor[MAX_TENSORS];
    call call[MAX_CALLS];
    int n_tensors, n_calls, n_externals;
    int32_t scalar; /* id */
    int scalar_external;
    float *memory[MAX_EXTERNALS], *copy[MAX_EXTERNALS];
    int64_t last[2];
};

static int below(uint64_t *state, int n)
{
    return (int)(check_random(state) % (uint64_t)n);
}

static void must(md_status s)
{
    if (s == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    abort();
}

static md_status negate(void *user, md_stream stream, const md_tensor *t, int32_t n, const int64_t *size)
{
    (void)user, (void)stream, (void)size;
    if (n != 1 || t->rank != 2)
        return MD_INTERNAL;
    for (int64_t i = 0; i < t->size[0]; i++)
        for (int64_t k = 0; k < t->size[1]; k++)
            ((float *)t->data)[i * t->stride[0] + k * t->stride[1]] *= -1.0f;
    return MD_OK;
}

/* ---- Making */

static int add_tensor(random_sequence *r, form f, md_sequence_role role)
{
    tensor *t = &r->tensor[r->n_tensors];
    md_sequence_tensor x = {.role = role, .size = size_text[f]};
    char stride[32] = "n + 3, 1";
    if (role == MD_SEQUENCE_TEMPORARY && f == FORM_MN && r->n_tensors % 3 == 0)
        x.stride = stride;
    *t = (tensor){.base = -1, .form = f, .external = -1};
    must(md_sequence_add_tensor(&t->id, r->sequence, &x));
    if (role == MD_SEQUENCE_INPUT || role == MD_SEQUENCE_OUTPUT) {
        t->external = r->n_externals++;
        t->is_written = t->is_input = role == MD_SEQUENCE_INPUT;
    }
    return r->n_tensors++;
}

/* A contiguous external's transpose or half. */
static int add_view(random_sequence *r, uint64_t *state, int base, form f)
{
    tensor *t = &r->tensor[r->n_tensors], *b = &r->tensor[base];
    const bool second = f == FORM_HALF && below(state, 2);
    md_sequence_tensor x = {.view_of = b->id, .size = size_text[f]};
    if (f == FORM_NM)
        x.stride = "1, n";
    if (second)
        x.offset = "(m - m // 2) * n";
    *t = (tensor){.base = base,
                  .form = f,
                  .external = -1,
                  .is_written = true,
                  .is_input = b->is_input,
                  .is_transposed = f == FORM_NM,
                  .offset_rows = second};
    must(md_sequence_add_tensor(&t->id, r->sequence, &x));
    return r->n_tensors++;
}

/* A random written tensor of a form; -1: none. Later ones are likelier. */
static int pick(const random_sequence *r, uint64_t *state, form f)
{
    for (int tries = 0; tries < 60; tries++) {
        const int a = below(state, r->n_tensors), b = below(state, r->n_tensors), i = a > b ? a : b;
        if (r->tensor[i].is_written && r->tensor[i].form == f)
            return i;
    }
    return -1;
}

static bool is_part(const random_sequence *r, int a, int b)
{
    return a == b || r->tensor[a].base == b || r->tensor[b].base == a ||
           (r->tensor[a].base >= 0 && r->tensor[a].base == r->tensor[b].base);
}

/* An output: new, or (sometimes) an external output, or the memory of an input of the call. */
static int pick_output(random_sequence *r, uint64_t *state, const call *c, form f)
{
    const int way = below(state, 6);
    if (way == 0)
        for (int i = 0; i < r->n_tensors; i++) {
            bool is_free = r->tensor[i].external >= 0 && !r->tensor[i].is_input && r->tensor[i].form == f;
            for (int k = 1; k < c->n; k++)
                is_free = is_free && !is_part(r, i, c->tensor[k]);
            if (is_free && below(state, 2))
                return i;
        }
    if (way == 1 && c->op <= 1 && r->tensor[c->tensor[1]].form == f && !r->tensor[c->tensor[1]].is_input &&
        (c->n < 3 || !is_part(r, c->tensor[1], c->tensor[2])))
        return c->tensor[1];
    return add_tensor(r, f, MD_SEQUENCE_TEMPORARY);
}

static void add_callback(random_sequence *r, uint64_t *state)
{
    const int t = pick(r, state, FORM_MN);
    if (t < 0 || r->tensor[t].is_input)
        return;
    must(md_sequence_add_callback(r->sequence, negate, NULL, &r->tensor[t].id, 1));
    r->call[r->n_calls++] = (call){.op = -1, .tensor = {t}, .n = 1};
}

static void add_call(random_sequence *r, uint64_t *state)
{
    call c = {.op = below(state, N_OPS), .n = 1};
    md_sequence_arg arg[4] = {{0}};
    int n = 0;
    for (int k = 0; k < kinds[c.op].n_in; k++, c.n++)
        if ((c.tensor[c.n] = pick(r, state, kinds[c.op].in[k])) < 0)
            return;
    c.tensor[0] = pick_output(r, state, &c, kinds[c.op].out);
    for (int k = 0; k < c.n; k++) {
        if (c.op == 5 && k == 0)
            arg[n++] = (md_sequence_arg){.id = r->scalar};
        arg[n++] = (md_sequence_arg){.id = r->tensor[c.tensor[k]].id};
    }
    must(md_sequence_add_call(r->sequence, r->op[c.op], arg, n));
    tensor *out = &r->tensor[c.tensor[0]];
    out->is_written = true;
    r->call[r->n_calls++] = c;
    if (out->external >= 0 && out->form == FORM_MN && r->n_tensors < MAX_TENSORS - 8 && below(state, 2)) {
        add_view(r, state, c.tensor[0], FORM_NM);
        add_view(r, state, c.tensor[0], FORM_HALF);
    }
}

random_sequence *random_sequence_make(md_context *context, uint64_t *state, int n_calls, bool poisons)
{
    random_sequence *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    must(md_sequence_create(&r->sequence, context, &(md_sequence_options){.name = "random", .poisons = poisons}));
    for (int i = 0; i < N_OPS; i++)
        must(md_op_create(&r->op[i], context, kinds[i].formula, NULL));
    must(md_sequence_add_dim(NULL, r->sequence, "m", 0, MAX_SIZE));
    must(md_sequence_add_dim(NULL, r->sequence, "n", 0, MAX_SIZE));
    for (int i = 0; i < 2; i++)
        add_tensor(r, FORM_MN, MD_SEQUENCE_INPUT);
    add_tensor(r, FORM_N, MD_SEQUENCE_INPUT);
    add_view(r, state, 0, FORM_NM);
    add_view(r, state, 1, FORM_HALF);
    must(md_sequence_add_scalar(&r->scalar, r->sequence, "s", MD_F64));
    r->scalar_external = r->n_externals++;
    for (int i = 0; i < 3; i++)
        add_tensor(r, i == 2 ? FORM_N : FORM_MN, MD_SEQUENCE_OUTPUT);
    while (r->n_calls < n_calls && r->n_tensors < MAX_TENSORS - 4) {
        if (below(state, 12) == 0)
            add_callback(r, state);
        else
            add_call(r, state);
    }
    must(md_sequence_finish(r->sequence));
    return r;
}

md_sequence *random_sequence_of(random_sequence *r)
{
    return r->sequence;
}

void random_sequence_destroy(random_sequence *r)
{
    for (int i = 0; i < N_OPS; i++)
        md_op_destroy(&r->op[i]);
    md_sequence_destroy(&r->sequence);
    for (int k = 0; k < MAX_EXTERNALS; k++) {
        free(r->memory[k]);
        free(r->copy[k]);
    }
    free(r);
}

/* ---- Running */

static md_tensor alone(const random_sequence *r, float *const *memory, int i, int64_t m, int64_t n)
{
    const tensor *t = &r->tensor[i];
    const int64_t size[N_FORMS][2] = {{m, n}, {n, m}, {n, 0}, {m / 2, n}};
    md_tensor x = md_tensor_make(memory[t->base >= 0 ? t->base : i], MD_F32, t->form == FORM_N ? 1 : 2, size[t->form]);
    if (t->is_transposed) {
        x.stride[0] = 1;
        x.stride[1] = n;
    }
    if (t->offset_rows)
        x.data = (float *)x.data + (m - m / 2) * n;
    return x;
}

static void run_alone(const random_sequence *r, float *const *memory, int64_t m, int64_t n, double scalar)
{
    for (int i = 0; i < r->n_calls; i++) {
        const call *c = &r->call[i];
        md_tensor t[3];
        md_arg arg[4];
        int n_args = 0;
        for (int k = 0; k < c->n; k++) {
            t[k] = alone(r, memory, c->tensor[k], m, n);
            if (c->op == 5 && k == 0)
                arg[n_args++] = md_s(scalar);
            arg[n_args++] = md_t(&t[k]);
        }
        if (c->op < 0)
            must(negate(NULL, NULL, t, 1, NULL));
        else
            must(md_call(r->op[c->op], NULL, arg, n_args));
    }
}

static void fill(float *p, uint64_t *state)
{
    for (int i = 0; i < MAX_BYTES / 4; i++)
        p[i] = (float)(below(state, 41) - 20);
}

/* Memory of the externals at addresses of all alignments. */
static float *place(float *memory, uint64_t *state)
{
    static const int shift[] = {0, 0, 4, 16, 1};
    return memory + shift[below(state, 5)];
}

static bool agrees(const random_sequence *r, float *const *data, float *const *expected, int64_t m, int64_t n)
{
    for (int i = 0; i < r->n_tensors; i++) {
        const tensor *t = &r->tensor[i];
        if (t->external < 0 || t->is_input || !t->is_written)
            continue;
        const size_t bytes = (size_t)(t->form == FORM_N ? n : m * n) * 4;
        if (memcmp(data[t->external], expected[i], bytes) != 0) {
            fprintf(stderr, "output %d differs at m=%d n=%d\n", t->external, (int)m, (int)n);
            return false;
        }
    }
    return true;
}

bool random_sequence_agrees(random_sequence *r, uint64_t *state)
{
    float *own[MAX_TENSORS], *data[MAX_EXTERNALS];
    void *pointer[MAX_EXTERNALS];
    const bool is_new = !r->memory[0] || below(state, 3);
    const int64_t m = is_new ? below(state, MAX_SIZE + 1) : r->last[0],
                  n = is_new ? below(state, MAX_SIZE + 1) : r->last[1];
    double scalar = below(state, 5) - 2;
    const bool moves = is_new || below(state, 2);
    for (int i = 0; i < r->n_tensors; i++) {
        own[i] = aligned_alloc(64, (MAX_BYTES + 63) / 64 * 64 + 64);
        if (!own[i])
            abort();
        fill(own[i], state);
        const int k = r->tensor[i].external;
        if (k < 0)
            continue;
        if (!r->memory[k])
            r->memory[k] = aligned_alloc(64, (MAX_BYTES + 63) / 64 * 64 + 128);
        if (!r->memory[k])
            abort();
        data[k] = moves ? place(r->memory[k], state) : r->memory[k];
        memcpy(data[k], own[i], MAX_BYTES);
        pointer[k] = data[k];
    }
    pointer[r->scalar_external] = &scalar;
    r->last[0] = m;
    r->last[1] = n;
    must(md_sequence_run(r->sequence, NULL, (const int64_t[]){m, n}, 2, pointer, r->n_externals));
    run_alone(r, own, m, n, scalar);
    const bool ok = agrees(r, data, own, m, n);
    for (int i = 0; i < r->n_tensors; i++)
        free(own[i]);
    return ok;
}
