/* Bad input of combos: one clear error, and nothing is written. */
#include "support/check.h"

#include <md/combo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static md_context *context;
static md_op *op;
static float memory[64];
static md_tensor tensor[8][2];
static md_arg args[8][4];

/* P[i] = O[i] - lr * G[i], in place: items of 4 elements, p of item i at memory[8 * i], g behind it. */
static int set_up(void **state)
{
    (void)state;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}) != MD_OK ||
           md_op_create(&op, context, "scalar lr; P[i] = O[i] - lr * G[i]", NULL) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}

static int place_of(const char *name)
{
    md_arg_info info;
    for (int32_t a = 0; a < 4; a++) {
        assert_ok(md_op_arg(&info, op, a));
        if (!strcmp(info.name, name))
            return a;
    }
    fail_msg("no argument %s", name);
    return 0;
}

static int reset(void **state)
{
    const int64_t four = 4;
    (void)state;
    for (int i = 0; i < 64; i++)
        memory[i] = (float)i;
    for (int i = 0; i < 8; i++) {
        tensor[i][0] = md_tensor_make(memory + 8 * i, MD_F32, 1, &four);
        tensor[i][1] = md_tensor_make(memory + 8 * i + 4, MD_F32, 1, &four);
        args[i][place_of("lr")] = md_s(1);
        args[i][place_of("P")] = args[i][place_of("O")] = md_t(&tensor[i][0]);
        args[i][place_of("G")] = md_t(&tensor[i][1]);
    }
    return 0;
}

static void refuses(md_combo_part part, const char *text)
{
    md_combo *combo = NULL;
    assert_fails(md_combo_call(context, NULL, &part, 1), MD_INVALID_ARGUMENT, text);
    assert_fails(md_combo_bind(&combo, context, &part, 1), MD_INVALID_ARGUMENT, text);
    assert_null(combo);
    for (int i = 0; i < 64; i++)
        assert_true(memory[i] == (float)i);
}

static md_combo_part part_of(int64_t n)
{
    return (md_combo_part){op, &args[0][0], 4, n};
}

static void overlaps_name_both(void **state)
{
    (void)state;
    tensor[5][0].data = memory + 18; /* half of the p of item 2 */
    refuses(part_of(8), "output 'P' of part 0, item 5");
    refuses(part_of(8), "item 2");
    reset(NULL);
    tensor[6][1].data = memory + 11; /* g of item 6 reads the p of item 1 */
    refuses(part_of(8), "output 'P' of part 0, item 1");
    refuses(part_of(8), "overlaps input 'G' of part 0, item 6");
    reset(NULL);
    tensor[3][0].data = memory; /* a tied weight */
    refuses(part_of(8), "overlaps output 'P'");
    refuses(part_of(4), "item 3");
}

/* Spans end where their last element ends: items of bytes that share one element, from either side; neighbours. */
static void overlaps_of_one_byte(void **state)
{
    static const char *const dtype[] = {"u8", "bool", "i8", "f8e4m3", "i16", "f16"};
    static const md_dtype number[] = {MD_U8, MD_BOOL, MD_I8, MD_F8E4M3, MD_I16, MD_F16};
    static _Alignas(8) char bytes[64];
    const int64_t four = 4;
    (void)state;
    for (size_t d = 0; d < sizeof dtype / sizeof *dtype; d++) {
        char formula[64];
        md_op *copy = NULL;
        const char *name = dtype[d];
        const int64_t item = md_dtype_size(number[d]);
        snprintf(formula, sizeof formula, "Y:%s[i] = X:%s[i]", name, name);
        assert_ok(md_op_create(&copy, context, formula, NULL));
        for (int64_t y = 0; y <= 8; y++) { /* item 0 writes elements 4 to 7; item 1 writes four from y on */
            md_tensor t[4] = {md_tensor_make(bytes + 4 * item, number[d], 1, &four),
                              md_tensor_make(bytes + 16 * item, number[d], 1, &four),
                              md_tensor_make(bytes + y * item, number[d], 1, &four),
                              md_tensor_make(bytes + 16 * item, number[d], 1, &four)};
            const md_arg own[4] = {md_t(&t[0]), md_t(&t[1]), md_t(&t[2]), md_t(&t[3])};
            const md_combo_part part = {copy, own, 2, 2};
            if (y == 0 || y == 8)
                assert_ok(md_combo_call(context, NULL, &part, 1));
            else
                assert_fails(md_combo_call(context, NULL, &part, 1), MD_INVALID_ARGUMENT, "overlaps output 'Y'");
        }
        md_op_destroy(&copy);
    }
}

