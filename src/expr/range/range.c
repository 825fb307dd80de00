/* Ranges of integer expressions. Three things call each other here: the linear form of a node, the range of an atom
 * that is not linear, and a condition that is known to hold. */
#include "expr/range/range.h"

enum { MAX_STEPS = 2048 };
static const int64_t MAX_SIZE = INT64_C(1) << 40; /* of dims whose size is not known */

static bool linear_of(md_range *r, md_range_linear *out, const md_fx_node *node);
static bool range_of(md_range *r, md_range_interval *out, const md_fx_node *node);
static void hold(md_range *r, const md_fx_node *condition, bool holds);

/* ---- subexpressions that are not linear: //, % by anything positive, products, min, max, where, argmax ---- */

/* The arms of a where, each under its condition, in a copy: atoms made there may be narrow because of the condition. */
static bool range_where(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    md_range_interval arm[2] = {{0, -1}, {0, -1}};
    bool is_dead[2];
    for (int i = 0; i < 2; i++) {
        md_range inner = *r;
        hold(&inner, node->arg[0], i == 0);
        if (!range_of(&inner, &arm[i], node->arg[i + 1]) && !inner.is_empty)
            return false;
        is_dead[i] = inner.is_empty;
        r->steps = inner.steps;
    }
    if (is_dead[0] || is_dead[1]) {
        *out = is_dead[0] ? arm[1] : arm[0];
        return true;
    }
    *out = (md_range_interval){MD_MIN(arm[0].lo, arm[1].lo), MD_MAX(arm[0].hi, arm[1].hi)};
    return true;
}

static bool range_op(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    if (node->type == MD_BOOL && node->op != MD_FX_WHERE && node->op != MD_FX_MIN && node->op != MD_FX_MAX) {
        *out = (md_range_interval){0, 1};
        return true;
    }
    if (node->op == MD_FX_WHERE)
        return range_where(r, out, node);
    md_range_interval a = {0, 0}, b = {0, 0}, c = {0, 0};
    if (!range_of(r, &a, node->arg[0]) || (node->n_args > 1 && !range_of(r, &b, node->arg[1])) ||
        (node->n_args > 2 && !range_of(r, &c, node->arg[2])))
        return false;
    return md_interval_op(out, node->op, a, b, c);
}

static bool range_cast(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    if (md_dtype_is_real(node->to))
        return false;
    const int bits = node->to == MD_BOOL ? 1 : md_dtype_bits(node->to);
    md_range_interval a, whole = {INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits)};
    if (bits < 64 && (node->to == MD_BOOL || md_dtype_is_unsigned(node->to)))
        whole = (md_range_interval){0, (INT64_C(1) << bits) - 1};
    bool is_known = range_of(r, &a, node->arg[0]);
    *out = is_known && a.lo >= whole.lo && a.hi <= whole.hi ? a : whole;
    return is_known || bits < 64;
}

/* The position that argmax gives, counted over all its indices. */
static bool range_arg_reduction(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    int64_t n = 1;
    for (int32_t i = 0; i < node->n_bound; i++)
        if (r->size[r->formula->index[node->bound[i]].dim] < 0 ||
            __builtin_mul_overflow(n, r->size[r->formula->index[node->bound[i]].dim], &n))
            return false;
    *out = (md_range_interval){0, n - 1};
    r->is_empty |= n <= 0;
    return true;
}

static bool range_of_atom(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    switch (node->kind) {
    case MD_FX_OP:
        return range_op(r, out, node);
    case MD_FX_CAST:
        return range_cast(r, out, node);
    case MD_FX_REDUCE:
        if (node->op == MD_FX_R_ARGMAX || node->op == MD_FX_R_ARGMIN)
            return range_arg_reduction(r, out, node);
        return (node->op == MD_FX_R_MAX || node->op == MD_FX_R_MIN) && range_of(r, out, node->arg[0]);
    default:
        return false;
    }
}

/* ---- linear forms ---- */

