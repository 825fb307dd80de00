/* Finds the loads of a pointwise stage that need transposing. */
#include "family/point/point.h"

#include "codegen/codegen.h"

typedef struct finder {
    const md_fa_target *target;
    md_fa_transpose *out;
} finder;

/* True if the index runs along the whole axis. */
static bool is_along(const md_st_program *program, const md_fx_node *load, int32_t axis)
{
    const md_fx_tensor *x = &program->formula->tensor[load->id];
    return !x->at_least[axis] || program->index[load->arg[axis]->id].dim == x->dim[axis];
}

/* True if all subscripts are different plain indices, the lanes' index is among them, and the last is another one. */
static bool is_transposed(const md_st_stage *st, const md_st_program *program, const md_fx_node *n)
{
    bool has_lane = false;
    if (n->kind != MD_FX_LOAD || n->n_args < 2)
        return false;
    for (int32_t i = 0; i < n->n_args; i++) {
        if (n->arg[i]->kind != MD_FX_INDEX || !is_along(program, n, i))
            return false;
        for (int32_t k = 0; k < i; k++)
            if (md_fx_is_index(n->arg[i], n->arg[k]->id))
                return false;
        has_lane |= md_fx_is_index(n->arg[i], st->axis);
    }
    return has_lane && !md_fx_is_index(n->arg[n->n_args - 1], st->axis);
}

static bool is_same_load(const md_fx_node *a, const md_fx_node *b)
{
    return md_fx_equal(NULL, a, b);
}

static bool note(void *user, const md_fx_node *n)
{
    finder *f = user;
    const md_st_stage *st = md_fa_stage(f->target);
    md_fa_transpose *t = f->out;
    if (!is_transposed(st, f->target->program, n) || t->n == MD_FA_MAX_TRANSPOSED)
        return true;
    int32_t last = n->arg[n->n_args - 1]->id;
    if (t->n > 0 && last != t->index)
        return true; /* the table is full: this load stays a strided one */
    for (int32_t i = 0; i < t->n; i++)
        if (is_same_load(t->load[i], n))
            return true;
    t->index = last;
    t->load[t->n++] = n;
    return true;
}

/* The load that a stage copies, as it is or rounded; NULL: it does more. */
static const md_fx_node *copied(const md_st_stage *st)
{
    const md_fx_node *value = st->store[0].value;
    while (value->kind == MD_FX_CAST)
        value = value->arg[0];
    return st->n_stores == 1 && st->store[0].assign == MD_FX_SET && value->kind == MD_FX_LOAD ? value : NULL;
}

static int32_t place_of(const md_fx_node *const *subscript, int32_t n, int32_t index)
{
    for (int32_t i = 0; i < n; i++)
        if (md_fx_is_index(subscript[i], index))
            return i;
    return -1;
}

/* Finds the indices that stand before one in both tensors of a copy. */
static void find_before(md_fa_transpose *out, int32_t of, const md_st_stage *st, int32_t index, int32_t other)
{
    const md_fx_node *load = copied(st);
    const md_st_store *store = &st->store[0];
    out->n_before[of] = 0;
    if (!load || out->n != 1)
        return;
    for (int32_t a = place_of(load->arg, load->n_args, index) - 1,
                 b = place_of(store->subscript, store->n_subscripts, index) - 1;
         a >= 0 && b >= 0; a--, b--) {
        const int32_t id = load->arg[a]->id;
        if (id == other || !md_fx_is_index(store->subscript[b], id))
            return;
        out->before[of][out->n_before[of]++] = id;
    }
}

/* True if a copy moves the lines behind the lanes, and all else stays in front, as it was. */
static bool is_batched(const md_fa_transpose *t, const md_st_stage *st, const md_fx_formula *f)
{
    const md_st_store *store = &st->store[0];
    const md_fx_node *load = store->value;
    if (st->n_stores != 1 || load->kind != MD_FX_LOAD || t->n != 1 || load->n_args != store->n_subscripts ||
        f->tensor[load->id].dtype != f->tensor[store->tensor].dtype)
        return false;
    const int32_t lanes = t->n_before[MD_FA_OF_LANES] + 1, lines = t->n_before[MD_FA_OF_LINES] + 1,
                  rest = load->n_args - lanes - lines;
    for (int32_t i = 0; i < rest; i++)
        if (!md_fx_is_index(load->arg[i], store->subscript[i]->id))
            return false;
    return rest >= 0 && md_fx_is_index(load->arg[rest + lanes - 1], st->axis);
}

bool md_fa_transpose_can_merge(const md_fa_transpose *transpose)
{
    return transpose->n_before[MD_FA_OF_LANES] + transpose->n_before[MD_FA_OF_LINES] > 0;
}

int64_t md_fa_transpose_points(const md_fa_transpose *transpose, const md_fa_target *target, int32_t of,
                               const int64_t *size)
{
    const int32_t index = of == MD_FA_OF_LANES ? md_fa_stage(target)->axis : transpose->index;
    const int64_t points = md_st_points(target->program, transpose->n_before[of], transpose->before[of], size);
    return points * md_st_size(target->program, index, size);
}

static void make_transpose(void *result, const md_st_program *program, int32_t stage, const void *target)
{
    md_fa_transpose *out = result;
    (void)program, (void)stage;
    *out = (md_fa_transpose){.index = -1};
    finder f = {target, out};
    if (md_fa_stage(target)->axis >= 0 && !md_fa_has_packed(target)) /* tiles are whole elements */
        md_cg_visit(md_fa_stage(target), note, &f);
    find_before(out, MD_FA_OF_LANES, md_fa_stage(target), md_fa_stage(target)->axis, out->index);
    find_before(out, MD_FA_OF_LINES, md_fa_stage(target), out->index, md_fa_stage(target)->axis);
    out->is_batched = is_batched(out, md_fa_stage(target), ((const md_fa_target *)target)->program->formula);
}

bool md_fa_transpose_find(md_fa_transpose *out, const md_fa_target *target)
{
    md_st_know(
        out, target->program, target->stage,
        &(md_st_fact){.which = MD_ST_KNOWN_TRANSPOSE, .n_bytes = sizeof *out, .make = make_transpose, .user = target});
    return out->n > 0;
}

void md_fa_transpose_envelope(md_kn_envelope *out, const md_fa_target *target, bool is_merged)
{
    md_fa_transpose transpose;
    *out = (md_kn_envelope){.unit = md_cg_unit_tensors(target->program, target->stage, md_fa_stage(target)->axis)};
    md_fa_transpose_find(&transpose, target);
    for (int32_t i = 0; i < transpose.n; i++)
        out->unit |= UINT32_C(1) << transpose.load[i]->id;
    if (is_merged)
        out->contiguous = UINT32_C(1) << transpose.load[0]->id | UINT32_C(1) << md_fa_stage(target)->store[0].tensor;
}