static void overlaps_after_moving(void **state)
{
    md_combo *combo = NULL;
    const md_combo_part part = part_of(3);
    void *same[3] = {memory, memory + 8, memory + 8}, *apart[3] = {memory, memory + 8, memory + 16};
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_point(combo, 0, place_of("P"), same));
    assert_ok(md_combo_point(combo, 0, place_of("O"), same));
    assert_fails(md_combo_run(combo, NULL, NULL, 0), MD_INVALID_ARGUMENT, "item 1");
    assert_true(memory[8] == 8 && memory[0] == 0);
    assert_ok(md_combo_point(combo, 0, place_of("P"), apart));
    assert_ok(md_combo_point(combo, 0, place_of("O"), apart));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_true(memory[8] == 8 - 12 && memory[0] == 0 - 4);
    md_combo_destroy(&combo);
}

/* Each item is checked and moved, the first and the last too. */
static void all_items_are_moved(void **state)
{
    md_combo *combo = NULL;
    const md_combo_part part = part_of(4);
    void *data[4];
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    for (int wrong = 0; wrong < 8; wrong++) {
        char item[32];
        for (int i = 0; i < 4; i++)
            data[i] = memory + 8 * (3 - i);
        data[wrong % 4] = wrong < 4 ? NULL : (char *)data[wrong % 4] + 1;
        snprintf(item, sizeof item, "(part 0, item %d)", wrong % 4);
        assert_fails(md_combo_point(combo, 0, place_of("P"), data), MD_INVALID_ARGUMENT, item);
        assert_non_null(strstr(md_last_error(), wrong < 4 ? "NULL" : "not aligned"));
    }
    for (int i = 0; i < 4; i++)
        data[i] = memory + 8 * (3 - i);
    assert_ok(md_combo_point(combo, 0, place_of("P"), data));
    assert_ok(md_combo_point(combo, 0, place_of("O"), data));
    float before[64];
    memcpy(before, memory, sizeof before);
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    const md_tensor *g = &tensor[0][1];
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < (int)g->size[0]; k++) {
            const float *from = tensor[i][1].data, *to = data[i];
            assert_true(to[k] == before[(to - memory) + k] - from[k]);
        }
    md_combo_destroy(&combo);
}

/* Columns of one matrix interleave; they do not overlap. An input may be shared. */
static void views_may_interleave(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tensor[i][0].data = memory + i;
        tensor[i][0].stride[0] = 4;
        tensor[i][1].data = memory + 32;
    }
    const md_combo_part part = part_of(4);
    assert_ok(md_combo_call(context, NULL, &part, 1));
    for (int i = 0; i < 16; i++)
        assert_true(memory[i] == (float)i - (float)(32 + i / 4));
    reset(NULL);
    tensor[1][0].data = memory + 2;
    tensor[1][0].stride[0] = tensor[0][0].stride[0] = 2;
    refuses(part_of(2), "overlaps");
}

