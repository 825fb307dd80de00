/* Splitting statements that no good stage can hold: a reduction or scan inside gets a let of its own.
 *
 * A product under a softmax, two products with nothing in common, a row's sum in a matrix of other columns, a sum
 * over all elements: each would be a nest, or a row stage that makes the same result again and again. Their parts
 * are good stages. Planning inlines these lets again wherever that turns out well, as it does for those that users
 * write. */
#include "stage/contract.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SEEN = 48 };

typedef struct splitter {
    md_st_maker maker;
    md_fx_formula *formula;
    md_st_stage *scratch;
    int32_t n_made; /* lets made so far */
    int32_t made[MD_FX_MAX_TENSORS]; /* their tensors */
    bool is_changed;
} splitter;

/* ---- what a reduction depends on ---- */

/* The indices that a node depends on and does not bind: those of the statement first, in its order. */
static int32_t outside_of(int32_t *out, const md_fx_node *node, const md_fx_stmt *s)
{
    md_st_set used = md_st_indices(node);
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_free; i++)
        if (md_fx_uses_index(node, s->free[i])) {
            out[n++] = s->free[i];
            used.word[s->free[i] / 64] &= ~((uint64_t)1 << (s->free[i] % 64));
        }
    for (int32_t id = 0; id < MD_FX_MAX_INDICES; id++)
        if (md_st_set_has(&used, id) && md_fx_uses_index(node, id))
            out[n++] = id;
    return n;
}

static bool is_innermost(const md_fx_node *node)
{
    return !md_fx_has_kind(node->arg[0], MD_FX_REDUCE) && !md_fx_has_kind(node->arg[0], MD_FX_SCAN);
}

/* The kind of stage that the node alone would be; NEST too where it has too many indices. */
static md_st_kind kind_alone(splitter *sp, const md_fx_stmt *s, const md_fx_node *node)
{
    int32_t outside[MD_FX_MAX_INDICES];
    md_st_item item = {.tensor = s->tensor, .value = node};
    item.n_free = outside_of(outside, node, s);
    if (item.n_free > MD_MAX_RANK)
        return MD_ST_NEST;
    item.n_subscripts = item.n_free;
    for (int32_t i = 0; i < item.n_free; i++) {
        item.free[i] = outside[i];
        item.subscript[i] = md_fx_index_node(sp->maker.arena, outside[i]);
        if (!md_st_made(&sp->maker, item.subscript[i]))
            return MD_ST_NEST;
    }
    return md_st_form(&sp->maker, sp->scratch, 1, &item) ? sp->scratch->kind : MD_ST_NEST;
}

/* ---- making lets ---- */

/* Names that no formula can contain. */
static bool add_tensor(splitter *sp, const md_fx_stmt *s, const md_fx_node *node, int32_t rank, const int32_t *index)
{
    md_fx_formula *f = sp->formula;
    md_fx_tensor *t = &f->tensor[f->n_tensors];
    *t = (md_fx_tensor){.role = MD_FX_TEMP, .dtype = node->type, .rank = rank, .stmt = (int32_t)(s - f->stmt)};
    t->name = md_arena_printf(f->arena, "%s.%d", f->tensor[s->tensor].name, sp->n_made + 1);
    sp->maker.no_memory |= !t->name;
    for (int32_t i = 0; i < rank; i++)
        t->dim[i] = f->index[index[i]].dim;
    return !sp->maker.no_memory;
}

void md_st_insert(md_fx_formula *f, int32_t at, const md_fx_stmt *s)
{
    memmove(&f->stmt[at + 1], &f->stmt[at], (size_t)(f->n_stmts - at) * sizeof *f->stmt);
    f->stmt[at] = *s;
    f->n_stmts++;
    for (int32_t t = 0; t < f->n_tensors; t++)
        f->tensor[t].stmt += f->tensor[t].stmt >= at && t != s->tensor;
}

/* The let whose value is that of the node at these indices; -1 where there is none. */
static int32_t find_let(splitter *sp, const md_fx_node *node, int32_t n, const int32_t *index)
{
    md_fx_formula *f = sp->formula;
    if (md_st_reads_rewritten(f, node))
        return -1;
    for (int32_t k = 0; k < sp->n_made; k++) {
        const md_fx_tensor *t = &f->tensor[sp->made[k]];
        const md_fx_stmt *s = &f->stmt[t->stmt];
        bool fits = t->rank == n;
        for (int32_t i = 0; i < n && fits; i++)
            fits = f->index[index[i]].dim == t->dim[i];
        const md_fx_node *same = fits ? md_fx_substitute(f->arena, node, n, index, s->subscript) : NULL;
        if (fits && !md_st_made(&sp->maker, same))
            return -1;
        if (fits && md_fx_equal(f, same, s->value))
            return sp->made[k];
    }
    return -1;
}