static bool new_atom(md_range *r, md_range_linear *out, md_range_atom a)
{
    if (r->n_atoms == MD_RANGE_ATOMS)
        return false;
    out->coef[r->n_atoms] = 1;
    r->atom[r->n_atoms++] = a;
    return true;
}

/* A size that is not known (-1) is an atom of its own, and at least 1: nothing is read where an index has no value. */
static bool linear_size(md_range *r, md_range_linear *out, int32_t dim)
{
    const md_fx_dim *const d = &r->formula->dim[dim];
    *out = (md_range_linear){.constant = r->size[dim]};
    if (r->size[dim] >= 0)
        return true;
    out->constant = 0;
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (!r->atom[i].node && r->atom[i].index == -1 - dim) {
            out->coef[i] = 1;
            return true;
        }
    return new_atom(
        r, out, (md_range_atom){.index = -1 - dim, .range = {MD_MAX(d->lo, 0), d->hi == INT64_MAX ? MAX_SIZE : d->hi}});
}

static bool linear_index(md_range *r, md_range_linear *out, int32_t index)
{
    *out = (md_range_linear){0};
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (!r->atom[i].node && r->atom[i].index == index) {
            out->coef[i] = 1;
            return true;
        }
    const int32_t dim = r->formula->index[index].dim;
    const int64_t size = r->size[dim];
    r->is_empty |= size == 0;
    if (!new_atom(r, out, (md_range_atom){.index = index, .range = {0, (size < 0 ? MAX_SIZE : size) - 1}}))
        return false;
    const int32_t atom = r->n_atoms - 1;
    md_range_linear length;
    if (size < 0 && linear_size(r, &length, dim))
        md_range_tie(r, &length, 1, atom, -1, -1); /* index <= size - 1 */
    return true;
}

static bool is_same_linear(md_range *r, const md_fx_node *a, const md_fx_node *b)
{
    md_range_linear x, y;
    if (md_fx_equal(r->formula, a, b))
        return true;
    if (a->type != b->type || !linear_of(r, &x, a) || !linear_of(r, &y, b) || !md_range_add(&y, &x, -1))
        return false;
    return y.constant == 0 && md_range_is_constant(&y);
}

/* True if the atom is op(operands of node). */
static bool is_atom_of(md_range *r, const md_range_atom *atom, md_fx_op op, const md_fx_node *node)
{
    const md_fx_node *const other = atom->node;
    if (!other || atom->op != op)
        return false;
    if (op == MD_FX_NO_OP || other->n_args != node->n_args)
        return other->kind == node->kind && md_fx_equal(r->formula, other, node);
    for (int32_t i = 0; i < node->n_args; i++)
        if (!is_same_linear(r, other->arg[i], node->arg[i]))
            return false;
    return true;
}

static int32_t find_atom(md_range *r, md_fx_op op, const md_fx_node *node)
{
    for (int32_t i = 0; i < r->n_atoms; i++) {
        const md_range_atom atom = r->atom[i]; /* comparing may add atoms */
        if (is_atom_of(r, &atom, op, node))
            return i;
    }
    return -1;
}

/* ---- what ties an atom to its operands ---- */

/* The quotient that belongs to x % d. */
static int32_t quotient_atom(md_range *r, const md_fx_node *node)
{
    md_range_interval x, range;
    md_range_linear unused = {0};
    int32_t i = find_atom(r, MD_FX_FLOORDIV, node);
    const md_range_interval d = {node->arg[1]->integer, node->arg[1]->integer};
    if (i >= 0 || !range_of(r, &x, node->arg[0]) || !md_interval_floordiv(&range, x, d) ||
        !new_atom(r, &unused, (md_range_atom){.node = node, .op = MD_FX_FLOORDIV, .range = range}))
        return i;
    return r->n_atoms - 1;
}

