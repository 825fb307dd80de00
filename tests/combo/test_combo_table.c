/* The table of a kernel for many items, read as the kernel reads it: every block finds its item, its number there and
 * the words of its parameters, also after addresses and scalars changed. Needs NVRTC, since ops for GPUs do. */
#include "support/check.h"

#include "api/context.h"
#include "combo/merge.h"

#include <stdbool.h>

enum { ITEMS = 40, MOST = 1500 };

static md_context *context;
static md_op *op;
static md_tensor tensor[MOST][3];
static md_arg args[MOST][4];
static char *const memory = (char *)(uintptr_t)(UINT64_C(1) << 40); /* nothing touches it */

/* P = O - lr * G, of sizes that take one block, some, and a row each; or of at most 64 elements. */
static void lay_out_at(char *base, md_tensor (*t)[3], md_arg (*arg)[4], bool are_tiny)
{
    for (int i = 0; i < MOST; i++) {
        md_arg_info info;
        const int64_t n = are_tiny ? 1 + i % 64 : i % 5 == 0 ? 100000 + i : 4 * (1 + i);
        for (int32_t a = 0; a < 4; a++) {
            assert_ok(md_op_arg(&info, op, a));
            if (info.is_scalar) {
                arg[i][a] = md_s(0.5);
                continue;
            }
            const int k = info.name[0] == 'G' ? 1 : 0;
            t[i][k] = md_tensor_make(base + (i * 2 + k) * 1048576LL, MD_F32, 1, &n);
            arg[i][a] = md_t(&t[i][k]);
        }
    }
}

static void lay_out(bool are_tiny)
{
    lay_out_at(memory, tensor, args, are_tiny);
}

static int set_up(void **state)
{
    (void)state;
    if (md_context_create(&context, &(md_context_options){.device = "sm_90a", .hints = "1024"}) != MD_OK)
        return 0;
    assert_ok(md_op_create(&op, context, "scalar lr; P[i] = O[i] - lr * G[i]",
                           &(md_op_options){.async = 1, .tune = MD_TUNE_OFF}));
    assert_ok(md_op_wait(op));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}

/* The words of an item in the table. */
static void check_words(const md_cb *cb, const md_cb_group *g, int64_t number, uint64_t body_number,
                        const uint64_t *item)
{
    const uint64_t *table = (const uint64_t *)(const void *)g->table;
    const md_cb_unit *u = &cb->plan->unit[g->unit[number]];
    const md_cb_body *body = &g->kernel.body[body_number];
    const md_kn_word *word = cb->plan->word + u->params;
    assert_true(body->variant == u->variant);
    for (int32_t k = 0; k < body->n_own; k++)
        assert_true(item[1 + k] == (uint64_t)word[body->own[k]].i);
    for (int32_t k = 0; k < body->n_shared; k++)
        assert_true(table[md_cb_text_head(&g->kernel) + k] == (uint64_t)word[body->shared[k]].i);
}

static uint32_t columns_of(const md_cb_unit *u)
{
    return u->geometry.grid[1] > 1 ? (uint32_t)u->geometry.grid[1] : 1;
}

/* As text.c prints it. */
static void check_block(const md_cb *cb, const md_cb_group *g, uint32_t block, int64_t *seen)
{
    const uint64_t *table = (const uint64_t *)(const void *)g->table,
                   *far = (const uint64_t *)(const void *)g->far.word;
    const uint32_t n = (uint32_t)table[0], *start = (const uint32_t *)(const void *)far,
                   *first = g->kernel.is_far ? start + (((uint32_t)(table[2] >> 32) + 1) & ~1U)
                                             : (const uint32_t *)(const void *)(table + md_cb_head(&g->kernel));
    uint32_t low = 0, left = n;
    if (g->kernel.is_far) {
        const uint32_t near = block >> (uint32_t)table[2];
        assert_true(near + 1 < table[2] >> 32);
        low = start[near];
        left = start[near + 1] - low + 1;
    }
    while (left > 1) {
        const uint32_t half = left >> 1;
        low = first[low + half] <= block ? low + half : low;
        left -= half;
    }
    const uint32_t ref = first[n + low], own = block - first[low];
    const uint64_t *item = (g->kernel.is_far ? far : table) + (ref & 0x1fffffff);
    const md_cb_unit *u = &cb->plan->unit[g->unit[low]];
    assert_true((uint32_t)item[0] == (uint32_t)u->geometry.grid[0] && item[0] >> 32 == columns_of(u));
    assert_true(own < (uint32_t)u->geometry.grid[0] * columns_of(u));
    check_words(cb, g, low, ref >> 29, item);
    seen[low]++;
}

