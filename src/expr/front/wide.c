/* What scalars, constants and sizes alone make is computed in f64, and rounded to f32 once, where it meets an element:
 * 1 - b of b = 0.9999999 is 1e-7, not the 1.19e-7 that f32 makes of it. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/node.h"

#include <string.h>

/* What becomes of a node. */
typedef struct widened {
    const md_fx_node *node; /* stands in its place, with its type */
    const md_fx_node *wide; /* the same value in f64, of a real without elements; else NULL */
    bool is_plain; /* made of scalars, constants and sizes only */
    bool has_scalar;
} widened;

static md_status widen(md_front *fr, widened *out, const md_fx_node *n);

static const md_fx_node *typed_copy(md_front *fr, const md_fx_node *n, md_dtype type)
{
    md_fx_node *const copy = md_fx_node_new(fr->arena, n->kind, type);
    if (copy) {
        *copy = *n;
        copy->type = type;
        copy->num = type == MD_F64 && n->kind == MD_FX_CONST ? n->exact : n->num;
    }
    return copy;
}

static md_status with_args(md_front *fr, const md_fx_node **out, const md_fx_node *n, md_dtype type,
                           const md_fx_node *const *arg)
{
    const size_t n_bytes = (size_t)n->n_args * sizeof *arg;
    if (type == n->type && !memcmp(n->arg, arg, n_bytes)) {
        *out = n;
        return MD_OK;
    }
    md_fx_node *const copy = (md_fx_node *)typed_copy(fr, n, type);
    const md_fx_node **const args = md_arena_alloc(fr->arena, n_bytes);
    if (!copy || !args)
        return md_fail_memory();
    memcpy(args, arg, n_bytes);
    copy->arg = args;
    *out = copy;
    return MD_OK;
}

static md_status widen_leaf(md_front *fr, widened *out, const md_fx_node *n)
{
    out->node = n;
    out->is_plain = n->kind == MD_FX_CONST || n->kind == MD_FX_SIZE || n->kind == MD_FX_SCALAR;
    out->has_scalar = n->kind == MD_FX_SCALAR;
    if (!out->is_plain || !md_dtype_is_real(n->type))
        return MD_OK;
    out->wide = n->type == MD_F64 ? n : typed_copy(fr, n, MD_F64);
    return out->wide ? MD_OK : md_fail_memory();
}

/* An operation on scalars: its wide form, and what stands in its place. Of a test of reals the operands are wide. */
static md_status widen_op(md_front *fr, widened *out, const md_fx_node *n, const widened *arg)
{
    const md_fx_node *wide[3];
    bool has_wide = false;
    for (int32_t i = 0; i < n->n_args; i++) {
        const bool is_real = md_dtype_is_real(n->arg[i]->type);
        if (is_real && !arg[i].wide)
            return MD_OK;
        wide[i] = is_real ? arg[i].wide : arg[i].node;
        has_wide |= is_real;
    }
    if (!has_wide || (!md_dtype_is_real(n->type) && !out->has_scalar))
        return MD_OK;
    if (!md_dtype_is_real(n->type))
        return with_args(fr, &out->node, n, n->type, wide);
    MD_TRY(with_args(fr, &out->wide, n, MD_F64, wide));
    if (!out->has_scalar)
        return MD_OK;
    out->node = out->wide;
    if (n->type != MD_F64)
        out->node = md_fx_cast(fr->arena, out->wide, MD_F32);
    return out->node ? MD_OK : md_fail_memory();
}

/* A conversion rounds what is wide, and only once. */
static md_status widen_cast(md_front *fr, widened *out, const md_fx_node *n, const widened *arg)
{
    if (arg->wide && arg->has_scalar)
        MD_TRY(with_args(fr, &out->node, n, n->type, &arg->wide));
    if (!md_dtype_is_real(n->to))
        return MD_OK;
    if (md_dtype_is_narrow(n->to) || !arg->wide)
        out->wide = md_fx_cast(fr->arena, md_dtype_is_narrow(n->to) ? out->node : arg->node, MD_F64);
    else
        out->wide = arg->wide;
    return out->wide ? MD_OK : md_fail_memory();
}

static md_status widen(md_front *fr, widened *out, const md_fx_node *n)
{
    *out = (widened){.node = n};
    if (n->n_args == 0 || n->kind == MD_FX_LOAD) /* subscripts are integers, and compared as they are */
        return widen_leaf(fr, out, n);
    widened arg[MD_MAX_RANK];
    const md_fx_node *node[MD_MAX_RANK];
    out->is_plain = (n->kind == MD_FX_OP && n->op != MD_FX_STEP) || n->kind == MD_FX_CAST;
    for (int32_t i = 0; i < n->n_args; i++) {
        MD_TRY(widen(fr, &arg[i], n->arg[i]));
        node[i] = arg[i].node;
        out->is_plain &= arg[i].is_plain;
        out->has_scalar |= arg[i].has_scalar;
    }
    MD_TRY(with_args(fr, &out->node, n, n->type, node));
    if (!out->is_plain)
        return MD_OK;
    return n->kind == MD_FX_CAST ? widen_cast(fr, out, out->node, arg) : widen_op(fr, out, out->node, arg);
}

md_status md_front_widen(md_front *front)
{
    md_fx_formula *const f = front->formula;
    for (int32_t i = 0; i < f->n_stmts; i++) {
        md_fx_stmt *const s = &f->stmt[i];
        widened w;
        MD_TRY(widen(front, &w, s->value));
        s->value = w.wide && w.has_scalar && f->tensor[s->tensor].dtype == MD_F64 ? w.wide : w.node;
    }
    return MD_OK;
}