static void note_division(md_range *r, const md_range_linear *x, int32_t atom, const md_fx_node *node)
{
    const int64_t d = node->arg[1]->integer;
    if (node->arg[1]->kind != MD_FX_CONST || d < 1 || d > INT32_MAX)
        return;
    if (node->op == MD_FX_FLOORDIV) { /* 0 <= x - d*q <= d - 1 */
        md_range_tie(r, x, 1, atom, -d, 0);
        md_range_tie(r, x, -1, atom, d, d - 1);
        return;
    }
    const int32_t q = quotient_atom(r, node);
    md_range_linear rest = *x, quotient = {0};
    if (q < 0)
        return;
    quotient.coef[q] = 1;
    if (md_range_add(&rest, &quotient, -d)) { /* x - d*q is the remainder */
        md_range_tie(r, &rest, 1, atom, -1, 0);
        md_range_tie(r, &rest, -1, atom, 1, 0);
    }
}

static void note_facts(md_range *r, int32_t atom, const md_fx_node *node)
{
    md_range_linear x[2];
    if (node->kind != MD_FX_OP || node->type != MD_I64 || node->n_args > 2)
        return;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!linear_of(r, &x[i], node->arg[i]))
            return;
    switch ((int)node->op) {
    case MD_FX_FLOORDIV:
    case MD_FX_MOD:
        note_division(r, &x[0], atom, node);
        return;
    case MD_FX_MIN:
    case MD_FX_MAX:
        for (int i = 0; i < 2; i++)
            md_range_tie(r, &x[i], node->op == MD_FX_MIN ? 1 : -1, atom, node->op == MD_FX_MIN ? -1 : 1, 0);
        return;
    case MD_FX_ABS:
        md_range_tie(r, &x[0], 1, atom, 1, 0);
        md_range_tie(r, &x[0], -1, atom, 1, 0);
        return;
    case MD_FX_RELU:
        md_range_tie(r, &x[0], -1, atom, 1, 0);
        return;
    default:
        return;
    }
}

static bool linear_atom(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    const md_fx_op op = node->kind == MD_FX_OP ? node->op : MD_FX_NO_OP;
    md_range_interval range;
    *out = (md_range_linear){0};
    int32_t i = find_atom(r, op, node);
    if (i >= 0) {
        out->coef[i] = 1;
        return true;
    }
    if (!range_of_atom(r, &range, node) || !new_atom(r, out, (md_range_atom){.node = node, .op = op, .range = range}))
        return false;
    note_facts(r, r->n_atoms - 1, node);
    return true;
}

static bool linear_op(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    md_range_linear a, b = {0};
    if (node->op != MD_FX_NEG && node->op != MD_FX_ADD && node->op != MD_FX_SUB && node->op != MD_FX_MUL)
        return linear_atom(r, out, node);
    if (!linear_of(r, &a, node->arg[0]) || (node->n_args > 1 && !linear_of(r, &b, node->arg[1])))
        return false;
    *out = (md_range_linear){0};
    if (node->op != MD_FX_MUL)
        return md_range_add(out, &a, node->op == MD_FX_NEG ? -1 : 1) &&
               md_range_add(out, &b, node->op == MD_FX_SUB ? -1 : 1);
    if (md_range_is_constant(&b))
        return md_range_add(out, &a, b.constant);
    return md_range_is_constant(&a) ? md_range_add(out, &b, a.constant) : linear_atom(r, out, node);
}

static bool linear_affine(md_range *r, md_range_linear *out, const md_fx_affine *a)
{
    *out = (md_range_linear){.constant = a->constant};
    for (int32_t i = 0; i < a->n_sizes; i++) {
        md_range_linear size;
        if (!linear_size(r, &size, a->dim[i]) || !md_range_add(out, &size, a->size_coef[i]))
            return false;
    }
    for (int32_t i = 0; i < a->n; i++) {
        md_range_linear index;
        if (!linear_index(r, &index, a->index[i]) || !md_range_add(out, &index, a->coef[i]))
            return false;
    }
    return true;
}

static bool linear_of(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    md_fx_affine a;
    if (--r->steps < 0 || (node->type != MD_I64 && node->type != MD_BOOL))
        return false;
    if (md_fx_affine_of(&a, r->formula, node))
        return linear_affine(r, out, &a);
    if (node->kind == MD_FX_CHECK || node->kind == MD_FX_LENGTH || (node->kind == MD_FX_CAST && node->to == MD_I64))
        return linear_of(r, out, node->arg[0]);
    return node->kind == MD_FX_OP ? linear_op(r, out, node) : linear_atom(r, out, node);
}

