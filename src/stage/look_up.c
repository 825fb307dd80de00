/* Products whose rows look up which matrix they are multiplied by: W[eid[t],n,k]. An index of its own stands for the
 * look-up, so that the matrices are an operand like any other. And products whose results a look-up places. */
#include "stage/form.h"

static const char GROUP[] = "group";

typedef struct finder {
    const md_st_maker *maker;
    const md_fx_node *reduce;
    int32_t n;
    const md_fx_node **out;
} finder;

static bool note_look_up(void *user, const md_fx_node *node)
{
    finder *f = user;
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++) {
        const md_fx_node *subscript = node->arg[i];
        if (!md_fx_has_kind(subscript, MD_FX_LOAD) ||
            md_fx_uses_any_index(subscript, f->reduce->n_bound, f->reduce->bound))
            continue;
        int32_t same = 0;
        while (same < f->n && !md_fx_equal(f->maker->formula, f->out[same], subscript))
            same++;
        if (same == f->n && f->n < MD_ST_MAX_LOOK_UPS)
            f->out[f->n++] = subscript;
    }
    return true;
}

int32_t md_st_find_look_ups(const md_fx_node *out[MD_ST_MAX_LOOK_UPS], const md_st_maker *m, const md_fx_node *reduce)
{
    finder f = {.maker = m, .reduce = reduce, .out = out};
    (void)md_fx_visit(reduce->arg[0], note_look_up, &f);
    return f.n;
}

/* ---- The index */

typedef struct owner {
    const md_st_maker *maker;
    const md_fx_node *look_up;
    int32_t dim; /* of the axis; -1: not found yet */
} owner;

static bool note_owner(void *user, const md_fx_node *node)
{
    owner *o = user;
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args && o->dim < 0; i++)
        if (md_fx_equal(o->maker->formula, node->arg[i], o->look_up))
            o->dim = o->maker->formula->tensor[node->id].dim[i];
    return o->dim < 0;
}

int32_t md_st_group_index(md_st_maker *m, const md_fx_node *reduce, const md_fx_node *look_up)
{
    md_st_program *p = m->program;
    if (!p) /* no program is made, only the kind of a stage is asked for */
        return m->formula->n_indices;
    owner o = {.maker = m, .look_up = look_up, .dim = -1};
    (void)md_fx_visit(reduce->arg[0], note_owner, &o);
    for (int32_t i = m->formula->n_indices; i < p->n_indices; i++)
        if (p->index[i].dim == o.dim && p->index[i].name == GROUP)
            return i;
    if (o.dim < 0 || p->n_indices == MD_COUNT(p->index))
        return -1;
    p->index[p->n_indices] = (md_fx_index){.name = GROUP, .dim = o.dim};
    return p->n_indices++;
}

bool md_st_name_groups(md_st_maker *m, md_st_factors *list, const md_st_set *k, const md_fx_node *look_up,
                       int32_t group)
{
    const md_fx_node *index = md_fx_index_node(m->arena, group);
    bool is_made = md_st_made(m, index);
    for (int32_t i = 0; i < list->n && is_made; i++) {
        const md_st_set used = md_st_indices(list->factor[i].node);
        if (md_st_set_is_disjoint(&used, k))
            continue;
        list->factor[i].node = md_fx_replace(m->formula, m->arena, list->factor[i].node, look_up, index);
        is_made = md_st_made(m, list->factor[i].node);
    }
    return is_made;
}

/* ---- The axes that groups are looked up in */

typedef struct axis_visit {
    int32_t group;
    void (*fn)(void *user, int32_t tensor, int32_t axis);
    void *user;
} axis_visit;

static bool visit_axis(void *user, const md_fx_node *node)
{
    const axis_visit *v = user;
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++)
        if (md_fx_is_index(node->arg[i], v->group))
            v->fn(v->user, node->id, i);
    return true;
}

void md_st_each_group_axis(const md_st_product *product, void (*fn)(void *user, int32_t tensor, int32_t axis),
                           void *user)
{
    axis_visit v = {.group = product->group, .fn = fn, .user = user};
    for (int32_t i = 0; i < product->n_products && product->look_up; i++)
        (void)md_fx_visit(product->of_group[i], visit_axis, &v);
}

typedef struct least_axis {
    const md_st_program *program;
    const int64_t *size;
    int64_t least;
} least_axis;

static void take_axis(void *user, int32_t tensor, int32_t axis)
{
    least_axis *l = user;
    l->least = MD_MIN(l->least, l->size[l->program->formula->tensor[tensor].dim[axis]]);
}

int64_t md_st_groups(const md_st_program *program, int32_t stage, const int64_t *size)
{
    least_axis l = {.program = program, .size = size, .least = INT64_MAX};
    md_st_each_group_axis(&program->stage[stage].product, take_axis, &l);
    return l.least == INT64_MAX ? 0 : l.least;
}

bool md_st_suits_stores(const md_st_product *product, int32_t n, const md_st_item *item)
{
    const md_fx_node *last = item->n_subscripts > 0 ? item->subscript[item->n_subscripts - 1] : NULL;
    const md_st_set columns = md_st_set_of(product->n_n, product->n);
    bool is_plain = true;
    for (int32_t i = 0; i < n; i++)
        is_plain &= md_st_is_plain(&item[i]);
    if (is_plain)
        return true;
    if (n != 1 || item->assign != MD_FX_SET || last->kind != MD_FX_INDEX || !md_st_set_has(&columns, last->id))
        return false;
    for (int32_t i = 0; i < item->n_subscripts; i++) {
        const md_st_set used = md_st_indices(item->subscript[i]);
        if (item->subscript[i]->kind != MD_FX_INDEX && !md_st_set_is_disjoint(&used, &columns))
            return false;
    }
    return true;
}
