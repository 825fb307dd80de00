/* Which axes of a product's operands are moved, and to where. */
#include "stage/turn.h"

#include "base/status.h"

enum { MOST_LOADS = 16, PIECE = 8 /* elements that kernels copy as one */ };

/* ---- Which products */

static const md_fx_node *side_of(const md_st_turner *t, int32_t side)
{
    return side == 0 ? t->stage->product.a[0] : t->stage->product.b[0];
}

static bool is_in(int32_t n, const int32_t *index, int32_t id)
{
    for (int32_t i = 0; i < n; i++)
        if (index[i] == id)
            return true;
    return false;
}

static bool is_of_k(const md_st_turner *t, int32_t id)
{
    return is_in(t->stage->product.n_k, t->stage->product.k, id);
}

/* True if rows (columns) of a side run over the index. */
static bool is_of_side(const md_st_turner *t, int32_t side, int32_t id)
{
    const md_st_product *p = &t->stage->product;
    return side == 0 ? is_in(p->n_m, p->m, id) : is_in(p->n_n, p->n, id);
}

static int32_t axis_of(const md_fx_node *load, int32_t index)
{
    for (int32_t a = 0; a < load->n_args; a++)
        if (md_fx_is_index(load->arg[a], index))
            return a;
    return -1;
}

static bool is_input(const md_st_turner *t, const md_fx_node *load)
{
    return t->formula->tensor[load->id].role == MD_FX_INPUT;
}

/* The only load of a side, of an argument, at places that need no check; NULL: there is no such one. */
static const md_fx_node *load_of(const md_st_turner *t, int32_t side)
{
    const md_fx_node *load[2];
    const md_st_item item = {.value = side_of(t, side)};
    if (md_st_collect(load, 2, MD_FX_LOAD, &item) != 1 || !is_input(t, load[0]))
        return NULL;
    for (int32_t a = 0; a < load[0]->n_args; a++)
        if (md_fx_is_checked(load[0]->arg[a]))
            return NULL;
    return load[0];
}

/* True if an index runs over a dim that only says how long an axis must at least be. */
static bool has_loose_axis(const md_st_turner *t, const md_fx_node *load)
{
    const md_fx_tensor *x = &t->formula->tensor[load->id];
    for (int32_t a = 0; a < x->rank; a++)
        for (int32_t i = 0; i < t->program->n_indices && x->at_least[a]; i++)
            if (t->program->index[i].dim == x->dim[a])
                return true;
    return false;
}

/* True if rows of the image lie on both sides of an axis, or are windows: it is no matrix. */
static bool is_apart(const md_st_turner *t, const md_fx_node *image, int32_t axis)
{
    bool before = false, behind = false;
    for (int32_t a = 0; a < image->n_args; a++) {
        if (image->arg[a]->kind != MD_FX_INDEX)
            return true;
        if (is_of_side(t, t->image, image->arg[a]->id))
            *(a < axis ? &before : &behind) = true;
    }
    return before && behind;
}

/* True if zeros of both operands behind an index add zeros to the sum: it is a load, or one under a condition. */
static bool keeps_zeros(const md_fx_node *side)
{
    if (side->kind == MD_FX_OP && side->op == MD_FX_WHERE)
        return side->arg[2]->kind == MD_FX_CONST && side->arg[2]->num == 0 && keeps_zeros(side->arg[1]);
    return side->kind == MD_FX_CAST ? keeps_zeros(side->arg[0]) : side->kind == MD_FX_LOAD;
}

/* Of a window of 16-bit elements whose run has a fixed length, no multiple of eight: the next multiple; else 0. */
static int64_t padded_size_of(const md_st_turner *t, const md_fx_node *image, int32_t run)
{
    const md_fx_formula *f = t->formula;
    const int64_t size = f->dim[t->program->index[run].dim].size;
    bool is_window = false;
    for (int32_t a = 0; a < image->n_args; a++)
        is_window |= image->arg[a]->kind != MD_FX_INDEX;
    if (!is_window || size < 1 || size % PIECE == 0 || !keeps_zeros(side_of(t, 0)) || !keeps_zeros(side_of(t, 1)))
        return 0;
    return md_dtype_size(f->tensor[image->id].dtype) == 2 ? (size + PIECE - 1) / PIECE * PIECE : 0;
}