static void wrong_items_are_named(void **state)
{
    const int64_t five = 5;
    (void)state;
    tensor[4][1] = md_tensor_make(memory + 36, MD_F32, 1, &five);
    refuses(part_of(8), "(part 0, item 4)");
    reset(NULL);
    tensor[2][1].dtype = MD_F64;
    refuses(part_of(8), "expected f32 (part 0, item 2)");
    reset(NULL);
    tensor[7][0].data = NULL;
    refuses(part_of(8), "data is NULL (part 0, item 7)");
    reset(NULL);
    args[1][place_of("lr")] = md_t(&tensor[0][0]);
    refuses(part_of(8), "(part 0, item 1)");
    reset(NULL);
    tensor[0][0].size[0] = -1;
    refuses(part_of(8), "size -1 (part 0, item 0)");
    reset(NULL);
    args[3][place_of("lr")] = (md_arg){0};
    refuses(part_of(8), "nothing was given (part 0, item 3)");
    reset(NULL);
    for (int i = 0; i < 2; i++) { /* above 2^31 elements: their places count, nothing is touched */
        const int64_t many = (INT64_C(1) << 31) + 5;
        tensor[i][0] = md_tensor_make(memory, MD_F32, 1, &many);
        tensor[i][1] = md_tensor_make((void *)((uintptr_t)memory + 4 * (uintptr_t)many), MD_F32, 1, &many);
    }
    tensor[1][0].data = (void *)((uintptr_t)memory + ((uintptr_t)1 << 33));
    refuses(part_of(2), "overlaps");
    reset(NULL);
    refuses((md_combo_part){op, &args[0][0], 2, 1}, "takes 4");
    refuses((md_combo_part){op, NULL, 4, 1}, "args is NULL");
    refuses((md_combo_part){op, &args[0][0], 4, -1}, "n_items is -1");
    refuses((md_combo_part){op, &args[0][0], 4, MD_COMBO_MAX_ITEMS + 1}, "at most 1048576 items");
    refuses((md_combo_part){NULL, &args[0][0], 4, 1}, "op is NULL");
}

static void other_contexts(void **state)
{
    md_context *own = NULL;
    const md_combo_part part = part_of(1);
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    assert_fails(md_combo_call(own, NULL, &part, 1), MD_INVALID_ARGUMENT, "another context");
    md_context_destroy(&own);
    assert_fails(md_combo_call(NULL, NULL, &part, 1), MD_INVALID_ARGUMENT, "context is NULL");
    assert_fails(md_combo_call(context, NULL, NULL, 1), MD_INVALID_ARGUMENT, "parts is NULL");
    assert_fails(md_combo_call(context, NULL, NULL, -1), MD_INVALID_ARGUMENT, "negative");
    assert_fails(md_combo_bind(NULL, context, NULL, 0), MD_INVALID_ARGUMENT, "out is NULL");
}

static void empty_lists_and_items(void **state)
{
    md_combo *combo = NULL;
    const int64_t none = 0;
    md_combo_part part = part_of(0);
    (void)state;
    assert_ok(md_combo_call(context, NULL, NULL, 0));
    assert_ok(md_combo_call(context, NULL, &part, 1));
    part.args = NULL;
    assert_ok(md_combo_call(context, NULL, &part, 1));
    assert_ok(md_combo_bind(&combo, context, NULL, 0));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    md_combo_destroy(&combo);
    tensor[1][0] = md_tensor_make(NULL, MD_F32, 1, &none);
    tensor[1][1] = md_tensor_make(memory, MD_F32, 1, &none);
    part = part_of(3);
    assert_ok(md_combo_call(context, NULL, &part, 1));
    assert_true(memory[0] == -4 && memory[8] == 8 && memory[16] == -4);
    md_combo_destroy(&combo);
    md_combo_destroy(NULL);
}

static void scalars_and_arguments(void **state)
{
    md_combo *combo = NULL;
    const md_combo_part part = part_of(2);
    void *data[2] = {memory, (char *)memory + 33};
    (void)state;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_fails(md_combo_run(combo, NULL, (md_arg[]){md_s(1), md_s(2)}, 2), MD_INVALID_ARGUMENT, "2 scalars");
    assert_fails(md_combo_run(combo, NULL, (md_arg[]){md_t(&tensor[0][0])}, 1), MD_INVALID_ARGUMENT, "'lr'");
    assert_fails(md_combo_run(combo, NULL, NULL, 1), MD_INVALID_ARGUMENT, "NULL");
    for (int32_t beyond = -1; beyond <= 1; beyond += 2)
        assert_fails(md_combo_point(combo, beyond, 0, data), MD_INVALID_ARGUMENT, "the combo has 1 parts");
    for (int32_t a = -2; a < 9; a++)
        if (a < 0 || a >= 4)
            assert_fails(md_combo_point(combo, 0, a, data), MD_INVALID_ARGUMENT, "is no tensor");
    assert_fails(md_combo_point(combo, 0, place_of("lr"), data), MD_INVALID_ARGUMENT, "no tensor");
    assert_fails(md_combo_point(combo, 0, place_of("P"), data), MD_INVALID_ARGUMENT, "not aligned");
    assert_fails(md_combo_point(combo, 0, place_of("P"), NULL), MD_INVALID_ARGUMENT, "data is NULL");
    assert_ok(md_combo_run(combo, NULL, (md_arg[]){md_i(0)}, 1));
    for (int i = 0; i < 64; i++)
        assert_true(memory[i] == (float)i);
    md_combo_destroy(&combo);
}

