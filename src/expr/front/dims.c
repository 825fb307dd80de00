/* Which axes and indices are one size: union-find over all indices and all axes, then names and sizes for the classes.
 */
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/node.h"

#include <stdio.h>
#include <string.h>

enum { N_AXES = MD_FX_MAX_TENSORS * MD_MAX_RANK, N_ITEMS = MD_FX_MAX_INDICES + N_AXES };

typedef struct dims {
    md_front *front;
    md_fx_formula *f;
    const md_syntax_size *at; /* the size being read from the text; NULL while options are read */
    int32_t parent[N_ITEMS]; /* of indices, then of axes */
    int32_t dim_of[N_ITEMS]; /* of a class, kept at its root; -1 until numbered */
    bool is_loose[N_AXES]; /* some subscript is not a plain index */
    bool is_written[N_AXES]; /* some subscript is a plain index */
    bool gives_size[N_AXES]; /* loose, yet some index has its size from nowhere else */
} dims;

static int32_t axis_item(int32_t tensor, int32_t axis)
{
    return MD_FX_MAX_INDICES + tensor * MD_MAX_RANK + axis;
}

static int32_t root_of(dims *d, int32_t item)
{
    while (d->parent[item] != item)
        item = d->parent[item] = d->parent[d->parent[item]];
    return item;
}

/* The smaller item leads, so that the first index names the dim. */
static void join(dims *d, int32_t a, int32_t b)
{
    a = root_of(d, a);
    b = root_of(d, b);
    d->parent[MD_MAX(a, b)] = MD_MIN(a, b);
}

/* An index name is one dim wherever it is used, except where a binder shadows an outer index. */
static int32_t first_of_name(const dims *d, const char *name)
{
    for (int32_t i = 0; i < d->f->n_indices; i++)
        if (d->front->outer[i] < 0 && strcmp(d->f->index[i].name, name) == 0)
            return i;
    return -1;
}

static void join_names(dims *d)
{
    for (int32_t i = 0; i < d->f->n_indices; i++)
        if (d->front->outer[i] < 0)
            join(d, i, first_of_name(d, d->f->index[i].name));
}

/* The left side gives an axis its size. Other plain axes are as long as their indices run. Where any subscript is not
 * plain, the axis is loose: its subscripts are only checked to stay inside. */
static void join_axes(dims *d)
{
    for (const md_access *a = d->front->accesses; a; a = a->next) {
        const int32_t axis = a->tensor * MD_MAX_RANK + a->axis;
        d->is_loose[axis] |= a->index < 0 || a->is_part;
        d->is_written[axis] |= a->is_store && a->index >= 0;
    }
    for (const md_access *a = d->front->accesses; a; a = a->next) {
        const int32_t axis = a->tensor * MD_MAX_RANK + a->axis;
        if (a->index >= 0 && (a->is_store || !d->is_loose[axis]))
            join(d, a->index, axis_item(a->tensor, a->axis));
    }
}

/* True if some argument's axis has exactly this size. */
static bool is_determined(dims *d, int32_t root)
{
    for (int32_t t = 0; t < d->f->n_tensors; t++)
        for (int32_t a = 0; a < d->f->tensor[t].rank && d->f->tensor[t].role != MD_FX_TEMP; a++)
            if (root_of(d, axis_item(t, a)) == root)
                return true;
    return false;
}

/* A shadowing binder that no axis ties to anything runs over what it shadows. */
static void join_shadows(dims *d)
{
    for (int32_t i = 0; i < d->f->n_indices; i++)
        if (d->front->outer[i] >= 0 && !is_determined(d, root_of(d, i)))
            join(d, i, d->front->outer[i]);
}

/* In L[i] = log(sum[j](exp(X[i,j]))) - X[i,t[i]] the second axis of X is loose, but nothing else says what j is. */
static void join_loose(dims *d)
{
    for (const md_access *a = d->front->accesses; a; a = a->next) {
        const int32_t axis = a->tensor * MD_MAX_RANK + a->axis;
        if (!d->is_loose[axis] || d->is_written[axis])
            continue;
        if (a->index >= 0 && !is_determined(d, root_of(d, a->index))) {
            join(d, a->index, axis_item(a->tensor, a->axis));
            d->gives_size[axis] = true;
        }
        d->f->tensor[a->tensor].at_least[a->axis] = !d->gives_size[axis];
    }
}

/* ---- numbers and names ---- */

static int32_t dim_named(const md_fx_formula *f, const char *name, size_t n)
{
    for (int32_t i = 0; i < f->n_dims; i++)
        if (strlen(f->dim[i].name) == n && memcmp(f->dim[i].name, name, n) == 0)
            return i;
    return -1;
}

int32_t md_fx_find_dim(const md_fx_formula *formula, const char *name, size_t n)
{
    int32_t dim = dim_named(formula, name, n);
    for (int32_t i = 0; i < formula->n_indices && dim < 0; i++) /* an outer index comes before those that shadow it */
        if (strlen(formula->index[i].name) == n && memcmp(formula->index[i].name, name, n) == 0)
            dim = formula->index[i].dim;
    return dim;
}

