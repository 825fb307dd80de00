/* Sequences recorded from ordinary calls: they give what the calls give, at sizes that were not recorded. */
#include "support/check.h"

#include <md/sequence.h>
#include <pthread.h>

static md_context *context;
static md_op *scale, *add, *turn, *rows;

static int set_up(void **state)
{
    (void)state;
    if (md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256"}) != MD_OK)
        return -1;
    assert_ok(md_op_create(&scale, context, "Y[i,j] = 2 * X[i,j] + 1", NULL));
    assert_ok(md_op_create(&add, context, "Y[i,j] = A[i,j] + B[i,j]", NULL));
    assert_ok(md_op_create(&turn, context, "scalar k: i64; Y[i,j] = X[j,i] + k", NULL));
    assert_ok(md_op_create(&rows, context, "Y[i] = sum[j](X[i,j])", NULL));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&scale);
    md_op_destroy(&add);
    md_op_destroy(&turn);
    md_op_destroy(&rows);
    md_context_destroy(&context);
    return 0;
}

enum { MOST = 48 };

static md_tensor matrix(float *p, int64_t m, int64_t n)
{
    const int64_t size[] = {m, n};
    return md_tensor_make(p, MD_F32, 2, size);
}

static float weight[8 * MOST];

/* A program as people write it: buffers are reused, views are sliced, two halves are written one by one. */
static void program(float *x, float *y, float *buffer, float *second, int64_t m)
{
    const int64_t n = 8;
    md_tensor X = matrix(x, m, n), A = matrix(buffer, m, n), B = matrix(second, n, m), W = matrix(weight, 1, n), s;
    md_tensor first_half = matrix(buffer, m, n / 2), second_half = first_half;
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&A), md_t(&X)}, 2));
    assert_ok(md_call(turn, NULL, (md_arg[]){md_i(m + 3), md_t(&B), md_t(&A)}, 3)); /* B = A' + m + 3 */
    /* the buffer again, for two halves of columns */
    first_half.stride[0] = second_half.stride[0] = n;
    second_half.data = buffer + n / 2;
    md_tensor left = matrix(second, m, n / 2), right = left; /* views of B' */
    left.stride[0] = right.stride[0] = 1;
    left.stride[1] = right.stride[1] = m;
    right.data = second + (n / 2) * m;
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&first_half), md_t(&left)}, 2));
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&second_half), md_t(&right)}, 2));
    /* weights, broadcast over rows; in place */
    md_tensor all = W;
    all.size[0] = m;
    all.stride[0] = 0;
    assert_ok(md_call(add, NULL, (md_arg[]){md_t(&A), md_t(&A), md_t(&all)}, 3));
    s = md_tensor_make(y, MD_F32, 1, &m);
    assert_ok(md_call(rows, NULL, (md_arg[]){md_t(&s), md_t(&A)}, 2));
    md_tensor Z = matrix(y + m, m, n);
    assert_ok(md_call(add, NULL, (md_arg[]){md_t(&Z), md_t(&A), md_t(&X)}, 3));
}

static void fill(float *p, int n, int seed)
{
    for (int i = 0; i < n; i++)
        p[i] = (float)((i * 7 + seed) % 23 - 11);
}

static md_sequence *record(int n_recordings)
{
    static const int64_t sizes[] = {5, 12, 7};
    md_sequence *s = NULL;
    assert_ok(md_sequence_create(&s, context, &(md_sequence_options){.poisons = 1}));
    assert_ok(md_sequence_add_dim(NULL, s, "m", 1, MOST));
    for (int k = 0; k < n_recordings; k++) {
        const int64_t m = sizes[k];
        float x[8 * MOST], y[16 * MOST], a[8 * MOST], b[8 * MOST];
        assert_ok(md_sequence_record_begin(s, &m, 1));
        assert_ok(md_sequence_record_memory(s, "x", MD_SEQUENCE_INPUT, x, (size_t)m * 32));
        assert_ok(md_sequence_record_memory(s, "y", MD_SEQUENCE_OUTPUT, y, (size_t)m * 36));
        fill(x, 8 * MOST, k);
        program(x, y, a, b, m);
        assert_ok(md_sequence_record_end(s));
    }
    return s;
}

