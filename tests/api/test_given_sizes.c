/* Sizes that no tensor gives: the call gives them, in every way in which an op is called. */
#include "api/refused.h"

#include <md/combo.h>
#include <md/sequence.h>

#include <jansson.h>

enum { B = 3, PAGE = 4, PAGES = 40, MOST = PAGE * PAGES };

/* The sum of the first j values, which lie in pages: the formula's axes say nothing of j. */
#define PAGED "Y[b] = sum[j](X[page:i32[b, j // 4], j % 4] * (j % 3))"

static md_context *context;
static float x[PAGES][PAGE], y[B];
static int32_t page[B][PAGES];
static const int64_t size_y[] = {B}, size_x[] = {PAGES, PAGE}, size_page[] = {B, PAGES};

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++)
        x[i / PAGE][i % PAGE] = (float)(i % 11);
    for (int b = 0; b < B; b++)
        for (int i = 0; i < PAGES; i++)
            page[b][i] = (i * 7 + b * 3) % PAGES;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256"}) !=
           MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static md_op *make(const char *formula, const char *sizes)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.sizes = sizes}));
    return op;
}

static float wanted(int b, int64_t j)
{
    float sum = 0;
    for (int64_t k = 0; k < j; k++)
        sum += x[page[b][k / PAGE]][k % PAGE] * (float)(k % 3);
    return sum;
}

/* Y, X, page and the size. */
typedef struct call {
    md_tensor y, x, page;
    md_arg arg[5];
} call;

static call *call_of(call *c, float *out, int64_t j)
{
    *c = (call){.y = md_tensor_make(out, MD_F32, 1, size_y),
                .x = md_tensor_make(x, MD_F32, 2, size_x),
                .page = md_tensor_make(page, MD_I32, 2, size_page)};
    c->arg[0] = md_t(&c->y);
    c->arg[1] = md_t(&c->x);
    c->arg[2] = md_t(&c->page);
    c->arg[3] = md_i(j);
    return c;
}

static void check_values(const float *out, int64_t j)
{
    for (int b = 0; b < B; b++)
        if (out[b] != wanted(b, j))
            fail_msg("j = %lld: %g, not %g", (long long)j, (double)out[b], (double)wanted(b, j));
}

static void is_an_argument(void **state)
{
    md_arg_info info;
    md_tensor t;
    md_op *op = make(PAGED, NULL), *fixed = make(PAGED, "j=7");
    (void)state;
    assert_int_equal(md_op_n_args(op), 4);
    assert_ok(md_op_arg(&info, op, 3));
    assert_true(info.is_scalar && info.is_size && info.dtype == MD_I64 && !info.is_output);
    assert_string_equal(info.name, "j");
    assert_ok(md_op_arg(&info, op, 1));
    assert_false(info.is_size);
    assert_ok(md_op_tensor(&t, op, 3, "b=2, j=9"));
    assert_true(t.rank == 1 && t.size[0] == 9 && !t.data);
    assert_int_equal(md_op_n_args(fixed), 3); /* it is static */
    assert_string_equal(md_op_formula(op), "Y:f32[b] = sum[j](X:f32[page:i32[b,j // 4],j % 4] * f32(j % 3))");
    md_op_destroy(&op);
    md_op_destroy(&fixed);
}

/* New shapes, known ones and those of the thread cache, where calls differ in nothing but the size. */
static void calls(void **state)
{
    md_op *op = make(PAGED, NULL);
    call c;
    (void)state;
    for (int64_t j = 0; j <= MOST; j += 13)
        for (int i = 0; i < 6; i++) {
            y[0] = y[1] = y[2] = -1;
            assert_ok(md_call(op, NULL, call_of(&c, y, j)->arg, 4));
            check_values(y, j);
        }
    for (int i = 0; i < 400; i++) {
        const int64_t j = i * 29 % 7 * 13;
        assert_ok(md_call(op, NULL, call_of(&c, y, j)->arg, 4));
        check_values(y, j);
    }
    assert_ok(md_reference(op, call_of(&c, y, 31)->arg, 4));
    check_values(y, 31);
    assert_ok(md_prepare(op, "b=3, j=77"));
    call_of(&c, y, 77)->arg[4] = md_as(md_op_dim(op, "j"), 20);
    assert_ok(md_call(op, NULL, c.arg, 5));
    check_values(y, 77);
    md_op_destroy(&op);
}