static md_status new_dim(dims *d, int32_t root, const char *name)
{
    if (d->f->n_dims == MD_FX_MAX_DIMS)
        return md_fail(MD_INVALID_ARGUMENT, "the formula has more than %d dims", MD_FX_MAX_DIMS);
    const char *const base = name;
    for (int suffix = 2; name && dim_named(d->f, name, strlen(name)) >= 0; suffix++)
        name = md_arena_printf(d->front->arena, "%s_%d", base, suffix);
    if (!name)
        return md_fail_memory();
    d->dim_of[root] = d->f->n_dims;
    d->f->dim[d->f->n_dims++] = (md_fx_dim){.name = name, .size = -1, .lo = 0, .hi = INT64_MAX};
    return MD_OK;
}

static md_status number_dims(dims *d)
{
    md_fx_formula *const f = d->f;
    /* Names that mean one dim everywhere come first, so that a shadowing binder gets the suffix. */
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f->n_indices; i++)
            if ((d->front->outer[i] >= 0) == (pass == 1) && d->dim_of[root_of(d, i)] < 0)
                MD_TRY(new_dim(d, root_of(d, i), f->index[i].name));
    for (int32_t i = 0; i < f->n_indices; i++)
        f->index[i].dim = d->dim_of[root_of(d, i)];
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++) {
            const int32_t root = root_of(d, axis_item(t, a));
            if (d->dim_of[root] < 0)
                MD_TRY(new_dim(d, root, md_arena_printf(d->front->arena, "%s.%d", f->tensor[t].name, a)));
            f->tensor[t].dim[a] = d->dim_of[root];
        }
    return MD_OK;
}

/* ---- size(..) ---- */

static md_status settle_size(dims *d, const md_size_use *use)
{
    const md_syntax *const at = use->at;
    md_fx_formula *const f = d->f;
    int32_t index = use->index;
    if (at->integer >= 0) {
        const int32_t t = md_front_tensor(d->front, at->name);
        if (t < 0)
            return MD_FRONT_ERROR(d->front, at, "no tensor is named '%s'", at->name);
        if (at->integer >= f->tensor[t].rank)
            return MD_FRONT_ERROR(d->front, at, "axis %lld of '%s', whose axes are counted from 0 and are %d",
                                  (long long)at->integer, at->name, f->tensor[t].rank);
        use->node->id = f->tensor[t].dim[at->integer];
        return MD_OK;
    }
    if (index < 0)
        index = first_of_name(d, at->name);
    if (index >= 0) {
        use->node->id = f->index[index].dim;
        return MD_OK;
    }
    md_fx_nearest near = {.wanted = at->name};
    for (int32_t i = 0; i < f->n_indices; i++)
        md_fx_nearest_offer(&near, f->index[i].name);
    return MD_FRONT_ERROR(d->front, at, "size of '%s', which is no index of the formula%s%s%s", at->name,
                          MD_FX_NEAREST_ARGS(near));
}

/* ---- names of dims in texts ---- */

void md_fx_no_dim(char out[MD_FX_NO_DIM_BYTES], const md_fx_formula *formula, const char *name, size_t n)
{
    char list[300] = "none", wanted[MD_LEX_MAX_NAME + 1];
    size_t used = 0;
    (void)snprintf(wanted, sizeof wanted, "%.*s", (int)MD_MIN(n, (size_t)MD_LEX_MAX_NAME), name);
    md_fx_nearest near = {.wanted = wanted};
    for (int32_t i = 0; i < formula->n_dims; i++) {
        md_fx_nearest_offer(&near, formula->dim[i].name);
        if (used < sizeof list - 80)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", formula->dim[i].name);
    }
    (void)snprintf(out, MD_FX_NO_DIM_BYTES, "the formula has no dim '%s'; it has %s%s%s%s", wanted, list,
                   MD_FX_NEAREST_ARGS(near));
}

md_status md_fx_name_dim(int32_t *dim, md_fx_named *named, const md_fx_formula *formula, const char *name, size_t n)
{
    const int32_t i = md_fx_find_dim(formula, name, n);
    char why[MD_FX_NO_DIM_BYTES];
    if (i < 0) {
        md_fx_no_dim(why, formula, name, n);
        return md_fail(MD_INVALID_ARGUMENT, "%s: %s", named->source, why);
    }
    const char *const known = formula->dim[i].name;
    const bool is_same = strlen(known) == n && memcmp(known, name, n) == 0;
    if ((named->dims >> i & 1) != 0)
        return is_same ? md_fail(MD_INVALID_ARGUMENT, "%s: dim '%s' is given twice", named->source, known)
                       : md_fail(MD_INVALID_ARGUMENT, "%s: '%.*s' is dim '%s', which is given twice", named->source,
                                 (int)n, name, known);
    named->dims |= UINT64_C(1) << i;
    *dim = i;
    return MD_OK;
}

/* ---- sizes given from outside ---- */