/* A let over fresh indices; -1 where a limit is met. */
static int32_t make_let(splitter *sp, int32_t stmt, const md_fx_node *node, int32_t n, const int32_t *index)
{
    md_fx_formula *f = sp->formula;
    if (n > MD_MAX_RANK || f->n_tensors == MD_FX_MAX_TENSORS || f->n_stmts == MD_FX_MAX_STMTS ||
        f->n_indices + n > MD_FX_MAX_INDICES || !add_tensor(sp, &f->stmt[stmt], node, n, index))
        return -1;
    md_fx_stmt s = {.tensor = f->n_tensors, .n_free = n, .line = f->stmt[stmt].line, .column = f->stmt[stmt].column};
    for (int32_t i = 0; i < n; i++) {
        s.free[i] = f->n_indices;
        f->index[f->n_indices++] = (md_fx_index){.name = f->index[index[i]].name, .dim = f->index[index[i]].dim};
        s.subscript[i] = md_fx_index_node(f->arena, s.free[i]);
        if (!md_st_made(&sp->maker, s.subscript[i]))
            return -1;
    }
    s.value = md_fx_substitute(f->arena, node, n, index, s.subscript);
    if (!md_st_made(&sp->maker, s.value))
        return -1;
    f->n_tensors++;
    md_st_insert(f, stmt, &s);
    sp->made[sp->n_made++] = s.tensor;
    return s.tensor;
}

static const md_fx_node *load_of(splitter *sp, int32_t tensor, md_dtype type, int32_t n, const int32_t *index)
{
    md_arena *a = sp->maker.arena;
    md_fx_node *load = md_fx_node_new(a, MD_FX_LOAD, type);
    const md_fx_node **arg = md_arena_alloc(a, (size_t)(n + 1) * sizeof *arg);
    if (!load || !arg)
        return NULL;
    for (int32_t i = 0; i < n; i++) {
        arg[i] = md_fx_index_node(a, index[i]);
        if (!arg[i])
            return NULL;
    }
    load->id = tensor;
    load->n_args = n;
    load->arg = arg;
    return load;
}

static bool put_instead(splitter *sp, int32_t stmt, const md_fx_node *node, const md_fx_node *with)
{
    md_fx_formula *f = sp->formula;
    const md_fx_node *value = with != NULL ? md_fx_replace(f, f->arena, f->stmt[stmt].value, node, with) : NULL;
    if (!md_st_made(&sp->maker, value))
        return false;
    f->stmt[stmt].value = value;
    sp->is_changed = true;
    return true;
}

/* Gives the node a let, or the one that has its value already. */
static bool extract(splitter *sp, int32_t *stmt, const md_fx_node *node)
{
    int32_t index[MD_FX_MAX_INDICES], n = outside_of(index, node, &sp->formula->stmt[*stmt]);
    int32_t tensor = find_let(sp, node, n, index);
    if (tensor < 0 && !sp->maker.no_memory) {
        tensor = make_let(sp, *stmt, node, n, index);
        *stmt += tensor >= 0;
    }
    return tensor >= 0 && put_instead(sp, *stmt, node, load_of(sp, tensor, node->type, n, index));
}

/* ---- reductions over several indices ---- */

/* The number of the bound index that is taken first; -1: none. */
static int32_t inner_of(const md_fx_formula *f, const md_fx_node *node, const md_fx_stmt *s)
{
    int32_t outside[MD_FX_MAX_INDICES];
    return md_st_densest(f, node, outside_of(outside, node, s));
}

/* sum[i,j](x) as sum[i](sum[j](x)). */
static bool nest_inner(splitter *sp, int32_t stmt, const md_fx_node *node, int32_t k)
{
    md_arena *a = sp->maker.arena;
    md_fx_node *inner = md_st_reduce_like(a, node, node->arg[0]), *outer = md_st_reduce_like(a, node, inner);
    if (!outer) {
        sp->maker.no_memory = true;
        return false;
    }
    inner->n_bound = 1;
    inner->bound[0] = node->bound[k];
    outer->n_bound = 0;
    for (int32_t i = 0; i < node->n_bound; i++)
        if (i != k)
            outer->bound[outer->n_bound++] = node->bound[i];
    return put_instead(sp, stmt, node, outer);
}

