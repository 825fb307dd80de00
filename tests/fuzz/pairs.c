/* The actions: one for each public function, with what it needs before and after it. */
#include "fuzz/pairs.h"

#include <string.h>

static int take(void *user, const char *text, size_t n)
{
    *(size_t *)user += strnlen(text, n);
    return 0;
}

static void note(pair_thread *t, md_status s)
{
    t->n_failed += s != MD_OK;
}

static int32_t any(pair_thread *t)
{
    return fuzz_below(&t->run, PAIR_OPS);
}

static md_op *op_of(pair_thread *t)
{
    return t->world->op[any(t)];
}

/* Sizes up to 8, so that shapes are new now and then; smaller views are not contiguous. */
void pair_arguments(md_arg arg[3], md_tensor tensor[3], pair_thread *t, const md_op *op, bool is_any_size)
{
    int n_inputs = 0;
    const int64_t n = is_any_size ? 1 + fuzz_below(&t->run, PAIR_N) : PAIR_N, size[2] = {n, n};
    for (int i = 0; i < 3; i++) {
        md_arg_info info = {0};
        note(t, md_op_arg(&info, op, i));
        tensor[i] = md_tensor_make(info.is_output ? t->result : t->world->input[n_inputs], MD_F32, 2, size);
        n_inputs += !info.is_output && n_inputs == 0;
        tensor[i].stride[0] = PAIR_N;
        arg[i] = md_t(&tensor[i]);
    }
}

/* An action: one call, and what holds then. */
#define ACTION(name, holds)                                                                                            \
    static void name(pair_thread *t)                                                                                   \
    {                                                                                                                  \
        note(t, (holds) ? MD_OK : MD_INTERNAL);                                                                        \
    }

/* ---- General */

ACTION(version, md_version()[0])
ACTION(last_error, md_last_error())
ACTION(status_name, md_status_name((md_status)fuzz_below(&t->run, 12)))
ACTION(dtype_name, md_dtype_name((md_dtype)fuzz_below(&t->run, 13)))
ACTION(dtype_size, md_dtype_size(MD_F32) == 4)
ACTION(dtype_parse, md_dtype_parse("bf16") == MD_BF16)

ACTION(tensor_make, md_tensor_make(NULL, MD_F32, 1, &(const int64_t){4}).rank == 1)

ACTION(catalogue, (md_catalogue(fuzz_below(&t->run, 200), NULL, NULL, NULL), true))
ACTION(variables, (md_variables(fuzz_below(&t->run, 60), NULL, NULL, NULL), true))

/* ---- Contexts and memory */

