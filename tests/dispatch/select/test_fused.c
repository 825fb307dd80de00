/* Chains of an assumed GPU, whose kernels are neither compiled nor launched: which shapes they serve, and when. */
#include "dispatch/support/gpu_ops.h"
#include "dispatch/select/select.h"
#include "tune/tune.h"

#include <math.h>
#include <time.h>

#define WEIGHTS                                                                                                        \
    "let P:bf16[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l])));"
static const char grouped[] = "let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h//4,j,d]) * 0.0884;" WEIGHTS
                              "Y:bf16[b,h,i,d] = sum[j](P[b,h,i,j] * V:bf16[b,h//4,j,d])";
static const char causal[] =
    "let S[b,h,i,j] = where(j <= i + size(j) - size(i), sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d]) * 0.0884, "
    "-inf);" WEIGHTS "Y:bf16[b,h,i,d] = sum[j](P[b,h,i,j] * V:bf16[b,h,j,d])";

static const char gradient[] =
    "let P:bf16[b,h,i,j] = where(j <= i, exp(sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d]) * 0.0884 - L:f32[b,h,i]), 0);"
    "let T:bf16[b,h,i,j] = P[b,h,i,j] * (sum[e](G:bf16[b,h,i,e] * V:bf16[b,h,j,e]) - w:f32[b,h,i]) * 0.0884;"
    "A:bf16[b,h,i,d] = sum[j](T[b,h,i,j] * K[b,h,j,d]); B:bf16[b,h,j,d] = sum[i](T[b,h,i,j] * Q[b,h,i,d]);"
    "C:bf16[b,h,j,e] = sum[i](P[b,h,i,j] * G[b,h,i,e])";

static md_ds_op *op_chosen(const char *formula, const char *sizes, md_numeric numeric, md_select select)
{
    md_ds_op *op = NULL;
    const md_ds_op_options o = {
        .compile.dtype = MD_BF16,
        .compile.sizes = sizes,
        .compile.hints = "1,16,64,256,1024,4096",
        .compile.hints_source = "default hints",
        .max_shapes = 10000,
        .compile.policy = {
            .select = select, .numeric = numeric, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO}};
    assert_ok(md_ds_op_create(&op, &w.runtime, formula, &o));
    return op;
}

static md_ds_op *op_with(const char *formula, const char *sizes, md_numeric numeric)
{
    return op_chosen(formula, sizes, numeric, MD_SELECT_MODEL);
}

/* Contiguous tensors at b, h, i (queries), j (keys) and d, `offset` bytes behind a boundary. */
static void bind_at(md_ds_bound *out, const md_ds_op *op, const int64_t size[5], uintptr_t offset)
{
    static const char names[] = "bhijd";
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < f->n_dims; d++) {
        const char name = f->dim[d].name[0], *at = f->dim[d].name[1] ? NULL : strchr(names, name == 'e' ? 'd' : name);
        out->binding.size[d] = at ? size[at - names] : size[1] / 4; /* K and V have a head for four */
    }
    bind_tensors(out, op, offset);
}

static int32_t chain_of(const md_ds_op *op)
{
    for (int32_t s = 0; s < op->n_stages; s++)
        if (op->program->stage[s].kind == MD_ST_CHAIN)
            return s;
    fail_msg("there is no chain");
    return -1;
}

/* The entry of a shape, as a call finds or makes it; held. */
static md_ds_shape_entry *entry_at(md_ds_op *op, const int64_t size[5], uintptr_t offset)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    bind_at(&bound, op, size, offset);
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    return entry;
}

/* "chain_split/depth96_.." where the chain serves, "idle" where its parts do. */
static const char *served_by(md_ds_op *op, const int64_t size[5], uintptr_t offset)
{
    md_ds_shape_entry *e = entry_at(op, size, offset);
    const md_ds_plan *plan = md_ds_plan_of(e);
    const char *name = md_ds_pick_name(op, plan, chain_of(op));
    assert_true(md_ds_runs_all_once(plan, op));
    md_ds_shape_entry_release(e);
    return name;
}

/* What a report says of it. */
static void check_reason(md_ds_op *op, const int64_t size[5], uintptr_t offset, const char *part)
{
    md_ds_bound bound;
    md_strbuf text = {0};
    bind_at(&bound, op, size, offset);
    md_ds_shape_entry *e = entry_at(op, size, offset);
    md_ds_print_fused(&text, op, md_ds_plan_of(e), chain_of(op), &bound.shape, bound.shape.size);
    if (!strstr(md_strbuf_text(&text), part))
        fail_msg("'%s' is not in '%s'", part, md_strbuf_text(&text));
    md_strbuf_finish(&text);
    md_ds_shape_entry_release(e);
}

/* ---- Lengths of heads that no hint has */

