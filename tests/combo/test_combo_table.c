/* The table of a kernel for many items, read as the kernel reads it: every block finds its item, its number there and
 * the words of its parameters, also after addresses and scalars changed. Needs NVRTC, since ops for GPUs do. */
#include "support/check.h"

#include "api/context.h"
#include "combo/merge.h"

#include <stdbool.h>

enum { ITEMS = 40 };

static md_context *context;
static md_op *op;
static md_tensor tensor[ITEMS][3];
static md_arg args[ITEMS][4];
static char *const memory = (char *)(uintptr_t)(UINT64_C(1) << 40); /* nothing touches it */

/* P = O - lr * G, of sizes that take one block, some, and a row each. */
static int set_up(void **state)
{
    (void)state;
    if (md_context_create(&context, &(md_context_options){.device = "sm_90a", .hints = "1024"}) != MD_OK)
        return 0;
    assert_ok(md_op_create(&op, context, "scalar lr; P[i] = O[i] - lr * G[i]",
                           &(md_op_options){.async = 1, .tune = MD_TUNE_OFF}));
    assert_ok(md_op_wait(op));
    for (int i = 0; i < ITEMS; i++) {
        md_arg_info info;
        const int64_t n = i % 5 == 0 ? 100000 + i : 4 * (1 + i);
        for (int32_t a = 0; a < 4; a++) {
            assert_ok(md_op_arg(&info, op, a));
            if (info.is_scalar) {
                args[i][a] = md_s(0.5);
                continue;
            }
            const int k = info.name[0] == 'G' ? 1 : 0;
            tensor[i][k] = md_tensor_make(memory + (i * 2 + k) * 1048576, MD_F32, 1, &n);
            args[i][a] = md_t(&tensor[i][k]);
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}

/* As text.c prints it. */
static void check_block(const md_cb *cb, const md_cb_group *g, int32_t head, uint32_t block, int64_t *seen)
{
    const uint64_t *table = (const uint64_t *)(const void *)g->table;
    const uint32_t *first = (const uint32_t *)(const void *)(table + head);
    const uint32_t n = (uint32_t)table[0];
    uint32_t low = 0;
    for (uint32_t left = n; left > 1;) {
        const uint32_t half = left >> 1;
        low = first[low + half] <= block ? low + half : low;
        left -= half;
    }
    const uint32_t ref = first[n + low], own = block - first[low];
    const uint64_t *item = table + (ref & 0x1fffffff);
    const md_cb_unit *u = &cb->plan->unit[g->unit[low]];
    const md_cb_body *body = &g->kernel.body[ref >> 29];
    const md_kn_word *word = cb->plan->word + u->params;
    assert_true(body->variant == u->variant);
    assert_true((uint32_t)item[0] == (uint32_t)u->geometry.grid[0] && item[0] >> 32 == 1);
    assert_true(own < (uint32_t)u->geometry.grid[0]);
    for (int32_t k = 0; k < body->n_own; k++)
        assert_true(item[1 + k] == (uint64_t)word[body->own[k]].i);
    for (int32_t k = 0; k < body->n_shared; k++)
        assert_true(table[MD_CB_HEAD + k] == (uint64_t)word[body->shared[k]].i);
    seen[low]++;
}

static void check_group(md_cb *cb, md_cb_group *g, double lr, const char *first_p)
{
    int64_t seen[ITEMS] = {0};
    bool has_lr = false;
    int32_t head = MD_CB_HEAD;
    assert_ok(md_cb_table_update(cb, g));
    for (int32_t i = 0; i < g->kernel.n; i++)
        head += g->kernel.body[i].n_shared;
    for (int64_t b = 0; b < g->blocks; b++)
        check_block(cb, g, head, (uint32_t)b, seen);
    for (int64_t i = 0; i < g->n; i++)
        assert_int_equal(seen[i], cb->plan->unit[g->unit[i]].geometry.grid[0]);
    for (int32_t k = MD_CB_HEAD; k < head; k++)
        has_lr |= g->table[k].d == lr;
    assert_true(has_lr);
    bool has_p = false;
    for (int32_t k = 0; k < g->kernel.table_words; k++)
        has_p |= g->table[k].p == first_p;
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
    moved[3] = (char *)moved[3] + 4; /* another alignment needs another plan */
    for (int32_t a = 0; a < 4; a++)
        if (args[0][a].tensor == &tensor[0][0])
            assert_ok(md_cb_point(cb, 0, a, moved));
    assert_false(md_cb_update(cb));
    md_cb_destroy(&cb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_find_their_items)};
    return cmocka_run_group_tests_name("combo_table", tests, set_up, tear_down);
}
