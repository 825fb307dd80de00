/* The exact range of a subscript: all points are tried. For the few calls whose range cannot be proved otherwise. */
#include "base/status.h"
#include "expr/node.h"
#include "expr/scalar.h"
#include "expr/whole.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 1 << 20, MOST_STEPS = 1 << 16 };

/* ---- Nodes as programs: input d is the size of dim d, and MD_FX_MAX_DIMS + i is index i */

static bool add_node(md_fx_whole_maker *m, const md_fx_node *node)
{
    if (m->n > MOST_STEPS) /* shared nodes are written out */
        return false;
    if (node->type != MD_I64 && node->type != MD_BOOL)
        return false;
    switch (node->kind) {
    case MD_FX_CONST:
        md_fx_whole_push(m, MD_FX_WHOLE_CONSTANT, node->integer);
        return true;
    case MD_FX_SIZE:
        md_fx_whole_push(m, MD_FX_WHOLE_INPUT, node->id);
        return true;
    case MD_FX_INDEX:
        md_fx_whole_push(m, MD_FX_WHOLE_INPUT, MD_FX_MAX_DIMS + node->id);
        return true;
    case MD_FX_CHECK:
    case MD_FX_LENGTH:
        return add_node(m, node->arg[0]);
    case MD_FX_CAST: /* of a truth value */
        return node->to == MD_I64 && add_node(m, node->arg[0]);
    default:
        break;
    }
    if (node->kind != MD_FX_OP || (node->op != MD_FX_WHERE && !md_scalar_int(node->op)))
        return false;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!add_node(m, node->arg[i]))
            return false;
    md_fx_whole_apply(m, node->op);
    return true;
}

/* True where all guards hold. As `where(first, where(second, 1, 0), 0)`: a guard may keep the next one from dividing
 * by 0. */
static bool add_guards(md_fx_whole_maker *m, const md_fx_reach *at)
{
    for (int32_t i = 0; i < at->n_guards; i++)
        if (!add_node(m, at->guard[i]))
            return false;
    md_fx_whole_push(m, MD_FX_WHOLE_CONSTANT, 1);
    for (int32_t i = 0; i < at->n_guards; i++) {
        md_fx_whole_push(m, MD_FX_WHOLE_CONSTANT, 0);
        md_fx_whole_apply(m, MD_FX_WHERE);
    }
    return true;
}

/* ---- Points */

typedef struct points {
    md_fx_whole *subscript, *guard;
    int32_t n, input[MD_FX_MAX_INDICES];
    int64_t size[MD_FX_MAX_INDICES]; /* over which each of the n inputs runs */
    int64_t value[MD_FX_MAX_DIMS + MD_FX_MAX_INDICES]; /* of the inputs */
} points;

/* Collects the indices that a program reads. */
static void note_indices(points *p, const md_fx_formula *formula, const md_fx_whole *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        const int32_t input = (int32_t)w->step[i].value;
        bool is_known = w->step[i].op != MD_FX_WHOLE_INPUT || input < MD_FX_MAX_DIMS;
        for (int32_t k = 0; k < p->n; k++)
            is_known |= p->input[k] == input;
        if (is_known)
            continue;
        p->size[p->n] = p->value[formula->index[input - MD_FX_MAX_DIMS].dim];
        p->input[p->n++] = input;
    }
}

static bool make(points *p, const md_fx_formula *formula, const int64_t *size, const md_fx_reach *at)
{
    md_fx_whole_maker m = {0};
    memcpy(p->value, size, (size_t)formula->n_dims * sizeof *size);
    if (add_node(&m, at->subscript))
        p->subscript = md_fx_whole_finish(&m, "", 0);
    if (p->subscript && add_guards(&m, at))
        p->guard = md_fx_whole_finish(&m, "", 0);
    md_fx_whole_maker_destroy(&m);
    if (!p->guard)
        return false;
    note_indices(p, formula, p->subscript);
    note_indices(p, formula, p->guard);
    return true;
}

static bool next(points *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        if (++p->value[p->input[i]] < p->size[i])
            return true;
        p->value[p->input[i]] = 0;
    }
    return false;
}

/* False if the subscript, or whether it is read, has no value at a point. */
static bool try_all(int64_t *lo, int64_t *hi, points *p)
{
    bool is_first = true;
    do {
        int64_t holds, value;
        if (!md_fx_whole_eval(&holds, p->guard, p->value))
            return false;
        if (!holds)
            continue;
        if (!md_fx_whole_eval(&value, p->subscript, p->value))
            return false;
        *lo = is_first ? value : MD_MIN(*lo, value);
        *hi = is_first ? value : MD_MAX(*hi, value);
        is_first = false;
    } while (next(p));
    return true;
}

bool md_fx_range_exact(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const int64_t *size,
                       const md_fx_reach *at)
{
    points p = {0};
    int64_t n = 1, low = 0, high = -1;
    bool is_known = make(&p, formula, size, at);
    for (int32_t i = 0; is_known && i < p.n; i++)
        is_known = !__builtin_mul_overflow(n, p.size[i], &n) && n <= MOST_POINTS;
    is_known = is_known && (n == 0 || try_all(&low, &high, &p));
    free(p.subscript);
    free(p.guard);
    if (is_known) {
        *lo = low;
        *hi = high;
    }
    return is_known;
}

bool md_fx_value_of_sizes(int64_t *out, const int64_t *size, const md_fx_node *node)
{
    if (node->kind == MD_FX_SIZE && node->id < MD_FX_MAX_DIMS) { /* most are sizes */
        *out = size[node->id];
        return true;
    }
    md_fx_whole_maker m = {0};
    md_fx_whole *w = add_node(&m, node) ? md_fx_whole_finish(&m, "", 0) : NULL;
    bool is_known = w != NULL;
    for (int32_t i = 0; is_known && i < w->n; i++)
        is_known = w->step[i].op != MD_FX_WHOLE_INPUT || w->step[i].value < MD_FX_MAX_DIMS;
    is_known = is_known && md_fx_whole_eval(out, w, size);
    md_fx_whole_maker_destroy(&m);
    free(w);
    return is_known;
}
