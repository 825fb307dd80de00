/* Products whose sum runs across memory: the axes of their operands are moved, so that the last index of K lies side by
 * side, and those of the result are moved back. Planes of channels (NCHW) become pixels of channels (NHWC) that way.
 *
 * An operand that is a plain matrix needs none of it: kernels read it along its rows or across. This is for windows, and
 * for operands whose rows lie on both sides of K: X[n,c,y,x] in sum[c](X[n,c,y,x] * W[o,c]). The formula gets lets with
 * names like "X.turned", which always are in memory. The plan puts the product as it was written beside them. */
#include "stage/form.h"

#include "base/status.h"

#include <stdlib.h>

enum { MOST_OPERANDS = 6, MOST_LOADS = 16 };

/* A load, and the order that the axes of its tensor get. */
typedef struct operand {
    const md_fx_node *load;
    int32_t rank, order[MD_MAX_RANK];
    int32_t turned; /* the tensor with that order; -1: the order is the tensor's own */
} operand;

typedef struct turner {
    md_fx_formula *formula;
    const md_st_program *program;
    const md_st_stage *stage;
    int32_t run; /* the index of K that gets to lie side by side */
    int32_t image, filter; /* sides: that whose layout is wrong, and the other one */
    int32_t n_operands;
    operand operand[MOST_OPERANDS]; /* of the image, of the filter, then of the epilogue */
    operand result; /* its load is NULL */
    int32_t stmt; /* the result's */
    bool no_memory;
} turner;

/* ---- Which products */

static const md_fx_node *side_of(const turner *t, int32_t side)
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

static bool is_of_k(const turner *t, int32_t id)
{
    return is_in(t->stage->product.n_k, t->stage->product.k, id);
}

/* True if rows (columns) of a side run over the index. */
static bool is_of_side(const turner *t, int32_t side, int32_t id)
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

static bool is_input(const turner *t, const md_fx_node *load)
{
    return t->formula->tensor[load->id].role == MD_FX_INPUT;
}

/* The only load of a side, of an argument, at places that need no check; NULL: there is no such one. */
static const md_fx_node *load_of(const turner *t, int32_t side)
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
static bool has_loose_axis(const turner *t, const md_fx_node *load)
{
    const md_fx_tensor *x = &t->formula->tensor[load->id];
    for (int32_t a = 0; a < x->rank; a++)
        for (int32_t i = 0; i < t->program->n_indices && x->at_least[a]; i++)
            if (t->program->index[i].dim == x->dim[a])
                return true;
    return false;
}

/* True if rows of the image lie on both sides of an axis, or are windows: it is no matrix. */
static bool is_apart(const turner *t, const md_fx_node *image, int32_t axis)
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

/* Finds the index of K that both operands have as an axis: the last one of the image. Not the first axis of both, such
 * as the batch that the gradient of a filter sums over. */
static bool find_run(turner *t, const md_fx_node *image, const md_fx_node *filter)
{
    const md_fx_node *last = image->arg[image->n_args - 1];
    t->run = -1;
    if (last->kind == MD_FX_INDEX && is_of_k(t, last->id))
        return false;
    for (int32_t a = image->n_args - 2; a >= 0 && t->run < 0; a--) {
        const md_fx_node *at = image->arg[a];
        if (at->kind != MD_FX_INDEX || !is_of_k(t, at->id) || !is_apart(t, image, a))
            continue;
        const int32_t other = axis_of(filter, at->id);
        if (other > 0 || (other == 0 && a > 0))
            t->run = at->id;
    }
    return t->run >= 0;
}

static bool find_sides(turner *t)
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

static bool is_plain_product(const turner *t)
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
static void put_last(operand *o, const turner *t, int32_t rank, const md_fx_node *const *at,
                     bool (*is)(const turner *t, int32_t index))
{
    o->rank = 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t a = 0; a < rank; a++)
            if ((at[a]->kind == MD_FX_INDEX && is(t, at[a]->id)) == (pass == 1))
                o->order[o->rank++] = a;
}

static bool is_run(const turner *t, int32_t index)
{
    return index == t->run;
}

static bool is_column(const turner *t, int32_t index)
{
    return is_of_side(t, t->filter, index);
}

