/* Binding the arguments of a call to a formula: every mistake of a caller is found here, and named. */
#include "base/status.h"
#include "base/strbuf.h"
#include "expr/diag.h"
#include "expr/eval/eval.h"
#include "expr/needed.h"
#include "expr/node.h"

#include <stdio.h>
#include <string.h>

typedef struct binder {
    const md_fx_formula *formula;
    md_fx_binding *binding;
    int32_t source[MD_FX_MAX_DIMS]; /* the argument that gave a dim its size; -1: it is static */
} binder;

/* ---- one argument by itself ---- */

md_status md_fx_check_sizes(const md_fx_formula *f, int32_t n_args)
{
    const bool is_left_out = n_args >= 0 && n_args < f->n_args && f->args[n_args].is_scalar;
    const md_fx_scalar *s = is_left_out ? &f->scalar[f->args[n_args].id] : NULL;
    if (!s || !s->is_size)
        return MD_OK;
    return md_fx_complain(f->text, s->line, s->column,
                          "no tensor has an axis indexed by just '%s', so the call gives its size: md_i(size) behind "
                          "the other arguments, %s=size in Python",
                          s->name, s->name);
}

static md_status wrong_count(const md_fx_formula *f, int32_t n_args)
{
    MD_TRY(md_fx_check_sizes(f, n_args));
    md_strbuf names = {0};
    for (int32_t i = 0; i < f->n_args; i++) {
        const md_fx_arg *a = &f->args[i];
        md_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "",
                         a->is_scalar ? f->scalar[a->id].name : f->tensor[a->id].name);
    }
    md_status status = md_fail(MD_INVALID_ARGUMENT, "%d argument%s given, but the op takes %d: %s", n_args,
                               n_args == 1 ? "" : "s", f->n_args, md_strbuf_text(&names));
    md_strbuf_finish(&names);
    return status;
}

static const char *kind_name(md_arg_kind kind)
{
    static const char *const names[] = {"nothing", "a tensor", "a real scalar", "an integer scalar",
                                        "a size to choose by"};
    return (unsigned)kind < (unsigned)MD_COUNT(names) ? names[kind] : "an argument of no known kind";
}

static md_status bind_scalar(binder *b, int32_t i, const md_arg *arg)
{
    const md_fx_scalar *s = &b->formula->scalar[b->formula->args[i].id];
    int32_t id = b->formula->args[i].id;
    if (s->is_size && arg->kind != MD_ARG_INT)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' is the size of dim '%s', but %s was given", i, s->name,
                       s->name, kind_name(arg->kind));
    bool wants_int = s->type == MD_I64;
    if (arg->kind != MD_ARG_INT && (wants_int || arg->kind != MD_ARG_REAL))
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' is %s of type %s, but %s was given", i, s->name,
                       wants_int ? "an integer scalar" : "a scalar", md_dtype_name(s->type), kind_name(arg->kind));
    b->binding->real[id] = arg->kind == MD_ARG_INT ? (double)arg->integer : arg->real;
    b->binding->integer[id] = arg->kind == MD_ARG_INT ? arg->integer : 0;
    return MD_OK;
}

/* Sizes and strides that can be, and elements that fit the address space. */
static bool has_elements(const md_tensor *x)
{
    for (int32_t a = 0; a < x->rank; a++)
        if (x->size[a] == 0)
            return false;
    return true;
}

static md_status check_layout(int32_t i, const md_fx_tensor *t, const md_tensor *x)
{
    int64_t last = 0, step, count = 1;
    bool is_empty = false, overflows = false;
    for (int32_t a = 0; a < t->rank; a++) {
        if (x->size[a] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': axis %d has size %lld", i, t->name, a,
                           (long long)x->size[a]);
        if (x->stride[a] < 0)
            return md_fail(
                MD_INVALID_ARGUMENT,
                "argument %d '%s': axis %d has stride %lld; strides must not be negative: read it reversed, as in "
                "X[size(i)-1-i]",
                i, t->name, a, (long long)x->stride[a]);
        if (x->stride[a] == 0 && x->size[a] > 1 && t->role == MD_FX_OUTPUT && has_elements(x))
            return md_fail(MD_INVALID_ARGUMENT,
                           "argument %d '%s': axis %d has stride 0, but an output needs a place for each "
                           "element",
                           i, t->name, a);
        is_empty |= x->size[a] == 0;
        overflows |= __builtin_mul_overflow(count, x->size[a], &count);
        overflows |= __builtin_mul_overflow(x->size[a] > 0 ? x->size[a] - 1 : 0, x->stride[a], &step);
        overflows |= __builtin_add_overflow(last, step, &last);
    }
    overflows |= last > INT64_MAX / 8 - 1 || count > INT64_MAX / 8;
    if (overflows && !is_empty)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': its elements span more than 2^63 bytes", i, t->name);
    if (!x->data && !is_empty)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': data is NULL", i, t->name);
    if ((uintptr_t)x->data % md_dtype_size(t->dtype) != 0)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': data is not aligned to its %d-byte elements", i, t->name,
                       (int)md_dtype_size(t->dtype));
    return MD_OK;
}

