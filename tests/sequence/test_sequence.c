/* Sequences on the host device: built by functions, run at many sizes, against the same calls alone; mistakes; life. */
#include "sequence/random_sequence.h"
#include "support/host_context.h"

#include <jansson.h>

static int32_t tensor(md_sequence *s, md_sequence_role role, const char *name, const char *size)
{
    int32_t id = 0;
    assert_ok(md_sequence_add_tensor(&id, s, &(md_sequence_tensor){.name = name, .role = role, .size = size}));
    assert_true(id > 0);
    return id;
}

static void call(md_sequence *s, md_op *op, int32_t y, int32_t x)
{
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = y}, {.id = x}}, 2));
}

/* Random sequences, with memory overwritten when its life ends, agree with their calls made alone. */
static void agrees_with_calls(void **state)
{
    uint64_t random = check_seed();
    (void)state;
    for (int i = 0; i < 12; i++) {
        random_sequence *r = random_sequence_make(context, &random, 6 + 5 * i, i % 4 != 3);
        for (int k = 0; k < 25; k++)
            if (!random_sequence_agrees(r, &random))
                fail_msg("sequence %d, run %d", i, k);
        md_sequence_counters c;
        assert_ok(md_sequence_count(&c, random_sequence_of(r)));
        assert_int_equal(c.n_runs, 25);
        assert_true(c.arena_bytes > 0 && c.n_sizes > 1 && c.n_binds >= (uint64_t)c.n_sizes);
        random_sequence_destroy(&*r);
    }
}

/* x -> a -> b -> c -> y by y = x + 1: the temporaries take one place, in place. */
static md_sequence *chain(md_op *op, const md_sequence_options *options)
{
    md_sequence *s = NULL;
    assert_ok(md_sequence_create(&s, context, options));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 100000));
    const int32_t x = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), y = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    int32_t last = x;
    for (int i = 0; i < 3; i++) {
        const int32_t t = tensor(s, MD_SEQUENCE_TEMPORARY, NULL, "n");
        call(s, op, t, last);
        last = t;
    }
    call(s, op, y, last);
    assert_ok(md_sequence_finish(s));
    return s;
}

static int keep_text(void *user, const char *text, size_t n)
{
    json_t **out = user;
    *out = json_loadb(text, n, 0, NULL);
    return 0;
}

static int copy_text(void *user, const char *text, size_t n)
{
    char **out = user;
    *out = strndup(text, n);
    return *out == NULL;
}

/* The text has a line for each call, with each of its variants, and one for each tensor. */
static void expect_text(md_sequence *s, const json_t *root)
{
    char *text = NULL, *at;
    size_t i, k;
    json_t *one, *variant;
    assert_ok(md_sequence_explain(s, 0, copy_text, &text));
    at = text;
    json_array_foreach(json_object_get(root, "calls"), i, one)
    {
        const json_t *variants = json_object_get(one, "variants");
        at = strstr(at, json_string_value(json_object_get(one, "op")));
        assert_non_null(at);
        assert_true(json_array_size(variants) > 0);
        json_array_foreach(variants, k, variant)
        {
            at = strstr(at, json_string_value(variant));
            assert_non_null(at);
        }
    }
    json_array_foreach(json_object_get(root, "tensors"), i, one)
    {
        at = strstr(at, json_string_value(json_object_get(one, "tensor")));
        assert_non_null(at);
    }
    free(text);
}

static void in_place_and_explained(void **state)
{
    float x[1000], y[1000];
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, &(md_sequence_options){.name = "steps"});
    md_sequence_counters c;
    json_t *root = NULL;
    (void)state;
    md_op_destroy(&op); /* the sequence keeps what it needs */
    assert_fails(md_sequence_explain(s, 1, keep_text, &root), MD_INVALID_ARGUMENT, "has not been run");
    for (int i = 0; i < 1000; i++)
        x[i] = (float)i;
    for (int64_t n = 0; n <= 1000; n += 100) {
        memset(y, 0, sizeof y);
        assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
        for (int i = 0; i < 1000; i++)
            assert_true(y[i] == (i < n ? x[i] + 4 : 0));
    }
    assert_ok(md_sequence_count(&c, s));
    assert_int_equal(c.n_in_place, 2);
    assert_int_equal(c.n_sizes, 11);
    assert_true(c.arena_bytes >= 4000 && c.arena_bytes < 8000);
    assert_int_equal(c.n_calls, 4);
    assert_ok(md_sequence_explain(s, 1, keep_text, &root));
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "sequence")), "steps");
    assert_int_equal(json_array_size(json_object_get(root, "calls")), 4);
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), 5);
    expect_text(s, root);
    json_decref(root);
    md_sequence_destroy(&s);
    assert_null(s);
    md_sequence_destroy(&s);
}