/* Fails at the place in the text where the size is given; with no place, where it came with the options. */
static md_status restrict_dim(void *user, const char *name, int64_t lo, int64_t hi)
{
    const dims *const d = user;
    const int32_t i = md_fx_find_dim(d->f, name, strlen(name));
    if (i < 0) {
        char why[MD_FX_NO_DIM_BYTES];
        md_fx_no_dim(why, d->f, name, strlen(name));
        return d->at ? MD_FRONT_ERROR(d->front, d->at, "%s", why) : md_fail(MD_INVALID_ARGUMENT, "sizes: %s", why);
    }
    md_fx_dim *const dim = &d->f->dim[i];
    dim->lo = MD_MAX(dim->lo, lo);
    dim->hi = MD_MIN(dim->hi, hi);
    if (dim->lo > dim->hi)
        return d->at ? MD_FRONT_ERROR(d->front, d->at, "'%s' is given two sizes that exclude each other", name)
                     : md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' is given two sizes that exclude each other", name);
    if (dim->lo == dim->hi)
        dim->size = dim->lo;
    return MD_OK;
}

static md_status read_sizes(dims *d)
{
    const md_syntax_tree *const tree = &d->front->tree;
    for (int32_t i = 0; i < tree->n_items; i++)
        for (int32_t k = 0; tree->item[i].kind == MD_SYNTAX_SIZES && k < tree->item[i].n; k++) {
            d->at = &tree->item[i].size[k];
            MD_TRY(restrict_dim(d, d->at->name, d->at->lo, d->at->hi));
        }
    d->at = NULL;
    return d->front->options.sizes ? md_fx_sizes_parse(d->front->options.sizes, restrict_dim, d) : MD_OK;
}

/* Why a size cannot be an argument; NULL: it can. */
static const char *why_not(const dims *d)
{
    if (d->front->takes_lists)
        return "a formula over lists takes no sizes";
    const bool has_room = d->f->n_scalars < MD_FX_MAX_SCALARS && d->f->n_args < MD_FX_MAX_ARGS;
    return has_room ? NULL : "a call takes no more arguments, such as its size";
}

/* The size of a dim as an argument of the call. */
static md_status add_size(dims *d, int32_t dim, const md_syntax *at)
{
    md_fx_formula *const f = d->f;
    const char *const name = f->dim[dim].name, *const why = why_not(d);
    if (why)
        return MD_FRONT_ERROR(d->front, at,
                              "no tensor has an axis indexed by just '%s', and %s; give it, as in sizes \"%s=3\"", name,
                              why, name);
    f->args[f->n_args++] = (md_fx_arg){.is_scalar = true, .id = f->n_scalars};
    f->scalar[f->n_scalars++] = (md_fx_scalar){
        .name = name, .type = MD_I64, .is_size = true, .dim = dim, .line = at->line, .column = at->column};
    return MD_OK;
}

/* Sizes that no tensor gives are arguments, in the order in which the formula runs over them. */
static md_status add_sizes(dims *d)
{
    uint64_t is_given = 0;
    for (int32_t i = 0; i < d->f->n_indices; i++) {
        const int32_t root = root_of(d, i), dim = d->dim_of[root];
        if (d->f->dim[dim].size >= 0 || (is_given >> dim & 1) || is_determined(d, root))
            continue;
        MD_TRY(add_size(d, dim, d->front->index_at[i]));
        is_given |= UINT64_C(1) << dim;
    }
    return MD_OK;
}

md_status md_front_dims(md_front *front)
{
    dims *const d = md_arena_alloc(front->scratch, sizeof *d);
    if (!d)
        return md_fail_memory();
    d->front = front;
    d->f = front->formula;
    for (int32_t i = 0; i < N_ITEMS; i++) {
        d->parent[i] = i;
        d->dim_of[i] = -1;
    }
    join_names(d);
    join_axes(d);
    join_shadows(d);
    join_loose(d);
    MD_TRY(number_dims(d));
    for (const md_size_use *use = front->size_uses; use; use = use->next)
        MD_TRY(settle_size(d, use));
    MD_TRY(read_sizes(d));
    return add_sizes(d);
}

/* ---- sizes that nothing needs */

typedef struct reader {
    const md_fx_formula *formula;
    int32_t dim;
} reader;

static bool is_other(void *user, const md_fx_node *node)
{
    const reader *const u = user;
    return node->kind != MD_FX_INDEX || u->formula->index[node->id].dim != u->dim;
}

/* True if some statement reads where an index over the dim stands. */
static bool is_read(const md_fx_formula *f, int32_t dim)
{
    for (int32_t s = 0; s < f->n_stmts; s++)
        if (!md_fx_visit(f->stmt[s].value, is_other, &(reader){f, dim}))
            return true;
    return false;
}

md_status md_front_check_sizes(const md_front *front)
{
    const md_fx_formula *const f = front->formula;
    for (int32_t i = 0; i < f->n_scalars; i++)
        if (f->scalar[i].is_size && !is_read(f, f->scalar[i].dim))
            return MD_FRONT_ERROR(
                front, &f->scalar[i],
                "no tensor has an axis indexed by just '%s', and nothing reads it, so its size is not "
                "known; give it, as in sizes \"%s=3\"",
                f->scalar[i].name, f->scalar[i].name);
    return MD_OK;
}
