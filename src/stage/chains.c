/* Finding chains among the stages of a program. */
#include "stage/chains.h"

#include <stdlib.h>

static bool touches(const md_st_group *g, int32_t tensor, bool writes)
{
    for (int32_t i = 0; i < g->stage.n_tensors; i++)
        if (g->stage.tensor[i] == tensor)
            return !writes || g->stage.is_stored[i];
    return false;
}

/* True if a later group reads what a group writes to memory. */
static bool feeds(const md_st_draft *d, int32_t writer, int32_t reader)
{
    const md_st_stage *s = &d->group[writer].stage;
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->is_stored[i] && touches(&d->group[reader], s->tensor[i], false) &&
            !touches(&d->group[reader], s->tensor[i], true))
            return true;
    return false;
}

static bool is_read_elsewhere(const md_st_draft *d, const md_st_parts *p, int32_t tensor)
{
    for (int32_t g = 0; g < d->n_groups; g++)
        if (!md_st_has_part(p, g) && touches(&d->group[g], tensor, false))
            return true;
    return false;
}

/* A chain runs where the last part stands: what stands between parts must not need them, nor change what they read. */
static bool may_move(const md_st_draft *d, const md_st_parts *p)
{
    for (int32_t i = 0; i + 1 < p->n; i++)
        for (int32_t g = p->group[i] + 1; g < p->group[p->n - 1]; g++) {
            const md_st_stage *s = &d->group[p->group[i]].stage;
            for (int32_t k = 0; k < s->n_tensors && !md_st_has_part(p, g); k++)
                if (touches(&d->group[g], s->tensor[k], !s->is_stored[k]))
                    return false;
        }
    return true;
}

/* The parts' statements in order, each with those before it in it. */
static int32_t list_items(md_st_draft *d, const md_st_parts *p, md_st_item *item)
{
    int32_t n = 0;
    for (int32_t stmt = 0; stmt < d->formula->n_stmts; stmt++)
        for (int32_t i = 0; i < p->n; i++)
            for (int32_t k = 0; k < d->group[p->group[i]].n; k++) {
                if (d->group[p->group[i]].stmt[k] != stmt)
                    continue;
                md_st_item *new = &item[n];
                *new = d->item[stmt];
                if (!md_st_is_plain(new) || new->assign != MD_FX_SET)
                    return 0;
                for (int32_t w = n - 1; w >= 0; w--)
                    if (md_st_item_reads(new, item[w].tensor) && !md_st_inline_item(d->maker, new, &item[w]))
                        return 0;
                if (md_st_count_nodes(new->value, MD_ST_MAX_NODES) >= MD_ST_MAX_NODES)
                    return 0;
                n++;
            }
    return n;
}

/* Keeps the statements whose results are needed, that of the last part first. */
static int32_t keep_stored(const md_st_draft *d, const md_st_parts *p, int32_t n, md_st_item *item)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (d->formula->tensor[item[i].tensor].role == MD_FX_OUTPUT || is_read_elsewhere(d, p, item[i].tensor))
            item[kept++] = item[i];
    for (int32_t i = 0; i < kept; i++)
        if (touches(&d->group[p->group[p->n - 1]], item[i].tensor, true)) {
            md_st_item last = item[i];
            item[i] = item[0];
            item[0] = last;
            return kept <= MD_ST_MAX_STORES ? kept : 0;
        }
    return 0;
}

int32_t md_st_items_of_parts(md_st_draft *d, const md_st_parts *p, md_st_item *item)
{
    const int32_t n = list_items(d, p, item);
    return n > 0 ? keep_stored(d, p, n, item) : 0;
}

/* Scans cannot move to other indices; and what is pointwise is in its reader already, or has a reason to be stored. */
static bool may_be_part(const md_st_draft *d, const md_st_group *g)
{
    if (g->stage.kind != MD_ST_PRODUCT && g->stage.kind != MD_ST_ROW && g->stage.kind != MD_ST_NEST)
        return false;
    for (int32_t i = 0; i < g->n; i++)
        if (md_st_item_has(&d->item[g->stmt[i]], MD_FX_SCAN))
            return false;
    return true;
}