static void context(pair_thread *t)
{
    md_context *c = NULL;
    md_op *op = NULL;
    const md_context_options o = {
        .device = "host", .threads = 1, .cc = "/nonexistent/cc", .hints = "8", .cache_dir = t->world->folder};
    note(t, md_context_create(&c, &o));
    note(t, md_op_create(&op, c, pair_formulas[1], NULL));
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void info(pair_thread *t)
{
    size_t n = 0;
    note(t, md_info(t->world->context, fuzz_below(&t->run, 2), take, &n));
}

static void memory(pair_thread *t)
{
    void *p = NULL;
    note(t, md_alloc(&p, t->world->context, 100 + (size_t)fuzz_below(&t->run, 10000)));
    note(t, md_copy(t->world->context, p, t->world->input[0], 100));
    md_free(t->world->context, p);
}

ACTION(sync, md_sync(t->world->context, NULL) == MD_OK)
ACTION(check, md_check(t->world->context) == MD_OK)

/* ---- Ops */

/* Equal to a living op, or new by its name; kernels are the same, so nothing is compiled. */
static void op_life(pair_thread *t)
{
    char name[16];
    md_op *op = NULL;
    const int32_t i = any(t);
    md_tensor tensor[3];
    md_arg arg[3];
    snprintf(name, sizeof name, "op%d", (int)fuzz_below(&t->run, 3));
    const md_op_options o = {
        .name = name, .max_variants = 2, .select = pair_modes[any(t)], .async = fuzz_below(&t->run, 2)};
    note(t, md_op_create(&op, t->world->context, pair_formulas[i], &o));
    pair_arguments(arg, tensor, t, op, true);
    for (int k = 0; k < 3; k++)
        note(t, md_call(op, NULL, arg, 3));
    md_op_destroy(&op);
}

ACTION(op_n_args, md_op_n_args(op_of(t)) == 3)

static void op_arg(pair_thread *t)
{
    md_arg_info out;
    note(t, md_op_arg(&out, op_of(t), fuzz_below(&t->run, 3)));
}

static void op_tensor(pair_thread *t)
{
    const int32_t i = any(t);
    md_tensor out;
    note(t, md_op_tensor(&out, t->world->op[i], fuzz_below(&t->run, 3), pair_sizes[i]));
}

ACTION(op_name, md_op_name(op_of(t))[0])
ACTION(op_formula, md_op_formula(op_of(t))[0])
ACTION(op_dim, md_op_dim(op_of(t), "zz") == -1)
ACTION(op_n_stages, md_op_n_stages(op_of(t)) == 1)
ACTION(op_n_variants, md_op_n_variants(op_of(t), 0) > 0)
ACTION(op_variant, md_op_variant(op_of(t), 0, 0)[0])

static void op_source(pair_thread *t)
{
    md_op *op = op_of(t);
    size_t n = 0;
    note(t, md_op_source(op, 0, md_op_variant(op, 0, 0), take, &n));
}

static void op_work(pair_thread *t)
{
    const int32_t i = any(t);
    double flops, bytes;
    note(t, md_op_work(&flops, &bytes, t->world->op[i], pair_sizes[i]));
}

ACTION(op_operand_changed, md_op_operand_changed(t->world->op[0], "B", NULL) == MD_OK)

/* ---- Calls */

static void call(pair_thread *t)
{
    md_tensor tensor[3];
    md_arg arg[4];
    md_op *op = op_of(t);
    pair_arguments(arg, tensor, t, op, true);
    arg[3] = md_as(0, 1 + fuzz_below(&t->run, 4));
    for (int i = 0; i < 4; i++)
        note(t, md_call(op, NULL, arg, 3 + (i == 3)));
}

static void reference(pair_thread *t)
{
    md_tensor tensor[3];
    md_arg arg[3];
    md_op *op = op_of(t);
    pair_arguments(arg, tensor, t, op, true);
    note(t, md_reference(op, arg, 3));
}

static void launch_life(pair_thread *t)
{
    md_tensor tensor[3];
    md_arg arg[3];
    md_launch *launch = NULL;
    md_choice choice;
    double us;
    md_op *op = op_of(t);
    pair_arguments(arg, tensor, t, op, true);
    note(t, md_resolve(&launch, op, arg, 3));
    note(t, md_launch_run(launch, NULL, NULL, 0));
    note(t, md_launch_choice(&choice, launch));
    note(t, md_launch_time(&us, launch, NULL));
    note(t, md_launch_time_all(&us, (const md_launch *const *)&launch, 1, NULL));
    md_launch_destroy(&launch);
}

/* The launch that both threads have, on the thread's own result. */
static void launch_run(pair_thread *t)
{
    md_tensor tensor[3];
    md_arg arg[3];
    pair_arguments(arg, tensor, t, t->world->op[0], false);
    note(t, md_launch_run(t->world->launch, NULL, arg, 3));
}

static void launch_choice(pair_thread *t)
{
    md_choice choice;
    note(t, md_launch_choice(&choice, t->world->launch));
}

static md_status bench_one(double *us, void *user, int32_t i, int32_t repeats)
{
    (void)user;
    *us = 1.0 + i + repeats;
    return MD_OK;
}

static void bench(pair_thread *t)
{
    double us[2][3];
    md_bench_competitor c[2] = {{.us = us[0]}, {.us = us[1]}};
    note(t, md_bench(c, 2, &(md_bench_options){.samples = 3, .sample_us = 1, .warm_up_us = -1}, bench_one, NULL));
}

/* ---- Choices */

static void choice_of(pair_thread *t)
{
    md_tensor tensor[3];
    md_arg arg[3];
    md_choice choice;
    md_op *op = op_of(t);
    pair_arguments(arg, tensor, t, op, true);
    note(t, md_choice_of(&choice, op, arg, 3));
    note(t, md_choices_export(t->world->context, take, &(size_t){0}));
    note(t, md_choices_import(NULL, t->world->context, "{\"format\":\"multidispatch choices\",\"version\":1}\n"));
}

static void explain(pair_thread *t)
{
    const int32_t i = any(t);
    size_t n = 0;
    note(t, md_explain(t->world->op[i], pair_sizes[i], fuzz_below(&t->run, 2), take, &n));
    note(t, md_check_formula(t->world->context, "softmax", NULL, fuzz_below(&t->run, 2), take, &n));
}

static void formula(pair_thread *t)
{
    md_formula *f = NULL;
    md_arg_info info;
    md_tensor tensor[3] = {{0}};
    note(t, md_formula_create(&f, "Y[i] = X[i] * 2", NULL));
    note(t, md_formula_arg(&info, f, 0));
    note(t, md_formula_infer(tensor, md_formula_n_args(f), f));
    (void)md_formula_text(f);
    md_formula_destroy(&f);
}

static bool at_sizes(pair_thread *t, md_status (*fn)(md_op *op, const char *sizes))
{
    const int32_t i = any(t);
    char text[64];
    const int n = 1 + fuzz_below(&t->run, 20);
    snprintf(text, sizeof text, i ? "i=%d, j=%d" : "m=%d, n=%d, k=3", n, n);
    note(t, fn(t->world->op[i], text));
    return true;
}

ACTION(prepare, at_sizes(t, md_prepare))
ACTION(bundle_keep, at_sizes(t, md_bundle_keep))
ACTION(op_wait, md_op_wait(op_of(t)) == MD_OK)

static void freeze(pair_thread *t)
{
    md_op *op = op_of(t);
    note(t, md_freeze(op, MD_FREEZE_REFERENCE));
    note(t, md_freeze(op, MD_FREEZE_NONE));
}

ACTION(freeze_all, md_freeze_all(t->world->context, MD_FREEZE_READY) == MD_OK &&
                       md_freeze_all(t->world->context, MD_FREEZE_NONE) == MD_OK)

ACTION(digest, md_digest((uint64_t[2]){0}, t->world->context) == MD_OK)

static void capture_list(pair_thread *t)
{
    size_t n = 0;
    (void)md_capture_list(t->world->context, NULL, NULL, 0, take, &n); /* unsupported on the host */
}

/* ---- Hints and tuning */

static void hints_suggest(pair_thread *t)
{
    const md_met_shape met[] = {{"i=4, j=100", 2.0}, {"i=60, j=9", 1.0}};
    size_t n = 0;
    note(t, md_hints_suggest(t->world->context, pair_formulas[1], NULL, &(md_suggest_options){met, 2, 2, 1, take, &n}));
}

static void tune_formula(pair_thread *t)
{
    size_t n = 0;
    const md_tune_options o = {.budget_ms = 1, .max_builds = 1, .write = take, .user = &n};
    note(t, md_tune_formula(t->world->context, pair_formulas[1], &(md_op_options){.hints = "8"}, &o));
}

/* One rank: it gathers from itself. */
static int32_t gather_alone(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    (void)user, (void)seconds, (void)why;
    memcpy(all, mine, n_bytes);
    return 0;
}

ACTION(agree, md_agree(&(md_agreement){0}, t->world->context, &(md_exchange){0, 1, 1.0, gather_alone, NULL}) == MD_OK)

static int tune_line(void *user, const char *text, size_t n)
{
    pair_thread *t = user;
    char piece[4096];
    (void)snprintf(piece, sizeof piece, "%.*s", (int)n, text);
    if (fuzz_below(&t->run, 2))
        piece[strcspn(piece, "\n")] = 0; /* one piece; else all are one bad text */
    note(t, md_tune_piece(t->world->context, piece, NULL, take, &(size_t){0}));
    return 0;
}

static void tune_pieces(pair_thread *t)
{
    const md_tune_options o = {.budget_ms = 1, .max_builds = 1, .write = tune_line, .user = t};
    note(t, md_tune_pieces(t->world->context, pair_formulas[1], &(md_op_options){.hints = "8"}, &o));
}

ACTION(tune_piece, md_tune_piece(t->world->context, "{}", NULL, NULL, NULL) == MD_OK)

/* ---- Statistics and the store */

static void stats_print(pair_thread *t)
{
    FILE *f = fopen("/dev/null", "w");
    note(t, md_stats_report(t->world->context, "json", take, &(size_t){0}));
    if (f)
        note(t, md_stats_print(t->world->context, f));
    if (f)
        fclose(f);
}

ACTION(stats_write, md_stats_write(t->world->context, "/dev/null", fuzz_below(&t->run, 2) ? "json" : "csv") == MD_OK)

ACTION(store_count, md_store_count(&(md_store_counters){0}, t->world->context) == MD_OK)
ACTION(store_path, md_store_path(t->world->context))
ACTION(bundle_begin, md_bundle_begin(t->world->context, MD_BUNDLE_ALL) == MD_OK)
ACTION(bundle_describe, md_bundle_describe("/nonexistent/bundle", take, &(size_t){0}) == MD_OK)
ACTION(bundle_write, md_bundle_write(t->world->context, "/nonexistent/bundle") == MD_OK)
ACTION(store_list, md_store_list(t->world->context, 1, take, &(size_t){0}) == MD_OK)
ACTION(store_verify, md_store_verify(&(md_store_facts){0}, t->world->context, NULL, NULL) == MD_OK)
ACTION(store_gc,
       md_store_gc(&(md_store_facts){0}, t->world->context, fuzz_below(&t->run, 2) ? 1 << 30 : 100000) == MD_OK)

static void wisdom_export(pair_thread *t)
{
    size_t n = 0;
    note(t, md_wisdom_export(t->world->context, take, &n));
}

static void wisdom_import(pair_thread *t)
{
    const char *text = t->world->wisdom ? t->world->wisdom : "# none\n";
    note(t, md_wisdom_import(NULL, t->world->context, text, strlen(text), NULL, NULL));
}

const pair_action pair_actions[] = {
    {"md_version", version},
    {"md_last_error", last_error},
    {"md_status_name", status_name},
    {"md_dtype_name", dtype_name},
    {"md_dtype_size", dtype_size},
    {"md_dtype_parse", dtype_parse},
    {"md_tensor_make", tensor_make},
    {"md_catalogue", catalogue},
    {"md_variables", variables},
    {"md_context_create md_context_destroy", context},
    {"md_info", info},
    {"md_alloc md_free md_copy", memory},
    {"md_sync", sync},
    {"md_check", check},
    {"md_op_create md_op_destroy", op_life},
    {"md_op_n_args", op_n_args},
    {"md_op_arg", op_arg},
    {"md_op_tensor", op_tensor},
    {"md_op_name", op_name},
    {"md_op_formula", op_formula},
    {"md_op_dim", op_dim},
    {"md_op_n_stages", op_n_stages},
    {"md_op_n_variants", op_n_variants},
    {"md_op_variant", op_variant},
    {"md_op_source", op_source},
    {"md_op_work", op_work},
    {"md_op_operand_changed", op_operand_changed},
    {"md_call", call},
    {"md_reference", reference},
    {"md_resolve md_launch_time md_launch_time_all md_launch_destroy", launch_life},
    {"md_launch_run", launch_run},
    {"md_launch_choice", launch_choice},
    {"md_bench", bench},
    {"md_choice_of", choice_of},
    {"md_choices_export md_choices_import", choice_of},
    {"md_check_formula", explain},
    {"md_formula_create", formula},
    {"md_formula_arg md_formula_n_args md_formula_infer", formula},
    {"md_formula_text", formula},
    {"md_formula_destroy", formula},
    {"md_stats_report", stats_print},
    {"md_explain", explain},
    {"md_prepare", prepare},
    {"md_op_wait", op_wait},
    {"md_freeze", freeze},
    {"md_freeze_all", freeze_all},
    {"md_digest", digest},
    {"md_capture_list", capture_list},
    {"md_hints_suggest", hints_suggest},
    {"md_agree", agree},
    {"md_tune_formula", tune_formula},
    {"md_tune_piece", tune_piece},
    {"md_tune_pieces", tune_pieces},
    {"md_stats_print", stats_print},
    {"md_stats_write", stats_write},
    {"md_bundle_begin", bundle_begin},
    {"md_bundle_keep", bundle_keep},
    {"md_bundle_write", bundle_write},
    {"md_bundle_describe", bundle_describe},
    {"md_store_count", store_count},
    {"md_store_path", store_path},
    {"md_store_list", store_list},
    {"md_store_verify", store_verify},
    {"md_store_gc", store_gc},
    {"md_wisdom_export", wisdom_export},
    {"md_wisdom_import", wisdom_import},
    {NULL, NULL},
};