/* Finds the index of K that both operands have as an axis: the last one of the image. Not the first axis of both, such
 * as the batch that the gradient of a filter sums over. */
static bool find_run(md_st_turner *t, const md_fx_node *image, const md_fx_node *filter)
{
    const md_fx_node *last = image->arg[image->n_args - 1];
    t->run = -1;
    if (last->kind == MD_FX_INDEX && is_of_k(t, last->id)) {
        t->padded_size = axis_of(filter, last->id) >= 0 ? padded_size_of(t, image, last->id) : 0;
        t->run = t->padded_size > 0 ? last->id : -1;
        return t->run >= 0;
    }
    for (int32_t a = image->n_args - 2; a >= 0 && t->run < 0; a--) {
        const md_fx_node *at = image->arg[a];
        if (at->kind != MD_FX_INDEX || !is_of_k(t, at->id) || !is_apart(t, image, a))
            continue;
        const int32_t other = axis_of(filter, at->id);
        if (other > 0 || (other == 0 && a > 0))
            t->run = at->id;
    }
    t->padded_size = t->run >= 0 ? padded_size_of(t, image, t->run) : 0;
    return t->run >= 0;
}

static bool find_sides(md_st_turner *t)
{
    const md_fx_node *load[2] = {load_of(t, 0), load_of(t, 1)};
    if (!load[0] || !load[1])
        return false;
    for (t->image = 0; t->image < 2; t->image++) {
        t->filter = 1 - t->image;
        const md_fx_node *image = load[t->image], *filter = load[t->filter];
        if (image->n_args < 2 || !md_st_are_plain(filter->n_args, filter->arg) || !find_run(t, image, filter) ||
            has_loose_axis(t, image))
            continue;
        t->operand[0].load = image;
        t->operand[1].load = filter;
        t->n_operands = 2;
        return true;
    }
    return false;
}

static bool is_plain_product(const md_st_turner *t)
{
    const md_st_stage *s = t->stage;
    const md_st_product *p = &s->product;
    if (s->kind != MD_ST_PRODUCT || p->n_products != 1 || p->look_up || p->guard || s->n_stores != 1 ||
        !md_dtype_is_real(p->type))
        return false;
    const md_st_store *store = &s->store[0];
    const md_fx_tensor *y = &t->formula->tensor[store->tensor];
    return store->assign == MD_FX_SET && !y->is_updated && !y->is_rewritten && !y->is_turned &&
           md_st_are_plain(store->n_subscripts, store->subscript);
}

/* ---- Orders of axes */

/* Puts the axes for which `is` holds behind the others; both keep their order. */
static void put_last(md_st_moved *o, const md_st_turner *t, int32_t rank, const md_fx_node *const *at,
                     bool (*is)(const md_st_turner *t, int32_t index))
{
    o->rank = 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t a = 0; a < rank; a++)
            if ((at[a]->kind == MD_FX_INDEX && is(t, at[a]->id)) == (pass == 1))
                o->order[o->rank++] = a;
}

static bool is_run(const md_st_turner *t, int32_t index)
{
    return index == t->run;
}

static bool is_column(const md_st_turner *t, int32_t index)
{
    return is_of_side(t, t->filter, index);
}

/* K in its new order: the run comes last. */
int32_t md_st_order_k(int32_t out[MD_MAX_RANK], const md_st_turner *t)
{
    const md_st_product *p = &t->stage->product;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_k; i++)
        if (p->k[i] != t->run)
            out[n++] = p->k[i];
    out[n++] = t->run;
    return n;
}

