/* Which lets are put into what reads them. They are decided in order, each against all its readers at once: it is
 * inlined where every reader then still is a stage of a good kind, or it is stored. */
#include "stage/fusion.h"

#include <stdlib.h>

enum {
    MAX_COPIED_NODES = 160, /* of a let that is read at several places */
    MAX_LOADS = 64
};

/* Every place where a reader reads a let. */
typedef struct places {
    int32_t n, n_distinct;
    const md_fx_node *load[MAX_LOADS];
    bool is_complete, is_in_subscript;
} places;

typedef struct finder {
    places *places;
    int32_t tensor;
} finder;

static bool find_place(void *user, const md_fx_node *node)
{
    finder *f = user;
    if (node->kind != MD_FX_LOAD)
        return true;
    for (int32_t i = 0; i < node->n_args; i++)
        f->places->is_in_subscript |= md_st_reads(node->arg[i], f->tensor);
    if (node->id != f->tensor)
        return true;
    for (int32_t i = 0; i < f->places->n; i++)
        if (f->places->load[i] == node)
            return true;
    if (f->places->n == MAX_LOADS)
        f->places->is_complete = false;
    else
        f->places->load[f->places->n++] = node;
    return true;
}

static places places_of(const md_st_maker *m, const md_st_item *reader, int32_t tensor)
{
    places p = {.is_complete = true};
    finder f = {.places = &p, .tensor = tensor};
    (void)md_st_visit(reader, find_place, &f);
    for (int32_t i = 0; i < reader->n_subscripts; i++)
        p.is_in_subscript |= md_st_reads(reader->subscript[i], tensor);
    for (int32_t i = 0; i < p.n; i++) {
        int32_t k = 0;
        while (k < i && !md_fx_equal(m->formula, p.load[k], p.load[i]))
            k++;
        p.n_distinct += k == i;
    }
    return p;
}

static bool all_plain(const places *p)
{
    for (int32_t i = 0; i < p->n; i++)
        if (!md_st_are_plain(p->load[i]->n_args, p->load[i]->arg))
            return false;
    return true;
}

/* A subscript that a kernel checks is checked where it is used, against the let's own size: such a let stays in
 * memory. */
static bool any_gather(const places *p)
{
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->load[i]->n_args; k++)
            if (md_fx_is_checked(p->load[i]->arg[k]) || md_fx_has_kind(p->load[i]->arg[k], MD_FX_REDUCE))
                return true;
    return false;
}

/* True if putting an expensive value where it is read repeats it: the innermost loop around runs over one of its
 * indices, and another loop, over none of them. */
static bool is_repeated(const md_st_item *reader, const md_fx_node *load)
{
    const md_fx_node *reduce[MAX_LOADS], *inner = NULL;
    int32_t n = MD_MIN(md_st_collect(reduce, MAX_LOADS, MD_FX_REDUCE, reader), MAX_LOADS), innermost = -1;
    bool has_other = false;
    md_st_set used = md_st_indices(load);
    for (int32_t i = 0; i < n; i++) {
        if (!md_st_contains(reduce[i]->arg[0], load))
            continue;
        for (int32_t k = 0; k < reduce[i]->n_bound; k++)
            has_other |= !md_st_set_has(&used, reduce[i]->bound[k]);
        if (!inner || md_st_contains(inner, reduce[i]))
            inner = reduce[i];
    }
    if (inner)
        innermost = inner->bound[inner->n_bound - 1];
    else if (reader->n_free > 0)
        innermost = reader->free[reader->n_free - 1];
    for (int32_t i = 0; i < reader->n_free; i++)
        has_other |= !md_st_set_has(&used, reader->free[i]);
    return has_other && innermost >= 0 && md_st_set_has(&used, innermost);
}

static bool may_copy_pointwise(const md_st_item *let, const md_st_item *reader, const places *p)
{
    bool is_heavy = md_st_is_heavy(let->value);
    /* the bounds of a subscript that reads no tensor were checked without the let's expression in it */
    if (any_gather(p) || (p->is_in_subscript && !md_fx_has_kind(let->value, MD_FX_LOAD)))
        return false;
    if (p->n_distinct > 1 &&
        (is_heavy || p->n_distinct * md_st_count_nodes(let->value, MAX_COPIED_NODES) > MAX_COPIED_NODES))
        return false;
    for (int32_t i = 0; i < p->n && is_heavy; i++)
        if (is_repeated(reader, p->load[i]))
            return false;
    return true;
}

