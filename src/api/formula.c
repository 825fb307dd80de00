/* Reads formulas without a device: what an op would take, and the sizes of what it would give. */
#include "api/context.h"
#include "base/status.h"

#include <stdlib.h>

struct md_formula {
    md_fx_formula *formula;
    md_strbuf printed;
};

static md_status read_formula(md_formula *formula, const char *text, const md_op_options *o)
{
    const char *source, *name;
    MD_TRY(md_api_check_options(o));
    MD_TRY(md_api_find_formula(&source, &name, text));
    const md_fx_options fx = {.dtype = o->dtype, .sizes = o->sizes, .bounds = o->bounds};
    MD_TRY(md_fx_formula_create(&formula->formula, source, &fx));
    md_fx_print(&formula->printed, formula->formula);
    return formula->printed.failed ? md_fail_memory() : MD_OK;
}

md_status md_formula_create(md_formula **out, const char *formula, const md_op_options *options)
{
    static const md_op_options none = {0};
    if (!out || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "formula" : "out");
    md_formula *made = calloc(1, sizeof *made);
    if (!made)
        return md_fail_memory();
    const md_status s = read_formula(made, formula, options ? options : &none);
    if (s == MD_OK)
        *out = made;
    else
        md_formula_destroy(&made);
    return s;
}

void md_formula_destroy(md_formula **formula)
{
    if (!formula || !*formula)
        return;
    md_fx_formula_destroy(&(*formula)->formula);
    md_strbuf_finish(&(*formula)->printed);
    free(*formula);
    *formula = NULL;
}

const char *md_formula_text(const md_formula *formula)
{
    return formula ? md_strbuf_text(&formula->printed) : "";
}

int32_t md_formula_n_args(const md_formula *formula)
{
    return formula ? formula->formula->n_args : 0;
}

md_status md_formula_arg(md_arg_info *out, const md_formula *formula, int32_t i)
{
    if (!out || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "formula" : "out");
    if (i < 0 || i >= formula->formula->n_args)
        return md_fail(MD_INVALID_ARGUMENT, "the formula has %d arguments, there is no number %d",
                       formula->formula->n_args, i);
    md_api_describe_arg(out, formula->formula, i);
    return MD_OK;
}

/* ---- Sizes of outputs */

static md_status wrong_size(const md_fx_formula *f, int32_t i, int32_t axis, int64_t size, int64_t known)
{
    const md_fx_tensor *t = &f->tensor[f->args[i].id];
    return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': axis %d (dim '%s') has size %lld, but %s is %lld", i,
                   t->name, axis, f->dim[t->dim[axis]].name, (long long)size, f->dim[t->dim[axis]].name,
                   (long long)known);
}

/* Takes the sizes of one input. Axes that need only be long enough say nothing, but give a size to what has none. */
static md_status take_sizes(int64_t *size, const md_fx_formula *f, int32_t i, const md_tensor *given, bool at_least)
{
    const md_fx_tensor *t = &f->tensor[f->args[i].id];
    if (given->rank != t->rank)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' has rank %d, expected %d", i, t->name, given->rank,
                       t->rank);
    for (int32_t a = 0; a < t->rank; a++) {
        if (t->at_least[a] != at_least)
            continue;
        if (size[t->dim[a]] < 0)
            size[t->dim[a]] = given->size[a];
        else if (size[t->dim[a]] != given->size[a] && !(at_least && given->size[a] > size[t->dim[a]]))
            return wrong_size(f, i, a, given->size[a], size[t->dim[a]]);
    }
    return MD_OK;
}

static md_status give_sizes(md_tensor *out, const md_fx_formula *f, int32_t i, const int64_t *size)
{
    const md_fx_tensor *t = &f->tensor[f->args[i].id];
    int64_t extent[MD_MAX_RANK] = {0};
    if (t->is_updated)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' is also read, so the caller must give it", i, t->name);
    for (int32_t a = 0; a < t->rank; a++) {
        extent[a] = size[t->dim[a]];
        if (extent[a] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "no input gives axis %d (dim '%s') of output '%s' a size", a,
                           f->dim[t->dim[a]].name, t->name);
    }
    *out = md_tensor_make(NULL, t->dtype, t->rank, extent);
    return MD_OK;
}

md_status md_formula_infer(md_tensor *tensor, int32_t n_args, const md_formula *formula)
{
    int64_t size[MD_FX_MAX_DIMS];
    if (!tensor || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", tensor ? "formula" : "tensor");
    const md_fx_formula *f = formula->formula;
    MD_TRY(md_fx_check_sizes(f, n_args));
    if (n_args != f->n_args)
        return md_fail(MD_INVALID_ARGUMENT, "%d arguments given, but the formula has %d", n_args, f->n_args);
    for (int32_t d = 0; d < f->n_dims; d++)
        size[d] = f->dim[d].size;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n_args; i++)
            if (!f->args[i].is_scalar && f->tensor[f->args[i].id].role == MD_FX_INPUT)
                MD_TRY(take_sizes(size, f, i, &tensor[i], pass == 1));
    for (int32_t i = 0; i < n_args; i++)
        if (!f->args[i].is_scalar && f->tensor[f->args[i].id].role == MD_FX_OUTPUT)
            MD_TRY(give_sizes(&tensor[i], f, i, size));
    return MD_OK;
}
