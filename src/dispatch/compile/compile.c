/* Compiles a formula: parse, split into stages, make the program, read hints, fill in the policy's defaults. */
#include "dispatch/compile/compile.h"

#include "base/status.h"
#include "expr/merge_dims.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_VARIANTS = 32 };

static void set_policy(md_ds_policy *out, const md_ds_compile_options *o)
{
    *out = o->policy;
    out->pin = NULL;
    out->has_default_hints = md_ds_are_default_hints(o->hints_source);
    if (!(out->uncovered > 0.0))
        out->uncovered = MD_DS_UNCOVERED;
    if (!(out->hybrid_share > 0.0))
        out->hybrid_share = MD_DS_HYBRID_SHARE;
    if (!(out->hybrid_cap_ms > 0.0))
        out->hybrid_cap_ms = MD_DS_HYBRID_CAP_MS;
    if (out->max_variants <= 0)
        out->max_variants = DEFAULT_MAX_VARIANTS;
    out->max_variants = MD_MIN(out->max_variants, MD_DS_MAX_VARIANTS - MD_DS_SPARE_VARIANTS);
}

/* Splits into stages in the order of sums that is best at the hints. Under a numeric policy bits may depend only on
 * sizes that the formula has as numbers, and under batch_invariant not on a batch's. */
static md_status split(md_ds_compiled *c, md_numeric numeric)
{
    const bool is_fast = numeric < MD_NUMERIC_DETERMINISTIC;
    int64_t(*size)[MD_FX_MAX_DIMS] = calloc((size_t)MD_MAX(c->space.n_hints, 1), sizeof *size);
    if (!size)
        return md_fail_memory();
    for (int32_t h = 0; h < c->space.n_hints; h++)
        md_ds_hint_sizes(size[h], &c->space, h);
    const md_st_sizes sizes = {
        .n = is_fast ? c->space.n_hints : 0, .size = size, .ignores_batch = numeric == MD_NUMERIC_BATCH_INVARIANT};
    const md_status s = md_st_split_at(c->formula, &sizes, &c->orders);
    free(size);
    return s;
}

/* Warns for the sizes of the last hint, which is the largest if hints go up. */
static md_status warn(md_ds_compiled *c)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, &c->space, c->space.n_hints - 1);
    MD_TRY(md_st_warn(c->formula, c->program, size));
    const bool rounds_updates = c->facts->kind != MD_DEV_HOST; /* a CPU has bins of f64 */
    return rounds_updates ? md_st_warn_of_rounding(c->formula, c->program, size) : MD_OK;
}

/* The product among a product's parts, in which axes are moved. */
static int32_t moved_of(const md_st_program *program, int32_t stage)
{
    const md_st_stage *whole = &program->stage[stage];
    for (int32_t i = 0; i < whole->n_parts; i++)
        if (program->stage[whole->part[i]].kind == MD_ST_PRODUCT)
            return whole->part[i];
    return -1;
}

/* The stage that writes the tensor; -1: it is written on the way to another one. */
static int32_t writer_of(const md_st_program *program, int32_t tensor)
{
    for (int32_t s = 0; s < program->n_stages; s++)
        if (program->stage[s].store[0].tensor == tensor)
            return s;
    return -1;
}

/* True if a family takes some product only with its axes moved. `written`: the program without moves. */
static bool moving_helps(const md_ds_compiled *c, const md_st_program *program, const md_st_program *written)
{
    for (int32_t s = 0; s < program->n_stages; s++) {
        const int32_t moved = program->stage[s].kind == MD_ST_PRODUCT ? moved_of(program, s) : -1,
                      own = moved >= 0 ? writer_of(written, program->stage[s].store[0].tensor) : -1;
        const md_fa_target as_written = {.program = written, .stage = own, .facts = c->facts},
                           with_moves = {.program = program, .stage = moved, .facts = c->facts};
        const md_fa_family *f;
        for (int32_t i = 0; own >= 0 && (f = md_fa_of(&as_written, i)) != NULL; i++)
            if (md_fa_applies(f, &with_moves) && !md_fa_applies(f, &as_written))
                return true;
    }
    return false;
}

/* Takes the program with moved axes; or goes back to the formula as it was written, if the policy leaves that to the
 * families and none gains. */
static md_status take_turned(md_ds_compiled *c, const md_fx_formula *written, md_env_axes axes)
{
    md_st_program *turned = NULL, *before = NULL;
    md_status s = md_st_program_create(&turned, c->formula);
    if (s == MD_OK && axes != MD_AXES_BOTH)
        s = md_st_program_create(&before, written);
    if (s == MD_OK && (!before || moving_helps(c, turned, before))) {
        md_st_program_destroy(&c->program);
        c->program = turned;
        turned = NULL;
    } else {
        *c->formula = *written;
    }
    md_st_program_destroy(&turned);
    md_st_program_destroy(&before);
    return s;
}

