/* Making statements run over the same indices, so that one stage can hold them. */
#include "stage/form.h"

static const md_fx_node *renamed(md_st_maker *m, const md_fx_node *node, int32_t n, const int32_t *from,
                                 const md_fx_node *const *to)
{
    const md_fx_node *result = md_fx_substitute(m->arena, node, n, from, to);
    (void)md_st_made(m, result);
    return result;
}

bool md_st_rename(md_st_maker *m, md_st_item *item, int32_t n, const int32_t *from, const int32_t *to)
{
    const md_fx_node *index[MD_MAX_RANK * 2 + 1];
    for (int32_t i = 0; i < n; i++) {
        index[i] = md_fx_index_node(m->arena, to[i]);
        if (!md_st_made(m, index[i]))
            return false;
    }
    item->value = renamed(m, item->value, n, from, index);
    for (int32_t i = 0; i < item->n_subscripts && !m->no_memory; i++)
        item->subscript[i] = renamed(m, item->subscript[i], n, from, index);
    for (int32_t i = 0; i < item->n_free; i++)
        for (int32_t k = 0; k < n; k++)
            if (item->free[i] == from[k]) {
                item->free[i] = to[k];
                break;
            }
    return !m->no_memory;
}

static bool same_dims(const md_st_maker *m, const md_st_item *a, const md_st_item *b)
{
    if (a->n_free != b->n_free)
        return false;
    for (int32_t i = 0; i < a->n_free; i++)
        if (m->formula->index[a->free[i]].dim != m->formula->index[b->free[i]].dim)
            return false;
    return true;
}

/* True if the load reads the element that the writer stores at the same point. A bound index stands for the axis. */
typedef struct reading {
    const md_st_item *reader, *writer;
    int32_t axis;
} reading;

bool md_st_is_free(const md_st_item *item, int32_t index)
{
    for (int32_t i = 0; i < item->n_free; i++)
        if (item->free[i] == index)
            return true;
    return false;
}

static bool is_same_element(void *user, const md_fx_node *node)
{
    const reading *r = user;
    if (node->kind != MD_FX_LOAD || node->id != r->writer->tensor)
        return true;
    for (int32_t i = 0; i < node->n_args; i++) {
        const md_fx_node *read = node->arg[i], *written = r->writer->subscript[i];
        if (read->kind != MD_FX_INDEX)
            return false;
        bool stands_for_axis = r->axis >= 0 && written->id == r->axis && !md_st_is_free(r->reader, read->id);
        if (read->id != written->id && !stands_for_axis)
            return false;
    }
    return true;
}

bool md_st_replace_own_loads(md_st_maker *m, int32_t n, md_st_item *item, int32_t axis)
{
    for (int32_t r = 1; r < n; r++)
        for (int32_t w = 0; w < r; w++) {
            if (!md_st_item_reads(&item[r], item[w].tensor))
                continue;
            reading reads = {.reader = &item[r], .writer = &item[w], .axis = axis};
            if (!md_st_is_plain(&item[w]) || item[w].assign != MD_FX_SET ||
                !md_st_visit(&item[r], is_same_element, &reads) || !md_st_inline_item(m, &item[r], &item[w]) ||
                md_st_count_nodes(item[r].value, MD_ST_MAX_NODES) >= MD_ST_MAX_NODES)
                return false;
        }
    return true;
}

bool md_st_unify(md_st_maker *m, int32_t n, md_st_item *item)
{
    for (int32_t i = 1; i < n; i++)
        if (!same_dims(m, &item[0], &item[i]) || !md_st_rename(m, &item[i], item[i].n_free, item[i].free, item[0].free))
            return false;
    return md_st_replace_own_loads(m, n, item, -1);
}

void md_st_put_stores(md_st_stage *out, int32_t n, const md_st_item *item)
{
    out->n_stores = n;
    for (int32_t i = 0; i < n; i++) {
        md_st_store *s = &out->store[i];
        *s = (md_st_store){.tensor = item[i].tensor,
                           .assign = item[i].assign,
                           .n_subscripts = item[i].n_subscripts,
                           .value = item[i].value};
        for (int32_t k = 0; k < item[i].n_subscripts; k++)
            s->subscript[k] = item[i].subscript[k];
    }
}
