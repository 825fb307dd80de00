/* Questions about expressions, and putting one statement's value into another. */
#include "stage/form.h"

bool md_st_made(md_st_maker *m, const md_fx_node *node)
{
    m->no_memory |= !node;
    return node != NULL;
}

static bool add_index(void *user, const md_fx_node *node)
{
    if (node->kind == MD_FX_INDEX)
        md_st_set_add(user, node->id);
    else if (node->kind == MD_FX_SCAN)
        md_st_set_add(user, node->bound[0]);
    return true;
}

md_st_set md_st_indices(const md_fx_node *node)
{
    md_st_set set = {{0}};
    (void)md_fx_visit(node, add_index, &set);
    return set;
}

int32_t md_st_count_nodes(const md_fx_node *node, int32_t enough)
{
    int32_t n = 1;
    for (int32_t i = 0; i < node->n_args && n < enough; i++)
        n += md_st_count_nodes(node->arg[i], enough - n);
    return n;
}

static bool is_light(void *user, const md_fx_node *node)
{
    (void)user;
    return node->kind != MD_FX_OP || !md_fx_op_is_heavy(node->op);
}

bool md_st_is_heavy(const md_fx_node *node)
{
    return !md_fx_visit(node, is_light, NULL);
}

static bool is_no_load_of(void *user, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || node->id != *(const int32_t *)user;
}

bool md_st_reads(const md_fx_node *node, int32_t tensor)
{
    return !md_fx_visit(node, is_no_load_of, &tensor);
}

bool md_st_rewrite_all(md_st_maker *m, int32_t n, md_st_item *item, md_fx_rewrite_fn fn, void *user)
{
    for (int32_t i = 0; i < n; i++) {
        item[i].value = md_fx_rewrite(m->arena, item[i].value, fn, user);
        if (!md_st_made(m, item[i].value))
            return false;
    }
    return true;
}

bool md_st_visit(const md_st_item *item, md_fx_visit_fn fn, void *user)
{
    if (!md_fx_visit(item->value, fn, user))
        return false;
    for (int32_t i = 0; i < item->n_subscripts; i++)
        if (!md_fx_visit(item->subscript[i], fn, user))
            return false;
    return true;
}

static bool reads_no_rewritten(void *user, const md_fx_node *node)
{
    const md_fx_formula *f = user;
    return node->kind != MD_FX_LOAD || !f->tensor[node->id].is_rewritten;
}

bool md_st_reads_rewritten(const md_fx_formula *formula, const md_fx_node *node)
{
    return !md_fx_visit(node, reads_no_rewritten, (void *)(uintptr_t)formula);
}

bool md_st_item_reads(const md_st_item *item, int32_t tensor)
{
    return !md_st_visit(item, is_no_load_of, &tensor);
}

static bool is_other_kind(void *user, const md_fx_node *node)
{
    return node->kind != *(const md_fx_kind *)user;
}

bool md_st_item_has(const md_st_item *item, md_fx_kind kind)
{
    return !md_st_visit(item, is_other_kind, &kind);
}

static bool is_other_node(void *user, const md_fx_node *node)
{
    return node != user;
}

bool md_st_contains(const md_fx_node *node, const md_fx_node *part)
{
    return !md_fx_visit(node, is_other_node, (void *)(uintptr_t)part);
}

bool md_st_are_plain(int32_t n, const md_fx_node *const *subscript)
{
    for (int32_t i = 0; i < n; i++) {
        if (subscript[i]->kind != MD_FX_INDEX)
            return false;
        for (int32_t k = 0; k < i; k++)
            if (subscript[k]->id == subscript[i]->id)
                return false;
    }
    return true;
}

bool md_st_is_plain(const md_st_item *item)
{
    return md_st_are_plain(item->n_subscripts, item->subscript);
}

typedef struct collector {
    const md_fx_node **out;
    int32_t max, n;
    md_fx_kind kind;
} collector;

static bool collect(void *user, const md_fx_node *node)
{
    collector *c = user;
    if (node->kind != c->kind)
        return true;
    for (int32_t i = 0; i < MD_MIN(c->n, c->max); i++)
        if (c->out[i] == node)
            return true;
    if (c->n < c->max)
        c->out[c->n] = node;
    c->n++;
    return true;
}

int32_t md_st_collect(const md_fx_node **out, int32_t max, md_fx_kind kind, const md_st_item *item)
{
    collector c = {.out = out, .max = max, .kind = kind};
    (void)md_st_visit(item, collect, &c);
    return c.n;
}

/* ---- conditions ---- */

static bool is_made_of_plain_loads(void *user, const md_fx_node *node)
{
    (void)user;
    for (int32_t i = 0; i < node->n_args && node->kind == MD_FX_LOAD; i++)
        if (node->arg[i]->kind != MD_FX_INDEX)
            return false;
    return true;
}

typedef struct search {
    const md_fx_node *part;
    bool found;
} search;

static bool is_not_conditional_on(void *user, const md_fx_node *node)
{
    search *s = user;
    if (node->kind == MD_FX_OP && node->op == MD_FX_WHERE)
        for (int32_t i = 1; i < 3; i++)
            s->found |= md_st_contains(node->arg[i], s->part);
    return !s->found;
}

bool md_st_is_conditional(const md_fx_node *value, const md_fx_node *part)
{
    search s = {.part = part};
    (void)md_fx_visit(value, is_not_conditional_on, &s);
    return s.found;
}