/* The filter's axes of K come last, in the order of K. */
static void order_filter(md_st_turner *t)
{
    md_st_moved *o = &t->operand[1];
    int32_t k[MD_MAX_RANK];
    const int32_t n = md_st_order_k(k, t);
    o->rank = 0;
    for (int32_t a = 0; a < o->load->n_args; a++)
        if (!is_of_k(t, o->load->arg[a]->id))
            o->order[o->rank++] = a;
    for (int32_t i = 0; i < n; i++) {
        const int32_t axis = axis_of(o->load, k[i]);
        if (axis >= 0)
            o->order[o->rank++] = axis;
    }
}

bool md_st_moves(const md_st_moved *o)
{
    if (o->is_padded)
        return true;
    for (int32_t i = 0; i < o->rank; i++)
        if (o->order[i] != i)
            return true;
    return false;
}

/* True if an operand of the epilogue is an image as the result is: it has both rows and columns, and ends with rows. */
static bool is_like_result(const md_st_turner *t, const md_fx_node *load)
{
    bool has_column = false, has_row = false;
    if (!is_input(t, load) || load->n_args < 2 || !md_st_are_plain(load->n_args, load->arg))
        return false;
    for (int32_t a = 0; a < load->n_args; a++) {
        has_column |= is_column(t, load->arg[a]->id);
        has_row |= is_of_side(t, t->image, load->arg[a]->id);
    }
    return has_column && has_row && !is_column(t, load->arg[load->n_args - 1]->id);
}

static void order_all(md_st_turner *t)
{
    const md_st_store *store = &t->stage->store[0];
    const md_fx_node *load[MOST_LOADS];
    const md_st_item epilogue = {.value = store->value};
    const int32_t n = md_st_collect(load, MOST_LOADS, MD_FX_LOAD, &epilogue);
    put_last(&t->operand[0], t, t->operand[0].load->n_args, t->operand[0].load->arg, is_run);
    order_filter(t);
    t->operand[0].is_padded = t->operand[1].is_padded = t->padded_size > 0;
    put_last(&t->result, t, store->n_subscripts, store->subscript, is_column);
    for (int32_t i = 0; i < MD_MIN(n, MOST_LOADS) && t->n_operands < MD_ST_MOST_MOVED && md_st_moves(&t->result); i++)
        if (is_like_result(t, load[i])) {
            md_st_moved *o = &t->operand[t->n_operands++];
            o->load = load[i];
            o->is_padded = false;
            put_last(o, t, load[i]->n_args, load[i]->arg, is_column);
        }
}

bool md_st_find_moves(md_st_turner *t)
{
    if (!is_plain_product(t) || !find_sides(t))
        return false;
    order_all(t);
    return true;
}

bool md_st_is_matrices(const md_st_turner *t)
{
    const md_fx_node *image = t->operand[0].load;
    return md_st_are_plain(image->n_args, image->arg) && t->stage->product.n_batch == 0 && t->stage->product.n_k == 1;
}

/* True if an axis of the load that stands in front of those of K runs with the index. */
static bool is_before_k(const md_fx_node *load, const md_fx_node *reduce, int32_t index)
{
    for (int32_t a = 0; a < load->n_args; a++) {
        if (md_fx_uses_any_index(load->arg[a], reduce->n_bound, reduce->bound))
            return false;
        if (md_fx_is_index(load->arg[a], index))
            return true;
    }
    return false;
}

bool md_st_is_in_front(const md_st_maker *m, const md_st_factors *factors, const md_fx_node *reduce, int32_t index)
{
    for (int32_t i = 0; i < factors->n; i++) {
        const md_fx_node *node = factors->factor[i].node;
        while (node->kind == MD_FX_CAST)
            node = node->arg[0];
        if (node->kind == MD_FX_LOAD && m->formula->tensor[node->id].is_apart && is_before_k(node, reduce, index))
            return true;
    }
    return false;
}
