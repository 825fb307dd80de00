/* Planning: which lets are put into what reads them, and which statements share a stage.
 *
 * Lets are decided in order, each against all that read it: it is inlined where every reader then still is a stage of a good
 * kind. A reduction that would be made by two stages is stored instead, and the plan begins anew. */
#include "stage/form.h"

#include <stdlib.h>

enum {
    MAX_NODES = 1500, /* of a value after inlining: copies of a let at several places could grow without end */
    MAX_COPIED_NODES = 160, /* of a let that is read at several places */
    MAX_LOADS = 64
};

typedef struct group {
    int32_t n;
    int32_t stmt[MD_ST_MAX_STORES];
    md_st_stage stage;
} group;

typedef struct plan {
    md_st_maker *maker;
    const md_fx_formula *formula;
    uint32_t forced; /* temporaries that must be stored */
    uint32_t reduced; /* inlined temporaries with reductions or scans of their own */
    bool is_live[MD_FX_MAX_STMTS]; /* writes memory */
    md_st_item item[MD_FX_MAX_STMTS];
    int32_t n_groups;
    group group[MD_FX_MAX_STMTS];
} plan;

md_st_item md_st_item_of(const md_fx_stmt *s, const md_fx_formula *f)
{
    md_st_item item = {.tensor = s->tensor, .assign = s->assign, .n_free = s->n_free,
                       .n_subscripts = f->tensor[s->tensor].rank, .value = s->value};
    for (int32_t i = 0; i < s->n_free; i++)
        item.free[i] = s->free[i];
    for (int32_t i = 0; i < item.n_subscripts; i++)
        item.subscript[i] = s->subscript[i];
    return item;
}

static bool start(plan *p)
{
    p->n_groups = 0;
    p->reduced = 0;
    for (int32_t i = 0; i < p->formula->n_stmts; i++) {
        p->is_live[i] = true;
        p->item[i] = md_st_item_of(&p->formula->stmt[i], p->formula);
        p->item[i].value = md_st_lower(p->maker, p->item[i].value);
        if (p->maker->no_memory)
            return false;
    }
    return true;
}

/* ---- inlining ---- */

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

/* A subscript that reads tensors is checked where it is used, against the let's own size: such a let stays in memory. */
static bool any_gather(const places *p)
{
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t k = 0; k < p->load[i]->n_args; k++)
            if (md_fx_has_kind(p->load[i]->arg[k], MD_FX_LOAD) || md_fx_has_kind(p->load[i]->arg[k], MD_FX_REDUCE))
                return true;
    return false;
}

/* Whether putting an expensive value where it is read repeats it: the innermost loop around runs over one of its indices, and
 * another loop, over none of them. */
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
        if (inner == NULL || md_st_contains(inner, reduce[i]))
            inner = reduce[i];
    }
    if (inner != NULL)
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
    if (p->n_distinct > 1 && (is_heavy || p->n_distinct * md_st_count_nodes(let->value) > MAX_COPIED_NODES))
        return false;
    for (int32_t i = 0; i < p->n && is_heavy; i++)
        if (is_repeated(reader, p->load[i]))
            return false;
    return true;
}

/* Whether every load moves with all of the stage's rows: otherwise results would be made again and again. */
static bool covers(const places *p, const md_st_stage *stage, const md_st_item *reader)
{
    md_st_set outer = {{0}};
    for (int32_t i = 0; i < reader->n_free; i++)
        if (stage->kind != MD_ST_ROW || reader->free[i] != stage->axis)
            md_st_set_add(&outer, reader->free[i]);
    for (int32_t i = 0; i < p->n; i++) {
        md_st_set used = md_st_indices(p->load[i]);
        for (int32_t k = 0; k < MD_COUNT(outer.word); k++)
            if ((outer.word[k] & ~used.word[k]) != 0)
                return false;
    }
    return true;
}

/* What a stage of one kind becomes when a let of another kind (row) is inlined into it (column); -1: it must not be. */
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
static bool inline_into(plan *p, md_st_item *reader, const md_st_item *let, md_st_kind let_kind, md_st_stage *scratch)
{
    md_st_maker *m = p->maker;
    const places at = places_of(m, reader, let->tensor);
    if (!at.is_complete || (let_kind == MD_ST_POINTWISE && !may_copy_pointwise(let, reader, &at)) ||
        (let_kind != MD_ST_POINTWISE && (!all_plain(&at) || at.is_in_subscript)) ||
        !md_st_form(m, scratch, 1, reader))
        return false;
    int wanted = kind_after(let_kind, scratch->kind);
    if (wanted < 0 || !md_st_inline_item(m, reader, let) || md_st_count_nodes(reader->value) > MAX_NODES ||
        !md_st_form(m, scratch, 1, reader) || (int)scratch->kind != wanted)
        return false;
    return let_kind == MD_ST_POINTWISE || covers(&at, scratch, reader);
}

