/* Windows: reductions over a few points, as in a pooling or a small stencil, written out as operations. A nest runs
 * them element by element; written out, they are part of a pointwise stage, in vectors. */
#include "stage/form.h"

enum { MAX_POINTS = 32, MAX_NODES = 512 };

/* What combines two values of a reduction; MD_FX_NO_OP: nothing that keeps its meaning. */
static md_fx_op combining(md_fx_op reduction)
{
    static const struct {
        md_fx_op reduction, op;
    } table[] = {{MD_FX_R_SUM, MD_FX_ADD}, {MD_FX_R_PROD, MD_FX_MUL}, {MD_FX_R_MAX, MD_FX_MAX},
                 {MD_FX_R_MIN, MD_FX_MIN}, {MD_FX_R_ANY, MD_FX_OR},   {MD_FX_R_ALL, MD_FX_AND}};
    for (int32_t i = 0; i < MD_COUNT(table); i++)
        if (table[i].reduction == reduction)
            return table[i].op;
    return MD_FX_NO_OP;
}

static int64_t size_of(const md_fx_formula *f, int32_t index)
{
    return f->dim[f->index[index].dim].size;
}

static bool is_plain_load(void *user, const md_fx_node *node)
{
    (void)user;
    return node->kind != MD_FX_LOAD || md_st_are_plain(node->n_args, node->arg);
}

static bool runs_over(void *user, const md_fx_node *node)
{
    const md_fx_node *reduce = user;
    return node->kind != MD_FX_LOAD || !md_fx_uses_any_index(node, reduce->n_bound, reduce->bound);
}

/* True if memory says how far the reduction runs, as in where(j < N[i], a, 0): few of the points may count. */
static bool has_loaded_end(const md_fx_node *reduce)
{
    const md_fx_node *body = reduce->arg[0];
    return body->kind == MD_FX_OP && body->op == MD_FX_WHERE && md_fx_has_kind(body->arg[0], MD_FX_LOAD) &&
           md_fx_visit(body->arg[0], runs_over, (void *)(uintptr_t)reduce);
}

/* Without subscripts like 2*y + r it is a short row, which row stages are for. */
bool md_st_is_window(const md_fx_formula *f, const md_fx_node *node)
{
    int64_t points = 1;
    if (node->kind != MD_FX_REDUCE || combining(node->op) == MD_FX_NO_OP || node->arg[0]->type != node->type ||
        has_loaded_end(node) || md_fx_visit(node->arg[0], is_plain_load, NULL))
        return false;
    for (int32_t i = 0; i < node->n_bound; i++) {
        const int64_t size = size_of(f, node->bound[i]);
        if (size < 1 || size > MAX_POINTS || (points *= size) > MAX_POINTS)
            return false;
    }
    return md_st_count_nodes(node->arg[0], MAX_NODES) * points <= MAX_NODES;
}

/* The body at one of its points. They are numbered in order, with the last index moving fastest. */
static const md_fx_node *body_at(const md_fx_formula *f, md_arena *arena, const md_fx_node *node, int64_t point)
{
    const md_fx_node *at[MD_MAX_RANK];
    for (int32_t i = node->n_bound - 1; i >= 0; i--) {
        const int64_t size = size_of(f, node->bound[i]);
        at[i] = md_fx_integer(arena, point % size);
        point /= size;
        if (!at[i])
            return NULL;
    }
    return md_fx_substitute(arena, node->arg[0], node->n_bound, node->bound, at);
}

const md_fx_node *md_st_unroll(const md_fx_formula *f, md_arena *arena, const md_fx_node *node)
{
    int64_t points = 1;
    for (int32_t i = 0; i < node->n_bound; i++)
        points *= size_of(f, node->bound[i]);
    const md_fx_node *value = body_at(f, arena, node, 0);
    for (int64_t i = 1; i < points; i++)
        value = md_fx_op2(arena, combining(node->op), value, body_at(f, arena, node, i));
    return value;
}
