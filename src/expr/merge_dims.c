/* Joining dims: finds two dims that stand side by side wherever they stand, and makes one of them, until there are no
 * more. */
#include "expr/merge_dims.h"

#include "expr/node.h"

#include <string.h>

typedef struct joiner {
    md_fx_formula *formula;
    md_fx_merged_dims *joined;
    int32_t first, second; /* dims: every axis of `first` is followed by one of `second` */
    int32_t partner[MD_FX_MAX_INDICES]; /* of an index over either dim; -1: none yet */
    bool is_reduced; /* some reduction runs over both */
} joiner;

/* ---- may two dims be joined? ---- */

static bool is_member(const joiner *j, int32_t index)
{
    const int32_t dim = j->formula->index[index].dim;
    return dim == j->first || dim == j->second;
}

static bool is_member_node(const joiner *j, const md_fx_node *node)
{
    return node->kind == MD_FX_INDEX && is_member(j, node->id);
}

/* Two indices are always each other's neighbours. */
static bool pair(joiner *j, int32_t first, int32_t second)
{
    const bool is_new = j->partner[first] < 0 && j->partner[second] < 0;
    if (is_new) {
        j->partner[first] = second;
        j->partner[second] = first;
    }
    return is_new || j->partner[first] == second;
}

/* Both dims occur in these subscripts only as plain neighbours. */
static bool pair_subscripts(joiner *j, const md_fx_tensor *t, const md_fx_node *const *subscript)
{
    for (int32_t a = 0; a < t->rank; a++) {
        const bool is_pair = t->dim[a] == j->first;
        if (!is_pair && !is_member_node(j, subscript[a]))
            continue;
        if (!is_pair || subscript[a]->kind != MD_FX_INDEX || subscript[a + 1]->kind != MD_FX_INDEX)
            return false;
        const int32_t one = subscript[a]->id, other = subscript[a + 1]->id;
        if (j->formula->index[one].dim != j->first || j->formula->index[other].dim != j->second || !pair(j, one, other))
            return false;
        a++;
    }
    return true;
}

static bool is_size_of(const md_fx_node *node, int32_t dim)
{
    return node->kind == MD_FX_SIZE && node->id == dim;
}

static bool is_member_size(const joiner *j, const md_fx_node *node)
{
    return is_size_of(node, j->first) || is_size_of(node, j->second);
}

/* size(j) * size(k): that of the joined dim. */
static bool is_joined_size(const joiner *j, const md_fx_node *node)
{
    return node->kind == MD_FX_OP && node->op == MD_FX_MUL && is_member_size(j, node->arg[0]) &&
           is_member_size(j, node->arg[1]) && node->arg[0]->id != node->arg[1]->id;
}

static bool pair_node(void *user, const md_fx_node *node)
{
    joiner *j = user;
    for (int32_t i = 0; i < node->n_args; i++)
        if (is_member_size(j, node->arg[i]) && !is_joined_size(j, node))
            return false;
    if (node->kind != MD_FX_LOAD) {
        for (int32_t i = 0; i < node->n_args; i++)
            if (is_member_node(j, node->arg[i]))
                return false;
        return true;
    }
    for (int32_t i = 0; i < node->n_args; i++)
        if (md_fx_is_checked(node->arg[i]))
            return false;
    return pair_subscripts(j, &j->formula->tensor[node->id], node->arg);
}

static int32_t place_of(int32_t n, const int32_t *index, int32_t wanted)
{
    for (int32_t i = 0; i < n; i++)
        if (index[i] == wanted)
            return i;
    return -1;
}

/* A binder that runs over one of a pair runs over the other, for positions right behind it. */
static bool binds_pairs(void *user, const md_fx_node *node)
{
    joiner *j = user;
    const bool counts = node->op == MD_FX_R_ARGMAX || node->op == MD_FX_R_ARGMIN;
    for (int32_t i = 0; i < node->n_bound; i++) {
        const int32_t index = node->bound[i];
        if (!is_member(j, index))
            continue;
        if (node->kind != MD_FX_REDUCE || j->partner[index] < 0)
            return false;
        const int32_t at = place_of(node->n_bound, node->bound, j->partner[index]);
        const bool is_first = j->formula->index[index].dim == j->first;
        if (at < 0 || (counts && at != (is_first ? i + 1 : i - 1)))
            return false;
        j->is_reduced = true;
    }
    return true;
}

