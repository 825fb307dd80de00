/* Planning: lets are inlined, then statements share stages. A reduction that would be made by two stages is stored
 * instead, and the plan begins anew. */
#include "stage/chains.h"

#include <stdlib.h>

md_st_item md_st_item_of(const md_fx_stmt *s, const md_fx_formula *f)
{
    md_st_item item = {.tensor = s->tensor,
                       .assign = s->assign,
                       .n_free = s->n_free,
                       .n_subscripts = f->tensor[s->tensor].rank,
                       .value = s->value};
    for (int32_t i = 0; i < s->n_free; i++)
        item.free[i] = s->free[i];
    for (int32_t i = 0; i < item.n_subscripts; i++)
        item.subscript[i] = s->subscript[i];
    return item;
}

static bool start(md_st_draft *draft)
{
    draft->n_groups = 0;
    draft->reduced = 0;
    for (int32_t i = 0; i < draft->formula->n_stmts; i++) {
        draft->is_live[i] = true;
        draft->item[i] = md_st_item_of(&draft->formula->stmt[i], draft->formula);
        draft->item[i].value = md_st_lower(draft->maker, draft->item[i].value);
        if (draft->maker->no_memory)
            return false;
    }
    return true;
}

/* ---- grouping ---- */

static bool group_writes(const md_st_draft *draft, const md_st_group *g, int32_t tensor)
{
    for (int32_t i = 0; i < g->n; i++)
        if (draft->item[g->stmt[i]].tensor == tensor)
            return true;
    return false;
}

static bool group_reads(const md_st_group *g, int32_t tensor)
{
    for (int32_t i = 0; i < g->stage.n_tensors; i++)
        if (g->stage.tensor[i] == tensor)
            return true;
    return false;
}

static bool depends(const md_st_draft *draft, const md_st_group *g, const md_st_item *item)
{
    for (int32_t i = 0; i < g->n; i++)
        if (md_st_item_reads(item, draft->item[g->stmt[i]].tensor))
            return true;
    return false;
}

typedef struct sharing {
    const md_st_group *group;
    bool found;
} sharing;

static bool shares_no_load(void *user, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || !group_reads(user, node->id);
}

static bool shares(const md_st_group *g, const md_st_item *item)
{
    return !md_fx_visit(item->value, shares_no_load, (void *)(uintptr_t)g);
}

/* The first group that may take the item: after all writers of what it reads, and all readers of what it writes. */
static int32_t earliest(const md_st_draft *draft, const md_st_item *item)
{
    int32_t first = 0;
    for (int32_t g = 0; g < draft->n_groups; g++) {
        bool overwrites =
            group_reads(&draft->group[g], item->tensor) || group_writes(draft, &draft->group[g], item->tensor);
        if (overwrites)
            first = g + 1;
        else if (depends(draft, &draft->group[g], item))
            first = g;
    }
    return first;
}

/* Kinds of a stage and of an item that may be one stage: never, always, if they read something in common, if the
 * item reads what the stage writes. */
typedef enum joining { NEVER, ALWAYS, IF_SHARED, IF_DEPENDENT } joining;

static joining joining_of(md_st_kind stage, md_st_kind item)
{
    static const joining table[MD_ST_NEST + 1][MD_ST_NEST + 1] = {
        [MD_ST_POINTWISE] = {[MD_ST_POINTWISE] = ALWAYS, [MD_ST_ROW] = IF_SHARED},
        [MD_ST_ROW] = {[MD_ST_POINTWISE] = IF_SHARED, [MD_ST_ROW] = IF_SHARED},
        [MD_ST_PRODUCT] = {[MD_ST_POINTWISE] = IF_DEPENDENT, [MD_ST_PRODUCT] = IF_DEPENDENT},
        [MD_ST_SCAN] = {[MD_ST_POINTWISE] = IF_DEPENDENT},
    };
    return table[stage][item];
}

static bool accumulates(const md_st_item *item)
{
    return item->assign != MD_FX_SET && !md_st_is_plain(item);
}

static bool join(md_st_draft *draft, md_st_group *g, int32_t stmt, md_st_kind kind, md_st_stage *scratch)
{
    md_st_item list[MD_ST_MAX_STORES];
    const md_st_item *item = &draft->item[stmt];
    bool is_dependent = depends(draft, g, item), is_shared = is_dependent || shares(g, item);
    joining how = joining_of(g->stage.kind, kind);
    if (md_st_is_turned(draft->formula, &draft->item[g->stmt[0]]))
        return false;
    if (g->n == MD_ST_MAX_STORES || how == NEVER || (how == IF_DEPENDENT && !is_dependent) ||
        (how == IF_SHARED && !is_shared) || accumulates(item))
        return false;
    for (int32_t i = 0; i < g->n; i++) {
        list[i] = draft->item[g->stmt[i]];
        if (accumulates(&list[i]))
            return false;
    }
    list[g->n] = *item;
    md_st_kind wanted = g->stage.kind == MD_ST_POINTWISE ? kind : g->stage.kind;
    if (!md_st_form(draft->maker, scratch, g->n + 1, list) || scratch->kind != wanted)
        return false;
    /* one row is one thread's work, unless it is cut: elements that need nothing of it are better off alone */
    bool is_mixed = g->stage.kind != kind || (g->stage.kind == MD_ST_ROW && !g->stage.row.has_elements);
    if (how == IF_SHARED && !is_dependent && is_mixed && scratch->n_outer == 0 && scratch->row.has_elements)
        return false;
    g->stmt[g->n++] = stmt;
    g->stage = *scratch;
    return true;
}