static void a_new_length_waits_for_nothing_and_gets_kernels(void **state)
{
    static const int64_t lengths[] = {96, 80, 192, 48};
    static const char *const formulas[] = {grouped, causal};
    (void)state;
    for (int32_t f = 0; f < MD_COUNT(formulas); f++) {
        md_ds_op *op = op_with(formulas[f], NULL, MD_NUMERIC_FAST);
        for (int32_t i = 0; i < MD_COUNT(lengths); i++) {
            char word[32];
            const int64_t size[5] = {3, 32, 1, 1500, lengths[i]}, other[5] = {2, 32, 2000, 2000, lengths[i]};
            snprintf(word, sizeof word, "depth%d_", (int)lengths[i]);
            w.device.compile_ms = 50;
            assert_string_equal(served_by(op, size, 0), "idle");
            assert_string_equal(served_by(op, other, 0), "idle");
            assert_int_equal(op->count.waits, 0);
            check_reason(op, size, 0, "its parts, while ");
            w.device.compile_ms = 0;
            md_ds_op_wait(op);
            check_reason(op, size, 0, "the chain (model): ");
            assert_non_null(strstr(served_by(op, size, 0), word));
            assert_non_null(strstr(served_by(op, other, 0), word));
            assert_int_equal(op->count.adopted, i + 1);
        }
        const int32_t n = atomic_load(&w.device.n_compiled);
        int32_t n_by_parts = 0;
        for (int64_t k = 0; k < 500; k++) {
            const int64_t size[5] = {1 + k % 7, 32, 1 + k * k % 3001, 1 + k * 77 % 9001, lengths[k % 4]};
            if (strstr(served_by(op, size, 0), "chain_"))
                continue;
            check_reason(op, size, 0, "its parts (model): ");
            n_by_parts++;
        }
        assert_true(n_by_parts < 50);
        md_ds_op_wait(op);
        assert_int_equal(atomic_load(&w.device.n_compiled), n);
        assert_int_equal(op->count.waits, 0);
        md_ds_op_destroy(&op);
    }
}

/* The parts of grouped heads, whichever way they are written, are products on tensor cores or of few rows. */
static void parts_of_grouped_heads_are_products(void **state)
{
    static const int64_t sizes[][5] = {{3, 32, 1, 1500, 96}, {2, 32, 600, 2000, 96}};
    (void)state;
    md_ds_op *op = op_with(grouped, NULL, MD_NUMERIC_FAST);
    for (int32_t i = 0; i < MD_COUNT(sizes); i++) {
        md_ds_shape_entry *e = entry_at(op, sizes[i], 0);
        const md_ds_plan *plan = md_ds_plan_of(e);
        for (int32_t s = 0; s < op->n_stages; s++) {
            const char *name = md_ds_variant_name(op, s, plan->stage[s].pick.variant);
            if (op->program->stage[s].kind == MD_ST_PRODUCT && !strstr(name, "gemm_mma") && !strstr(name, "gemv") &&
                !strstr(name, "gemm_dot"))
                fail_msg("stage %d: %s", s, name);
        }
        md_ds_shape_entry_release(e);
    }
    md_ds_op_destroy(&op);
}

/* A literal length, and the usual ones, are there from the first call on. */
static void usual_lengths_are_there(void **state)
{
    static const int64_t at[][4] = {{3, 32, 1, 1500}, {1, 32, 512, 512}, {2, 32, 4000, 4000}, {200, 32, 1, 300}};
    (void)state;
    md_ds_op *any = op_with(grouped, NULL, MD_NUMERIC_FAST), *literal = op_with(grouped, "d=112", MD_NUMERIC_FAST);
    for (int32_t i = 0; i < MD_COUNT(at); i++)
        for (int64_t d = 64; d <= 128; d += 64) {
            const int64_t size[5] = {at[i][0], at[i][1], at[i][2], at[i][3], d},
                          fixed[5] = {at[i][0], at[i][1], at[i][2], at[i][3], 112};
            assert_non_null(strstr(served_by(any, size, 0), "chain_"));
            assert_non_null(strstr(served_by(literal, fixed, 0), "depth112_"));
        }
    assert_int_equal(any->count.adopted + literal->count.adopted, 0);
    assert_int_equal(any->count.waits + literal->count.waits, 0);
    md_ds_op_destroy(&any);
    md_ds_op_destroy(&literal);
}