/* Lets products also run with the axes of their operands moved, where that may be worth it. Custom kernels name the
 * stages of the formula as it is written. */
static md_status turn(md_ds_compiled *c, const md_ds_compile_options *o)
{
    md_fx_formula *written = NULL;
    if (o->policy.axes == MD_AXES_WRITTEN || o->n_custom > 0)
        return MD_OK;
    md_status s = md_st_turn(&written, c->formula, c->program);
    if (written)
        s = take_turned(c, written, o->policy.axes);
    free(written);
    return s;
}

/* Chains that the device has no family for are left to their parts. */
static void drop_chains(md_ds_compiled *c)
{
    for (int32_t s = c->program->n_stages - 1; s >= 0; s--) {
        const md_fa_target target = {.program = c->program, .stage = s, .facts = c->facts};
        const md_fa_family *f = NULL;
        for (int32_t i = 0; c->program->stage[s].kind == MD_ST_CHAIN && (f = md_fa_of(&target, i)) != NULL; i++)
            if (md_fa_applies(f, &target))
                break;
        if (c->program->stage[s].kind == MD_ST_CHAIN && !f)
            md_st_program_drop(c->program, s);
    }
}

static md_status set_constant(uint32_t *out, const md_fx_formula *f, const char *name, size_t n)
{
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_fx_tensor *x = &f->tensor[t];
        if (x->role == MD_FX_TEMP || strlen(x->name) != n || strncmp(x->name, name, n))
            continue;
        if (x->role != MD_FX_INPUT)
            return md_fail(MD_INVALID_ARGUMENT, "option constant: '%s' is written by the formula", x->name);
        *out |= UINT32_C(1) << t;
        return MD_OK;
    }
    return md_fail(MD_INVALID_ARGUMENT, "option constant: '%.*s' is no input of the formula", (int)n, name);
}

static md_status set_constants(uint32_t *out, const md_fx_formula *f, const char *names)
{
    static const char between[] = ", \t";
    *out = 0;
    for (const char *at = names ? names + strspn(names, between) : ""; *at;) {
        const size_t n = strcspn(at, between);
        MD_TRY(set_constant(out, f, at, n));
        at += n;
        at += strspn(at, between);
    }
    return MD_OK;
}

static md_status compile(md_ds_compiled *c, const char *text, const md_ds_compile_options *o)
{
    const md_fx_options fx = {.dtype = o->dtype, .sizes = o->sizes, .bounds = o->bounds};
    MD_TRY(md_fx_formula_create(&c->formula, text, &fx));
    md_fx_print(&c->printed, c->formula); /* before the split adds temporaries, which are not the user's */
    if (c->printed.failed)
        return md_fail_memory();
    c->may_join = md_fx_may_merge_dims(c->formula);
    MD_TRY(md_ds_space_make(&c->space, c->formula, o->hints, o->hints_source, o->weights));
    MD_TRY(split(c, o->policy.numeric));
    MD_TRY(md_st_program_create(&c->program, c->formula));
    MD_TRY(turn(c, o));
    drop_chains(c);
    MD_TRY(warn(c));
    MD_TRY(md_ds_numeric_check(c->program, o->policy.numeric));
    MD_TRY(md_fa_customs_create(&c->customs, o->custom, o->n_custom, c->program, c->facts->kind));
    set_policy(&c->policy, o);
    return set_constants(&c->policy.constants, c->formula, o->constant);
}

md_status md_ds_compile(md_ds_compiled **out, const md_dev_facts *facts, const char *formula,
                        const md_ds_compile_options *options)
{
    md_ds_compiled *c = calloc(1, sizeof *c);
    if (!c)
        return md_fail_memory();
    c->facts = facts;
    const md_status s = compile(c, formula, options);
    if (s != MD_OK) {
        md_ds_compiled_destroy(&c);
        return s;
    }
    *out = c;
    return MD_OK;
}

void md_ds_warn(const md_log *log, const md_ds_compiled *compiled)
{
    for (int32_t i = 0; i < compiled->formula->n_warnings; i++)
        md_log_text_once(log, MD_LOG_WARN, compiled->formula->warning[i]);
}

void md_ds_compiled_destroy(md_ds_compiled **compiled)
{
    md_ds_compiled *c = *compiled;
    if (!c)
        return;
    md_fa_customs_destroy(&c->customs);
    md_st_program_destroy(&c->program);
    md_fx_formula_destroy(&c->formula);
    md_strbuf_finish(&c->printed);
    free(c);
    *compiled = NULL;
}

md_fa_target md_ds_target_of(const md_ds_compiled *compiled, int32_t stage)
{
    return (md_fa_target){.program = compiled->program,
                          .stage = stage,
                          .facts = compiled->facts,
                          .allows_tf32 = compiled->policy.allows_tf32,
                          .constants = compiled->policy.constants,
                          .customs = compiled->customs};
}