static void check_group(md_cb *cb, md_cb_group *g, double lr, const char *first_p)
{
    int64_t seen[MOST] = {0};
    bool has_lr = false;
    const int32_t head = md_cb_head(&g->kernel);
    assert_ok(md_cb_table_update(cb, g));
    for (int64_t b = 0; b < g->blocks; b++)
        check_block(cb, g, (uint32_t)b, seen);
    for (int64_t i = 0; i < g->n; i++)
        assert_int_equal(seen[i],
                         cb->plan->unit[g->unit[i]].geometry.grid[0] * columns_of(&cb->plan->unit[g->unit[i]]));
    for (int32_t k = md_cb_text_head(&g->kernel); k < head; k++)
        has_lr |= g->table[k].d == lr;
    assert_true(has_lr);
    bool has_p = false;
    for (int32_t k = 0; !g->kernel.is_far && k < g->kernel.table_words; k++)
        has_p |= g->table[k].p == first_p;
    for (int64_t k = 0; g->kernel.is_far && k < g->far.n; k++)
        has_p |= g->far.word[k].p == first_p;
    assert_true(has_p);
}

static void blocks_find_their_items(void **state)
{
    md_cb *cb = NULL;
    void *moved[ITEMS];
    (void)state;
    if (!context) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    lay_out(false);
    const md_combo_part part = {op, &args[0][0], 4, ITEMS};
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &op->ds, 1));
    assert_ok(md_cb_prepare(cb));
    assert_int_equal(cb->merged->n, 1);
    md_cb_group *g = &cb->merged->group[0];
    assert_int_equal(g->n, ITEMS);
    check_group(cb, g, 0.5, memory);
    assert_ok(md_cb_set_scalars(cb, (md_arg[]){md_s(0.25)}, 1));
    assert_true(md_cb_update(cb));
    check_group(cb, g, 0.25, memory);
    for (int i = 0; i < ITEMS; i++)
        moved[i] = memory + (1000 + i) * 1048576;
    for (int32_t a = 0; a < 4; a++)
        if (args[0][a].tensor == &tensor[0][0])
            assert_ok(md_cb_point(cb, 0, a, moved));
    assert_true(md_cb_update(cb));
    check_group(cb, g, 0.25, moved[0]);
    assert_false(g->is_stale || g->has_old_scalars);
    md_cb_fill(cb); /* all words anew, as where memory of its own has moved */
    assert_true(g->is_stale && g->has_old_scalars);
    check_group(cb, g, 0.25, moved[0]);
    for (int32_t i = 0; i < ITEMS; i++) /* grids of two dims, too, and such that leave the second out */
        cb->plan->unit[g->unit[i]].geometry.grid[1] = i % 4;
    g->is_stale = true;
    check_group(cb, g, 0.25, moved[0]);
    moved[3] = (char *)moved[3] + 4; /* another alignment needs another plan */
    for (int32_t a = 0; a < 4; a++)
        if (args[0][a].tensor == &tensor[0][0])
            assert_ok(md_cb_point(cb, 0, a, moved));
    assert_false(md_cb_update(cb));
    md_cb_destroy(&cb);
}

static md_cb *make(int64_t n)
{
    md_cb *cb = NULL;
    if (!context) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    const md_combo_part part = {op, &args[0][0], 4, n};
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &op->ds, 1));
    assert_ok(md_cb_prepare(cb));
    assert_int_equal(cb->merged->n, 1);
    return cb;
}

/* Scalars that all items of a body have are words of the head; others are words of each item. */
static void scalars_are_shared_where_they_are_equal(void **state)
{
    (void)state;
    for (int n_others = 0; n_others < 3; n_others++) {
        int64_t seen[MOST] = {0};
        lay_out(false);
        for (int i = 0; i < n_others; i++)
            for (int32_t a = 0; a < 4; a++)
                if (args[i][a].kind == MD_ARG_REAL)
                    args[i][a] = md_s(0.25);
        md_cb *cb = make(ITEMS);
        md_cb_group *g = &cb->merged->group[0];
        int32_t n_sharing = 0;
        for (int32_t b = 0; b < g->kernel.n; b++) {
            bool is_equal = true;
            const int64_t *first = NULL;
            for (int64_t i = 0; i < g->n; i++) {
                const int64_t *item = &cb->plan->unit[g->unit[i]].item;
                if (g->body[i] != b)
                    continue;
                first = first ? first : item;
                is_equal &= (*item < n_others) == (*first < n_others);
            }
            assert_true(g->kernel.body[b].shares_scalars == is_equal);
            n_sharing += is_equal;
        }
        assert_true(n_others > 0 ? n_sharing < g->kernel.n : n_sharing == g->kernel.n);
        assert_ok(md_cb_table_update(cb, g));
        for (int64_t b = 0; b < g->blocks; b++)
            check_block(cb, g, (uint32_t)b, seen);
        md_cb_destroy(&cb);
    }
}