/* ---- choosing ---- */

static bool is_loop(const md_fx_formula *f, int32_t index)
{
    const int64_t size = f->dim[f->index[index].dim].size;
    return size < 0 || size > 1;
}

/* True if a loop around a part of the item runs over an index that the part does not depend on. */
static bool is_repeated_in(const md_fx_formula *f, const md_st_item *item, const md_fx_node *part)
{
    const md_fx_node *around[MAX_SEEN];
    const int32_t n = MD_MIN(md_st_collect(around, MAX_SEEN, MD_FX_REDUCE, item), MAX_SEEN);
    for (int32_t i = 0; i < item->n_free; i++)
        if (!md_fx_uses_index(part, item->free[i]) && is_loop(f, item->free[i]))
            return true;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < around[i]->n_bound && md_st_contains(around[i]->arg[0], part); k++)
            if (!md_fx_uses_index(part, around[i]->bound[k]) && is_loop(f, around[i]->bound[k]))
                return true;
    return false;
}

/* A reduction that is a nest even alone leaves where a loop would compute it again and again: two nests whose loops
 * add up instead of one whose loops multiply. */
static bool split_repeated(splitter *sp, int32_t *stmt, const md_st_item *item)
{
    const md_fx_node *node[MAX_SEEN];
    const int32_t n = MD_MIN(md_st_collect(node, MAX_SEEN, MD_FX_REDUCE, item), MAX_SEEN);
    for (int32_t i = 0; i < n && !sp->maker.no_memory; i++) {
        const md_fx_stmt *s = &sp->formula->stmt[*stmt];
        if (node[i] != s->value && md_st_contains(s->value, node[i]) && is_innermost(node[i]) &&
            md_st_is_safe(s->value, node[i]) && is_repeated_in(sp->formula, item, node[i]))
            return extract(sp, stmt, node[i]);
    }
    return false;
}

/* A nest: the first innermost part that makes a good stage of its own leaves. */
static bool split_nest(splitter *sp, int32_t *stmt, const md_st_item *item)
{
    static const md_fx_kind kinds[] = {MD_FX_REDUCE, MD_FX_SCAN};
    for (int32_t kind = 0; kind < 2; kind++) {
        const md_fx_node *node[MAX_SEEN];
        int32_t n = MD_MIN(md_st_collect(node, MAX_SEEN, kinds[kind], item), MAX_SEEN);
        for (int32_t i = 0; i < n && !sp->maker.no_memory; i++) {
            const md_fx_stmt *s = &sp->formula->stmt[*stmt];
            if (!md_st_contains(s->value, node[i]) || !is_innermost(node[i]) || !md_st_is_safe(s->value, node[i]))
                continue;
            if (kind_alone(sp, s, node[i]) != MD_ST_NEST) {
                if (node[i] != s->value || !md_st_is_plain(item))
                    return extract(sp, stmt, node[i]);
                continue;
            }
            int32_t k = node[i]->kind == MD_FX_REDUCE && node[i]->n_bound > 1 ? inner_of(sp->formula, node[i], s) : -1;
            if (k >= 0)
                return nest_inner(sp, *stmt, node[i], k);
        }
    }
    return false;
}

/* True if a result is the same for some rows of the stage: it would be made once for each. */
static bool is_repeated(const md_st_stage *stage, const md_fx_node *reduce)
{
    for (int32_t i = 0; i < stage->n_outer; i++)
        if (!md_fx_uses_index(reduce, stage->outer[i]))
            return true;
    return false;
}

/* A row stage: products leave, and what does not change from row to row. */
static bool split_row(splitter *sp, int32_t *stmt, const md_st_item *item, const md_st_stage *stage)
{
    const md_fx_node *node[MAX_SEEN];
    int32_t n = MD_MIN(md_st_collect(node, MAX_SEEN, MD_FX_REDUCE, item), MAX_SEEN);
    for (int32_t i = 0; i < n && !sp->maker.no_memory; i++) {
        const md_fx_stmt *s = &sp->formula->stmt[*stmt];
        bool leaves =
            is_repeated(stage, node[i]) || (is_innermost(node[i]) && kind_alone(sp, s, node[i]) == MD_ST_PRODUCT);
        if (leaves && node[i] != s->value && md_st_is_safe(s->value, node[i]))
            return extract(sp, stmt, node[i]);
    }
    return false;
}

