/* Scan stages: one scan along a free index, anything pointwise in it and after it. */
#include "stage/form.h"

static const md_fx_node *extract(void *user, const md_fx_node *node)
{
    return node->kind == MD_FX_SCAN ? md_fx_ref(user, 0, node->type) : node;
}

/* The one scan of all items; NULL where there are several that differ, or one in another. */
static const md_fx_node *only_scan(const md_st_maker *m, int32_t n, const md_st_item *item)
{
    const md_fx_node *scan[8], *only = NULL;
    for (int32_t i = 0; i < n; i++) {
        int32_t count = md_st_collect(scan, MD_COUNT(scan), MD_FX_SCAN, &item[i]);
        if (count > MD_COUNT(scan))
            return NULL;
        for (int32_t s = 0; s < count; s++) {
            if (md_fx_has_kind(scan[s]->arg[0], MD_FX_SCAN) || (only && !md_fx_equal(m->formula, only, scan[s])))
                return NULL;
            only = scan[s];
        }
    }
    return only;
}

bool md_st_form_scan(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    if (!md_st_unify(m, n, item))
        return false;
    const md_fx_node *scan = only_scan(m, n, item);
    if (!scan)
        return false;
    out->kind = MD_ST_SCAN;
    out->scan = (md_st_scan){.op = scan->op,
                             .type = scan->type,
                             .exclusive = scan->exclusive,
                             .reverse = scan->reverse,
                             .body = scan->arg[0]};
    for (int32_t i = 0; i < item[0].n_free; i++)
        if (item[0].free[i] == scan->bound[0])
            out->axis = scan->bound[0];
        else
            out->outer[out->n_outer++] = item[0].free[i];
    if (out->axis < 0)
        return false;
    if (!md_st_rewrite_all(m, n, item, extract, m->arena))
        return false;
    md_st_put_stores(out, n, item);
    return true;
}