static void gives_what_calls_give(void **state)
{
    (void)state;
    fill(weight, 8 * MOST, 99);
    for (int n = 2; n <= 3; n++) {
        md_sequence *s = record(n);
        md_sequence_counters c;
        assert_ok(md_sequence_finish(s));
        for (int64_t m = 1; m <= MOST; m++) {
            float x[8 * MOST], y[16 * MOST] = {0}, expected[16 * MOST] = {0}, a[8 * MOST], b[8 * MOST];
            fill(x, 8 * MOST, (int)m);
            program(x, expected, a, b, m);
            assert_ok(md_sequence_run(s, NULL, &m, 1, (void *[]){x, y}, 2));
            assert_memory_equal(y, expected, sizeof y);
        }
        assert_ok(md_sequence_count(&c, s));
        assert_int_equal(c.n_calls, 7);
        assert_int_equal(c.n_sizes, MOST);
        md_sequence_destroy(&s);
    }
}

/* Memory that is named by all that it can hold serves as far as it reaches; beyond that its name is told. */
static void capacities_have_names(void **state)
{
    enum { CAPACITY = 16 };
    static const int64_t sizes[] = {5, 12};
    md_sequence *s = NULL;
    int64_t m = CAPACITY;
    float x[8 * MOST], y[16 * MOST], a[8 * MOST], b[8 * MOST];
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "m", 1, MOST));
    for (int k = 0; k < 2; k++) {
        assert_ok(md_sequence_record_begin(s, &sizes[k], 1));
        assert_fails(md_sequence_add_dim(NULL, s, "late", 0, 0), MD_INVALID_ARGUMENT, "dims come before");
        assert_ok(md_sequence_record_memory(s, "x", MD_SEQUENCE_INPUT, x, CAPACITY * 32));
        assert_ok(md_sequence_record_memory(s, "y", MD_SEQUENCE_OUTPUT, y, sizeof y));
        fill(x, 8 * MOST, k);
        program(x, y, a, b, sizes[k]);
        assert_ok(md_sequence_record_end(s));
    }
    assert_ok(md_sequence_finish(s));
    assert_ok(md_sequence_run(s, NULL, &m, 1, (void *[]){x, y}, 2));
    m++;
    assert_fails(md_sequence_run(s, NULL, &m, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT,
                 "leaves the memory that it is a view of, 'x': it takes bytes 0 to 544 of 512");
    md_sequence_destroy(&s);
}

/* Calls are recorded only between begin and end, on that thread, and warm calls go on as before. */
static void recording_ends(void **state)
{
    float x[8], y[8] = {0};
    const int64_t one = 1, two = 2;
    md_tensor X = matrix(x, 1, 8), Y = matrix(y, 1, 8);
    md_sequence *s = NULL, *other = NULL;
    (void)state;
    fill(x, 8, 1);
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_create(&other, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "m", 1, 9));
    assert_fails(md_sequence_record_end(s), MD_INVALID_ARGUMENT, "not being recorded");
    assert_ok(md_sequence_finish(other));
    for (int64_t m = 1; m <= 2; m++) {
        assert_ok(md_sequence_record_begin(s, &m, 1));
        assert_fails(md_sequence_record_begin(other, NULL, 0), MD_INVALID_ARGUMENT, "is finished");
        assert_fails(md_sequence_record_begin(s, &two, 1), MD_INVALID_ARGUMENT, "already");
        assert_fails(md_sequence_record_memory(s, "y", MD_SEQUENCE_TEMPORARY, y, 32), MD_INVALID_ARGUMENT, "neither");
        assert_ok(md_sequence_record_memory(s, "y", MD_SEQUENCE_OUTPUT, y, 32));
        assert_fails(md_sequence_record_memory(s, "y", MD_SEQUENCE_OUTPUT, y + 1, 8), MD_INVALID_ARGUMENT, "overlaps");
        assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
        assert_ok(md_sequence_record_end(s));
        for (int i = 0; i < 5; i++)
            assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
    }
    assert_fails(md_sequence_record_begin(s, &(int64_t){20}, 1), MD_INVALID_ARGUMENT, "beyond its bounds");
    assert_ok(md_sequence_finish(s));
    memset(y, 0, sizeof y);
    assert_ok(md_sequence_run(s, NULL, &one, 1, (void *[]){y}, 1));
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == 2 * x[i] + 1);
    assert_fails(md_sequence_record_begin(s, &one, 1), MD_INVALID_ARGUMENT, "it cannot record");
    md_sequence_destroy(&s);
    md_sequence_destroy(&other);
}