typedef struct middle {
    const char *formula, *last; /* a -> b -> y */
    const char *from, *to; /* where what is read begins in a, and what is written in b's memory; NULL: no view */
    int64_t n_in_place;
} middle;

static int32_t view(md_sequence *s, int32_t base, const char *offset, const char *size)
{
    int32_t id = base;
    if (offset)
        assert_ok(
            md_sequence_add_tensor(&id, s, &(md_sequence_tensor){.view_of = base, .offset = offset, .size = size}));
    return id;
}

/* How many outputs of x -> a -> b -> y take an input's memory. */
static int64_t in_place_of(const middle *m)
{
    md_op *first = make("Y[i] = X[i] + 1"), *op = make(m->formula), *last = make(m->last);
    md_sequence *s = NULL;
    md_sequence_counters c;
    const char *size = m->from || strstr(m->formula, "i+4") ? "n" : "2 * n";
    const md_dtype dtype = strstr(m->formula, "Y:f64") ? MD_F64 : strstr(m->formula, "Y:i32") ? MD_I32 : MD_F32;
    int32_t b = 0;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 4, 100));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "2 * n"), a = tensor(s, MD_SEQUENCE_TEMPORARY, "a", "2 * n");
    call(s, first, a, in);
    assert_ok(md_sequence_add_tensor(
        &b, s, &(md_sequence_tensor){.name = "b", .dtype = dtype, .size = m->to ? "2 * n + 4" : size}));
    const int32_t written = view(s, b, m->to, size);
    call(s, op, written, view(s, a, m->from, size));
    call(s, last, tensor(s, MD_SEQUENCE_OUTPUT, "y", size), written);
    assert_ok(md_sequence_finish(s));
    assert_ok(md_sequence_count(&c, s));
    md_sequence_destroy(&s);
    md_op_destroy(&first);
    md_op_destroy(&op);
    md_op_destroy(&last);
    return c.n_in_place;
}

/* Only a whole input that ends there gives its memory, to an output of its dtype and layout, element by element. */
static void only_whole_alike_inputs_are_written_over(void **state)
{
    (void)state;
    static const char plus[] = "Y[i] = X[i] + 1";
    static const middle row[] = {
        {plus, plus, NULL, NULL, 1},
        {plus, plus, "0", NULL, 0},
        {plus, plus, "4", NULL, 0},
        {plus, plus, NULL, "4", 0},
        {"Y[i] = X[i+4] * 2", plus, NULL, NULL, 0},
        {"Y[i] = X[size(X.0) - 1 - i]", plus, NULL, NULL, 0},
        {"Y:f64[i] = f64(X[i])", "Y[i] = f32(X:f64[i])", NULL, NULL, 0},
        {"Y:i32[i] = i32(X[i])", "Y[i] = f32(X:i32[i])", NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(in_place_of(&row[i]), row[i].n_in_place);
}

/* Tensors that live at different times share memory, those that live together do not. */
static void shares_memory(void **state)
{
    static float x[64 * 64], y[64 * 64];
    md_op *turn = make("Y[i,j] = X[j,i]"), *add = make("Y[i,j] = A[i,j] + B[i,j]");
    md_sequence *s = NULL;
    md_sequence_counters c;
    (void)state;
    assert_ok(md_sequence_create(&s, context, &(md_sequence_options){.poisons = 1}));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 1, 64));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "n, n"), out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n, n");
    int32_t t[9];
    for (int i = 0; i < 9; i++) {
        t[i] = tensor(s, MD_SEQUENCE_TEMPORARY, NULL, "n, n");
        call(s, turn, t[i], i ? t[i - 1] : in);
    }
    assert_ok(md_sequence_add_call(s, add, (md_sequence_arg[]){{.id = out}, {.id = t[8]}, {.id = t[8]}}, 3));
    assert_ok(md_sequence_finish(s));
    for (int i = 0; i < 64 * 64; i++)
        x[i] = (float)i;
    assert_ok(md_sequence_run(s, NULL, (int64_t[]){64}, 1, (void *[]){x, y}, 2));
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            assert_true(y[i * 64 + j] == 2 * x[j * 64 + i]);
    assert_ok(md_sequence_count(&c, s));
    assert_int_equal(c.n_in_place, 0);
    assert_true(c.arena_bytes >= 2 * 64 * 64 * 4 && c.arena_bytes < 3 * 64 * 64 * 4);
    assert_true(c.sum_bytes >= 9 * 64 * 64 * 4);
    md_sequence_destroy(&s);
    md_op_destroy(&turn);
    md_op_destroy(&add);
}

