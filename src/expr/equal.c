/* Structural equality of nodes, up to the names of bound indices, and replacing of equal parts. */
#include "expr/memo.h"
#include "expr/node.h"

#include <string.h>

/* Pairs of bound indices that correspond, left side and right side; innermost first. */
typedef struct scope {
    const struct scope *outer;
    int32_t a, b;
    int32_t number; /* distinguishes scopes in the memo; 0 is "no binder" */
} scope;

typedef struct comparer {
    const md_fx_formula *formula; /* NULL: bound indices must be the same */
    md_memo equal; /* pairs found equal, by scope */
    int32_t n_scopes;
} comparer;

static bool same_index(const scope *in, int32_t a, int32_t b)
{
    for (; in; in = in->outer)
        if (in->a == a || in->b == b)
            return in->a == a && in->b == b;
    return a == b;
}

static bool is_identity(const scope *in)
{
    for (; in; in = in->outer)
        if (in->a != in->b)
            return false;
    return true;
}

static bool same_head(const md_fx_node *a, const md_fx_node *b)
{
    return a->kind == b->kind && a->op == b->op && a->type == b->type && a->to == b->to && a->n_args == b->n_args &&
           a->n_bound == b->n_bound && a->unbiased == b->unbiased && a->exclusive == b->exclusive &&
           a->reverse == b->reverse && a->integer == b->integer && memcmp(&a->num, &b->num, sizeof(a->num)) == 0;
}

static bool equal(comparer *c, const scope *in, const md_fx_node *a, const md_fx_node *b);

static bool equal_args(comparer *c, const scope *in, const md_fx_node *a, const md_fx_node *b)
{
    for (int32_t i = 0; i < a->n_args; i++)
        if (!equal(c, in, a->arg[i], b->arg[i]))
            return false;
    return true;
}

static bool equal_reductions(comparer *c, const scope *in, const md_fx_node *a, const md_fx_node *b)
{
    scope inner[MD_MAX_RANK];
    for (int32_t i = 0; i < a->n_bound; i++) {
        int32_t ia = a->bound[i], ib = b->bound[i];
        if (ia != ib && (!c->formula || c->formula->index[ia].dim != c->formula->index[ib].dim))
            return false;
        inner[i] = (scope){.outer = in, .a = ia, .b = ib, .number = ++c->n_scopes};
        in = &inner[i];
    }
    return equal_args(c, in, a, b);
}

static bool equal(comparer *c, const scope *in, const md_fx_node *a, const md_fx_node *b)
{
    a = a->kind == MD_FX_LENGTH ? a->arg[0] : a;
    b = b->kind == MD_FX_LENGTH ? b->arg[0] : b;
    if (a == b && is_identity(in))
        return true;
    if (!same_head(a, b))
        return false;
    if (a->kind == MD_FX_INDEX)
        return same_index(in, a->id, b->id);
    if (a->id != b->id || (a->kind == MD_FX_SCAN && !same_index(in, a->bound[0], b->bound[0])))
        return false;
    if (a->n_args == 0)
        return true;
    int32_t number = in ? in->number : 0;
    if (md_memo_find(&c->equal, a, b, number, NULL))
        return true;
    bool is_equal = a->kind == MD_FX_REDUCE ? equal_reductions(c, in, a, b) : equal_args(c, in, a, b);
    if (is_equal)
        (void)md_memo_put(&c->equal, a, b, number, NULL); /* short of memory it is only slower */
    return is_equal; /* a difference ends the whole comparison: nothing to remember */
}

bool md_fx_equal(const md_fx_formula *formula, const md_fx_node *a, const md_fx_node *b)
{
    comparer c = {.formula = formula};
    bool is_equal = equal(&c, NULL, a, b);
    md_memo_finish(&c.equal);
    return is_equal;
}

typedef struct replacing {
    const md_fx_formula *formula;
    const md_fx_node *from, *to;
} replacing;

static const md_fx_node *replace(void *user, const md_fx_node *node)
{
    const replacing *r = user;
    return node->kind == r->from->kind && md_fx_equal(r->formula, node, r->from) ? r->to : node;
}

const md_fx_node *md_fx_replace(const md_fx_formula *formula, md_arena *arena, const md_fx_node *node,
                                const md_fx_node *from, const md_fx_node *to)
{
    replacing r = {formula, from, to};
    return md_fx_rewrite(arena, node, replace, &r);
}