static void begin(md_sequence *s, int64_t m)
{
    assert_ok(md_sequence_record_begin(s, &m, 1));
}

/* A call of two or three matrices of 8 columns, that begin at rows of `memory`. */
typedef struct step {
    md_op **op;
    float *data[3];
    int64_t row[3], n_rows;
    int32_t stride; /* of rows; 0: 8 */
} step;

static void take_step(const step *c)
{
    md_tensor t[3];
    md_arg arg[3];
    int32_t n = 0;
    for (; n < 3 && c->data[n]; n++) {
        t[n] = matrix(c->data[n] + 8 * c->row[n], c->n_rows, 8);
        arg[n] = md_t(&t[n]);
    }
    if (c->stride && n > 0) /* the output's rows have gaps */
        t[0].stride[0] = c->stride;
    assert_ok(md_call(*c->op, NULL, arg, n));
}

/* Memory must come from one place in every recording: what is read has been written wholly, or not at all. */
static void what_was_written_in_part_is_refused(void **state)
{
    static float x[64 * 8], t[64 * 8], y[64 * 8], want[64 * 8];
    static const char *const in_part = "reads memory that was written in part",
                             *const updates = "updates memory that is neither named nor written before";
    md_op *update = NULL;
    (void)state;
    assert_ok(md_op_create(&update, context, "Y[i,j] += X[i,j]", NULL));
    const struct {
        step step[3];
        const char *why; /* NULL: it is right */
    } row[] = {
        {{{&scale, {t, x}, .n_rows = 4}, {&scale, {y, t}, .n_rows = 8}}, in_part}, /* its end is missing */
        {{{&scale, {t, x}, {4}, 4}, {&scale, {y, t}, .n_rows = 8}}, in_part}, /* its begin */
        {{{&scale, {t, x}, {0}, 3}, {&scale, {t, x}, {5}, 3}, {&scale, {y, t}, .n_rows = 8}}, in_part}, /* its middle */
        {{{&scale, {t, x}, {1}, 3}, {&scale, {t, x}, {4}, 3}, {&scale, {y, t}, .n_rows = 8}}, in_part}, /* both ends */
        {{{&scale, {t, x}, {0}, 4}, {&scale, {t, x}, {4}, 4}, {&scale, {y, t}, .n_rows = 8}}, NULL},
        {{{&scale, {t, x}, {0}, 5}, {&scale, {t, x}, {3}, 5}, {&scale, {y, t}, .n_rows = 8}}, NULL},
        {{{&scale, {t, x}, {0}, 4}, {&update, {t, x}, {0}, 8}, {&scale, {y, t}, .n_rows = 8}}, updates},
        {{{&scale, {t, x}, {0}, 8}, {&update, {t, x}, {2}, 4}, {&scale, {y, t}, .n_rows = 8}}, NULL},
        {{{&update, {t, x}, {0}, 8}, {&scale, {y, t}, .n_rows = 8}}, updates},
        /* of which only a part is read */
        {{{&scale, {t, x}, {0}, 8}, {&update, {t, x}, {2}, 4}, {&scale, {y, t}, {0, 2}, 4}}, NULL},
        {{{&scale, {t, x}, {0}, 8}, {&update, {t, x}, {0}, 8}, {&scale, {y, t}, {0, 7}, 1}}, NULL},
        {{{&scale, {t, x}, {0}, 8}, {&scale, {t, x}, {2}, 4}, {&scale, {y, t}, {0, 3}, 2}}, NULL},
        {{{&scale, {t, x}, {0}, 8}, {&scale, {t, x}, {2}, 3, 16}, {&scale, {y, t}, {0, 2}, 4}}, NULL},
    };
    fill(x, 64 * 8, 5);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_sequence *s = NULL;
        assert_ok(md_sequence_create(&s, context, &(md_sequence_options){.poisons = 1}));
        assert_ok(md_sequence_add_dim(NULL, s, "m", 1, 40));
        memset(y, 0, sizeof y);
        for (int64_t m = 2; m <= 3; m++) {
            begin(s, m);
            assert_ok(md_sequence_record_memory(s, "y", MD_SEQUENCE_OUTPUT, y, sizeof y));
            assert_ok(md_sequence_record_memory(s, "x", MD_SEQUENCE_INPUT, x, sizeof x));
            for (int k = 0; k < 3 && row[i].step[k].op; k++)
                take_step(&row[i].step[k]);
            assert_ok(md_sequence_record_end(s));
        }
        const md_status got = md_sequence_finish(s);
        if (row[i].why ? got != MD_INVALID_ARGUMENT || !strstr(md_last_error(), row[i].why) : got != MD_OK)
            fail_msg("row %d: %s, %s", (int)i, md_status_name(got), md_last_error());
        if (!row[i].why) {
            memcpy(want, y, sizeof y); /* what the calls gave */
            memset(y, 0, sizeof y);
            assert_ok(md_sequence_run(s, NULL, &(int64_t){2}, 1, (void *[]){y, x}, 2));
            assert_memory_equal(y, want, sizeof y);
        }
        md_sequence_destroy(&s);
    }
    md_op_destroy(&update);
}