/* The gradient of attention: lines of two lengths, both of which choose the kernel. */
static void gradients_have_kernels(void **state)
{
    static const int64_t at[][5] = {
        {1, 32, 1024, 1024, 128}, {1, 32, 4000, 4000, 128}, {2, 32, 700, 3000, 64}, {4, 32, 500, 500, 96}};
    (void)state;
    md_ds_op *op = op_with(gradient, NULL, MD_NUMERIC_FAST);
    for (int32_t i = 0; i < MD_COUNT(at); i++) {
        char word[32];
        snprintf(word, sizeof word, "depth%d_width%d_", (int)at[i][4], (int)at[i][4]);
        (void)served_by(op, at[i], 0);
        md_ds_op_wait(op);
        if (!strstr(served_by(op, at[i], 0), word))
            fail_msg("%d keys of %d: %s", (int)at[i][3], (int)at[i][4], served_by(op, at[i], 0));
    }
    assert_int_equal(op->count.adopted, 1); /* 96 */
    assert_int_equal(op->count.waits, 0);
    md_ds_op_destroy(&op);
}

/* Operands that no kernel takes, an odd length or rows at no boundary, are tried once, and the parts serve. */
static void what_no_kernel_takes_is_asked_once(void **state)
{
    (void)state;
    md_ds_op *op = op_with(causal, NULL, MD_NUMERIC_FAST);
    for (int64_t n = 1; n < 40; n++) {
        const int64_t odd[5] = {1, 8, n, 3 * n, 35}, unaligned[5] = {1, 8, n, 5 * n, 64};
        assert_string_equal(served_by(op, odd, 0), "idle");
        assert_string_equal(served_by(op, unaligned, 2), "idle");
        if (n == 1)
            md_ds_op_wait(op);
        md_ds_shape_entry *e = entry_at(op, odd, 0);
        assert_true(n == 1 || md_ds_plan_of(e)->stage[chain_of(op)].wished == -1);
        md_ds_shape_entry_release(e);
    }
    assert_int_equal(op->count.adopted, 0);
    assert_int_equal(op->count.waits, 0);
    check_reason(op, (const int64_t[5]){1, 8, 3, 15, 64}, 2, "its parts, since no kernel of the chain fits: ");
    md_ds_op_destroy(&op);
}

/* Bits must not change when a kernel is ready: under a numeric policy lengths that had none never get one. */
static void numeric_policies_choose_once(void **state)
{
    const int64_t usual[5] = {3, 32, 700, 1500, 128}, other[5] = {3, 32, 700, 1500, 96};
    (void)state;
    for (int32_t policy = MD_NUMERIC_DETERMINISTIC; policy <= MD_NUMERIC_BATCH_INVARIANT; policy++) {
        md_ds_op *op = op_with(causal, NULL, (md_numeric)policy);
        md_ds_op *literal = op_with(causal, "d=96", (md_numeric)policy);
        for (int32_t i = 0; i < 2; i++) {
            assert_non_null(strstr(served_by(op, usual, 0), "depth128_"));
            assert_non_null(strstr(served_by(literal, other, 0), "depth96_"));
            assert_string_equal(served_by(op, other, 0), "idle");
            md_ds_op_wait(op);
        }
        md_ds_op_destroy(&op);
        md_ds_op_destroy(&literal);
    }
}

/* An op that goes away while kernels are chosen and built waits for them. */
static void an_op_may_go_at_any_time(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 10; i++) {
        const int64_t size[5] = {1 + i, 8, 1, 700, 160};
        md_ds_op *op = op_with(causal, NULL, MD_NUMERIC_FAST);
        w.device.compile_ms = i % 3;
        (void)served_by(op, size, 0);
        md_ds_op_destroy(&op);
        w.device.compile_ms = 0;
    }
}

/* ---- Batches, queries and keys */

typedef struct regret {
    double sum, worst;
    int32_t n;
} regret;

static void note_regret(regret *r, md_ds_op *op, const int64_t size[5])
{
    md_ds_bound bound;
    double best = INFINITY;
    const int32_t stage = chain_of(op);
    const md_fa_target *target = &op->stage[stage].target;
    const md_fa_family *f;
    bind_at(&bound, op, size, 0);
    for (int32_t i = 0; (f = md_fa_of(target, i)) != NULL; i++) {
        md_fa_config config;
        double us;
        if (md_fa_applies(f, target) && !f->is_last_resort &&
            md_tn_best(&config, &us, target, f, bound.shape.size, &bound.shape) == MD_OK)
            best = fmin(best, us);
    }
    md_ds_shape_entry *e = entry_at(op, size, 0);
    const md_ds_stage_choice *s = &md_ds_plan_of(e)->stage[stage];
    if (s->is_idle) { /* its parts are faster */
        md_ds_shape_entry_release(e);
        return;
    }
    const double more = s->pick.us / best - 1;
    r->sum += more;
    r->worst = fmax(r->worst, more);
    r->n++;
    if (more > 0.15)
        print_message("%lld x %lld queries, %lld keys, %lld: %s %.1f us, %.1f\n", (long long)size[0],
                      (long long)size[2], (long long)size[3], (long long)size[4],
                      md_ds_variant_name(op, stage, s->pick.variant), s->pick.us, best);
    md_ds_shape_entry_release(e);
}