/* A window that no product takes in is written out. */
static bool split_window(splitter *sp, int32_t *stmt, const md_st_item *item)
{
    const md_fx_node *node[MAX_SEEN];
    const int32_t n = MD_MIN(md_st_collect(node, MAX_SEEN, MD_FX_REDUCE, item), MAX_SEEN);
    for (int32_t i = 0; i < n && !sp->maker.no_memory; i++) {
        const md_fx_stmt *s = &sp->formula->stmt[*stmt];
        if (md_st_contains(s->value, node[i]) && is_innermost(node[i]) && md_st_is_window(sp->formula, node[i]) &&
            !is_repeated_in(sp->formula, item, node[i]) && kind_alone(sp, s, node[i]) != MD_ST_PRODUCT)
            return put_instead(sp, *stmt, node[i], md_st_unroll(sp->formula, sp->maker.arena, node[i]));
    }
    return false;
}

/* Takes one part out of the statement, if one is to leave. The statement's number moves when a let comes before it. */
static bool split_once(splitter *sp, int32_t *stmt)
{
    md_st_stage stage;
    md_st_item item = md_st_item_of(&sp->formula->stmt[*stmt], sp->formula);
    if (!md_st_form(&sp->maker, sp->scratch, 1, &item))
        return false;
    stage = *sp->scratch;
    if ((stage.kind == MD_ST_NEST || stage.kind == MD_ST_ROW) && split_window(sp, stmt, &item))
        return true;
    if (stage.kind == MD_ST_NEST)
        return split_nest(sp, stmt, &item) || split_repeated(sp, stmt, &item);
    return stage.kind == MD_ST_ROW && split_row(sp, stmt, &item, &stage);
}

static void split_all(splitter *sp)
{
    md_fx_formula *f = sp->formula;
    for (int32_t i = 0; i < f->n_stmts && !sp->maker.no_memory; i++) {
        const md_fx_node *lowered = md_st_lower(&sp->maker, f->stmt[i].value);
        if (!lowered)
            return;
        f->stmt[i].value = lowered;
        int32_t first = i;
        while (!sp->maker.no_memory && split_once(sp, &i))
            ;
        /* the lets themselves are good stages, but for sums of sums: look at them again */
        if (i > first)
            i = first - 1;
    }
}

/* Fails if the split program has too many stages: then the formula stays as it was. */
static md_status check(const md_fx_formula *f)
{
    md_st_program *p = NULL;
    md_status status = md_st_program_create(&p, f);
    md_st_program_destroy(&p);
    return status;
}

static md_st_kind kind_of(void *user, const md_fx_stmt *stmt, const md_fx_node *sum)
{
    return kind_alone(user, stmt, sum);
}

static void order_all(splitter *sp, const md_st_sizes *sizes, md_st_orders *orders)
{
    const md_st_contractor to = {
        .maker = &sp->maker, .formula = sp->formula, .sizes = sizes, .orders = orders, .kind_of = kind_of, .user = sp};
    for (int32_t i = 0; i < sp->formula->n_stmts; i++) {
        const md_fx_node *before = sp->formula->stmt[i].value;
        if (!md_st_contract(&to, &sp->formula->stmt[i]))
            return;
        sp->is_changed |= sp->formula->stmt[i].value != before;
    }
}

md_status md_st_split(md_fx_formula *formula)
{
    md_st_orders orders;
    return md_st_split_at(formula, &(md_st_sizes){0}, &orders);
}

md_status md_st_split_at(md_fx_formula *formula, const md_st_sizes *sizes, md_st_orders *orders)
{
    splitter sp = {.formula = formula, .maker = {.formula = formula, .arena = formula->arena}};
    md_fx_formula *original = malloc(sizeof *original);
    *orders = (md_st_orders){.n = 0};
    sp.scratch = calloc(1, sizeof *sp.scratch);
    md_status status = MD_OK;
    if (!original || !sp.scratch) {
        status = md_fail_memory();
    } else {
        *original = *formula;
        order_all(&sp, sizes, orders);
        split_all(&sp);
        status = sp.maker.no_memory ? md_fail_memory() : sp.is_changed ? check(formula) : MD_OK;
        if (status != MD_OK || !sp.is_changed)
            *formula = *original;
        if (status != MD_OK)
            orders->n = 0;
        if (status == MD_UNSUPPORTED)
            status = MD_OK;
    }
    free(sp.scratch);
    free(original);
    return status;
}