/* A kernel that reports nothing is launched from the thread's cache, where only the size tells its calls apart. */
static void cached_calls(void **state)
{
    md_op *op = make("Y[b] = sum[j](Z[b] * (j % 3))", NULL);
    float z[B] = {1, 2, 3};
    const md_tensor ty = md_tensor_make(y, MD_F32, 1, size_y), tz = md_tensor_make(z, MD_F32, 1, size_y);
    (void)state;
    for (int i = 0; i < 400; i++) {
        const int64_t j = 2 + i / 20 % 2 * 3; /* 0 + 1, or 0 + 1 + 2 + 0 + 1 */
        assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tz), md_i(j)}, 3));
        for (int b = 0; b < B; b++)
            assert_true(y[b] == z[b] * (j == 2 ? 1 : 4));
    }
    md_op_destroy(&op);
}

static void mistakes(void **state)
{
    md_op *op = make(PAGED, NULL), *ranged = make(PAGED, "j=2..5");
    md_launch *launch = NULL;
    call c;
    (void)state;
    REFUSED(md_call(op, NULL, call_of(&c, y, 1)->arg, 3),
            "1:12: no tensor has an axis indexed by just 'j', so the call gives its size: md_i(size) behind the other "
            "arguments, j=size in Python\n  " PAGED "\n             ^");
    REFUSED(md_call(op, NULL, call_of(&c, y, 1)->arg, 2), "2 arguments given, but the op takes 4: Y, X, page, j");
    REFUSED(md_call(op, NULL, call_of(&c, y, -1)->arg, 4), "argument 3 'j': the size is -1, outside its range 0..");
    REFUSED(md_call(op, NULL, call_of(&c, y, MOST + 1)->arg, 4),
            "argument 2 'page': axis 1 has size 40, but subscript 'j // 4' reaches 40");
    call_of(&c, y, 1)->arg[3] = md_s(3);
    REFUSED(md_call(op, NULL, c.arg, 4), "argument 3 'j' is the size of dim 'j', but a real scalar was given");
    REFUSED(md_call(ranged, NULL, call_of(&c, y, 6)->arg, 4), "argument 3 'j': the size is 6, outside its range 2..5");
    REFUSED(md_prepare(op, "b=3"), "the size of dim 'j' is missing");
    assert_ok(md_resolve(&launch, op, call_of(&c, y, 50)->arg, 4));
    assert_ok(md_launch_run(launch, NULL, c.arg, 4));
    check_values(y, 50);
    REFUSED(md_launch_run(launch, NULL, call_of(&c, y, 51)->arg, 4), "the launch was resolved for 50");
    md_launch_destroy(&launch);
    page[1][3] = PAGES;
    REFUSED(md_call(op, NULL, call_of(&c, y, 50)->arg, 4), "'X'");
    page[1][3] = (3 * 7 + 3) % PAGES;
    md_op_destroy(&op);
    md_op_destroy(&ranged);
}

static int keep_json(void *user, const char *text, size_t n)
{
    *(json_t **)user = json_loadb(text, n, 0, NULL);
    return 0;
}