/* Also where the first of a body, or the last, is the one that differs. */
static void each_item_has_its_scalars(void **state)
{
    int64_t item[2];
    (void)state;
    lay_out(false);
    md_cb *cb = make(ITEMS);
    item[0] = cb->plan->unit[cb->merged->group[0].unit[0]].item;
    item[1] = cb->plan->unit[cb->merged->group[0].unit[ITEMS - 1]].item;
    md_cb_destroy(&cb);
    for (int k = 0; k < 2; k++) {
        lay_out(false);
        for (int32_t a = 0; a < 4; a++)
            if (args[item[k]][a].kind == MD_ARG_REAL)
                args[item[k]][a] = md_s(0.25);
        cb = make(ITEMS);
        const md_cb_group *g = &cb->merged->group[0];
        const int64_t at = k * (ITEMS - 1);
        int64_t n = 0;
        for (int64_t i = 0; i < g->n; i++)
            n += g->body[i] == g->body[at];
        assert_int_equal(cb->plan->unit[g->unit[at]].item, item[k]);
        assert_true(n > 1 && !g->kernel.body[g->body[at]].shares_scalars);
        md_cb_destroy(&cb);
    }
}

/* An item that takes long by itself is alone where kernels of other items would share its launch. */
static void heavy_items_are_alone(void **state)
{
    enum { N = 4 };
    static const int64_t heavy = 40000000; /* 480 MB: more than 75 us */
    md_op *other = NULL;
    (void)state;
    if (!context)
        skip();
    assert_ok(md_op_create(&other, context, "scalar lr; P[i] = O[i] + lr * G[i]",
                           &(md_op_options){.async = 1, .tune = MD_TUNE_OFF}));
    assert_ok(md_op_wait(other));
    lay_out(false);
    for (int32_t k = 0; k < 2; k++)
        tensor[0][k] = md_tensor_make(memory + ((int64_t)(4 + k) << 34), MD_F32, 1, &heavy);
    for (int is_last = 0; is_last < 2; is_last++) {
        const md_combo_part one = {op, &args[0][0], 4, 1}, more = {other, &args[1][0], 4, N};
        md_ds_op *const own[] = {is_last ? other->ds : op->ds, is_last ? op->ds : other->ds};
        md_cb *cb = NULL;
        assert_ok(md_cb_create(&cb, &context->runtime,
                               is_last ? (md_combo_part[]){more, one} : (md_combo_part[]){one, more}, own, 2));
        assert_ok(md_cb_prepare(cb));
        assert_int_equal(cb->merged->n, 1);
        assert_int_equal(cb->merged->group[0].n, N);
        assert_int_equal(cb->merged->n_alone, 1);
        assert_int_equal(cb->plan->unit[cb->merged->alone[0]].item, is_last ? N : 0);
        md_cb_destroy(&cb);
    }
    md_op_destroy(&other);
}

/* Also with so many blocks that several share a start. */
static void blocks_find_far_items(void **state)
{
    (void)state;
    lay_out(false);
    md_cb *cb = make(MOST);
    md_cb_group *g = &cb->merged->group[0];
    assert_true(g->kernel.is_far && !g->kernel.by_warps);
    check_group(cb, g, 0.5, memory);
    assert_int_equal((uint32_t)g->table[2].i, 0);
    for (int64_t i = 0; i < cb->plan->n_units; i++)
        if (cb->plan->unit[i].geometry.grid[0] > 1)
            cb->plan->unit[i].geometry.grid[0] = 401;
    g->is_stale = true;
    check_group(cb, g, 0.5, memory);
    assert_true((uint32_t)g->table[2].i > 0);
    md_cb_destroy(&cb);
}

/* A CUDA before 12.1 takes 4 KiB of parameters, be it the driver or NVRTC; a driver that nobody knows is a new one. */
static void old_cudas_take_few_words(void **state)
{
    static const struct {
        int32_t nvrtc, driver;
        bool is_large;
    } row[] = {{12010, 0, true},      {12010, 12010, true},  {13000, 12020, true}, {12000, 0, false},
               {12000, 12020, false}, {12020, 12000, false}, {13000, 11080, false}};
    (void)state;
    lay_out(false);
    if (!context) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    md_dev_facts *facts = &context->runtime.dev->facts;
    const md_dev_facts before = *facts;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        facts->nvrtc = row[i].nvrtc;
        facts->driver = row[i].driver;
        md_cb *cb = make(250);
        const md_cb_group *g = &cb->merged->group[0];
        const bool is_large = !g->kernel.is_far && g->kernel.table_words > 512;
        if (is_large != row[i].is_large)
            fail_msg("row %zu: %d words, far %d", i, (int)g->kernel.table_words, (int)g->kernel.is_far);
        md_cb_destroy(&cb);
    }
    *facts = before;
}