static int32_t count_readers(const plan *p, int32_t stmt)
{
    int32_t n = 0;
    for (int32_t i = stmt + 1; i < p->formula->n_stmts; i++)
        n += md_st_item_reads(&p->item[i], p->item[stmt].tensor);
    return n;
}

/* Inlines one let into everything that reads it, or into nothing. */
static bool try_inline(plan *p, int32_t stmt, md_st_item *changed, md_st_stage *scratch)
{
    const md_st_item *let = &p->item[stmt];
    if (!md_st_is_plain(let) || let->assign != MD_FX_SET || !md_st_form(p->maker, scratch, 1, let))
        return false;
    md_st_kind kind = scratch->kind;
    if (kind != MD_ST_POINTWISE && kind != MD_ST_ROW && count_readers(p, stmt) > 1)
        return false;
    for (int32_t i = stmt + 1; i < p->formula->n_stmts; i++) {
        changed[i] = p->item[i];
        if (md_st_item_reads(&p->item[i], let->tensor) && !inline_into(p, &changed[i], let, kind, scratch))
            return false;
    }
    for (int32_t i = stmt + 1; i < p->formula->n_stmts; i++)
        p->item[i] = changed[i];
    if (kind != MD_ST_POINTWISE)
        p->reduced |= (uint32_t)1 << let->tensor;
    return true;
}

static bool inline_lets(plan *p)
{
    md_st_item *changed = calloc(MD_FX_MAX_STMTS, sizeof(*changed));
    md_st_stage *scratch = calloc(1, sizeof(*scratch));
    p->maker->no_memory |= changed == NULL || scratch == NULL;
    for (int32_t i = 0; i < p->formula->n_stmts && !p->maker->no_memory; i++) {
        int32_t tensor = p->item[i].tensor;
        if (p->formula->tensor[tensor].role != MD_FX_TEMP || (p->forced >> tensor & 1) != 0)
            continue;
        p->is_live[i] = count_readers(p, i) > 0 && !try_inline(p, i, changed, scratch);
    }
    free(changed);
    free(scratch);
    return !p->maker->no_memory;
}

/* ---- grouping ---- */

static bool group_writes(const plan *p, const group *g, int32_t tensor)
{
    for (int32_t i = 0; i < g->n; i++)
        if (p->item[g->stmt[i]].tensor == tensor)
            return true;
    return false;
}

static bool group_reads(const group *g, int32_t tensor)
{
    for (int32_t i = 0; i < g->stage.n_tensors; i++)
        if (g->stage.tensor[i] == tensor)
            return true;
    return false;
}

static bool depends(const plan *p, const group *g, const md_st_item *item)
{
    for (int32_t i = 0; i < g->n; i++)
        if (md_st_item_reads(item, p->item[g->stmt[i]].tensor))
            return true;
    return false;
}

typedef struct sharing {
    const group *group;
    bool found;
} sharing;

static bool shares_no_load(void *user, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || !group_reads(user, node->id);
}

static bool shares(const group *g, const md_st_item *item)
{
    return !md_fx_visit(item->value, shares_no_load, (void *)(uintptr_t)g);
}

/* The first group that may take the item: behind all that it reads, and behind all that read what it writes. */
static int32_t earliest(const plan *p, const md_st_item *item)
{
    int32_t first = 0;
    for (int32_t g = 0; g < p->n_groups; g++) {
        bool overwrites = group_reads(&p->group[g], item->tensor) || group_writes(p, &p->group[g], item->tensor);
        if (overwrites)
            first = g + 1;
        else if (depends(p, &p->group[g], item))
            first = g;
    }
    return first;
}

/* Kinds of a stage and of an item that may be one stage: never, always, if they read something in common, if the item reads what
 * the stage writes. */
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

