/* Guards: comparisons that hold, as linear forms that are not negative. */
#include "expr/range/range.h"

void md_range_tie(md_range *r, const md_range_linear *term, int64_t factor, int32_t atom, int64_t atom_factor,
                  int64_t constant)
{
    md_range_linear g = {.constant = constant}, a = {0};
    a.coef[atom] = 1;
    if (r->n_guards < MD_RANGE_GUARDS && md_range_add(&g, term, factor) && md_range_add(&g, &a, atom_factor))
        r->guard[r->n_guards++] = g;
}

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

/* a != b says something linear where a - b cannot be negative, or cannot be positive. */
static void add_inequality(md_range *r, const md_range_linear *a, const md_range_linear *b)
{
    md_range_linear difference = *a;
    md_range_interval range;
    if (!md_range_add(&difference, b, -1) || !md_range_bounds(r, &range, &difference))
        return;
    if (range.lo == 0)
        add_difference(r, a, b, 1);
    if (range.hi == 0)
        add_difference(r, b, a, 1);
}

void md_range_compare(md_range *r, md_fx_op op, const md_range_linear *a, const md_range_linear *b)
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
    case MD_FX_NE:
        add_inequality(r, a, b);
        return;
    default:
        return;
    }
}