/* K in its new order: the run comes last. */
static int32_t order_k(int32_t out[MD_MAX_RANK], const turner *t)
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
static void order_filter(turner *t)
{
    operand *o = &t->operand[1];
    int32_t k[MD_MAX_RANK];
    const int32_t n = order_k(k, t);
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

static bool moves(const operand *o)
{
    for (int32_t i = 0; i < o->rank; i++)
        if (o->order[i] != i)
            return true;
    return false;
}

/* True if an operand of the epilogue is an image as the result is: it has both rows and columns, and ends with rows. */
static bool is_like_result(const turner *t, const md_fx_node *load)
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

static void order_all(turner *t)
{
    const md_st_store *store = &t->stage->store[0];
    const md_fx_node *load[MOST_LOADS];
    const md_st_item epilogue = {.value = store->value};
    const int32_t n = md_st_collect(load, MOST_LOADS, MD_FX_LOAD, &epilogue);
    put_last(&t->operand[0], t, t->operand[0].load->n_args, t->operand[0].load->arg, is_run);
    order_filter(t);
    put_last(&t->result, t, store->n_subscripts, store->subscript, is_column);
    for (int32_t i = 0; i < MD_MIN(n, MOST_LOADS) && t->n_operands < MOST_OPERANDS && moves(&t->result); i++)
        if (is_like_result(t, load[i])) {
            operand *o = &t->operand[t->n_operands++];
            o->load = load[i];
            put_last(o, t, load[i]->n_args, load[i]->arg, is_column);
        }
}

/* ---- Statements */

static const md_fx_node *made(turner *t, const md_fx_node *node)
{
    t->no_memory |= !node;
    return node;
}

/* A load of a tensor at these subscripts, whose number `order` gives; order NULL: as they are. */
static const md_fx_node *new_load(turner *t, int32_t tensor, md_dtype type, int32_t rank,
                                  const md_fx_node *const *subscript, const int32_t *order)
{
    md_fx_node *load = md_fx_node_new(t->formula->arena, MD_FX_LOAD, type);
    const md_fx_node **arg = md_arena_alloc(t->formula->arena, (size_t)(rank + 1) * sizeof *arg);
    if (!load || !arg)
        return made(t, NULL);
    for (int32_t i = 0; i < rank; i++)
        arg[i] = subscript[order ? order[i] : i];
    load->id = tensor;
    load->n_args = rank;
    load->arg = arg;
    return load;
}

/* Gives a statement fresh indices, one for each axis of a tensor, along which it stores. */
static void index_freshly(turner *t, md_fx_stmt *s, int32_t tensor)
{
    md_fx_formula *f = t->formula;
    const md_fx_tensor *x = &f->tensor[tensor];
    s->tensor = tensor;
    s->n_free = x->rank;
    for (int32_t i = 0; i < x->rank; i++) {
        s->free[i] = f->n_indices;
        f->index[f->n_indices++] = (md_fx_index){.name = f->dim[x->dim[i]].name, .dim = x->dim[i]};
        s->subscript[i] = made(t, md_fx_index_node(f->arena, s->free[i]));
    }
}

/* A let for the elements of a tensor, with its axes in another order. -1: memory is short. */
static int32_t add_tensor(turner *t, int32_t of, const operand *o)
{
    md_fx_formula *f = t->formula;
    const md_fx_tensor *x = &f->tensor[of];
    md_fx_tensor *turned = &f->tensor[f->n_tensors];
    *turned = (md_fx_tensor){.name = md_arena_printf(f->arena, "%s.turned", x->name),
                             .role = MD_FX_TEMP,
                             .dtype = x->dtype,
                             .is_declared = true,
                             .is_turned = true,
                             .rank = x->rank,
                             .stmt = t->stmt};
    t->no_memory |= !turned->name;
    for (int32_t i = 0; i < x->rank; i++)
        turned->dim[i] = x->dim[o->order[i]];
    return f->n_tensors++;
}

/* Where each axis of a tensor is in the new order. */
static void invert(int32_t out[MD_MAX_RANK], const operand *o)
{
    for (int32_t i = 0; i < o->rank; i++)
        out[o->order[i]] = i;
}

/* let X.turned[n,h,w,c] = X[n,c,h,w] */
static void move_operand(turner *t, operand *o)
{
    md_fx_stmt s = {.assign = MD_FX_SET, .line = t->formula->stmt[t->stmt].line};
    int32_t back[MD_MAX_RANK];
    if (!moves(o) || t->no_memory)
        return;
    o->turned = add_tensor(t, o->load->id, o);
    index_freshly(t, &s, o->turned);
    invert(back, o);
    s.value = new_load(t, o->load->id, o->load->type, o->rank, s.subscript, back);
    md_st_insert(t->formula, t->stmt++, &s);
}

/* Loads of operands whose axes were moved. */
static const md_fx_node *replace_load(void *user, const md_fx_node *node)
{
    turner *t = user;
    for (int32_t i = 0; i < t->n_operands && node->kind == MD_FX_LOAD; i++) {
        const operand *o = &t->operand[i];
        if (o->turned >= 0 && (node == o->load || md_fx_equal(t->formula, node, o->load)))
            return new_load(t, o->turned, node->type, o->rank, node->arg, o->order);
    }
    return node;
}

static const md_fx_node *sum_of(turner *t)
{
    md_arena *a = t->formula->arena;
    const md_st_product *p = &t->stage->product;
    const md_fx_node *left = made(t, md_fx_rewrite(a, p->a[0], replace_load, t)),
                     *right = made(t, md_fx_rewrite(a, p->b[0], replace_load, t)), **arg;
    md_fx_node *sum = md_fx_node_new(a, MD_FX_REDUCE, p->type);
    if (t->no_memory || !sum || !(arg = md_arena_alloc(a, sizeof *arg)))
        return made(t, NULL);
    arg[0] = made(t, md_fx_op2(a, MD_FX_MUL, left, right));
    sum->op = MD_FX_R_SUM;
    sum->n_args = 1;
    sum->arg = arg;
    sum->n_bound = order_k(sum->bound, t);
    return sum;
}

typedef struct filling {
    turner *t;
    const md_fx_node *sum;
} filling;

static const md_fx_node *fill(void *user, const md_fx_node *node)
{
    const filling *f = user;
    return node->kind == MD_FX_REF ? f->sum : replace_load(f->t, node);
}

/* let Y.turned[n,y,x,o] = ..; Y[n,o,y,x] = Y.turned[n,y,x,o] */
static void move_result(turner *t)
{
    md_fx_formula *f = t->formula;
    const md_st_store *store = &t->stage->store[0];
    filling with = {t, sum_of(t)};
    if (t->no_memory)
        return;
    const md_fx_node *value = made(t, md_fx_rewrite(f->arena, store->value, fill, &with));
    md_fx_stmt *y = &f->stmt[t->stmt], s = *y;
    s.n_free = store->n_subscripts;
    s.value = value;
    for (int32_t i = 0; i < s.n_free; i++) {
        s.subscript[i] = store->subscript[t->result.order[i]];
        s.free[i] = s.subscript[i]->id;
    }
    if (!moves(&t->result)) {
        *y = s;
        return;
    }
    const md_dtype dtype = f->tensor[store->tensor].dtype;
    s.tensor = add_tensor(t, store->tensor, &t->result);
    index_freshly(t, y, store->tensor);
    y->value = new_load(t, s.tensor, md_dtype_compute(dtype), t->result.rank, y->subscript, t->result.order);
    md_st_insert(f, t->stmt, &s);
}

/* True if there is room for the lets and their indices. */
static bool has_room(const turner *t)
{
    const md_fx_formula *f = t->formula;
    int32_t n = moves(&t->result), n_indices = n * t->result.rank;
    for (int32_t i = 0; i < t->n_operands; i++)
        if (moves(&t->operand[i])) {
            n++;
            n_indices += t->operand[i].rank;
        }
    return f->n_tensors + n <= MD_FX_MAX_TENSORS && f->n_indices + n_indices <= MD_FX_MAX_INDICES &&
           f->n_stmts + n + 1 <= MD_FX_MAX_STMTS;
}

/* Whether it turned the stage's product. */
static bool turn(turner *t, int32_t stage)
{
    t->stage = &t->program->stage[stage];
    if (!is_plain_product(t) || !find_sides(t))
        return false;
    order_all(t);
    if (!has_room(t))
        return false;
    t->stmt = t->formula->tensor[t->stage->store[0].tensor].stmt;
    for (int32_t i = 0; i < t->n_operands; i++) {
        t->operand[i].turned = -1;
        move_operand(t, &t->operand[i]);
    }
    move_result(t);
    return true;
}

/* True if every product stands beside the parts that move its axes. */
static bool is_whole(const md_fx_formula *f, int32_t n_turned)
{
    md_st_program *p = NULL;
    int32_t n = 0;
    if (md_st_program_create(&p, f) != MD_OK)
        return false;
    for (int32_t s = 0; s < p->n_stages; s++)
        n += p->stage[s].kind == MD_ST_PRODUCT && p->stage[s].n_parts > 0;
    md_st_program_destroy(&p);
    return n == n_turned;
}

md_status md_st_turn(bool *is_changed, md_fx_formula *formula)
{
    md_st_program *program = NULL;
    md_fx_formula *original = malloc(sizeof *original);
    turner t = {.formula = formula};
    int32_t n = 0;
    *is_changed = false;
    const md_status status = original ? md_st_program_create(&program, formula) : md_fail_memory();
    if (status == MD_OK && program->n_indices <= MD_FX_MAX_INDICES) {
        *original = *formula;
        formula->n_indices = program->n_indices;
        for (int32_t i = 0; i < program->n_indices; i++)
            formula->index[i] = program->index[i];
        t.program = program;
        for (int32_t s = 0; s < program->n_stages && !t.no_memory; s++)
            n += turn(&t, s);
        *is_changed = n > 0 && !t.no_memory && is_whole(formula, n);
        if (!*is_changed)
            *formula = *original;
    }
    md_st_program_destroy(&program);
    free(original);
    return t.no_memory ? md_fail_memory() : status;
}