/* True if every load moves with all of the stage's rows: otherwise results would be made again and again. */
static bool covers(const places *p, const md_st_stage *stage, const md_st_item *reader)
{
    md_st_set outer = {{0}};
    for (int32_t i = 0; i < reader->n_free; i++)
        if (stage->kind != MD_ST_ROW || reader->free[i] != stage->axis)
            md_st_set_add(&outer, reader->free[i]);
    for (int32_t i = 0; i < p->n; i++) {
        const md_st_set used = md_st_indices(p->load[i]);
        if (!md_st_set_is_within(&outer, &used))
            return false;
    }
    return true;
}

/* The kind of a stage (column) after a let of some kind (row) is inlined into it; -1: not allowed. */
static int kind_after(md_st_kind let, md_st_kind reader)
{
    static const signed char table[MD_ST_NEST + 1][MD_ST_NEST + 1] = {
        /*                POINTWISE      ROW            PRODUCT        SCAN         NEST */
        [MD_ST_POINTWISE] = {MD_ST_POINTWISE, MD_ST_ROW, MD_ST_PRODUCT, MD_ST_SCAN, MD_ST_NEST},
        [MD_ST_ROW] = {MD_ST_ROW, MD_ST_ROW, -1, -1, -1},
        [MD_ST_PRODUCT] = {MD_ST_PRODUCT, -1, MD_ST_PRODUCT, -1, -1},
        [MD_ST_SCAN] = {MD_ST_SCAN, -1, -1, -1, -1},
        [MD_ST_NEST] = {MD_ST_NEST, -1, -1, -1, -1},
    };
    return table[let][reader];
}

/* Puts a let into one reader, if that is good. */
static bool inline_into(md_st_draft *draft, md_st_item *reader, const md_st_item *let, md_st_kind let_kind,
                        md_st_stage *scratch)
{
    md_st_maker *m = draft->maker;
    const places at = places_of(m, reader, let->tensor);
    if (!at.is_complete || (let_kind == MD_ST_POINTWISE && !may_copy_pointwise(let, reader, &at)) ||
        (let_kind != MD_ST_POINTWISE && (!all_plain(&at) || at.is_in_subscript)) || !md_st_form(m, scratch, 1, reader))
        return false;
    int wanted = kind_after(let_kind, scratch->kind);
    if (wanted < 0 || !md_st_inline_item(m, reader, let) ||
        md_st_count_nodes(reader->value, MD_ST_MAX_NODES) >= MD_ST_MAX_NODES || !md_st_form(m, scratch, 1, reader) ||
        (int)scratch->kind != wanted)
        return false;
    return let_kind == MD_ST_POINTWISE || covers(&at, scratch, reader);
}

static int32_t count_readers(const md_st_draft *draft, int32_t stmt)
{
    int32_t n = 0;
    for (int32_t i = stmt + 1; i < draft->formula->n_stmts; i++)
        n += md_st_item_reads(&draft->item[i], draft->item[stmt].tensor);
    return n;
}

/* Inlines one let into everything that reads it, or into nothing. */
static bool try_inline(md_st_draft *draft, int32_t stmt, md_st_item *changed, md_st_stage *scratch)
{
    const md_st_item *let = &draft->item[stmt];
    if (!md_st_is_plain(let) || let->assign != MD_FX_SET || md_st_reads_rewritten(draft->formula, let->value) ||
        !md_st_form(draft->maker, scratch, 1, let))
        return false;
    md_st_kind kind = scratch->kind;
    if (kind != MD_ST_POINTWISE && kind != MD_ST_ROW && count_readers(draft, stmt) > 1)
        return false;
    for (int32_t i = stmt + 1; i < draft->formula->n_stmts; i++) {
        changed[i] = draft->item[i];
        if (md_st_item_reads(&draft->item[i], let->tensor) && !inline_into(draft, &changed[i], let, kind, scratch))
            return false;
    }
    for (int32_t i = stmt + 1; i < draft->formula->n_stmts; i++)
        draft->item[i] = changed[i];
    if (kind != MD_ST_POINTWISE)
        draft->reduced |= (uint32_t)1 << let->tensor;
    return true;
}

bool md_st_inline_lets(md_st_draft *draft)
{
    md_st_item *changed = calloc(MD_FX_MAX_STMTS, sizeof *changed);
    md_st_stage *scratch = calloc(1, sizeof *scratch);
    draft->maker->no_memory |= !changed || !scratch;
    for (int32_t i = 0; i < draft->formula->n_stmts && !draft->maker->no_memory; i++) {
        int32_t tensor = draft->item[i].tensor;
        if (draft->formula->tensor[tensor].role != MD_FX_TEMP || (draft->forced >> tensor & 1) != 0)
            continue;
        draft->is_live[i] = count_readers(draft, i) > 0 && !try_inline(draft, i, changed, scratch);
    }
    free(changed);
    free(scratch);
    return !draft->maker->no_memory;
}