static md_status stop(void *user, md_stream stream, const md_tensor *t, int32_t n, const int64_t *size)
{
    (void)stream, (void)t, (void)n;
    int *left = user;
    return *left > 0 && size[0] == 5 ? (--*left, MD_IO) : MD_OK;
}

/* A run that fails half-way leaves a sequence that runs. Index faults and failing callbacks name the call. */
static void fails_half_way(void **state)
{
    float table[4] = {10, 11, 12, 13}, y[5];
    int32_t index[5] = {0, 1, 2, 3, 1};
    int32_t id = 0, n_left = 1;
    md_op *gather = make("Y[i] = E[k[i]]");
    md_sequence *s = NULL;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    assert_ok(md_sequence_add_tensor(&id, s,
                                     &(md_sequence_tensor){.role = MD_SEQUENCE_CONSTANT, .size = "4", .data = table}));
    md_arg_info info;
    assert_ok(md_op_arg(&info, gather, 2));
    const int32_t e = id;
    assert_ok(md_sequence_add_tensor(
        &id, s, &(md_sequence_tensor){.role = MD_SEQUENCE_INPUT, .size = "n", .dtype = info.dtype}));
    assert_ok(md_sequence_add_callback(s, stop, &n_left, &e, 1));
    assert_ok(md_sequence_add_call(s, gather, (md_sequence_arg[]){{.id = out}, {.id = e}, {.id = id}}, 3));
    assert_ok(md_sequence_finish(s));
    int64_t index64[5] = {0, 1, 2, 3, 1};
    void *data[] = {y, info.dtype == MD_I64 ? (void *)index64 : (void *)index};
    const int64_t five = 5;
    char older[64];
    assert_fails(md_sequence_run(s, NULL, &five, 1, data, 1), MD_INVALID_ARGUMENT, "");
    snprintf(older, sizeof older, "%.60s", md_last_error());
    md_status failed = md_sequence_run(s, NULL, &five, 1, data, 2);
    assert_int_equal(failed, MD_IO);
    assert_non_null(strstr(md_last_error(), "the callback failed: input/output error (call 0 of sequence"));
    assert_null(strstr(md_last_error(), older));
    assert_ok(md_sequence_run(s, NULL, &five, 1, data, 2));
    for (int i = 0; i < 5; i++)
        assert_true(y[i] == table[index64[i]]);
    index[2] = 9;
    index64[2] = 9;
    for (int i = 0; i < 3; i++)
        assert_fails(md_sequence_run(s, NULL, &five, 1, data, 2), MD_INVALID_ARGUMENT, "call 1 of sequence");
    index[2] = 2;
    index64[2] = 2;
    assert_ok(md_sequence_run(s, NULL, &five, 1, data, 2));
    md_sequence_destroy(&s);
    md_op_destroy(&gather);
}

static void bad_building(void **state)
{
    md_op *op = make("scalar s; Y[i] = X[i] + s"), *two = make("Y[i,j] = 2 * X[i,j]");
    md_sequence *s = NULL;
    int32_t id;
    (void)state;
    assert_fails(md_sequence_create(&s, context, &(md_sequence_options){.max_sizes = -1}), MD_INVALID_ARGUMENT,
                 "max_sizes");
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_fails(md_sequence_add_dim(NULL, s, "2n", 0, 0), MD_INVALID_ARGUMENT, "no name");
    assert_fails(md_sequence_add_dim(NULL, s, "n", 5, 4), MD_INVALID_ARGUMENT, "between 5 and 4");
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    assert_fails(md_sequence_add_dim(NULL, s, "n", 0, 0), MD_INVALID_ARGUMENT, "already");
    const md_sequence_tensor bad[] = {{.size = "n, k"},
                                      {.size = "n +"},
                                      {.size = "n", .stride = "1, 2"},
                                      {.size = "n", .offset = "1"},
                                      {.role = 9},
                                      {.role = MD_SEQUENCE_CONSTANT, .size = "n"},
                                      {.view_of = 7, .size = "n"}};
    static const char *const part[] = {"'k' is no dim", "ends here",    "2 strides for 1", "no view",
                                       "role 9",        "data is NULL", "view_of 7"};
    for (int i = 0; i < 7; i++)
        assert_fails(md_sequence_add_tensor(&id, s, &bad[i]), MD_INVALID_ARGUMENT, part[i]);
    const int32_t x = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), t = tensor(s, MD_SEQUENCE_TEMPORARY, "t", "n");
    const int32_t y = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    assert_fails(md_sequence_add_dim(NULL, s, "late", 0, 0), MD_INVALID_ARGUMENT, "dim 'late': dims come before");
    assert_fails(md_sequence_add_call(s, two, (md_sequence_arg[]){{.id = t}, {.id = x}}, 2), MD_INVALID_ARGUMENT,
                 "rank 2, not f32 of rank 1");
    assert_fails(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = t}, {.id = x}}, 2), MD_INVALID_ARGUMENT,
                 "takes 3 arguments");
    assert_fails(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = x}, {.id = t}, {.id = x}}, 3),
                 MD_INVALID_ARGUMENT, "must be a scalar");
    assert_fails(md_sequence_add_call(s, op, (md_sequence_arg[]){{.real = 1}, {.id = x}, {.id = t}}, 3),
                 MD_INVALID_ARGUMENT, "to an input of the sequence");
    assert_fails(md_sequence_add_call(s, op, (md_sequence_arg[]){{.real = 1}, {.id = 44}, {.id = t}}, 3),
                 MD_INVALID_ARGUMENT, "no tensor or scalar 44");
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.integer = "n // 2"}, {.id = y}, {.id = t}}, 3));
    assert_fails(md_sequence_run(s, NULL, NULL, 0, NULL, 0), MD_INVALID_ARGUMENT, "not finished");
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "call 0 (Y) reads tensor 't'");
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.real = 2}, {.id = t}, {.id = x}}, 3));
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "call 0");
    md_sequence_destroy(&s);
    md_op_destroy(&op);
    md_op_destroy(&two);
}