typedef bool (*former)(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);

static bool try_parts(md_st_draft *d, const md_st_parts *p, md_st_item *item, md_st_stage *stage, former form)
{
    int32_t n = 0;
    if (!may_move(d, p))
        return false;
    for (int32_t i = 0; i < p->n; i++)
        if (!may_be_part(d, &d->group[p->group[i]]))
            return false;
    n = md_st_items_of_parts(d, p, item);
    return n > 0 && form(d->maker, stage, n, item);
}

void md_st_insert_whole(md_st_draft *d, const md_st_parts *p, const md_st_stage *stage, int32_t at)
{
    for (int32_t g = d->n_groups++; g > at; g--)
        d->group[g] = d->group[g - 1];
    d->group[at] = (md_st_group){.stage = *stage};
    for (int32_t g = 0; g < d->n_groups; g++)
        for (int32_t i = 0; i < d->group[g].stage.n_parts; i++)
            d->group[g].stage.part[i] += d->group[g].stage.part[i] >= at;
    d->group[at].stage.n_parts = p->n;
    for (int32_t i = 0; i < p->n; i++)
        d->group[at].stage.part[i] = p->group[i] + (p->group[i] >= at);
}

/* Behind the last of its parts. */
static void insert(md_st_draft *d, const md_st_parts *p, const md_st_stage *stage)
{
    md_st_insert_whole(d, p, stage, p->group[p->n - 1] + 1);
}

/* Looks for the parts before the group: what it reads, and what that reads. */
static bool find_parts(md_st_draft *d, int32_t last, md_st_parts *p, md_st_item *item, md_st_stage *stage)
{
    for (int32_t middle = last - 1; middle >= 0; middle--) {
        if (!feeds(d, middle, last))
            continue;
        for (int32_t first = middle - 1; first >= 0; first--) {
            *p = (md_st_parts){3, {first, middle, last}};
            if (feeds(d, first, middle) && try_parts(d, p, item, stage, md_st_form_chain))
                return true;
        }
        *p = (md_st_parts){2, {middle, last}};
        if (try_parts(d, p, item, stage, md_st_form_chain))
            return true;
    }
    return false;
}

static bool is_taken(const md_st_draft *d, const md_st_parts *p)
{
    for (int32_t g = 0; g < d->n_groups; g++)
        for (int32_t i = 0; i < d->group[g].stage.n_parts; i++)
            if (md_st_has_part(p, d->group[g].stage.part[i]))
                return true;
    return false;
}

static void add_pairs(md_st_draft *d, md_st_item *item, md_st_stage *stage)
{
    for (int32_t g = 0; g < d->n_groups && d->n_groups < MD_ST_MAX_STAGES && !d->maker->no_memory; g++) {
        md_st_parts p;
        if (d->group[g].stage.kind == MD_ST_PRODUCT && md_st_find_pairs(&p, d, g) && p.group[0] == g &&
            !is_taken(d, &p) && try_parts(d, &p, item, stage, md_st_form_pairs))
            insert(d, &p, stage);
    }
}

void md_st_add_chains(md_st_draft *d)
{
    md_st_item *item = calloc(MD_FX_MAX_STMTS, sizeof *item);
    md_st_stage *stage = calloc(1, sizeof *stage);
    d->maker->no_memory |= !item || !stage;
    for (int32_t g = 1; g < d->n_groups && d->n_groups < MD_ST_MAX_STAGES && !d->maker->no_memory; g++) {
        md_st_parts p;
        if (!find_parts(d, g, &p, item, stage))
            continue;
        insert(d, &p, stage);
        g++;
    }
    if (!d->maker->no_memory)
        add_pairs(d, item, stage);
    free(item);
    free(stage);
}
