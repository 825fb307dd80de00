/* Finds the range of a row in the condition of its reductions. */
#include "codegen/row/range.h"

#include "expr/node.h"

#include <math.h>

/* True if adding the element changes nothing. */
static bool is_neutral(md_fx_op op, const md_fx_node *n)
{
    static const double neutral[MD_FX_N_OPS] = {
        [MD_FX_R_PROD] = 1, [MD_FX_R_ALL] = 1, [MD_FX_R_MAX] = -INFINITY, [MD_FX_R_MIN] = INFINITY};
    if (n->kind != MD_FX_CONST || op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN)
        return false;
    return (md_dtype_is_real(n->type) ? n->num : (double)n->integer) == neutral[op];
}

/* where(c, a, neutral) has the condition c; an `any` of conditions joined by `and` is its own condition. */
static const md_fx_node *condition_of(const md_st_reduction *r)
{
    const md_fx_node *body = r->body;
    if (body->kind != MD_FX_OP)
        return NULL;
    if (body->op == MD_FX_AND && r->op == MD_FX_R_ANY)
        return body;
    return body->op == MD_FX_WHERE && is_neutral(r->op, body->arg[2]) ? body->arg[0] : NULL;
}

const md_fx_node *md_cg_range_body(const md_cg_range *range, const md_st_reduction *reduction)
{
    const md_fx_node *body = reduction->body;
    return range->n > 0 && range->is_all && body->op == MD_FX_WHERE ? body->arg[1] : body;
}

typedef struct finder {
    md_cg_range *out;
    const md_st_stage *stage;
    int32_t lane; /* an outer index that lanes run over; -1: none */
} finder;

static bool is_shared(const finder *f, const md_fx_node *n)
{
    static const md_fx_kind not_before_the_row[] = {MD_FX_REF, MD_FX_COUNT, MD_FX_REDUCE, MD_FX_SCAN};
    for (size_t i = 0; i < sizeof not_before_the_row / sizeof *not_before_the_row; i++)
        if (md_fx_has_kind(n, not_before_the_row[i]))
            return false;
    return n->type == MD_I64 && !md_fx_uses_index(n, f->stage->axis) && (f->lane < 0 || !md_fx_uses_index(n, f->lane));
}

/* Takes axis, axis + shift, shift + axis and axis - shift apart. */
static bool take_apart(md_cg_bound *b, const finder *f, const md_fx_node *side)
{
    if (md_fx_is_index(side, f->stage->axis))
        return true;
    if (side->kind != MD_FX_OP || (side->op != MD_FX_ADD && side->op != MD_FX_SUB))
        return false;
    const bool is_second = side->op == MD_FX_ADD && md_fx_is_index(side->arg[1], f->stage->axis);
    b->is_minus = side->op == MD_FX_SUB;
    b->shift = side->arg[!is_second];
    return md_fx_is_index(side->arg[is_second], f->stage->axis) && is_shared(f, b->shift);
}

/* The comparison with its operands exchanged; N_OPS: it is no comparison that bounds. */
static md_fx_op turned(md_fx_op op)
{
    static const md_fx_op table[][2] = {
        {MD_FX_LT, MD_FX_GT}, {MD_FX_LE, MD_FX_GE}, {MD_FX_GT, MD_FX_LT}, {MD_FX_GE, MD_FX_LE}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i][0] == op)
            return table[i][1];
    return MD_FX_N_OPS;
}

static bool add_bound(finder *f, const md_fx_node *n)
{
    const md_fx_op op = n->kind == MD_FX_OP ? turned(n->op) : MD_FX_N_OPS;
    if (op == MD_FX_N_OPS || f->out->n == MD_CG_MAX_BOUNDS)
        return false;
    for (int32_t limit = 0; limit < 2; limit++) {
        md_cg_bound b = {.op = limit == 1 ? n->op : op, .limit = n->arg[limit]};
        if (is_shared(f, b.limit) && take_apart(&b, f, n->arg[!limit])) {
            f->out->bound[f->out->n++] = b;
            return true;
        }
    }
    return false;
}

static void add_condition(finder *f, const md_fx_node *n)
{
    if (n->kind == MD_FX_OP && n->op == MD_FX_AND)
        for (int32_t i = 0; i < n->n_args; i++)
            add_condition(f, n->arg[i]);
    else if (!add_bound(f, n))
        f->out->is_all = false;
}

/* The condition that all reductions have; NULL: they have none in common. One that marks a length, so that it is
 * reported, comes before an equal one that does not. */
static const md_fx_node *shared_condition(const md_st_program *program, const md_st_stage *st)
{
    const md_fx_node *condition = condition_of(&st->row.reduction[0]);
    for (int32_t i = 1; condition && i < st->row.n_reductions; i++) {
        const md_fx_node *other = condition_of(&st->row.reduction[i]);
        if (!other || !md_fx_equal(program->formula, condition, other))
            return NULL;
        condition = md_fx_has_kind(other, MD_FX_LENGTH) ? other : condition;
    }
    return condition;
}

static void find(void *result, const md_st_program *program, int32_t stage, const void *is_column)
{
    md_cg_range *out = result;
    const md_st_stage *st = &program->stage[stage];
    finder f = {.out = out, .stage = st, .lane = *(const bool *)is_column ? st->outer[st->n_outer - 1] : -1};
    *out = (md_cg_range){.is_all = true};
    if (st->row.has_elements || st->row.n_reductions == 0)
        return;
    const md_fx_node *const condition = shared_condition(program, st);
    if (condition)
        add_condition(&f, condition);
}

void md_cg_range_of(md_cg_range *out, const md_st_program *program, int32_t stage, bool is_column)
{
    md_st_know(out, program, stage,
               &(md_st_fact){
                   .which = MD_ST_KNOWN_RANGES + is_column, .n_bytes = sizeof *out, .make = find, .user = &is_column});
}

double md_cg_range_length(const md_cg_range *range, const md_st_program *program, int32_t stage, const int64_t *size)
{
    const md_st_stage *st = &program->stage[stage];
    const double n = (double)md_st_size(program, st->axis, size);
    double rows = 1;
    bool is_from = false, is_to = false;
    for (int32_t i = 0; i < range->n; i++) {
        const bool is_lower = range->bound[i].op == MD_FX_GT || range->bound[i].op == MD_FX_GE;
        *(is_lower ? &is_from : &is_to) = true;
    }
    for (int32_t i = 0; i < st->n_outer; i++)
        if (range->n > 0 && md_fx_uses_index(range->bound[0].limit, st->outer[i]))
            rows *= (double)md_st_size(program, st->outer[i], size);
    if (is_from && is_to)
        return fmin(n, fmax(1, n / fmax(rows, 1)));
    return range->n > 0 ? fmin(n, fmax(1, n / 2)) : n;
}
