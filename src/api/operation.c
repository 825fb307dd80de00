/* Makes ops from formulas and options, and answers questions about them. */
#include "api/context.h"

#include "base/dtype.h"
#include "base/status.h"
#include "dispatch/create.h"
#include "dispatch/merged.h"
#include "dispatch/packed_operand.h"
#include "expr/catalogue.h"
#include "expr/diag.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return *text != 0;
}

/* A text that is only a name is looked up in the catalogue. */
md_status md_api_find_formula(const char **formula, const char **name, const char *text)
{
    *formula = text;
    *name = NULL;
    if (!is_name(text))
        return MD_OK;
    const md_catalogue_entry *e = md_catalogue_find(text);
    if (!e) {
        md_fx_nearest nearest = {.wanted = text};
        for (int32_t i = 0; md_catalogue_at(i); i++)
            md_fx_nearest_offer(&nearest, md_catalogue_at(i)->name);
        return md_fail(MD_NOT_FOUND,
                       "'%s' is neither a formula nor an op of the catalogue (mdctl ops lists them)%s%s%s", text,
                       MD_FX_NEAREST_ARGS(nearest));
    }
    *formula = e->formula;
    *name = e->name;
    return MD_OK;
}

/* Copies the parts of "op[.stage]:variant;..." that name this op, as "stage:variant;..." or "variant". */
static md_status pin_of_op(md_strbuf *out, const char *pin, const char *op)
{
    size_t n = strlen(op);
    for (const char *at = pin; at && *at;) {
        while (*at == ';' || isspace((unsigned char)*at))
            at++;
        size_t len = strcspn(at, ";");
        const char *colon = memchr(at, ':', len);
        if (len && !colon)
            return md_fail(MD_INVALID_ARGUMENT, "MD_PIN: '%.*s': expected op:variant or op.stage:variant", (int)len,
                           at);
        if (len && !strncmp(at, op, n) && (at[n] == ':' || at[n] == '.')) {
            const char *from = at[n] == '.' ? at + n + 1 : colon + 1;
            md_strbuf_bytes(out, from, (size_t)(at + len - from));
            md_strbuf_add(out, ";");
        }
        at += len;
    }
    return out->failed ? md_fail_memory() : MD_OK;
}

