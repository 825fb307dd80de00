/* Products of narrow integers in floating point, where that is exact: processors multiply and add 64-bit integers
 * several times slower than reals. */
#include "stage/form.h"

#include "base/dtype.h"

#include <math.h>

static const double unknown_depth = 0x1p36; /* of a sum whose length has no limit: 7e10 terms */
static const double f32_operand = 0x1p11; /* exact where operands are rounded to tf32, too */

static bool holds(md_dtype wide, md_dtype dtype)
{
    return !md_dtype_is_real(wide) && !md_dtype_is_real(dtype) && wide != MD_BOOL && dtype != MD_BOOL &&
           md_dtype_bits(wide) > md_dtype_bits(dtype) && (md_dtype_is_unsigned(dtype) || !md_dtype_is_unsigned(wide));
}

const md_fx_node *md_st_without_wide_casts(const md_fx_formula *f, const md_fx_node *node)
{
    const md_fx_node *load = node;
    while (load->kind == MD_FX_CAST)
        load = load->arg[0];
    for (const md_fx_node *n = node; n != load && load->kind == MD_FX_LOAD; n = n->arg[0])
        if (!holds(n->to, f->tensor[load->id].dtype))
            return node;
    return load->kind == MD_FX_LOAD ? load : node;
}

/* No value of the node is larger; INFINITY: not known. */
static double magnitude(const md_fx_formula *f, const md_fx_node *node)
{
    const md_dtype stored = node->kind == MD_FX_LOAD ? f->tensor[node->id].dtype : node->to;
    switch (node->kind) {
    case MD_FX_LOAD:
    case MD_FX_CAST:
        if (node->kind == MD_FX_CAST && !md_dtype_is_narrow(stored))
            return stored == MD_I64 ? magnitude(f, node->arg[0]) : INFINITY;
        if (stored == MD_BOOL)
            return 1;
        return md_dtype_is_real(stored) || md_dtype_bits(stored) > 32
                   ? INFINITY
                   : ldexp(1, md_dtype_bits(stored) - !md_dtype_is_unsigned(stored));
    case MD_FX_CONST:
        return node->type == MD_I64 ? fabs((double)node->integer) : INFINITY;
    case MD_FX_OP:
        if (node->op == MD_FX_NEG)
            return magnitude(f, node->arg[0]);
        return node->op == MD_FX_MUL ? magnitude(f, node->arg[0]) * magnitude(f, node->arg[1]) : INFINITY;
    default:
        return INFINITY;
    }
}

static double depth_of(const md_fx_formula *f, const md_st_product *product)
{
    double depth = 1;
    for (int32_t i = 0; i < product->n_k; i++) {
        const md_fx_dim *d = &f->dim[f->index[product->k[i]].dim];
        const int64_t most = d->size >= 0 ? d->size : d->hi;
        depth = most < INT64_MAX ? depth * (double)most : unknown_depth;
        if (most == INT64_MAX)
            break;
    }
    return depth;
}

md_dtype md_st_exact_type(const md_fx_formula *f, const md_st_product *product)
{
    const double depth = depth_of(f, product);
    md_dtype type = MD_F32;
    for (int32_t i = 0; i < product->n_products; i++) {
        const double a = magnitude(f, product->a[i]), b = magnitude(f, product->b[i]), most = a * b * depth;
        if (!(most <= 0x1p53) || product->type != MD_I64)
            return product->type;
        if (most > 0x1p24 || fmax(a, b) > f32_operand)
            type = MD_F64;
    }
    return type;
}
