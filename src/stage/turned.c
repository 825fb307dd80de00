/* Planning products whose axes may be moved (turn.c): the statements that move them stay stages of their own, and the
 * product as it was written stands in front of them. */
#include "stage/chains.h"

#include <stdlib.h>

typedef struct finder {
    const md_fx_formula *formula;
} finder;

static bool is_no_turned_load(void *user, const md_fx_node *node)
{
    const finder *f = user;
    return node->kind != MD_FX_LOAD || !f->formula->tensor[node->id].is_turned;
}

bool md_st_is_turned(const md_fx_formula *formula, const md_st_item *item)
{
    finder f = {formula};
    return formula->tensor[item->tensor].is_turned || !md_fx_visit(item->value, is_no_turned_load, &f);
}

/* True if the group is a single statement that has to do with moved axes. */
static bool is_turned_group(const md_st_draft *d, int32_t g)
{
    return d->group[g].n == 1 && md_st_is_turned(d->formula, &d->item[d->group[g].stmt[0]]);
}

/* True if the group moves axes and does nothing else: of an operand, or back. */
static bool is_move(const md_st_draft *d, int32_t g)
{
    return g >= 0 && g < d->n_groups && d->group[g].stage.kind == MD_ST_POINTWISE && is_turned_group(d, g);
}

static int32_t tensor_of(const md_st_draft *d, int32_t g)
{
    return d->item[d->group[g].stmt[0]].tensor;
}

/* The product, the moves of its operands right before it, and that of its result right behind it. */
static bool find_parts(md_st_parts *p, const md_st_draft *d, int32_t product)
{
    const md_st_item *item = &d->item[d->group[product].stmt[0]];
    int32_t first = product;
    *p = (md_st_parts){0};
    while (is_move(d, first - 1) && md_st_item_reads(item, tensor_of(d, first - 1)))
        first--;
    const bool moves_back = d->formula->tensor[item->tensor].is_turned;
    if (product - first + 1 + moves_back > MD_ST_MAX_PARTS || (moves_back && !is_move(d, product + 1)))
        return false;
    for (int32_t g = first; g <= product + moves_back; g++)
        p->group[p->n++] = g;
    return p->n > 1;
}

/* ---- Runs with zeros behind */

/* The index that it runs beyond; -1: it is none with zeros behind. */
static int32_t unpadded(const md_fx_formula *f, int32_t index)
{
    return index < f->n_indices ? f->index[index].padded - 1 : -1;
}

static bool is_unpadded_index(const md_fx_formula *f, const md_fx_node *node)
{
    for (int32_t i = 0; node->kind == MD_FX_INDEX && i < f->n_indices; i++)
        if (unpadded(f, i) == node->id)
            return true;
    return false;
}

/* True for c < 3 where c has three values. */
static bool is_there(const md_fx_formula *f, const md_fx_node *test)
{
    return test->kind == MD_FX_OP && test->op == MD_FX_LT && is_unpadded_index(f, test->arg[0]) &&
           test->arg[1]->kind == MD_FX_CONST && test->arg[1]->integer == f->dim[f->index[test->arg[0]->id].dim].size;
}

/* The product as it was written, bottom-up: c + 0 is c, where(c < 3, X, 0) is X, and sums run over c. */
static const md_fx_node *unpad(void *user, const md_fx_node *node)
{
    const md_st_maker *m = user;
    const md_fx_formula *f = m->formula;
    if (node->kind == MD_FX_INDEX && unpadded(f, node->id) >= 0)
        return md_fx_index_node(m->arena, unpadded(f, node->id));
    if (node->kind == MD_FX_OP && node->op == MD_FX_ADD && is_unpadded_index(f, node->arg[0]) &&
        node->arg[1]->kind == MD_FX_CONST && node->arg[1]->integer == 0)
        return node->arg[0];
    if (node->kind == MD_FX_OP && node->op == MD_FX_WHERE && is_there(f, node->arg[0]))
        return node->arg[1];
    if (node->kind != MD_FX_REDUCE)
        return node;
    md_fx_node *sum = md_st_reduce_like(m->arena, node, node->arg[0]);
    for (int32_t i = 0; sum && i < sum->n_bound; i++)
        if (unpadded(f, sum->bound[i]) >= 0)
            sum->bound[i] = unpadded(f, sum->bound[i]);
    return sum;
}

static bool has_padded(const md_fx_formula *f)
{
    for (int32_t i = 0; i < f->n_indices; i++)
        if (f->index[i].padded > 0)
            return true;
    return false;
}

/* ---- The product in front of its parts */

/* Puts K in the order of the axes of an operand; false where it has not all of them as axes. */
static bool order_by(md_st_product *product, const md_fx_node *load)
{
    int32_t n = 0, k[MD_MAX_RANK];
    while (load->kind == MD_FX_CAST)
        load = load->arg[0];
    for (int32_t a = 0; load->kind == MD_FX_LOAD && a < load->n_args; a++)
        for (int32_t i = 0; i < product->n_k; i++)
            if (md_fx_is_index(load->arg[a], product->k[i]))
                k[n++] = product->k[i];
    for (int32_t i = 0; i < n && n == product->n_k; i++)
        product->k[i] = k[i];
    return n == product->n_k;
}

/* K in the order of the filter's axes, as it was most likely written. */
static void order_depth(md_st_product *product)
{
    if (!order_by(product, product->a[0]))
        (void)order_by(product, product->b[0]);
}

void md_st_add_unturned(md_st_draft *d)
{
    md_st_item *item = calloc(MD_FX_MAX_STMTS, sizeof *item);
    md_st_stage *stage = calloc(1, sizeof *stage);
    d->maker->no_memory |= !item || !stage;
    for (int32_t g = 0; g < d->n_groups && d->n_groups < MD_ST_MAX_STAGES && !d->maker->no_memory; g++) {
        md_st_parts p;
        if (d->group[g].stage.kind != MD_ST_PRODUCT || !is_turned_group(d, g) || !find_parts(&p, d, g))
            continue;
        const int32_t n = md_st_items_of_parts(d, &p, item);
        if (has_padded(d->formula) && !md_st_rewrite_all(d->maker, n, item, unpad, d->maker))
            break;
        if (n == 0 || !md_st_form(d->maker, stage, n, item) || stage->kind != MD_ST_PRODUCT)
            continue;
        order_depth(&stage->product);
        md_st_insert_whole(d, &p, stage, p.group[0]);
        g++;
    }
    free(item);
    free(stage);
}
