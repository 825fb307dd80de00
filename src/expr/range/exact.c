/* The exact range of a subscript: all points are tried. For the few calls whose range cannot be proved otherwise. */
#include "base/status.h"
#include "expr/node.h"
#include "expr/scalar.h"

enum { MOST_POINTS = 1 << 20 };

typedef struct points {
    const md_fx_formula *formula;
    const int64_t *size;
    int32_t n;
    int32_t index[MD_FX_MAX_INDICES];
    int64_t at[MD_FX_MAX_INDICES]; /* by index id */
} points;

static bool note_index(void *user, const md_fx_node *node)
{
    points *p = user;
    if (node->kind != MD_FX_INDEX)
        return node->kind == MD_FX_CONST || node->kind == MD_FX_SIZE || node->kind == MD_FX_CHECK ||
               (node->kind == MD_FX_OP && (node->op == MD_FX_WHERE || md_scalar_int(node->op)));
    if (node->id >= p->formula->n_indices)
        return false;
    for (int32_t i = 0; i < p->n; i++)
        if (p->index[i] == node->id)
            return true;
    p->index[p->n++] = node->id;
    return true;
}

static int64_t value_of(const points *p, const md_fx_node *node)
{
    int64_t a[3] = {0};
    if (node->kind == MD_FX_CONST)
        return node->integer;
    if (node->kind == MD_FX_INDEX)
        return p->at[node->id];
    if (node->kind == MD_FX_SIZE)
        return p->size[node->id];
    for (int32_t i = 0; i < node->n_args && i < 3; i++)
        a[i] = value_of(p, node->arg[i]);
    if (node->kind == MD_FX_CHECK)
        return a[0];
    return node->op == MD_FX_WHERE ? (a[0] != 0 ? a[1] : a[2]) : md_scalar_int(node->op)(a[0], a[1], a[2]);
}

static bool holds(const points *p, const md_fx_reach *at)
{
    for (int32_t i = 0; i < at->n_guards; i++)
        if (value_of(p, at->guard[i]) == 0)
            return false;
    return true;
}

static bool next(points *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t index = p->index[i];
        if (++p->at[index] < p->size[p->formula->index[index].dim])
            return true;
        p->at[index] = 0;
    }
    return false;
}

bool md_fx_range_exact(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const int64_t *size,
                       const md_fx_reach *at)
{
    points p = {.formula = formula, .size = size};
    int64_t n = 1;
    bool is_known = md_fx_visit(at->subscript, note_index, &p);
    for (int32_t i = 0; is_known && i < at->n_guards; i++)
        is_known = md_fx_visit(at->guard[i], note_index, &p);
    for (int32_t i = 0; is_known && i < p.n; i++)
        is_known = !__builtin_mul_overflow(n, size[formula->index[p.index[i]].dim], &n) && n <= MOST_POINTS;
    if (!is_known)
        return false;
    *lo = 0;
    *hi = -1;
    bool is_first = true;
    if (n == 0)
        return true;
    do {
        if (!holds(&p, at))
            continue;
        const int64_t value = value_of(&p, at->subscript);
        *lo = is_first ? value : MD_MIN(*lo, value);
        *hi = is_first ? value : MD_MAX(*hi, value);
        is_first = false;
    } while (next(&p));
    return true;
}

static bool is_of_sizes(void *user, const md_fx_node *node)
{
    (void)user;
    const bool is_whole = node->type == MD_I64 || node->type == MD_BOOL;
    return is_whole && (node->kind == MD_FX_CONST || node->kind == MD_FX_SIZE ||
                        (node->kind == MD_FX_OP && (node->op == MD_FX_WHERE || md_scalar_int(node->op))));
}

bool md_fx_value_of_sizes(int64_t *out, const md_fx_formula *formula, const int64_t *size, const md_fx_node *node)
{
    const points p = {.formula = formula, .size = size};
    if (!md_fx_visit(node, is_of_sizes, NULL))
        return false;
    *out = value_of(&p, node);
    return true;
}