/* Elements of half a byte have no addresses of their own to be packed by. */
static void packed_tensors_are_refused(void **state)
{
    static const struct {
        const char *formula, *type;
    } row[] = {{"Y[i] = X:i4[i] * 2", "i4"}, {"Y[i] = X:u4[i] * 2", "u4"}, {"Y:u4[i] = X:u8[i] + 1", "u4"}};
    const int64_t four = 4;
    (void)state;
    for (int i = 0; i < 3; i++) {
        md_op *packed = NULL;
        md_arg_info info;
        md_tensor t[2];
        md_arg own[2];
        assert_ok(md_op_create(&packed, context, row[i].formula, NULL));
        for (int32_t a = 0; a < 2; a++) {
            assert_ok(md_op_arg(&info, packed, a));
            t[a] = md_tensor_make(memory + 8 * a, info.dtype, 1, &four);
            own[a] = md_t(&t[a]);
        }
        const md_combo_part part[2] = {part_of(1), {packed, own, 2, 1}};
        assert_fails(md_combo_call(context, NULL, part, 2), MD_UNSUPPORTED, row[i].type);
        assert_non_null(strstr(md_last_error(), "(part 1)"));
        md_op_destroy(&packed);
    }
    for (int i = 0; i < 64; i++)
        assert_true(memory[i] == (float)i);
}

/* A combo outlives its context, but only to be destroyed. */
static void context_goes_first(void **state)
{
    md_context *own = NULL;
    md_op *other = NULL;
    md_combo *combo = NULL;
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    assert_ok(md_op_create(&other, own, "scalar lr; P[i] = O[i] - lr * G[i]", NULL));
    const md_combo_part part = {other, &args[0][0], 4, 2};
    assert_ok(md_combo_bind(&combo, own, &part, 1));
    assert_ok(md_combo_call(own, NULL, &part, 1));
    md_op_destroy(&other);
    md_context_destroy(&own);
    assert_fails(md_combo_run(combo, NULL, NULL, 0), MD_INVALID_ARGUMENT, "context was destroyed");
    md_combo_destroy(&combo);
    assert_fails(md_combo_run(NULL, NULL, NULL, 0), MD_INVALID_ARGUMENT, "combo is NULL");
}

/* More lists than are remembered. */
static void forgets_old_lists(void **state)
{
    static float many[200];
    (void)state;
    for (int k = 0; k < 300; k++) {
        const int64_t n = 1 + k % 100;
        md_tensor p = md_tensor_make(many, MD_F32, 1, &n), g = md_tensor_make(many + 100, MD_F32, 1, &n);
        md_arg own[4];
        own[place_of("lr")] = md_s(1);
        own[place_of("P")] = own[place_of("O")] = md_t(&p);
        own[place_of("G")] = md_t(&g);
        const md_combo_part part = {op, own, 4, 1};
        many[0] = 5;
        many[100] = 3;
        assert_ok(md_combo_call(context, NULL, &part, 1));
        assert_true(many[0] == 2);
    }
}

/* Items that read by indices: one out of range is an error that names it, and the next run is right again. Also where
 * items of several dims are run as rows. */