static bool join(plan *p, group *g, int32_t stmt, md_st_kind kind, md_st_stage *scratch)
{
    md_st_item list[MD_ST_MAX_STORES];
    const md_st_item *item = &p->item[stmt];
    bool is_dependent = depends(p, g, item), is_shared = is_dependent || shares(g, item);
    joining how = joining_of(g->stage.kind, kind);
    if (g->n == MD_ST_MAX_STORES || how == NEVER || (how == IF_DEPENDENT && !is_dependent) ||
        (how == IF_SHARED && !is_shared) || accumulates(item))
        return false;
    for (int32_t i = 0; i < g->n; i++) {
        list[i] = p->item[g->stmt[i]];
        if (accumulates(&list[i]))
            return false;
    }
    list[g->n] = *item;
    md_st_kind wanted = g->stage.kind == MD_ST_POINTWISE ? kind : g->stage.kind;
    if (!md_st_form(p->maker, scratch, g->n + 1, list) || scratch->kind != wanted)
        return false;
    g->stmt[g->n++] = stmt;
    g->stage = *scratch;
    return true;
}

static bool place(plan *p, int32_t stmt, md_st_stage *alone, md_st_stage *scratch)
{
    const md_st_item *item = &p->item[stmt];
    if (!md_st_form(p->maker, alone, 1, item))
        return false;
    for (int32_t g = p->n_groups - 1; g >= earliest(p, item); g--)
        if (join(p, &p->group[g], stmt, alone->kind, scratch))
            return true;
    p->group[p->n_groups++] = (group){.n = 1, .stmt = {stmt}, .stage = *alone};
    return true;
}

static bool group_statements(plan *p)
{
    md_st_stage *alone = calloc(2, sizeof(*alone));
    p->maker->no_memory |= alone == NULL;
    for (int32_t i = 0; i < p->formula->n_stmts && !p->maker->no_memory; i++)
        if (p->is_live[i])
            (void)place(p, i, &alone[0], &alone[1]);
    free(alone);
    return !p->maker->no_memory;
}

/* ---- after the first attempt ---- */

/* Temporaries whose reductions two stages would make. */
static uint32_t made_twice(const plan *p)
{
    uint32_t once = 0, twice = 0;
    for (int32_t g = 0; g < p->n_groups; g++) {
        uint32_t here = 0;
        for (int32_t i = 0; i < p->group[g].n; i++)
            here |= p->item[p->group[g].stmt[i]].inlined & p->reduced;
        twice |= once & here;
        once |= here;
    }
    return twice;
}

static bool is_read_elsewhere(const plan *p, int32_t g, int32_t tensor)
{
    for (int32_t other = 0; other < p->n_groups; other++)
        if (other != g && group_reads(&p->group[other], tensor))
            return true;
    return false;
}

/* A temporary that only its own stage reads needs no memory after all: the values of the others have it in them. */
static void drop_stores(plan *p)
{
    for (int32_t g = 0; g < p->n_groups; g++) {
        md_st_stage *s = &p->group[g].stage;
        int32_t n = 0;
        for (int32_t i = 0; i < s->n_stores; i++) {
            bool is_temp = p->formula->tensor[s->store[i].tensor].role == MD_FX_TEMP;
            if (!is_temp || is_read_elsewhere(p, g, s->store[i].tensor))
                s->store[n++] = s->store[i];
        }
        if (n > 0 && n < s->n_stores) {
            s->n_stores = n;
            md_st_take_census(p->maker, s);
        }
    }
}

static md_status finish(const plan *p)
{
    md_st_program *program = p->maker->program;
    if (p->n_groups > MD_ST_MAX_STAGES)
        return md_fail(MD_UNSUPPORTED, "the formula needs %d stages; %d is the limit", p->n_groups, MD_ST_MAX_STAGES);
    program->n_stages = p->n_groups;
    for (int32_t g = 0; g < p->n_groups; g++) {
        const md_st_stage *s = &p->group[g].stage;
        program->stage[g] = *s;
        for (int32_t i = 0; i < s->n_stores; i++)
            if (p->formula->tensor[s->store[i].tensor].role == MD_FX_TEMP)
                program->is_temp_stored[s->store[i].tensor] = true;
    }
    return MD_OK;
}

md_status md_st_plan(md_st_maker *m)
{
    plan *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return md_fail_memory();
    p->maker = m;
    p->formula = m->formula;
    for (;;) {
        if (!start(p) || !inline_lets(p) || !group_statements(p))
            break;
        uint32_t twice = made_twice(p) & ~p->forced;
        if (twice == 0)
            break;
        p->forced |= twice;
    }
    if (!m->no_memory)
        drop_stores(p);
    md_status status = m->no_memory ? md_fail_memory() : finish(p);
    free(p);
    return status;
}
