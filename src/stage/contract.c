/* Finds sums of products, lays their factors out as operands, asks for the order, and writes it as sums inside sums,
 * which splitting then makes stages of.
 *
 * Operands move in and out of sums by the distributive law. With terms t and one unit roundoff u for each operation, a
 * sum of n = n1 * n2 * ... terms as written is within (n - 1 + factors) * u * sum|t| of the exact one; sums inside sums
 * are within (n1 - 1 + n2 - 1 + ... + factors) * u * sum|t|, since each rounding of an inner sum is a relative error of
 * all the terms that it is a part of. So the order adds no error that the bound of the sum as written does not have,
 * and integers, which wrap, are equal. Three kinds of values differ: a partial product that overflows or underflows
 * in one order only, and a sum over nothing where another operand is infinite or NaN. */
#include "stage/contract.h"

#include "base/strbuf.h"

#include <math.h>

enum { MAX_BOUND = 16, NOMINAL = 256 /* of a size that the order must not depend on, or that nobody hints */ };

typedef struct contraction {
    const md_st_contractor *to;
    const md_fx_node *sum, *level[MD_ST_MAX_LEVELS]; /* all of it, and what stands at each level */
    int32_t n_letters, letter[MD_ST_MAX_LETTERS]; /* index ids */
    uint32_t bound; /* letters */
    md_st_factors list;
    uint32_t used[MD_ST_MAX_FACTORS]; /* letters, by factor */
    int8_t place[MD_ST_MAX_FACTORS]; /* the operand that it is a part of; -1: outside of all sums */
    struct md_st_order *order;
    const md_fx_node *node[MD_ST_MAX_OPERANDS];
} contraction;

/* ---- factors ---- */

static bool is_sum(const md_fx_node *node, md_dtype type)
{
    return node->kind == MD_FX_REDUCE && node->op == MD_FX_R_SUM && node->type == type && node->arg[0]->type == type;
}

static int32_t letter_of(contraction *c, int32_t index)
{
    int32_t i = 0;
    while (i < c->n_letters && c->letter[i] != index)
        i++;
    if (i == c->n_letters && i < MD_ST_MAX_LETTERS)
        c->letter[c->n_letters++] = index;
    return i;
}

static bool add_bound(contraction *c, const md_fx_node *sum)
{
    for (int32_t i = 0; i < sum->n_bound; i++) {
        const int32_t known = c->n_letters, at = letter_of(c, sum->bound[i]);
        if (at < known || at == MD_ST_MAX_LETTERS) /* the index is bound twice, or there are too many */
            return false;
        c->bound |= UINT32_C(1) << at;
    }
    return __builtin_popcount(c->bound) <= MAX_BOUND;
}

/* The factors of a sum, and those of sums among them. */
static bool add_level(contraction *c, const md_fx_node *sum)
{
    md_st_factors f;
    md_st_factors_of(&f, sum->arg[0]);
    md_st_levels *levels = &c->order->levels;
    if (levels->n == MD_ST_MAX_LEVELS || !add_bound(c, sum))
        return false;
    c->level[levels->n] = sum;
    levels->factors[levels->n++] = f.n;
    c->list.is_negative ^= f.is_negative;
    for (int32_t i = 0; i < f.n; i++) {
        const bool is_level = !f.factor[i].is_divisor && is_sum(f.factor[i].node, f.type);
        if (!is_level && c->list.n == MD_ST_MAX_FACTORS)
            return false;
        if (!is_level)
            c->list.factor[c->list.n++] = f.factor[i];
        else if (!add_level(c, f.factor[i].node))
            return false;
    }
    return true;
}

/* The letters that each factor depends on. */
static bool find_letters(contraction *c)
{
    for (int32_t i = 0; i < c->list.n; i++) {
        const md_st_set set = md_st_indices(c->list.factor[i].node);
        for (int32_t id = 0; id < c->to->formula->n_indices; id++) {
            if (!md_st_set_has(&set, id) || !md_fx_uses_index(c->list.factor[i].node, id))
                continue;
            const int32_t at = letter_of(c, id);
            if (at == MD_ST_MAX_LETTERS)
                return false;
            c->used[i] |= UINT32_C(1) << at;
        }
    }
    return true;
}