static void indices_out_of_range(void **state)
{
    static const char *const formula[] = {"Y[i] = E[ids:i32[i]]", "Y[i,j] = E[ids:i32[i],j]"};
    static float table[8][2], out[3][4][2];
    static int32_t ids[3][4];
    (void)state;
    for (int i = 0; i < 8; i++)
        table[i][0] = table[i][1] = (float)i;
    for (int f = 0; f < 2; f++) {
        md_op *gather = NULL;
        md_combo *combo = NULL;
        md_tensor t[3][3];
        md_arg own[3][3];
        const int64_t y[] = {4, 2}, e[] = {8, 2};
        assert_ok(md_op_create(&gather, context, formula[f], NULL));
        for (int i = 0; i < 3; i++) {
            for (int a = 0; a < 3; a++) {
                md_arg_info info;
                assert_ok(md_op_arg(&info, gather, a));
                const char which = info.name[0];
                t[i][a] = which == 'i'   ? md_tensor_make(ids[i], MD_I32, 1, y)
                          : which == 'E' ? md_tensor_make(table, MD_F32, f + 1, e)
                                         : md_tensor_make(out[i], MD_F32, f + 1, y);
                own[i][a] = md_t(&t[i][a]);
            }
            for (int k = 0; k < 4; k++)
                ids[i][k] = (i + k) % 8;
        }
        const md_combo_part part = {gather, &own[0][0], 3, 3};
        assert_ok(md_combo_bind(&combo, context, &part, 1));
        for (int round = 0; round < 3; round++) {
            assert_ok(md_combo_run(combo, NULL, NULL, 0));
            ids[1][2] = round == 1 ? -1 : 8;
            assert_fails(md_combo_run(combo, NULL, NULL, 0), MD_INVALID_ARGUMENT, round == 1 ? "index -1" : "index 8");
            ids[1][2] = 3;
            assert_ok(md_combo_run(combo, NULL, NULL, 0));
            assert_true(((float *)out[1])[f ? 5 : 2] == (f ? 3.0F : table[0][0] + ((float *)table)[3]));
        }
        md_combo_destroy(&combo);
        md_op_destroy(&gather);
    }
}

/* A list that another thread is calling is not forgotten: one thread calls a list all the time, so that it is the
 * oldest again and again, the others call more new ones than are remembered. Sanitizers see it best; without them what
 * malloc writes over freed memory does (MALLOC_PERTURB_, which Meson sets). */
typedef struct caller {
    md_context *context;
    md_op *op;
    int number;
    bool is_right;
    _Atomic int *n_busy;
    float data[2][1024];
} caller;

static bool call_list(caller *c, int64_t n)
{
    md_tensor p = md_tensor_make(c->data[0], MD_F32, 1, &n), g = md_tensor_make(c->data[1], MD_F32, 1, &n);
    md_arg own[4];
    own[place_of("lr")] = md_s(1);
    own[place_of("P")] = own[place_of("O")] = md_t(&p);
    own[place_of("G")] = md_t(&g);
    const md_combo_part part = {c->op, own, 4, 1};
    c->data[0][n - 1] = 5;
    c->data[1][n - 1] = 3;
    return md_combo_call(c->context, NULL, &part, 1) == MD_OK && c->data[0][n - 1] == 2;
}

static void *call_new_lists(void *user)
{
    caller *c = user;
    for (int64_t n = 1; n <= 300; n++)
        c->is_right &= call_list(c, n + 300 * c->number);
    atomic_fetch_sub(c->n_busy, 1);
    return NULL;
}

static void *call_one_list(void *user)
{
    caller *c = user;
    while (atomic_load(c->n_busy) > 0)
        c->is_right &= call_list(c, 1000);
    return NULL;
}

static void lists_in_use_stay(void **state)
{
    enum { CALLERS = 3 };
    static caller c[CALLERS];
    _Atomic int n_busy = CALLERS - 1;
    pthread_t thread[CALLERS];
    md_context *own = NULL;
    md_op *same = NULL;
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    assert_ok(md_op_create(&same, own, "scalar lr; P[i] = O[i] - lr * G[i]", NULL));
    for (int i = 0; i < CALLERS; i++)
        c[i] = (caller){.context = own, .op = same, .number = i - 1, .is_right = true, .n_busy = &n_busy};
    assert_true(call_list(&c[0], 1000));
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i ? call_new_lists : call_one_list, &c[i]), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < CALLERS; i++)
        assert_true(c[i].is_right);
    md_op_destroy(&same);
    md_context_destroy(&own);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        CASE(overlaps_name_both),    CASE(overlaps_after_moving),
        CASE(all_items_are_moved),   CASE(packed_tensors_are_refused),
        CASE(views_may_interleave),  CASE(wrong_items_are_named),
        CASE(other_contexts),        CASE(empty_lists_and_items),
        CASE(scalars_and_arguments), CASE(context_goes_first),
        CASE(forgets_old_lists),     CASE(overlaps_of_one_byte),
        CASE(lists_in_use_stay),     CASE(indices_out_of_range),
    };
    return cmocka_run_group_tests_name("combo_input", tests, set_up, tear_down);
}