static md_status bind_tensor(binder *b, int32_t i, const md_arg *arg)
{
    const md_fx_tensor *t = &b->formula->tensor[b->formula->args[i].id];
    const md_tensor *x = arg->tensor;
    if (arg->kind != MD_ARG_TENSOR)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' is a tensor, but %s was given", i, t->name,
                       kind_name(arg->kind));
    if (!x)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': the tensor is NULL", i, t->name);
    if (x->dtype != t->dtype)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' has dtype %s, expected %s", i, t->name,
                       md_dtype_name(x->dtype), md_dtype_name(t->dtype));
    if (x->rank != t->rank)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' has rank %d, expected %d", i, t->name, x->rank, t->rank);
    MD_TRY(check_layout(i, t, x));
    b->binding->tensor[b->formula->args[i].id] = *x;
    return MD_OK;
}

/* ---- dims ---- */

/* "K[b,h,j,d]": an argument's place in the formula, by its dims. */
static void print_place(md_strbuf *out, const md_fx_formula *f, int32_t argument)
{
    const md_fx_tensor *t = &f->tensor[f->args[argument].id];
    for (int32_t a = 0; a < t->rank; a++)
        md_strbuf_printf(out, "%s%s%s", a ? "," : t->name, a ? "" : "[", f->dim[t->dim[a]].name);
    md_strbuf_add(out, "]");
}

/* Fails: two arguments give one dim different sizes. */
static md_status two_sizes(const binder *b, int32_t i, int32_t axis, int64_t size)
{
    const md_fx_formula *f = b->formula;
    const int32_t d = f->tensor[f->args[i].id].dim[axis], source = b->source[d];
    md_strbuf here = {0}, there = {0};
    print_place(&here, f, i);
    print_place(&there, f, source);
    const md_status s =
        md_fail(MD_INVALID_ARGUMENT,
                "argument %d '%s': axis %d (dim '%s') has size %lld, but argument %d '%s' gave %s = %lld; they are %s "
                "and %s",
                i, f->tensor[f->args[i].id].name, axis, f->dim[d].name, (long long)size, source,
                f->tensor[f->args[source].id].name, f->dim[d].name, (long long)b->binding->size[d],
                md_strbuf_text(&here), md_strbuf_text(&there));
    md_strbuf_finish(&here);
    md_strbuf_finish(&there);
    return s;
}

static md_status wrong_size(const binder *b, int32_t i, int32_t axis, int64_t size)
{
    const md_fx_formula *f = b->formula;
    const md_fx_tensor *t = &f->tensor[f->args[i].id];
    int32_t d = t->dim[axis], source = b->source[d];
    const char *least = t->at_least[axis] ? "at least " : "";
    if (source < 0)
        return md_fail(MD_INVALID_ARGUMENT,
                       "argument %d '%s': axis %d (dim '%s') has size %lld, but %s is static: %s%lld", i, t->name, axis,
                       f->dim[d].name, (long long)size, f->dim[d].name, least, (long long)f->dim[d].size);
    return two_sizes(b, i, axis, size);
}

static md_status bind_axis(binder *b, int32_t i, int32_t axis)
{
    const md_fx_formula *f = b->formula;
    const md_fx_tensor *t = &f->tensor[f->args[i].id];
    const md_fx_dim *dim = &f->dim[t->dim[axis]];
    int64_t size = b->binding->tensor[f->args[i].id].size[axis], *bound = &b->binding->size[t->dim[axis]];
    if (*bound >= 0)
        return size == *bound || (t->at_least[axis] && size > *bound) ? MD_OK : wrong_size(b, i, axis, size);
    if (size < dim->lo || size > dim->hi)
        return md_fail(MD_INVALID_ARGUMENT,
                       "argument %d '%s': axis %d (dim '%s') has size %lld, outside its range %lld..%lld", i, t->name,
                       axis, dim->name, (long long)size, (long long)dim->lo, (long long)dim->hi);
    *bound = size;
    b->source[t->dim[axis]] = i;
    return MD_OK;
}

static md_status bind_size(binder *b, int32_t i)
{
    const md_fx_scalar *s = &b->formula->scalar[b->formula->args[i].id];
    const md_fx_dim *dim = &b->formula->dim[s->dim];
    int64_t size = b->binding->integer[b->formula->args[i].id];
    if (size < dim->lo || size > dim->hi)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': the size is %lld, outside its range %lld..%lld", i,
                       s->name, (long long)size, (long long)dim->lo, (long long)dim->hi);
    b->binding->size[s->dim] = size;
    b->source[s->dim] = i;
    return MD_OK;
}