bool md_st_is_safe(const md_fx_node *value, const md_fx_node *node)
{
    return !md_st_is_conditional(value, node) || md_fx_visit(node, is_made_of_plain_loads, NULL);
}

/* ---- making ---- */

md_fx_node *md_st_reduce_like(md_arena *arena, const md_fx_node *like, const md_fx_node *body)
{
    md_fx_node *copy = md_fx_node_new(arena, MD_FX_REDUCE, like->type);
    const md_fx_node **arg = md_arena_alloc(arena, sizeof *arg);
    if (!copy || !arg || !body)
        return NULL;
    *copy = *like;
    arg[0] = body;
    copy->arg = arg;
    return copy;
}

/* Operands of an operation have its type: conversions are nodes. */
const md_fx_node *md_st_convert(md_arena *arena, const md_fx_node *node, md_dtype type)
{
    return !node || node->type == type ? node : md_fx_cast(arena, node, type);
}

const md_fx_node *md_st_unless_empty(const md_st_maker *m, int32_t dim, const md_fx_node *result)
{
    if (!result || m->formula->dim[dim].lo > 0)
        return result;
    const md_fx_node *is_empty =
        md_fx_op2(m->arena, MD_FX_EQ, md_fx_size_node(m->arena, dim), md_fx_integer(m->arena, 0));
    return md_fx_op3(m->arena, MD_FX_WHERE, is_empty, md_fx_real(m->arena, 0.0, result->type), result);
}

/* ---- inlining ---- */

typedef struct inliner {
    md_st_maker *maker;
    const md_st_item *writer;
} inliner;

/* The value as a load after the store would give it. */
static const md_fx_node *rounded(md_st_maker *m, const md_st_item *writer)
{
    const md_fx_tensor *t = &m->formula->tensor[writer->tensor];
    /* what has moved axes holds another tensor's elements, or is stored as they are */
    bool is_same = (t->role == MD_FX_TEMP && !t->is_declared) || t->dtype == writer->value->type || t->is_turned;
    return is_same ? writer->value : md_fx_cast(m->arena, writer->value, t->dtype);
}

static const md_fx_node *inline_load(void *user, const md_fx_node *node)
{
    const inliner *in = user;
    const md_st_item *writer = in->writer;
    if (node->kind != MD_FX_LOAD || node->id != writer->tensor)
        return node;
    int32_t from[MD_MAX_RANK];
    for (int32_t i = 0; i < writer->n_subscripts; i++)
        from[i] = writer->subscript[i]->id;
    return md_fx_substitute(in->maker->arena, rounded(in->maker, writer), writer->n_subscripts, from, node->arg);
}

/* Replaces every LOAD of writer's tensor by the writer's value (rounded to the tensor's type) at the subscripts of
 * the load. */
static const md_fx_node *inline_writer(md_st_maker *m, const md_fx_node *node, const md_st_item *writer)
{
    inliner in = {.maker = m, .writer = writer};
    const md_fx_node *result = md_fx_rewrite(m->arena, node, inline_load, &in);
    (void)md_st_made(m, result);
    return result;
}

bool md_st_inline_item(md_st_maker *m, md_st_item *item, const md_st_item *writer)
{
    item->value = inline_writer(m, item->value, writer);
    for (int32_t i = 0; i < item->n_subscripts && !m->no_memory; i++)
        item->subscript[i] = inline_writer(m, item->subscript[i], writer);
    item->inlined |= writer->inlined | (uint32_t)1 << writer->tensor;
    return !m->no_memory;
}

bool md_st_visit_chain(const md_st_chain *c, md_fx_visit_fn fn, void *user)
{
    for (int32_t i = 0; i < MD_ST_SIDES; i++)
        if (!md_fx_visit(c->side[i].value, fn, user))
            return false;
    if (!md_fx_visit(c->score, fn, user))
        return false;
    for (int32_t i = 0; i < c->n_terms; i++)
        if (!md_fx_visit(c->term[i], fn, user))
            return false;
    const md_st_pairs *p = c->pairs;
    for (int32_t i = 0; p && i < p->n_operands; i++)
        if (!md_fx_visit(p->operand[i].value, fn, user))
            return false;
    for (int32_t i = 0; p && i < p->n_sums; i++)
        if (!md_fx_visit(p->sum[i].weight, fn, user))
            return false;
    return md_fx_visit(c->weight, fn, user) && (!c->reference || md_fx_visit(c->reference, fn, user));
}

bool md_st_product_reads(const md_st_product *product, int32_t tensor)
{
    bool reads = product->guard != NULL && md_st_reads(product->guard, tensor);
    for (int32_t i = 0; i < product->n_products; i++)
        reads |= md_st_reads(product->a[i], tensor) || md_st_reads(product->b[i], tensor);
    return reads;
}

bool md_st_chain_reads(const md_st_chain *chain, int32_t tensor)
{
    return !md_st_visit_chain(chain, is_no_load_of, &tensor);
}

bool md_st_step(int64_t coef[MD_MAX_RANK], const md_st_program *program, int32_t tensor,
                const md_fx_node *const *subscript, int32_t index)
{
    for (int32_t i = 0; i < program->formula->tensor[tensor].rank; i++) {
        md_fx_affine affine;
        coef[i] = 0;
        if (!md_fx_uses_index(subscript[i], index))
            continue;
        if (!md_fx_affine_of(&affine, program->formula, subscript[i]))
            return false;
        for (int32_t k = 0; k < affine.n; k++)
            if (affine.index[k] == index)
                coef[i] = affine.coef[k];
    }
    return true;
}