static void bad_recordings(void **state)
{
    static float x[3][400], y[400];
    md_sequence *s = NULL;
    (void)state;
    /* other calls */
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "m", 1, 40));
    md_tensor X = matrix(x[0], 2, 8), Y = matrix(y, 2, 8);
    begin(s, 2);
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
    assert_ok(md_sequence_record_end(s));
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "has 1 recordings");
    assert_fails(md_sequence_record_begin(s, &(int64_t){2}, 1), MD_INVALID_ARGUMENT, "must differ");
    begin(s, 3);
    assert_fails(md_sequence_record_end(s), MD_INVALID_ARGUMENT, "not those of the first");
    /* memory that is only read, and moved */
    begin(s, 3);
    X = matrix(x[1], 3, 8);
    Y = matrix(y, 3, 8);
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
    assert_ok(md_sequence_record_end(s));
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "moved between recordings");
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "could not be made");
    md_sequence_destroy(&s);
    /* sizes that no expression gives */
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "m", 1, 40));
    for (int k = 0; k < 3; k++) {
        static const int64_t rows_of[] = {2, 9, 5};
        begin(s, 2 + k);
        X = matrix(x[0], rows_of[k], 8);
        Y = matrix(y, rows_of[k], 8);
        assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
        assert_ok(md_sequence_record_end(s));
    }
    assert_fails(md_sequence_finish(s), MD_INVALID_ARGUMENT, "no expression");
    md_sequence_destroy(&s);
    /* destroyed while it records: calls go on */
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_record_begin(s, NULL, 0));
    md_sequence_destroy(&s);
    assert_ok(md_call(scale, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_calls_give),
        cmocka_unit_test(capacities_have_names),
        cmocka_unit_test(recording_ends),
        cmocka_unit_test(bad_recordings),
        cmocka_unit_test(what_was_written_in_part_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