/* The letters that each level runs over: those that it depends on or binds. */
static void note_levels(contraction *c)
{
    md_st_levels *levels = &c->order->levels;
    for (int32_t l = 0; l < levels->n; l++)
        for (int32_t i = 0; i < c->n_letters; i++)
            if (md_fx_uses_index(c->level[l]->arg[0], c->letter[i]) || md_fx_binds(c->level[l], c->letter[i]))
                levels->letters[l] |= UINT32_C(1) << i;
}

/* ---- operands ---- */

static bool is_inside(const contraction *c, int32_t i)
{
    return (c->used[i] & c->bound) != 0;
}

/* A factor whose letters are all among those of another is multiplied into it. */
static bool is_part(const contraction *c, int32_t i, int32_t of)
{
    const bool is_subset = !(c->used[i] & ~c->used[of]);
    return i != of && is_inside(c, of) && is_subset && (c->used[i] != c->used[of] || of < i);
}

static bool make_operands(contraction *c)
{
    md_st_network *network = &c->order->network;
    int32_t host[MD_ST_MAX_OPERANDS];
    for (int32_t i = 0; i < c->list.n; i++) {
        bool is_host = is_inside(c, i);
        for (int32_t k = 0; k < c->list.n && is_host; k++)
            is_host = !is_part(c, i, k);
        c->place[i] = -1;
        if (!is_host)
            continue;
        if (network->n == MD_ST_MAX_OPERANDS)
            return false;
        host[network->n] = i;
        network->operand[network->n] = c->used[i];
        c->place[i] = (int8_t)network->n++;
    }
    for (int32_t i = 0; i < c->list.n; i++)
        for (int32_t k = 0; k < network->n && is_inside(c, i) && c->place[i] < 0; k++)
            if (is_part(c, i, host[k]))
                c->place[i] = (int8_t)k;
    return network->n > 0;
}

/* Products before divisions; each in the order in which they are written. */
static const md_fx_node *product_of(contraction *c, int32_t place, const md_fx_node *acc)
{
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < c->list.n; i++)
            if (c->place[i] == place && c->list.factor[i].is_divisor == (pass == 1)) {
                acc = md_st_times(c->to->maker, acc, &c->list.factor[i], c->list.type);
                if (!acc)
                    return NULL;
            }
    return acc;
}

/* ---- sizes ---- */

static double size_at(const contraction *c, int32_t letter, int32_t point)
{
    const md_fx_formula *f = c->to->formula;
    const md_st_sizes *s = c->to->sizes;
    const md_fx_dim *d = &f->dim[f->index[c->letter[letter]].dim];
    const bool is_batch = !(c->bound >> letter & 1);
    if (is_batch && s->ignores_batch)
        return NOMINAL;
    if (d->size >= 0)
        return (double)d->size;
    const int64_t size = s->n > 0 ? s->size[point][f->index[c->letter[letter]].dim] : NOMINAL;
    return (double)MD_MIN(MD_MAX(size, d->lo), d->hi);
}

static void set_sizes(contraction *c)
{
    md_st_network *network = &c->order->network;
    network->n_points = MD_MAX(1, MD_MIN(c->to->sizes->n, MD_ST_MAX_POINTS));
    for (int32_t i = 0; i < c->n_letters; i++) {
        c->order->dim[i] = c->to->formula->index[c->letter[i]].dim;
        for (int32_t p = 0; p < network->n_points; p++) /* spread over all points where they are too many */
            network->size[p][i] = fmax(1, size_at(c, i, (int32_t)((int64_t)p * c->to->sizes->n / network->n_points)));
    }
}

/* ---- is it worth it? ---- */

static uint32_t operand_letters(const md_st_network *network)
{
    uint32_t letters = 0;
    for (int32_t i = 0; i < network->n; i++)
        letters |= network->operand[i];
    return letters;
}

