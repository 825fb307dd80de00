/* Products whose sum runs across memory: the axes of their operands are moved, so that the last index of K lies side by
 * side, and those of the result are moved back. Planes of channels (NCHW) become pixels of channels (NHWC) that way.
 *
 * An operand that is a plain matrix needs none of it: kernels read it along its rows or across. This is for windows,
 * and for operands whose rows lie on both sides of K: X[n,c,y,x] in sum[c](X[n,c,y,x] * W[o,c]). The formula gets lets
 * with names like "X.turned", which always are in memory. The plan puts the product as it was written beside them.
 *
 * Windows of few channels, such as three, get zeros behind these, up to a multiple of eight: an index of its own runs
 * over channels and zeros. */
#include "stage/turn.h"

#include "base/status.h"

#include <stdlib.h>

/* ---- Statements */

static const md_fx_node *made(md_st_turner *t, const md_fx_node *node)
{
    t->no_memory |= !node;
    return node;
}

/* A load of a tensor at these subscripts, whose number `order` gives; order NULL: as they are. */
static const md_fx_node *new_load(md_st_turner *t, int32_t tensor, md_dtype type, int32_t rank,
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
static void index_freshly(md_st_turner *t, md_fx_stmt *s, int32_t tensor)
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
static int32_t add_tensor(md_st_turner *t, int32_t of, const md_st_moved *o)
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
    if (o->is_padded)
        turned->dim[x->rank - 1] = f->index[t->padded].dim;
    return f->n_tensors++;
}

/* Where each axis of a tensor is in the new order. */
static void invert(int32_t out[MD_MAX_RANK], const md_st_moved *o)
{
    for (int32_t i = 0; i < o->rank; i++)
        out[o->order[i]] = i;
}

/* where(c < 3, load, 0), whose subscript c + 0 says that it may lie outside. */
static const md_fx_node *zeros_behind(md_st_turner *t, const md_st_moved *o, const md_fx_node *const *subscript,
                                      const int32_t *back)
{
    md_arena *a = t->formula->arena;
    const md_fx_tensor *x = &t->formula->tensor[o->load->id];
    const int32_t run = o->order[o->rank - 1];
    const md_fx_node *at[MD_MAX_RANK], *last = subscript[o->rank - 1];
    for (int32_t i = 0; i < o->rank; i++)
        at[i] = subscript[back[i]];
    at[run] = made(t, md_fx_op2(a, MD_FX_ADD, last, md_fx_integer(a, 0)));
    const md_fx_node *size = md_fx_integer(a, t->formula->dim[x->dim[run]].size),
                     *load = new_load(t, o->load->id, o->load->type, o->rank, at, NULL);
    return made(t,
                md_fx_op3(a, MD_FX_WHERE, md_fx_op2(a, MD_FX_LT, last, size), load, md_fx_real(a, 0, o->load->type)));
}

/* let X.turned[n,h,w,c] = X[n,c,h,w] */
static void move_operand(md_st_turner *t, md_st_moved *o)
{
    md_fx_stmt s = {.assign = MD_FX_SET, .line = t->formula->stmt[t->stmt].line};
    int32_t back[MD_MAX_RANK];
    if (!md_st_moves(o) || t->no_memory)
        return;
    o->turned = add_tensor(t, o->load->id, o);
    index_freshly(t, &s, o->turned);
    invert(back, o);
    s.value = o->is_padded ? zeros_behind(t, o, s.subscript, back)
                           : new_load(t, o->load->id, o->load->type, o->rank, s.subscript, back);
    md_st_insert(t->formula, t->stmt++, &s);
}

/* Loads of operands whose axes were moved. */
static const md_fx_node *replace_load(void *user, const md_fx_node *node)
{
    md_st_turner *t = user;
    for (int32_t i = 0; i < t->n_operands && node->kind == MD_FX_LOAD; i++) {
        const md_st_moved *o = &t->operand[i];
        if (o->turned >= 0 && (node == o->load || md_fx_equal(t->formula, node, o->load)))
            return new_load(t, o->turned, node->type, o->rank, node->arg, o->order);
    }
    return node;
}

/* A side of the product, with axes moved and the run as long as it is now. */
static const md_fx_node *operand_of(md_st_turner *t, const md_fx_node *side)
{
    md_arena *a = t->formula->arena;
    const md_fx_node *moved = made(t, md_fx_rewrite(a, side, replace_load, t)), *padded;
    if (t->padded_size == 0 || t->no_memory)
        return moved;
    padded = made(t, md_fx_index_node(a, t->padded));
    return made(t, md_fx_substitute(a, moved, 1, &t->run, &padded));
}

