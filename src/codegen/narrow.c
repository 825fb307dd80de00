/* Whether the integers of a stage fit into 32 bits: then host kernels compute them in lanes of 32 bits, one register
 * instead of two. */
#include "codegen/codegen.h"
#include "expr/range/range.h"

enum { MOST_NODES = 512 }; /* operands that are shared are met several times */

typedef struct search {
    const md_st_program *program;
    int32_t n_nodes;
    bool has_integers; /* else the answer matters to nobody */
} search;

/* The values of an integer dtype. False for those of 32 bits without a sign and of 64, and for reals. */
static bool range_of_dtype(md_range_interval *out, md_dtype dtype)
{
    static const struct {
        md_dtype dtype;
        md_range_interval range;
    } rows[] = {{MD_BOOL, {0, 1}},         {MD_I4, {-8, 7}},
                {MD_U4, {0, 15}},          {MD_I8, {-128, 127}},
                {MD_U8, {0, 255}},         {MD_I16, {INT16_MIN, INT16_MAX}},
                {MD_U16, {0, UINT16_MAX}}, {MD_I32, {INT32_MIN, INT32_MAX}}};
    for (int32_t i = 0; i < MD_COUNT(rows); i++)
        if (rows[i].dtype == dtype) {
            *out = rows[i].range;
            return true;
        }
    return false;
}

static bool is_narrow(search *s, const md_fx_node *n, md_range_interval *out);

/* A subscript is no value of lanes where the access moves with it by steps. */
static bool has_plain_subscripts(const search *s, const md_fx_node *load)
{
    md_fx_affine a;
    for (int32_t i = 0; i < load->n_args; i++)
        if (load->arg[i]->kind == MD_FX_CHECK || !md_fx_affine_of(&a, s->program->formula, load->arg[i]))
            return false;
    return true;
}

static bool add(md_range_interval *out, md_range_interval a, int64_t sign, md_range_interval b)
{
    *out = sign > 0 ? (md_range_interval){a.lo + b.lo, a.hi + b.hi} : (md_range_interval){a.lo - b.hi, a.hi - b.lo};
    return true; /* of numbers of 32 bits */
}

static bool range_of_op(md_range_interval *out, const md_fx_node *n, const md_range_interval arg[3])
{
    static const md_range_interval zero = {0, 0};
    switch ((int)n->op) {
    case MD_FX_NEG:
        return add(out, zero, -1, arg[0]);
    case MD_FX_ADD:
        return add(out, arg[0], 1, arg[1]);
    case MD_FX_SUB:
        return add(out, arg[0], -1, arg[1]);
    case MD_FX_WHERE:
        *out = (md_range_interval){MD_MIN(arg[1].lo, arg[2].lo), MD_MAX(arg[1].hi, arg[2].hi)};
        return true;
    case MD_FX_SHL:
    case MD_FX_SHR:
        return false; /* counts from 32 on */
    default:
        return md_interval_op(out, n->op, arg[0], arg[1], arg[2]);
    }
}

/* Operands are integers or truth values where the result is an integer; those of other operations may be anything. */
static bool is_narrow_op(search *s, const md_fx_node *n, md_range_interval *out)
{
    md_range_interval arg[3] = {{0, 0}};
    for (int32_t i = 0; i < n->n_args; i++)
        if (!is_narrow(s, n->arg[i], &arg[i < 3 ? i : 2]))
            return false;
    return n->type != MD_I64 || (n->n_args <= 3 && range_of_op(out, n, arg));
}

static bool is_narrow(search *s, const md_fx_node *n, md_range_interval *out)
{
    *out = (md_range_interval){0, 1}; /* of a truth value; of a real nobody asks */
    bool fits = ++s->n_nodes <= MOST_NODES;
    s->has_integers = s->has_integers || n->type == MD_I64;
    switch (fits ? n->kind : MD_FX_INDEX) {
    case MD_FX_CONST:
        if (n->type == MD_I64)
            *out = (md_range_interval){n->integer, n->integer};
        break;
    case MD_FX_LOAD:
        fits = has_plain_subscripts(s, n) &&
               (n->type != MD_I64 || range_of_dtype(out, s->program->formula->tensor[n->id].dtype));
        break;
    case MD_FX_OP:
        fits = is_narrow_op(s, n, out);
        break;
    case MD_FX_CAST:
        fits = is_narrow(s, n->arg[0], out) && (n->type != MD_I64 || range_of_dtype(out, n->to));
        break;
    case MD_FX_SCALAR:
    case MD_FX_REF:
        fits = n->type != MD_I64;
        break;
    default: /* positions, sizes, counts, loops */
        fits = false;
        break;
    }
    return fits && out->lo >= INT32_MIN && out->hi <= INT32_MAX;
}

static bool stores_are_narrow(search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!is_narrow(s, stage->store[i].value, &range))
            return false;
    return true;
}

static bool products_are_narrow(search *s, const md_st_product *product)
{
    md_range_interval range;
    for (int32_t i = 0; i < product->n_products; i++)
        if (!is_narrow(s, product->a[i], &range) || !is_narrow(s, product->b[i], &range))
            return false;
    return product->type != MD_I64;
}

static bool rows_are_narrow(search *s, const md_st_row *row)
{
    md_range_interval range;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        if (r->type == MD_I64 || r->op == MD_FX_R_ARGMAX || r->op == MD_FX_R_ARGMIN || !is_narrow(s, r->body, &range))
            return false;
    }
    return true;
}

/* True if none of the stage's tensors has elements that 32 bits with a sign do not hold. Reals that are stored as
 * integers are converted in lanes, too. */
static bool tensors_are_narrow(search *s, const md_st_stage *stage)
{
    md_range_interval range;
    for (int32_t i = 0; i < stage->n_tensors; i++) {
        const md_dtype dtype = s->program->formula->tensor[stage->tensor[i]].dtype;
        if (!md_dtype_is_real(dtype) && !range_of_dtype(&range, dtype))
            return false;
        s->has_integers = s->has_integers || (!md_dtype_is_real(dtype) && dtype != MD_BOOL);
    }
    return true;
}

bool md_cg_has_narrow_integers(const md_st_program *program, int32_t stage)
{
    const md_st_stage *st = &program->stage[stage];
    search s = {.program = program};
    if (st->has_gather || st->has_scatter || !tensors_are_narrow(&s, st) || !stores_are_narrow(&s, st))
        return false;
    const bool fits = st->kind == MD_ST_POINTWISE || (st->kind == MD_ST_ROW && rows_are_narrow(&s, &st->row)) ||
                      (st->kind == MD_ST_PRODUCT && products_are_narrow(&s, &st->product));
    return fits && s.has_integers;
}