md_status md_api_check_options(const md_op_options *o)
{
    if (o->dtype != MD_DTYPE_DEFAULT && !md_dtype_is_real(o->dtype))
        return md_fail(MD_INVALID_ARGUMENT, "option dtype: '%s': expected f32, f64, f16, bf16, f8e4m3 or f8e5m2",
                       md_dtype_name(o->dtype));
    if ((int)o->select < 0 || o->select > MD_SELECT_HYBRID)
        return md_fail(MD_INVALID_ARGUMENT, "option select: %d is no md_select", (int)o->select);
    if ((int)o->metric < 0 || o->metric > MD_METRIC_INDUCTOR)
        return md_fail(MD_INVALID_ARGUMENT, "option metric: %d is no md_metric", (int)o->metric);
    if ((int)o->persistent < 0 || o->persistent > MD_PERSISTENT_NEVER)
        return md_fail(MD_INVALID_ARGUMENT, "option persistent: %d is no md_persistent", (int)o->persistent);
    if (!(o->hybrid_share >= 0.0) || o->hybrid_share > 1.0)
        return md_fail(MD_INVALID_ARGUMENT, "option hybrid_share: %g is not from 0 to 1", o->hybrid_share);
    if (!(o->hybrid_cap_ms >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "option hybrid_cap_ms: %g is not 0 or more", o->hybrid_cap_ms);
    if (!(o->uncovered >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "option uncovered: %g is no distance in octaves", o->uncovered);
    if ((int)o->numeric < 0 || o->numeric > MD_NUMERIC_BATCH_INVARIANT)
        return md_fail(MD_INVALID_ARGUMENT, "option numeric: %d is no md_numeric", (int)o->numeric);
    if ((int)o->tune < 0 || o->tune > MD_TUNE_EXHAUSTIVE)
        return md_fail(MD_INVALID_ARGUMENT, "option tune: %d is no md_tune", (int)o->tune);
    if (!(o->tune_budget_ms >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "option tune_budget_ms: %g is no time", o->tune_budget_ms);
    if (o->max_variants < 0)
        return md_fail(MD_INVALID_ARGUMENT, "option max_variants: %d; 0 (the default) or more are possible",
                       (int)o->max_variants);
    if ((int)o->bounds < 0 || o->bounds > MD_BOUNDS_ZERO)
        return md_fail(MD_INVALID_ARGUMENT, "option bounds: %d is no md_bounds", (int)o->bounds);
    return MD_OK;
}

/* Sets whether, and what, the op times in moments without calls. What nobody asked for must not be noticed: an op that
 * was told how to pick, or which bits are allowed, times nothing. */
static void set_races(md_ds_policy *p, const md_context *c, const md_op_options *o)
{
    if (c->env.idle_tune != MD_IDLE_TUNE_ON && (o->select || p->numeric >= MD_NUMERIC_DETERMINISTIC))
        p->idle_tune = false;
    if (o->idle_tune) {
        p->idle_tune = o->idle_tune > 0;
        p->races_cheaply = false;
    }
}

static md_ds_policy policy_of(const md_context *c, const md_op_options *o)
{
    md_ds_policy p = c->policy;
    if (o->select)
        p.select = o->select;
    if (o->metric)
        p.metric = o->metric;
    if (o->persistent)
        p.persistent = o->persistent;
    if (o->numeric)
        p.numeric = o->numeric;
    if (o->tune)
        p.tune = o->tune;
    if (o->tune_budget_ms > 0.0)
        p.tune_budget_ms = o->tune_budget_ms;
    if (o->max_variants)
        p.max_variants = o->max_variants;
    p.without_library = o->without_library != 0;
    p.hybrid_share = o->hybrid_share;
    p.hybrid_cap_ms = o->hybrid_cap_ms;
    set_races(&p, c, o);
    p.uncovered = o->uncovered > 0.0 ? o->uncovered : MD_DS_UNCOVERED;
    p.allows_tf32 = o->tf32 != 0;
    return p;
}

md_ds_compile_options md_api_compile_options(const md_context *c, const md_op_options *o)
{
    return (md_ds_compile_options){.dtype = o->dtype,
                                   .sizes = o->sizes,
                                   .bounds = o->bounds,
                                   .hints = o->hints ? o->hints : c->hints,
                                   .hints_source = o->hints ? "option hints" : c->hints_source,
                                   .weights = o->weights,
                                   .constant = o->constant,
                                   .policy = policy_of(c, o),
                                   .custom = o->custom,
                                   .n_custom = o->n_custom};
}

/* The name of an op: the given one, else the formula's first output. MD_PIN needs it before the pool is built. */
static md_status name_of(char out[64], const char *formula, const char *name, const md_op_options *o)
{
    md_fx_formula *f = NULL;
    if (name) {
        snprintf(out, 64, "%s", name);
        return MD_OK;
    }
    md_fx_options fx = {.dtype = o->dtype, .sizes = o->sizes, .bounds = o->bounds};
    MD_TRY(md_fx_formula_create(&f, formula, &fx));
    for (int32_t t = f->n_tensors - 1; t >= 0; t--)
        if (f->tensor[t].role == MD_FX_OUTPUT)
            snprintf(out, 64, "%s", f->tensor[t].name);
    md_fx_formula_destroy(&f);
    return MD_OK;
}

static md_status make_op(md_op *op, const char *text, const md_op_options *o)
{
    md_context *c = op->context;
    const char *formula, *name;
    char label[64] = "op";
    md_strbuf pin = {0};
    MD_TRY(md_api_check_options(o));
    MD_TRY(md_api_find_formula(&formula, &name, text));
    MD_TRY(name_of(label, formula, o->name ? o->name : name, o));
    md_status s = o->pin ? MD_OK : pin_of_op(&pin, c->pin, label);
    md_ds_op_options ds = {
        .name = label,
        .compile = md_api_compile_options(c, o),
        .pin = o->pin     ? o->pin
               : pin.size ? pin.text
                          : NULL,
        .max_shapes = c->max_shapes,
        .is_async = o->async != 0,
    };
    if (s == MD_OK)
        s = md_ds_op_create(&op->ds, &c->runtime, formula, &ds);
    md_strbuf_finish(&pin);
    return s;
}

md_status md_op_create(md_op **out, md_context *context, const char *formula, const md_op_options *options)
{
    static const md_op_options none = {0};
    if (!out || !context || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", !out ? "out" : !context ? "context" : "formula");
    md_op *op = calloc(1, sizeof *op);
    if (!op)
        return md_fail_memory();
    op->context = context;
    md_status s = make_op(op, formula, options ? options : &none);
    if (s != MD_OK) {
        free(op);
        return s;
    }
    *out = op;
    return MD_OK;
}

void md_op_destroy(md_op **op)
{
    if (!op || !*op)
        return;
    md_api_forget_combos(*op);
    md_api_leave(*op);
    free(*op);
    *op = NULL;
}

int32_t md_op_n_args(const md_op *op)
{
    return op ? op->ds->formula->n_args : 0;
}

md_status md_op_arg(md_arg_info *out, const md_op *op, int32_t i)
{
    if (!out || !op)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "op" : "out");
    const md_fx_formula *f = op->ds->formula;
    if (i < 0 || i >= f->n_args)
        return md_fail(MD_INVALID_ARGUMENT, "op %s has %d arguments, there is no number %d", op->ds->name, f->n_args,
                       i);
    md_api_describe_arg(out, f, i);
    return MD_OK;
}

md_status md_op_tensor(md_tensor *out, md_op *op, int32_t i, const char *sizes)
{
    md_arg_info info;
    md_ds_bound bound;
    if (!out)
        return md_fail(MD_INVALID_ARGUMENT, "out is NULL");
    MD_TRY(md_op_arg(&info, op, i));
    if (info.is_scalar && !info.is_size)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' is a scalar", i, info.name);
    MD_TRY(md_api_bind_sizes(&bound, op, sizes, MD_API_NO_MEMORY));
    const md_fx_formula *f = op->ds->formula;
    const int32_t id = f->args[i].id;
    *out = info.is_size ? md_tensor_make(NULL, MD_I64, 1, &bound.binding.size[f->scalar[id].dim])
                        : bound.binding.tensor[id];
    out->data = NULL;
    return MD_OK;
}

md_status md_op_operand_changed(md_op *op, const char *name, const void *data)
{
    uint32_t tensors = 0;
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    const md_fx_formula *f = op->ds->formula;
    for (int32_t i = 0; i < f->n_args; i++)
        if (!f->args[i].is_scalar && (!name || !strcmp(f->tensor[f->args[i].id].name, name)))
            tensors |= UINT32_C(1) << f->args[i].id;
    if (!tensors)
        return md_fail(MD_INVALID_ARGUMENT, "op %s has no tensor '%s'", op->ds->name, name);
    if (name && !(tensors & op->ds->policy.constants))
        return md_fail(MD_INVALID_ARGUMENT, "op %s: '%s' is not one of its constants (option constant)", op->ds->name,
                       name);
    md_ds_packed_change(op->ds, tensors, data);
    if (op->ds->merged) /* its tensors have the same numbers */
        md_ds_packed_change(md_ds_merged_of(op->ds), tensors, data);
    return MD_OK;
}

const char *md_op_name(const md_op *op)
{
    return op ? op->ds->name : "";
}

const char *md_op_formula(const md_op *op)
{
    return op ? md_strbuf_text(&op->ds->compiled->printed) : "";
}

int32_t md_op_dim(const md_op *op, const char *name)
{
    const int32_t dim = op && name ? md_fx_find_dim(op->ds->formula, name, strlen(name)) : -1;
    return dim < 0 ? -1 : md_ds_slot_of(&op->ds->space, dim);
}

int32_t md_op_n_stages(const md_op *op)
{
    return op ? op->ds->n_stages : 0;
}

int32_t md_op_n_variants(const md_op *op, int32_t stage)
{
    if (!op || stage < 0 || stage >= op->ds->n_stages)
        return 0;
    return atomic_load_explicit(&op->ds->stage[stage].n_variants, memory_order_acquire);
}

const char *md_op_variant(const md_op *op, int32_t stage, int32_t i)
{
    return i >= 0 && i < md_op_n_variants(op, stage) ? op->ds->stage[stage].variant[i]->name : "";
}

md_status md_op_wait(md_op *op)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    md_ds_op_wait(op->ds);
    return MD_OK;
}