/* In device memory and in the parameters. */
static void warps_find_their_items(void **state)
{
    (void)state;
    lay_out(true);
    for (int64_t n = MOST; n > 0; n -= 1000) {
        md_cb *cb = make(n);
        md_cb_group *g = &cb->merged->group[0];
        assert_true(g->kernel.by_warps == (n == MOST));
        assert_ok(md_cb_table_update(cb, g));
        for (int64_t i = 0; g->kernel.by_warps && i < n; i++) {
            const uint64_t *item = (const uint64_t *)(const void *)g->far.word + i * md_cb_text_stride(&g->kernel);
            const md_cb_unit *u = &cb->plan->unit[g->unit[i]];
            assert_int_equal(item[0] & 0xffffff, 1 + u->item % 64);
            assert_int_equal(item[0] >> 24 & 0xffffff, 1);
            check_words(cb, g, i, item[0] >> 61, item);
        }
        assert_int_equal(g->blocks, g->kernel.by_warps ? (n + 7) / 8 : n);
        md_cb_destroy(&cb);
    }
}

/* ---- A device whose memory ends */

static struct {
    int n_tables, n_launches, most_tables;
} counted;

static md_status table_make(void **out, md_dev *dev, const void *from, size_t n_bytes, bool may_wait)
{
    (void)dev;
    (void)from;
    (void)may_wait;
    if (counted.n_tables == counted.most_tables)
        return md_fail(MD_OUT_OF_MEMORY, "no memory for a table of %zu bytes", n_bytes);
    counted.n_tables++;
    *out = memory;
    return MD_OK;
}

static void table_free(md_dev *dev, void *table, md_dev_table_end end, md_stream stream)
{
    (void)dev;
    (void)table;
    (void)end;
    (void)stream;
}

static md_status note_run(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                          md_dev_params params, const md_kn_call *call)
{
    (void)dev;
    (void)stream;
    (void)kernel;
    (void)geometry;
    (void)params;
    (void)call;
    counted.n_launches++;
    return MD_OK;
}

/* Two kinds of items, with a table each. Without memory for the second nothing is launched; with it all is. The first
 * test: nothing is being built yet while the device's functions are replaced. The others do without them. */
static void nothing_runs_without_a_table(void **state)
{
    static md_tensor tiny_tensor[MOST][3];
    static md_arg tiny[MOST][4];
    (void)state;
    if (!context)
        skip();
    lay_out(false);
    lay_out_at(memory + (INT64_C(1) << 36), tiny_tensor, tiny, true);
    md_dev *dev = context->runtime.dev;
    static md_dev_ops ops;
    ops = *dev->ops;
    ops.table_make = table_make;
    ops.table_free = table_free;
    ops.launch = note_run;
    dev->ops = &ops;
    md_ds_op *const own[] = {op->ds, op->ds};
    const md_combo_part part[] = {{op, &args[0][0], 4, MOST}, {op, &tiny[0][0], 4, MOST}};
    md_cb *cb = NULL;
    assert_ok(md_cb_create(&cb, &context->runtime, part, own, 2));
    assert_ok(md_cb_prepare(cb));
    assert_int_equal(cb->merged->n, 2);
    for (int g = 0; g < 2; g++) {
        assert_true(cb->merged->group[g].kernel.is_far);
        cb->merged->group[g].ready = (const md_dev_kernel *)(const void *)memory; /* as if it were built */
    }
    counted.most_tables = 1;
    assert_fails(md_cb_run_merged(cb, NULL), MD_OUT_OF_MEMORY, "no memory for a table");
    assert_int_equal(counted.n_launches, 0);
    counted.most_tables = 2;
    assert_ok(md_cb_run_merged(cb, NULL));
    assert_int_equal(counted.n_launches, 2);
    md_cb_destroy(&cb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_runs_without_a_table),
                                       cmocka_unit_test(blocks_find_their_items),
                                       cmocka_unit_test(scalars_are_shared_where_they_are_equal),
                                       cmocka_unit_test(each_item_has_its_scalars),
                                       cmocka_unit_test(heavy_items_are_alone),
                                       cmocka_unit_test(blocks_find_far_items),
                                       cmocka_unit_test(warps_find_their_items),
                                       cmocka_unit_test(old_cudas_take_few_words)};
    return cmocka_run_group_tests_name("combo_table", tests, set_up, tear_down);
}
