/* Affine forms of integer expressions: constant + sum of index coefficients + sum of size coefficients. */
#include "expr/node.h"

#include <string.h>

enum { MAX_TERMS = MD_MAX_RANK * 2, MAX_SIZES = MD_MAX_RANK, MAX_STEPS = 4096 };

/* Floor division, for d != 0. False for the one quotient that overflows. */
static bool floor_div(int64_t *q, int64_t a, int64_t d)
{
    if (a == INT64_MIN && d == -1)
        return false;
    *q = a / d - (a % d != 0 && (a < 0) != (d < 0));
    return true;
}

/* Adds one term to a list of terms. */
static bool add_term(int32_t *n, int32_t max, int32_t *id, int64_t *coef, int32_t new_id, int64_t new_coef)
{
    for (int32_t i = 0; i < *n; i++) {
        if (id[i] != new_id)
            continue;
        if (__builtin_add_overflow(coef[i], new_coef, &coef[i]))
            return false;
        if (coef[i] == 0) {
            (*n)--;
            memmove(&id[i], &id[i + 1], (size_t)(*n - i) * sizeof *id);
            memmove(&coef[i], &coef[i + 1], (size_t)(*n - i) * sizeof *coef);
        }
        return true;
    }
    if (new_coef == 0)
        return true;
    if (*n == max)
        return false;
    id[*n] = new_id;
    coef[(*n)++] = new_coef;
    return true;
}

/* sum += factor * term */
static bool add_scaled(md_fx_affine *sum, const md_fx_affine *term, int64_t factor)
{
    int64_t c;
    if (__builtin_mul_overflow(term->constant, factor, &c) || __builtin_add_overflow(sum->constant, c, &sum->constant))
        return false;
    for (int32_t i = 0; i < term->n; i++)
        if (__builtin_mul_overflow(term->coef[i], factor, &c) ||
            !add_term(&sum->n, MAX_TERMS, sum->index, sum->coef, term->index[i], c))
            return false;
    for (int32_t i = 0; i < term->n_sizes; i++)
        if (__builtin_mul_overflow(term->size_coef[i], factor, &c) ||
            !add_term(&sum->n_sizes, MAX_SIZES, sum->dim, sum->size_coef, term->dim[i], c))
            return false;
    return true;
}

static bool is_constant(const md_fx_affine *a)
{
    return a->n == 0 && a->n_sizes == 0;
}

/* Divides every coefficient; false where one is no multiple of d. */
static bool divide_terms(md_fx_affine *a, int64_t d)
{
    int64_t *list[2] = {a->coef, a->size_coef};
    int32_t n[2] = {a->n, a->n_sizes};
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < n[k]; i++) {
            if (d == -1 || list[k][i] % d != 0) /* INT64_MIN / -1 overflows; no formula needs a division by -1 */
                return false;
            list[k][i] /= d;
        }
    return true;
}

/* (4*h + 6) // 4 is h + 1, and (4*h + 6) % 4 is 2. */
static bool divide(md_fx_affine *out, md_fx_op op, const md_fx_affine *a, const md_fx_affine *b)
{
    if (!is_constant(b) || b->constant == 0)
        return false;
    int64_t d = b->constant, q;
    md_fx_affine quotient = *a;
    if (!floor_div(&q, a->constant, d) || !divide_terms(&quotient, d))
        return false;
    quotient.constant = q;
    *out = op == MD_FX_FLOORDIV ? quotient
                                : (md_fx_affine){.constant = a->constant - (int64_t)((uint64_t)q * (uint64_t)d)};
    return true;
}

static bool affine(md_fx_affine *out, const md_fx_formula *f, const md_fx_node *node, int *steps);

static bool affine_op(md_fx_affine *out, const md_fx_formula *f, const md_fx_node *node, int *steps)
{
    md_fx_affine a, b = {0};
    if (!affine(&a, f, node->arg[0], steps) || (node->n_args > 1 && !affine(&b, f, node->arg[1], steps)))
        return false;
    *out = (md_fx_affine){0};
    switch ((int)node->op) {
    case MD_FX_NEG:
        return add_scaled(out, &a, -1);
    case MD_FX_ADD:
        return add_scaled(out, &a, 1) && add_scaled(out, &b, 1);
    case MD_FX_SUB:
        return add_scaled(out, &a, 1) && add_scaled(out, &b, -1);
    case MD_FX_MUL:
        return is_constant(&b) ? add_scaled(out, &a, b.constant) : is_constant(&a) && add_scaled(out, &b, a.constant);
    case MD_FX_FLOORDIV:
    case MD_FX_MOD:
        return divide(out, node->op, &a, &b);
    default:
        return false;
    }
}

/* The budget of steps bounds the time for expressions that share operands: x+x of x+x of .. */
static bool affine(md_fx_affine *out, const md_fx_formula *f, const md_fx_node *node, int *steps)
{
    if (--*steps < 0 || (node->type != MD_I64 && node->type != MD_BOOL))
        return false;
    *out = (md_fx_affine){0};
    switch (node->kind) {
    case MD_FX_CONST:
        out->constant = node->integer;
        return true;
    case MD_FX_INDEX:
        return add_term(&out->n, MAX_TERMS, out->index, out->coef, node->id, 1);
    case MD_FX_SIZE:
        if (f->dim[node->id].size < 0)
            return add_term(&out->n_sizes, MAX_SIZES, out->dim, out->size_coef, node->id, 1);
        out->constant = f->dim[node->id].size;
        return true;
    case MD_FX_CAST:
        return node->to == MD_I64 && affine(out, f, node->arg[0], steps);
    case MD_FX_OP:
        return node->type == MD_I64 && node->n_args <= 2 && affine_op(out, f, node, steps);
    default:
        return false;
    }
}

bool md_fx_affine_of(md_fx_affine *out, const md_fx_formula *formula, const md_fx_node *node)
{
    int steps = MAX_STEPS;
    md_fx_affine a;
    if (!affine(&a, formula, node, &steps))
        return false;
    *out = a;
    return true;
}