static const md_fx_node *sum_of(md_st_turner *t)
{
    md_arena *a = t->formula->arena;
    const md_st_product *p = &t->stage->product;
    const md_fx_node *left = operand_of(t, p->a[0]), *right = operand_of(t, p->b[0]), **arg;
    md_fx_node *sum = md_fx_node_new(a, MD_FX_REDUCE, p->type);
    if (t->no_memory || !sum || !(arg = md_arena_alloc(a, sizeof *arg)))
        return made(t, NULL);
    arg[0] = made(t, md_fx_op2(a, MD_FX_MUL, left, right));
    sum->op = MD_FX_R_SUM;
    sum->n_args = 1;
    sum->arg = arg;
    sum->n_bound = md_st_order_k(sum->bound, t);
    if (t->padded_size > 0)
        sum->bound[sum->n_bound - 1] = t->padded;
    return sum;
}

typedef struct filling {
    md_st_turner *t;
    const md_fx_node *sum;
} filling;

static const md_fx_node *fill(void *user, const md_fx_node *node)
{
    const filling *f = user;
    return node->kind == MD_FX_REF ? f->sum : replace_load(f->t, node);
}

/* let Y.turned[n,y,x,o] = ..; Y[n,o,y,x] = Y.turned[n,y,x,o] */
static void move_result(md_st_turner *t)
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
    if (!md_st_moves(&t->result)) {
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
static bool has_room(const md_st_turner *t)
{
    const md_fx_formula *f = t->formula;
    int32_t n = md_st_moves(&t->result), n_indices = n * t->result.rank + 1;
    for (int32_t i = 0; i < t->n_operands; i++)
        if (md_st_moves(&t->operand[i])) {
            n++;
            n_indices += t->operand[i].rank;
        }
    return f->n_tensors + n <= MD_FX_MAX_TENSORS && f->n_indices + n_indices <= MD_FX_MAX_INDICES &&
           f->n_stmts + n + 1 <= MD_FX_MAX_STMTS && f->n_dims < MD_FX_MAX_DIMS;
}

/* A dim that is as long as the run with its zeros, and the index over it. */
static void add_padded(md_st_turner *t)
{
    md_fx_formula *f = t->formula;
    const int64_t n = t->padded_size;
    const char *name = md_arena_printf(f->arena, "%s.padded", f->index[t->run].name);
    t->no_memory |= !name;
    t->padded = f->n_indices++;
    f->index[t->padded] = (md_fx_index){.name = name, .dim = f->n_dims, .is_bound = true, .padded = 1 + t->run};
    f->dim[f->n_dims++] = (md_fx_dim){.name = name, .size = n, .lo = n, .hi = n};
}

/* Whether it turned the stage's product. */
static bool turn(md_st_turner *t, int32_t stage)
{
    t->stage = &t->program->stage[stage];
    if (!md_st_find_moves(t) || !has_room(t))
        return false;
    t->formula->tensor[t->operand[0].load->id].is_apart = md_st_is_matrices(t);
    t->stmt = t->formula->tensor[t->stage->store[0].tensor].stmt;
    if (t->padded_size > 0)
        add_padded(t);
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

/* True if some product of the program is one whose axes may be moved. */
static bool has_moves(md_st_turner *t)
{
    for (int32_t s = 0; s < t->program->n_stages; s++) {
        t->stage = &t->program->stage[s];
        if (md_st_find_moves(t))
            return true;
    }
    return false;
}

md_status md_st_turn(md_fx_formula **written, md_fx_formula *formula, const md_st_program *program)
{
    md_st_turner t = {.formula = formula, .program = program};
    int32_t n = 0;
    *written = NULL;
    if (program->n_indices > MD_FX_MAX_INDICES || !has_moves(&t))
        return MD_OK;
    md_fx_formula *original = malloc(sizeof *original);
    if (!original)
        return md_fail_memory();
    *original = *formula;
    formula->n_indices = program->n_indices;
    for (int32_t i = 0; i < program->n_indices; i++)
        formula->index[i] = program->index[i];
    for (int32_t s = 0; s < program->n_stages && !t.no_memory; s++)
        n += turn(&t, s);
    if (n > 0 && !t.no_memory && is_whole(formula, n)) {
        *written = original;
        return MD_OK;
    }
    *formula = *original;
    free(original);
    return t.no_memory ? md_fail_memory() : MD_OK;
}