/* Axes that must match exactly say how long a dim is; those that need only be long enough come after. */
static md_status bind_axes(binder *b, bool at_least)
{
    const md_fx_formula *f = b->formula;
    for (int32_t i = 0; i < f->n_args; i++) {
        const md_fx_tensor *t = &f->tensor[f->args[i].id];
        for (int32_t axis = 0; !f->args[i].is_scalar && axis < t->rank; axis++)
            if (t->at_least[axis] == at_least)
                MD_TRY(bind_axis(b, i, axis));
    }
    return MD_OK;
}

static md_status bind_dims(binder *b)
{
    const md_fx_formula *f = b->formula;
    for (int32_t d = 0; d < f->n_dims; d++) {
        b->binding->size[d] = f->dim[d].size;
        b->source[d] = -1;
    }
    for (int32_t i = 0; i < f->n_args; i++)
        if (f->args[i].is_scalar && f->scalar[f->args[i].id].is_size)
            MD_TRY(bind_size(b, i));
    MD_TRY(bind_axes(b, false));
    MD_TRY(bind_axes(b, true));
    for (int32_t d = 0; d < f->n_dims; d++)
        if (b->binding->size[d] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "no argument gives dim '%s' a size", f->dim[d].name);
    return MD_OK;
}

/* ---- reaches ---- */

static int32_t argument_of(const md_fx_formula *f, int32_t tensor)
{
    for (int32_t i = 0; i < f->n_args; i++)
        if (!f->args[i].is_scalar && f->args[i].id == tensor)
            return i;
    return -1;
}

static md_status out_of_reach(const md_fx_formula *f, const md_fx_reach *r, int64_t extent, const int64_t *reached)
{
    md_strbuf text = {0};
    char where[160], what[48] = "a place that overflows";
    md_fx_print_node(&text, f, r->subscript);
    int32_t i = argument_of(f, r->tensor);
    if (i >= 0)
        (void)snprintf(where, sizeof(where), "argument %d '%s'", i, f->tensor[r->tensor].name);
    else
        (void)snprintf(where, sizeof(where), "temporary '%s'", f->tensor[r->tensor].name);
    if (reached)
        (void)snprintf(what, sizeof(what), "%lld", (long long)*reached);
    md_status status = md_fail(MD_INVALID_ARGUMENT, "%s: axis %d has size %lld, but subscript '%s' reaches %s", where,
                               r->axis, (long long)extent, md_strbuf_text(&text), what);
    md_strbuf_finish(&text);
    return status;
}

static md_status check_reach(const binder *b, const md_fx_reach *r)
{
    const md_fx_formula *f = b->formula;
    const md_fx_tensor *t = &f->tensor[r->tensor];
    int64_t extent =
        t->role == MD_FX_TEMP ? b->binding->size[t->dim[r->axis]] : b->binding->tensor[r->tensor].size[r->axis];
    int64_t lo = 0, hi = 0;
    if (r->is_checked)
        return MD_OK;
    bool is_bounded = md_fx_range(&lo, &hi, f, b->binding->size, r);
    if (is_bounded && (lo > hi || (lo >= 0 && hi < extent)))
        return MD_OK;
    is_bounded |= md_fx_range_exact(&lo, &hi, f, b->binding->size, r); /* the range may have been too wide */
    if (is_bounded && lo > hi)
        return MD_OK;
    if (!is_bounded)
        return out_of_reach(f, r, extent, NULL);
    return lo < 0 ? out_of_reach(f, r, extent, &lo) : hi >= extent ? out_of_reach(f, r, extent, &hi) : MD_OK;
}

md_status md_fx_bind(md_fx_binding *out, const md_fx_formula *formula, const md_arg *args, int32_t n_args)
{
    binder b = {.formula = formula, .binding = out};
    memset(out, 0, sizeof *out);
    if (n_args != formula->n_args)
        return wrong_count(formula, n_args);
    if (!args && n_args > 0)
        return md_fail(MD_INVALID_ARGUMENT, "the list of arguments is NULL");
    for (int32_t i = 0; i < n_args; i++)
        MD_TRY(formula->args[i].is_scalar ? bind_scalar(&b, i, &args[i]) : bind_tensor(&b, i, &args[i]));
    MD_TRY(bind_dims(&b));
    for (int32_t i = 0; i < formula->n_reaches; i++)
        MD_TRY(check_reach(&b, &formula->reach[i]));
    return md_fx_check_needed(formula, out->size);
}