static void bad_runs(void **state)
{
    static float x[400], y[400];
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, &(md_sequence_options){.max_arena_bytes = 1024});
    const int64_t n = 100, many = 300, more = 100001, less = -1;
    (void)state;
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "finished already");
    assert_fails(md_sequence_add_dim(NULL, s, "k", 0, 0), MD_INVALID_ARGUMENT, "is finished");
    assert_fails(md_sequence_run(s, NULL, &n, 2, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT, "takes 1 sizes");
    assert_fails(md_sequence_run(s, NULL, &more, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT, "n=100001");
    assert_fails(md_sequence_run(s, NULL, &less, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT, "n=-1");
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, NULL}, 2), MD_INVALID_ARGUMENT, "NULL");
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, (char *)y + 2}, 2), MD_INVALID_ARGUMENT,
                 "'y' is not aligned");
    assert_fails(md_sequence_run(s, NULL, &many, 1, (void *[]){x, y}, 2), MD_OUT_OF_MEMORY, "max_arena_bytes");
    for (int i = 0; i < 3; i++)
        assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){NULL, y}, 2), MD_INVALID_ARGUMENT, "NULL");
    /* the input's memory as output: y = x + 4, each call allows it */
    for (int i = 0; i < 100; i++)
        x[i] = (float)i;
    assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x}, 2));
    for (int i = 0; i < 100; i++)
        assert_true(x[i] == (float)(i + 4));
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

/* A call may not read its output's memory in another place; the sequence says which call it is. */
static void aliases(void **state)
{
    static float x[401];
    const int64_t n = 100;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = NULL;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    call(s, op, out, in);
    assert_ok(md_sequence_finish(s));
    assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 200}, 2));
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 16}, 2), MD_INVALID_ARGUMENT, "call 0 of sequence");
    assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 100}, 2));
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 96}, 2), MD_INVALID_ARGUMENT, "overlaps");
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

/* Views that leave their base fail at the sizes where they do. */
static void views_stay_inside(void **state)
{
    static float x[100], y[100];
    int32_t view = 0;
    int64_t n = 10;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = NULL;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "min(n, 20)"), out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    assert_ok(md_sequence_add_tensor(
        &view, s, &(md_sequence_tensor){.name = "v", .view_of = in, .size = "n", .offset = "0 * (1 // n)"}));
    call(s, op, out, view);
    assert_ok(md_sequence_finish(s));
    assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
    n = 21;
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT,
                 "'v' leaves the memory that it is a view of, 'x': it takes bytes 0 to 84 of 80");
    n = 0;
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT, "divides by 0");
    n = INT64_MAX;
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT, "63 bits");
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_calls),
        cmocka_unit_test(in_place_and_explained),
        cmocka_unit_test(only_whole_alike_inputs_are_written_over),
        cmocka_unit_test(shares_memory),
        cmocka_unit_test(fails_half_way),
        cmocka_unit_test(bad_building),
        cmocka_unit_test(bad_runs),
        cmocka_unit_test(aliases),
        cmocka_unit_test(views_stay_inside),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