static bool fits_statement(joiner *j, const md_fx_stmt *s)
{
    return !is_member_node(j, s->value) && !is_member_size(j, s->value) &&
           pair_subscripts(j, &j->formula->tensor[s->tensor], s->subscript) && md_fx_visit(s->value, pair_node, j);
}

static bool binds_statement(joiner *j, const md_fx_stmt *s)
{
    for (int32_t i = 0; i < s->n_free; i++)
        if (is_member(j, s->free[i]) &&
            (j->partner[s->free[i]] < 0 || place_of(s->n_free, s->free, j->partner[s->free[i]]) < 0))
            return false;
    return md_fx_visit(s->value, binds_pairs, j);
}

/* Every axis of the first dim is followed by one of the second, which stands nowhere else. */
static bool stands_side_by_side(const joiner *j, const md_fx_tensor *t)
{
    for (int32_t a = 0; a < t->rank; a++) {
        if (t->dim[a] == j->second)
            return false;
        if (t->dim[a] != j->first)
            continue;
        if (a + 1 == t->rank || t->dim[a + 1] != j->second || t->at_least[a] || t->at_least[a + 1])
            return false;
        a++;
    }
    return true;
}

static bool has_range(const md_fx_dim *d)
{
    return d->size < 0 && (d->lo != 0 || d->hi != INT64_MAX);
}

/* True if the call gives the size of the dim. */
static bool is_given(const md_fx_formula *f, int32_t dim)
{
    for (int32_t s = 0; s < f->n_scalars; s++)
        if (f->scalar[s].is_size && f->scalar[s].dim == dim)
            return true;
    return false;
}

static bool may_join(joiner *j)
{
    const md_fx_formula *f = j->formula;
    if (j->first == j->second || has_range(&f->dim[j->first]) || has_range(&f->dim[j->second]) ||
        is_given(f, j->first) || is_given(f, j->second))
        return false;
    for (int32_t i = 0; i < MD_FX_MAX_INDICES; i++)
        j->partner[i] = -1;
    j->is_reduced = false;
    for (int32_t t = 0; t < f->n_tensors; t++)
        if (!stands_side_by_side(j, &f->tensor[t]))
            return false;
    for (int32_t s = 0; s < f->n_stmts; s++)
        if (!fits_statement(j, &f->stmt[s]))
            return false;
    for (int32_t s = 0; s < f->n_stmts; s++)
        if (!binds_statement(j, &f->stmt[s]))
            return false;
    return j->is_reduced;
}

/* ---- joining them ---- */

static bool is_second(const joiner *j, int32_t index)
{
    return j->formula->index[index].dim == j->second;
}

static const md_fx_node *drop_second(void *user, const md_fx_node *node)
{
    joiner *j = user;
    md_arena *a = j->formula->arena;
    if (is_joined_size(j, node))
        return is_size_of(node->arg[0], j->first) ? node->arg[0] : node->arg[1];
    if (node->kind != MD_FX_LOAD && node->kind != MD_FX_REDUCE)
        return node;
    md_fx_node *copy = md_fx_node_new(a, node->kind, node->type);
    const md_fx_node **arg = md_arena_alloc(a, (size_t)(node->n_args + 1) * sizeof *arg);
    if (!copy || !arg)
        return NULL;
    *copy = *node;
    copy->arg = arg;
    copy->n_args = copy->n_bound = 0;
    for (int32_t i = 0; i < node->n_args; i++)
        if (node->kind != MD_FX_LOAD || node->arg[i]->kind != MD_FX_INDEX || !is_second(j, node->arg[i]->id))
            arg[copy->n_args++] = node->arg[i];
    for (int32_t i = 0; i < node->n_bound; i++)
        if (!is_second(j, node->bound[i]))
            copy->bound[copy->n_bound++] = node->bound[i];
    return copy;
}