/* Each size is a shape of its own. */
static void counted(void **state)
{
    md_op *op = NULL;
    call c;
    json_t *root = NULL, *row;
    size_t i;
    int n = 0;
    (void)state;
    assert_ok(md_op_create(&op, context, PAGED, &(md_op_options){.name = "counted"}));
    for (int64_t j = 1; j <= 4; j++)
        assert_ok(md_call(op, NULL, call_of(&c, y, j)->arg, 4));
    assert_ok(md_stats_report(context, "json", keep_json, &root));
    json_array_foreach(json_object_get(root, "shapes"), i, row) n +=
        !strcmp(json_string_value(json_object_get(row, "op")), "counted") &&
        strstr(json_string_value(json_object_get(row, "shape")), " j=") != NULL;
    assert_int_equal(n, 4);
    json_decref(root);
    md_op_destroy(&op);
}

static int32_t tensor(md_sequence *s, md_sequence_role role, md_dtype dtype, const char *size)
{
    int32_t id = 0;
    assert_ok(md_sequence_add_tensor(&id, s, &(md_sequence_tensor){.role = role, .dtype = dtype, .size = size}));
    return id;
}

/* In a sequence the size is an expression over its dims. */
static void sequences(void **state)
{
    md_op *op = make(PAGED, NULL), *next = make("Y[b] = X[b] + 1", NULL);
    md_sequence *s = NULL;
    int32_t n;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "t", 0, MOST / 2));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, MD_F32, "40, 4"),
                  table = tensor(s, MD_SEQUENCE_INPUT, MD_I32, "3, 40"),
                  between = tensor(s, MD_SEQUENCE_TEMPORARY, MD_F32, "3"),
                  out = tensor(s, MD_SEQUENCE_OUTPUT, MD_F32, "3");
    assert_ok(md_sequence_add_scalar(&n, s, "n", MD_I64));
    const md_sequence_arg free_size[] = {{.id = between}, {.id = in}, {.id = table}, {.id = n}};
    REFUSED(md_sequence_add_call(s, op, free_size, 4), "'j' is a size: it must be an expression over the sequence's");
    const md_sequence_arg paged[] = {{.id = between}, {.id = in}, {.id = table}, {.integer = "2 * t"}};
    assert_ok(md_sequence_add_call(s, op, paged, 4));
    assert_ok(md_sequence_add_call(s, next, (md_sequence_arg[]){{.id = out}, {.id = between}}, 2));
    assert_ok(md_sequence_finish(s));
    md_op_destroy(&op);
    for (int i = 0; i < 60; i++) {
        const int64_t t = i % 20 * 4, unused = 0;
        assert_ok(md_sequence_run(s, NULL, &t, 1, (void *[]){x, page, y, (void *)&unused}, 4));
        for (int b = 0; b < B; b++)
            assert_true(y[b] == wanted(b, 2 * t) + 1);
    }
    md_sequence_destroy(&s);
    md_op_destroy(&next);
}

/* Items of a combo have sizes of their own, which stay. */
static void combos(void **state)
{
    enum { ITEMS = 5 };
    md_op *op = make(PAGED, NULL);
    md_combo *combo = NULL;
    call c[ITEMS];
    float out[ITEMS][B];
    md_arg arg[ITEMS * 4];
    (void)state;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < ITEMS; i++)
            memcpy(arg + 4 * i, call_of(&c[i], out[i], i * 30 + round % 2)->arg, 4 * sizeof *arg);
        memset(out, 0, sizeof out);
        const md_combo_part part = {op, arg, 4, ITEMS};
        assert_ok(md_combo_call(context, NULL, &part, 1));
        for (int i = 0; i < ITEMS; i++)
            check_values(out[i], i * 30 + round % 2);
    }
    const md_combo_part part = {op, arg, 4, 1};
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_ok(md_combo_run(combo, NULL, (md_arg[]){md_i(1)}, 1));
    check_values(out[0], 1);
    REFUSED(md_combo_run(combo, NULL, (md_arg[]){md_i(2)}, 1), "which a combo cannot change to 2");
    md_combo_destroy(&combo);
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_an_argument), cmocka_unit_test(calls),   cmocka_unit_test(cached_calls),
        cmocka_unit_test(mistakes),       cmocka_unit_test(counted), cmocka_unit_test(sequences),
        cmocka_unit_test(combos),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