static int64_t draw(uint64_t *seed, double octaves)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)exp2((double)(*seed >> 40) * 0x1p-24 * octaves);
}

/* Against the best config that there is, by the model: half of the shapes are steps of decoding. */
static void the_pool_is_near_the_best_anywhere(void **state)
{
    static const int64_t lengths[] = {64, 128, 96, 256};
    static const char *const formulas[] = {grouped, causal};
    uint64_t seed = check_seed();
    (void)state;
    for (int32_t f = 0; f < MD_COUNT(formulas); f++)
        for (int32_t k = 0; k < MD_COUNT(lengths); k++) {
            regret r = {0};
            md_ds_op *op = op_with(formulas[f], NULL, MD_NUMERIC_FAST);
            for (int32_t i = 0; i < 100; i++) {
                const int64_t keys = 16 + draw(&seed, 15), queries = i % 2 ? 1 : draw(&seed, 13);
                const int64_t size[5] = {draw(&seed, 7), 32, queries, MD_MAX(keys, queries), lengths[k]};
                if (i == 0)
                    (void)served_by(op, size, 0);
                md_ds_op_wait(op);
                note_regret(&r, op, size);
            }
            print_message("length %d: %.1f%%, at most %.0f%%\n", (int)lengths[k], 100 * r.sum / r.n, 100 * r.worst);
            assert_true(r.sum / r.n < 0.05);
            assert_true(r.worst < 0.75);
            md_ds_op_destroy(&op);
        }
}

/* ---- Hybrid */

static double us_of_chain, us_of_part; /* of a launch */

/* By the device's clock. A text begins with its kernel's name. */
static void take_time(const char *text, const md_kn_word *params, int32_t n)
{
    (void)params, (void)n;
    fake_device_spend(&w.device, (uint64_t)((strstr(text, "md_chain_") ? us_of_chain : us_of_part) * 1e3));
}

static md_status lend_counters(void **out, md_dev *dev, md_stream stream)
{
    static char counters[64];
    (void)dev, (void)stream;
    *out = counters; /* no kernel looks at them */
    return MD_OK;
}

static const md_dev_ops *fake_ops;

/* The fake device takes a word of kernels that exchange parts of rows for its own. */
static md_status compile_quietly(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    for (char *at = source->text.text; (at = strstr(at, "HANG")) != NULL;)
        memcpy(at, "hang", 4);
    return fake_ops->compile(binary, n_bytes, dev, source);
}

/* Calls of one shape, whose memory nobody reads. */
static void run_calls(md_ds_op *op, const int64_t size[5], int32_t n)
{
    md_ds_bound bound;
    md_arg arg[MD_FX_MAX_ARGS];
    bind_at(&bound, op, size, 0);
    for (int32_t i = 0; i < op->formula->n_args; i++)
        arg[i] = md_t(&bound.binding.tensor[op->formula->args[i].id]);
    for (int32_t i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, arg, op->formula->n_args));
        fake_device_spend(&w.device, 1000000);
        if (i % 20 == 0)
            nanosleep(&(struct timespec){0, 1000000}, NULL); /* pool threads prepare the trial */
    }
}

/* The model says the chain. Where that is slow, the parts serve in the end; and the chain again when they become slow.
 */
static void hybrid_tries_the_other_way(void **state)
{
    static const double us[][2] = {{900, 40}, {40, 400}}; /* of the chain, of a part */
    static md_dev_ops ops;
    const int64_t size[5] = {2, 8, 300, 700, 128};
    (void)state;
    fake_ops = w.device.base.ops;
    ops = *fake_ops;
    ops.compile = compile_quietly;
    ops.counters = lend_counters;
    w.device.base.ops = &ops;
    w.device.owns_clock = true;
    w.device.on_launch = take_time;
    md_ds_op *op = op_chosen(causal, "d=128", MD_NUMERIC_FAST, MD_SELECT_HYBRID);
    assert_string_not_equal(served_by(op, size, 0), "idle");
    for (int32_t i = 0; i < 2; i++) {
        const bool by_parts = i == 0;
        us_of_chain = us[i][0];
        us_of_part = us[i][1];
        for (int32_t k = 0; k < 300 && (strcmp(served_by(op, size, 0), "idle") == 0) != by_parts; k++)
            run_calls(op, size, 200);
        assert_int_equal(strcmp(served_by(op, size, 0), "idle") == 0, by_parts);
    }
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_length_waits_for_nothing_and_gets_kernels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_grouped_heads_are_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gradients_have_kernels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(usual_lengths_are_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_no_kernel_takes_is_asked_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numeric_policies_choose_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_op_may_go_at_any_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hybrid_tries_the_other_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_pool_is_near_the_best_anywhere, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