static md_status join_statement(joiner *j, md_fx_stmt *s)
{
    const int32_t rank = j->formula->tensor[s->tensor].rank, n_free = s->n_free;
    s->n_free = 0;
    for (int32_t i = 0; i < n_free; i++)
        if (!is_second(j, s->free[i]))
            s->free[s->n_free++] = s->free[i];
    for (int32_t a = 0, n = 0; a < rank; a++)
        if (s->subscript[a]->kind != MD_FX_INDEX || !is_second(j, s->subscript[a]->id))
            s->subscript[n++] = s->subscript[a];
    s->value = md_fx_rewrite(j->formula->arena, s->value, drop_second, j);
    return s->value ? MD_OK : md_fail_memory();
}

static void join_tensor(joiner *j, int32_t id)
{
    md_fx_tensor *t = &j->formula->tensor[id];
    int32_t n = 0, *count = j->joined->count[id];
    for (int32_t a = 0; a < t->rank; a++) {
        if (t->dim[a] == j->second) {
            count[n - 1] += count[a];
            continue;
        }
        t->dim[n] = t->dim[a];
        t->at_least[n] = t->at_least[a];
        count[n++] = count[a];
    }
    t->rank = j->joined->rank[id] = n;
}

static void join_sizes(joiner *j)
{
    md_fx_formula *f = j->formula;
    md_fx_dim *first = &f->dim[j->first], *second = &f->dim[j->second];
    int64_t size = -1;
    if (first->size >= 0 && second->size >= 0)
        (void)__builtin_mul_overflow(first->size, second->size, &size);
    first->size = size;
    first->lo = second->lo = 0;
    first->hi = second->hi = INT64_MAX;
    second->size = -1;
    for (int32_t d = 0; d < f->n_dims; d++)
        if (j->joined->root[d] == j->second)
            j->joined->root[d] = j->first;
}

static md_status join_pair(joiner *j)
{
    md_fx_formula *f = j->formula;
    for (int32_t s = 0; s < f->n_stmts; s++)
        MD_TRY(join_statement(j, &f->stmt[s]));
    for (int32_t t = 0; t < f->n_tensors; t++)
        join_tensor(j, t);
    join_sizes(j);
    j->joined->n_pairs++;
    return MD_OK;
}

/* ---- all pairs ---- */

static bool has_several(void *user, const md_fx_node *node)
{
    (void)user;
    return node->kind != MD_FX_REDUCE || node->n_bound < 2;
}

bool md_fx_may_merge_dims(const md_fx_formula *f)
{
    bool none = true;
    for (int32_t t = 0; t < f->n_tensors; t++)
        if (f->tensor[t].is_updated)
            return false;
    for (int32_t s = 0; s < f->n_stmts; s++)
        none = none && md_fx_visit(f->stmt[s].value, has_several, NULL);
    return !none;
}

/* Side by side in some tensor. */
static bool find_pair(joiner *j)
{
    const md_fx_formula *f = j->formula;
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a + 1 < f->tensor[t].rank; a++) {
            j->first = f->tensor[t].dim[a];
            j->second = f->tensor[t].dim[a + 1];
            if (may_join(j))
                return true;
        }
    return false;
}

md_status md_fx_merge_dims(md_fx_merged_dims *out, md_fx_formula *formula)
{
    joiner j = {.formula = formula, .joined = out};
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < formula->n_dims; d++)
        out->root[d] = d;
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        out->rank[t] = formula->tensor[t].rank;
        for (int32_t a = 0; a < out->rank[t]; a++)
            out->count[t][a] = 1;
    }
    if (!md_fx_may_merge_dims(formula))
        return MD_OK;
    while (find_pair(&j))
        MD_TRY(join_pair(&j));
    return MD_OK;
}