/* Half the operations, or as few where the sum as written would be a loop nest. */
static bool is_better(const contraction *c, const md_fx_stmt *stmt)
{
    const struct md_st_order *o = c->order;
    const bool is_unused = (c->bound & ~operand_letters(&o->network)) != 0;
    double gain = 0;
    if (md_st_count_sums(&o->network, &o->path) < 2 && !is_unused)
        return false;
    for (int32_t p = 0; p < o->network.n_points; p++) {
        const md_st_path_work work = md_st_work_of(&o->network, &o->path, p);
        gain += log(md_st_written_operations(&o->network, &o->levels, p) / fmax(1, md_st_cost_of(&work)));
    }
    gain /= o->network.n_points;
    return gain >= log(2) || (gain >= 0 && o->levels.n == 1 && c->to->kind_of(c->to->user, stmt, c->sum) == MD_ST_NEST);
}

/* ---- writing it ---- */

/* A sum over letters, in the order in which the sum binds them. */
static const md_fx_node *sum_over(contraction *c, const md_fx_node *body, uint32_t letters)
{
    if (!letters || !body)
        return body;
    md_fx_node *sum = md_st_reduce_like(c->to->formula->arena, c->sum, body);
    if (!md_st_made(c->to->maker, sum))
        return NULL;
    sum->n_bound = 0;
    for (; letters; letters &= letters - 1)
        sum->bound[sum->n_bound++] = c->letter[__builtin_ctz(letters)];
    return sum;
}

static int32_t step_of(const md_st_path *path, uint32_t set)
{
    int32_t i = 0;
    while ((path->first[i] | path->second[i]) != set)
        i++;
    return i;
}

/* The product of a set of operands, summed over the letters that nothing else needs. */
static const md_fx_node *value_of(contraction *c, uint32_t set)
{
    const md_st_network *network = &c->order->network;
    const uint32_t left = md_st_left(network, set);
    if (!(set & (set - 1))) {
        const int32_t i = __builtin_ctz(set);
        return sum_over(c, product_of(c, i, NULL), network->operand[i] & ~left);
    }
    const int32_t step = step_of(&c->order->path, set);
    const uint32_t first = c->order->path.first[step], second = c->order->path.second[step];
    const md_fx_node *a = value_of(c, first), *b = value_of(c, second);
    const md_fx_node *product = md_fx_op2(c->to->formula->arena, MD_FX_MUL, a, b);
    if (!md_st_made(c->to->maker, product))
        return NULL;
    return sum_over(c, product, (md_st_left(network, first) | md_st_left(network, second)) & ~left);
}

/* How often a sum adds one value: the sizes of bound indices that no factor depends on. */
static const md_fx_node *times_unused(contraction *c, const md_fx_node *value)
{
    md_arena *a = c->to->formula->arena;
    const uint32_t unused = c->bound & ~operand_letters(&c->order->network);
    for (int32_t i = 0; i < c->n_letters && value != NULL; i++) {
        if (!(unused >> i & 1))
            continue;
        const md_fx_node *size = md_fx_size_node(a, c->order->dim[i]);
        value = md_fx_op2(a, MD_FX_MUL, value, md_st_convert(a, size, c->list.type));
    }
    return value;
}

static const md_fx_node *ordered(contraction *c)
{
    const md_fx_node *value = value_of(c, (UINT32_C(1) << c->order->network.n) - 1);
    value = product_of(c, -1, times_unused(c, value));
    if (c->list.is_negative)
        value = md_fx_op1(c->to->formula->arena, MD_FX_NEG, value);
    (void)md_st_made(c->to->maker, value);
    return value;
}

/* ---- saying it ---- */

static void print_set(md_strbuf *out, contraction *c, uint32_t set, bool is_whole)
{
    if (!(set & (set - 1))) {
        const md_fx_node *node = product_of(c, __builtin_ctz(set), NULL);
        if (node)
            md_fx_print_node(out, c->to->formula, node);
        return;
    }
    const int32_t step = step_of(&c->order->path, set);
    md_strbuf_add(out, is_whole ? "" : "(");
    print_set(out, c, c->order->path.first[step], false);
    md_strbuf_add(out, " * ");
    print_set(out, c, c->order->path.second[step], false);
    md_strbuf_add(out, is_whole ? "" : ")");
}

