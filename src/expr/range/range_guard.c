/* Guards: comparisons that are known to hold, as linear forms that are not negative. */
#include "expr/range/range.h"

/* A guard on one atom narrows the atom's own range: the search for multipliers is greedy, and of two such guards it
 * would use one only. */
static void narrow_atom(md_range *r, const md_range_linear *g)
{
    int32_t only = -1, n = 0;
    for (int32_t i = 0; i < r->n_atoms; i++) {
        only = g->coef[i] != 0 ? i : only;
        n += g->coef[i] != 0;
    }
    if (n != 1 || g->constant == INT64_MIN || g->coef[only] == INT64_MIN)
        return;
    /* c + a x >= 0: x >= ceil(-c / a), or x <= floor(c / -a). Division truncates toward zero. */
    int64_t c = g->constant, a = g->coef[only], d = a > 0 ? a : -a;
    int64_t down = c / d - (c % d < 0); /* floor(c / d) */
    md_range_interval *range = &r->atom[only].range;
    if (a > 0)
        range->lo = MD_MAX(range->lo, -down);
    else
        range->hi = MD_MIN(range->hi, down);
    r->is_empty |= range->lo > range->hi;
}

static void add_form(md_range *r, const md_range_linear *g)
{
    int64_t highest;
    narrow_atom(r, g);
    if (r->n_guards == MD_RANGE_GUARDS)
        return;
    if (md_range_upper(r, &highest, g) && highest < 0)
        r->is_empty = true;
    r->guard[r->n_guards++] = *g;
}

/* a - b - margin >= 0 */
static void add_difference(md_range *r, const md_range_linear *a, const md_range_linear *b, int64_t margin)
{
    md_range_linear g = {.constant = -margin};
    if (md_range_add(&g, a, 1) && md_range_add(&g, b, -1))
        add_form(r, &g);
}

static void add_comparison(md_range *r, md_fx_op op, const md_range_linear *a, const md_range_linear *b)
{
    switch ((int)op) {
    case MD_FX_LT:
        add_difference(r, b, a, 1);
        return;
    case MD_FX_LE:
        add_difference(r, b, a, 0);
        return;
    case MD_FX_GT:
        add_difference(r, a, b, 1);
        return;
    case MD_FX_GE:
        add_difference(r, a, b, 0);
        return;
    case MD_FX_EQ:
        add_difference(r, a, b, 0);
        add_difference(r, b, a, 0);
        return;
    default:
        return; /* != says nothing linear */
    }
}

void md_range_hold(md_range *r, const md_fx_node *condition, bool holds)
{
    static const md_fx_op negated[MD_FX_N_OPS] = {
        [MD_FX_LT] = MD_FX_GE, [MD_FX_LE] = MD_FX_GT, [MD_FX_GT] = MD_FX_LE,
        [MD_FX_GE] = MD_FX_LT, [MD_FX_EQ] = MD_FX_NE, [MD_FX_NE] = MD_FX_EQ,
    };
    if (condition->kind == MD_FX_CONST && condition->type == MD_BOOL)
        r->is_empty |= (condition->integer != 0) != holds;
    if (condition->kind != MD_FX_OP || --r->steps < 0)
        return;
    if (condition->op == MD_FX_NOT) {
        md_range_hold(r, condition->arg[0], !holds);
    } else if (condition->op == (holds ? MD_FX_AND : MD_FX_OR)) {
        md_range_hold(r, condition->arg[0], holds);
        md_range_hold(r, condition->arg[1], holds);
    } else if (negated[condition->op] != MD_FX_NO_OP) {
        md_range saved =
            *r; /* an atom that was made for a form not used after all is no harm, a half made one would be */
        md_range_linear a, b;
        if (md_range_linear_of(r, &a, condition->arg[0]) && md_range_linear_of(r, &b, condition->arg[1]))
            add_comparison(r, holds ? condition->op : negated[condition->op], &a, &b);
        else
            *r = saved;
    }
}