static bool place(md_st_draft *draft, int32_t stmt, md_st_stage *alone, md_st_stage *scratch)
{
    const md_st_item *item = &draft->item[stmt];
    if (!md_st_form(draft->maker, alone, 1, item))
        return false;
    const int32_t first = md_st_is_turned(draft->formula, item) ? draft->n_groups : earliest(draft, item);
    for (int32_t g = draft->n_groups - 1; g >= first; g--)
        if (join(draft, &draft->group[g], stmt, alone->kind, scratch))
            return true;
    draft->group[draft->n_groups++] = (md_st_group){.n = 1, .stmt = {stmt}, .stage = *alone};
    return true;
}

static bool group_statements(md_st_draft *draft)
{
    md_st_stage *alone = calloc(2, sizeof *alone);
    draft->maker->no_memory |= !alone;
    for (int32_t i = 0; i < draft->formula->n_stmts && !draft->maker->no_memory; i++)
        if (draft->is_live[i])
            (void)place(draft, i, &alone[0], &alone[1]);
    free(alone);
    return !draft->maker->no_memory;
}

/* ---- after the first attempt ---- */

/* Temporaries whose reductions two stages would make. */
static uint32_t made_twice(const md_st_draft *draft)
{
    uint32_t once = 0, twice = 0;
    for (int32_t g = 0; g < draft->n_groups; g++) {
        uint32_t here = 0;
        for (int32_t i = 0; i < draft->group[g].n; i++)
            here |= draft->item[draft->group[g].stmt[i]].inlined & draft->reduced;
        twice |= once & here;
        once |= here;
    }
    return twice;
}

static bool is_read_elsewhere(const md_st_draft *draft, int32_t g, int32_t tensor)
{
    for (int32_t other = 0; other < draft->n_groups; other++)
        if (other != g && group_reads(&draft->group[other], tensor))
            return true;
    return false;
}

/* A temporary that only its own stage reads needs no memory after all: the values of the others have it in them. */
static void drop_stores(md_st_draft *draft)
{
    for (int32_t g = 0; g < draft->n_groups; g++) {
        md_st_stage *s = &draft->group[g].stage;
        int32_t n = 0;
        for (int32_t i = 0; i < s->n_stores; i++) {
            bool is_temp = draft->formula->tensor[s->store[i].tensor].role == MD_FX_TEMP;
            if (!is_temp || is_read_elsewhere(draft, g, s->store[i].tensor))
                s->store[n++] = s->store[i];
        }
        if (n > 0 && n < s->n_stores) {
            s->n_stores = n;
            md_st_take_census(draft->maker, s);
        }
    }
}

static md_status finish(const md_st_draft *draft)
{
    md_st_program *program = draft->maker->program;
    program->stage = md_arena_alloc(program->arena, (size_t)draft->n_groups * sizeof *program->stage);
    program->known = md_arena_alloc(program->arena, (size_t)draft->n_groups * sizeof *program->known);
    if (!program->stage || !program->known)
        return md_fail_memory();
    program->n_stages = draft->n_groups;
    for (int32_t g = 0; g < draft->n_groups; g++) {
        const md_st_stage *s = &draft->group[g].stage;
        program->stage[g] = *s;
        for (int32_t i = 0; i < s->n_stores; i++)
            if (draft->formula->tensor[s->store[i].tensor].role == MD_FX_TEMP)
                program->is_temp_stored[s->store[i].tensor] = true;
    }
    return MD_OK;
}

md_status md_st_plan(md_st_maker *m)
{
    md_st_draft *draft = calloc(1, sizeof *draft);
    if (!draft)
        return md_fail_memory();
    draft->maker = m;
    draft->formula = m->formula;
    for (int32_t t = 0; t < m->formula->n_tensors; t++)
        draft->forced |= (uint32_t)m->formula->tensor[t].is_turned << t;
    for (;;) {
        if (!start(draft) || !md_st_inline_lets(draft) || !group_statements(draft))
            break;
        uint32_t twice = made_twice(draft) & ~draft->forced;
        if (twice == 0)
            break;
        draft->forced |= twice;
    }
    if (!m->no_memory)
        drop_stores(draft);
    if (!m->no_memory)
        md_st_add_unturned(draft);
    if (!m->no_memory)
        md_st_add_chains(draft);
    md_status status = m->no_memory ? md_fail_memory() : finish(draft);
    free(draft);
    return status;
}