/* Sums inside are ordered before the one around them, which then orders all of them together. */
static void drop_inner(contraction *c)
{
    md_st_orders *list = c->to->orders;
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++) {
        bool is_inner = false;
        for (int32_t k = 0; k < c->n_letters; k++)
            is_inner |= (c->bound >> k & 1) != 0 && c->letter[k] == list->order[i]->bound;
        if (!is_inner)
            list->order[n++] = list->order[i];
    }
    list->n = n;
}

static void note_order(contraction *c, const md_fx_stmt *stmt, bool is_written)
{
    md_st_orders *list = c->to->orders;
    md_strbuf text = {0};
    if (is_written && c->order->network.n < 3)
        return;
    drop_inner(c);
    if (list->n == MD_ST_MAX_ORDERS)
        return;
    if (is_written)
        md_fx_print_node(&text, c->to->formula, c->sum);
    else
        print_set(&text, c, (UINT32_C(1) << c->order->network.n) - 1, true);
    c->order->tensor = stmt->tensor;
    c->order->bound = c->sum->bound[0];
    c->order->is_written = is_written;
    c->order->text = text.failed ? NULL : md_arena_text(c->to->formula->arena, md_strbuf_text(&text));
    c->to->maker->no_memory |= !c->order->text;
    list->order[list->n++] = c->order;
    md_strbuf_finish(&text);
}

/* ---- all sums of a statement ---- */

typedef struct walk {
    const md_st_contractor *to;
    const md_fx_stmt *stmt;
} walk;

/* Lays the sum out and finds its order; false where it is no sum of a product that could have one. */
static bool lay_out(contraction *c)
{
    c->list.type = c->sum->type;
    if (!add_level(c, c->sum) || !find_letters(c) || !make_operands(c))
        return false;
    note_levels(c);
    c->order->network.kept = ~c->bound;
    set_sizes(c);
    md_st_best_path(&c->order->path, &c->order->network);
    for (int32_t i = 0; i < c->order->path.n; i++) {
        const uint32_t left = md_st_left(&c->order->network, c->order->path.first[i] | c->order->path.second[i]);
        if (__builtin_popcount(left) > MD_MAX_RANK && i + 1 < c->order->path.n)
            return false;
    }
    return __builtin_popcount(c->bound) <= MD_MAX_RANK;
}

static const md_fx_node *contract(void *user, const md_fx_node *node)
{
    const walk *w = user;
    const bool may = is_sum(node, node->type) && (node->n_bound > 1 || md_fx_has_kind(node->arg[0], MD_FX_REDUCE));
    if (!may || w->to->maker->no_memory)
        return node;
    contraction c = {.to = w->to, .sum = node};
    c.order = md_arena_alloc(w->to->formula->arena, sizeof *c.order);
    w->to->maker->no_memory |= !c.order;
    if (!c.order || !lay_out(&c))
        return node;
    const bool is_good = is_better(&c, w->stmt);
    note_order(&c, w->stmt, !is_good);
    return is_good ? ordered(&c) : node;
}

bool md_st_contract(const md_st_contractor *to, md_fx_stmt *stmt)
{
    walk w = {.to = to, .stmt = stmt};
    const md_fx_node *value = md_fx_rewrite(to->formula->arena, stmt->value, contract, &w);
    if (md_st_made(to->maker, value))
        stmt->value = value;
    return !to->maker->no_memory;
}

void md_st_order_work(md_st_order_facts *out, const struct md_st_order *order, const int64_t *size)
{
    struct md_st_order at = *order;
    at.network.n_points = 1;
    for (int32_t i = 0; i < MD_ST_MAX_LETTERS; i++)
        at.network.size[0][i] = (double)size[at.dim[i]];
    const md_st_path_work work = md_st_work_of(&at.network, &at.path, 0);
    *out = (md_st_order_facts){.tensor = at.tensor,
                               .text = at.text,
                               .is_written = at.is_written,
                               .operations = work.operations,
                               .written = md_st_written_operations(&at.network, &at.levels, 0),
                               .largest = at.is_written ? 0 : work.largest};
}