static bool is_division(const md_range_atom *a, md_fx_op op)
{
    return a->node && a->op == op && a->node->arg[1]->kind == MD_FX_CONST;
}

/* c*d * (x // d) + c * (x % d) is c*x. */
static bool fold_division(md_range *r, md_range_linear *linear)
{
    for (int32_t i = 0; i < r->n_atoms; i++)
        for (int32_t k = 0; k < r->n_atoms; k++) {
            const md_range_atom q = r->atom[i], m = r->atom[k];
            const int64_t c = linear->coef[k];
            int64_t cd;
            md_range_linear x;
            if (c == 0 || !is_division(&q, MD_FX_FLOORDIV) || !is_division(&m, MD_FX_MOD) ||
                __builtin_mul_overflow(c, q.node->arg[1]->integer, &cd) || linear->coef[i] != cd ||
                !is_atom_of(r, &q, MD_FX_FLOORDIV, m.node))
                continue;
            if (!linear_of(r, &x, q.node->arg[0]))
                return false;
            linear->coef[i] = linear->coef[k] = 0;
            if (!md_range_add(linear, &x, c))
                return false;
        }
    return true;
}

static bool range_of(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    md_range_linear linear;
    if (!linear_of(r, &linear, node) || !fold_division(r, &linear) || !md_range_bounds(r, out, &linear))
        return false;
    if (out->lo > out->hi) { /* the guards contradict each other */
        r->is_empty = true;
        out->hi = out->lo;
    }
    return true;
}

/* ---- conditions that hold ---- */

static void hold(md_range *r, const md_fx_node *condition, bool holds)
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
        hold(r, condition->arg[0], !holds);
    } else if (condition->op == (holds ? MD_FX_AND : MD_FX_OR)) {
        hold(r, condition->arg[0], holds);
        hold(r, condition->arg[1], holds);
    } else if (negated[condition->op] != MD_FX_NO_OP) {
        md_range saved = *r; /* a half made form would be wrong; an atom too many is no harm */
        md_range_linear a, b;
        if (linear_of(r, &a, condition->arg[0]) && linear_of(r, &b, condition->arg[1]))
            md_range_compare(r, holds ? condition->op : negated[condition->op], &a, &b);
        else
            *r = saved;
    }
}

static void hold_all(md_range *r, const md_fx_reach *at)
{
    for (int32_t i = 0; i < at->n_guards; i++)
        hold(r, at->guard[i], true);
    for (int32_t i = 0; i < at->n_guards; i++) /* again, since the others may have made a side of it the extreme */
        if (at->guard[i]->kind == MD_FX_OP && at->guard[i]->op == MD_FX_NE)
            hold(r, at->guard[i], true);
}

bool md_fx_is_inside(const md_fx_formula *formula, const md_fx_reach *at)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_range r = {.formula = formula, .size = size, .steps = MAX_STEPS};
    md_range_linear linear, room;
    md_range_interval below, above;
    for (int32_t i = 0; i < formula->n_dims; i++)
        size[i] = formula->dim[i].size;
    hold_all(&r, at);
    return r.is_empty || (linear_of(&r, &linear, at->subscript) && fold_division(&r, &linear) &&
                          md_range_bounds(&r, &below, &linear) && below.lo >= 0 &&
                          linear_size(&r, &room, formula->tensor[at->tensor].dim[at->axis]) &&
                          md_range_add(&room, &linear, -1) && md_range_bounds(&r, &above, &room) && above.lo >= 1);
}

bool md_fx_range(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const int64_t *size, const md_fx_reach *at)
{
    md_range r = {.formula = formula, .size = size, .steps = MAX_STEPS};
    md_range_interval range = {0, 0};
    hold_all(&r, at);
    if (!range_of(&r, &range, at->subscript) && !r.is_empty)
        return false;
    *lo = r.is_empty ? 0 : range.lo;
    *hi = r.is_empty ? -1 : range.hi;
    return true;
}
