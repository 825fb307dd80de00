/* Places of loads and stores: how they move with the lanes, and the text of their offsets. */
#include "codegen/expression/printer.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <string.h>

/* ---- Motion, without a printer: envelopes ask the same question. */

/* The affine form of a subscript. One that is only checked moves like any other, unless the check moves it. */
static bool affine_of(md_fx_affine *out, const md_fx_formula *f, const md_fx_node *subscript)
{
    bool is_read_as_it_is = subscript->kind == MD_FX_CHECK && f->bounds != MD_BOUNDS_CLAMP;
    return md_fx_affine_of(out, f, is_read_as_it_is ? subscript->arg[0] : subscript);
}

/* The step of a subscript with the lane index; false where it is not affine. */
static bool step_of(int64_t *step, const md_st_program *program, const md_fx_node *subscript, int32_t lane)
{
    md_fx_affine a;
    if (!affine_of(&a, program->formula, subscript))
        return false;
    *step = 0;
    for (int32_t i = 0; i < a.n; i++)
        if (a.index[i] == lane)
            *step = a.coef[i];
    return true;
}

/* True if the access moves by one along the last axis and by nothing else: vectors, if that axis has stride 1. */
static bool is_consecutive(const md_st_program *program, int32_t rank, const md_fx_node *const *subscript, int32_t lane)
{
    for (int32_t i = 0; i < rank; i++) {
        int64_t step = 0;
        if (!step_of(&step, program, subscript[i], lane) && md_fx_uses_index(subscript[i], lane))
            return false;
        if (step != (i == rank - 1))
            return false;
    }
    return rank > 0;
}

typedef struct unit_search {
    const md_st_program *program;
    int32_t lane;
    uint32_t tensors;
} unit_search;

static bool note_load(void *user, const md_fx_node *n)
{
    unit_search *s = user;
    if (n->kind == MD_FX_LOAD && is_consecutive(s->program, n->n_args, n->arg, s->lane))
        s->tensors |= UINT32_C(1) << n->id;
    return true;
}

static void make_unit(void *out, const md_st_program *program, int32_t stage, const void *lane)
{
    const md_st_stage *st = &program->stage[stage];
    unit_search s = {program, *(const int32_t *)lane, 0};
    md_cg_visit(st, note_load, &s);
    for (int32_t i = 0; i < st->n_stores; i++)
        if (is_consecutive(program, st->store[i].n_subscripts, st->store[i].subscript, s.lane))
            s.tensors |= UINT32_C(1) << st->store[i].tensor;
    *(uint32_t *)out = s.tensors;
}

uint32_t md_cg_unit_tensors(const md_st_program *program, int32_t stage, int32_t lane)
{
    const md_st_stage *st = &program->stage[stage];
    uint32_t tensors = 0;
    if (lane < 0)
        return 0;
    if (lane == st->axis)
        md_st_know(
            &tensors, program, stage,
            &(md_st_fact){.which = MD_ST_KNOWN_UNIT, .n_bytes = sizeof tensors, .make = make_unit, .user = &lane});
    else if (st->n_outer > 0 && lane == st->outer[st->n_outer - 1])
        md_st_know(&tensors, program, stage,
                   &(md_st_fact){
                       .which = MD_ST_KNOWN_UNIT_OUTER, .n_bytes = sizeof tensors, .make = make_unit, .user = &lane});
    else
        make_unit(&tensors, program, stage, &lane);
    return tensors;
}

/* ---- Places */

/* Sums of texts, uniform and per lane. */
typedef struct sum {
    const char *uniform, *lanes, *stride;
    bool is_guarded; /* the uniform part depends on something that a guard protects */
    bool is_unit;
    bool is_line; /* moves by one along an axis from a place that memory or a scalar says */
    /* unit, with more than the lane index in the last subscript: alignment of the tensor says nothing of the
     * vector's */
    bool is_shifted;
    bool is_twos; /* as in md_cg_place */
    const char *step; /* of cells: what moves with the index of their planes */
    const char *beside; /* of cells: what moves from the first of a row to the others */
} sum;

static void add_term(md_cg *cg, const char **sum_text, const char *term)
{
    *sum_text = *sum_text ? md_cg_format(cg, "%s + %s", *sum_text, term) : term;
}

static const char *times(md_cg *cg, int64_t factor, const char *text)
{
    return factor == 1 ? text : md_cg_format(cg, "INT64_C(%" PRId64 ") * %s", factor, text);
}

/* An index whose part of a place is apart: the lanes', and that of the planes of cells. */
static bool is_apart(const md_cg *cg, int32_t index)
{
    return index == cg->o.lane || (cg->o.is_cells && index == cg->o.step);
}

/* An index at which cells of a row begin. */
static bool is_beside(const md_cg *cg, int32_t index)
{
    return cg->o.is_cells && index == cg->o.beside;
}

/* constant + sum of coef * index + sum of coef * size, without what is apart; NULL for zero. */
static const char *affine_text(md_cg *cg, const md_fx_affine *a)
{
    const char *text = NULL;
    for (int32_t i = 0; i < a->n; i++)
        if (!is_apart(cg, a->index[i]))
            add_term(cg, &text,
                     times(cg, a->coef[i],
                           md_cg_format(cg, "%s%" PRId32, is_beside(cg, a->index[i]) ? "first" : "x", a->index[i])));
    for (int32_t i = 0; i < a->n_sizes; i++)
        add_term(cg, &text, times(cg, a->size_coef[i], md_cg_format(cg, "p->n%" PRId32, a->dim[i])));
    if (a->constant != 0)
        add_term(cg, &text, md_cg_format(cg, "INT64_C(%" PRId64 ")", a->constant));
    return text;
}

static void add_affine(sum *s, md_cg *cg, const md_fx_affine *a, const char *stride, bool is_last)
{
    int64_t step = 0;
    bool is_stepped = false;
    for (int32_t i = 0; i < a->n; i++)
        if (a->index[i] == cg->o.lane)
            step = a->coef[i];
        else if (is_apart(cg, a->index[i])) {
            const char *x = md_cg_format(cg, "x%" PRId32, a->index[i]);
            add_term(cg, &s->step, times(cg, a->coef[i], md_cg_format(cg, "%s * %s", x, stride)));
            is_stepped = true;
        } else if (is_beside(cg, a->index[i]))
            add_term(cg, &s->beside, times(cg, a->coef[i], md_cg_format(cg, "beside * %s", stride)));
    const char *text = affine_text(cg, a);
    bool is_sum = a->n + a->n_sizes + (a->constant != 0) - (step != 0) - is_stepped > 1;
    if (text)
        add_term(cg, &s->uniform, md_cg_format(cg, is_sum ? "(%s) * %s" : "%s * %s", text, stride));
    if (step == 0)
        return;
    s->is_unit = step == 1 && is_last && !s->stride && cg->o.access == MD_CG_UNIT;
    s->is_shifted = text != NULL;
    s->is_twos = step == 2 && is_last && !s->stride && cg->o.access == MD_CG_UNIT;
    add_term(cg, &s->stride, times(cg, step, stride));
}

/* What the lane index is added to in a checked subscript: P[i] of P[i] + j. NULL where it does not move so. */
static const md_fx_node *place_of_line(const md_cg *cg, const md_fx_node *subscript)
{
    const md_fx_node *n = subscript->kind == MD_FX_CHECK ? subscript->arg[0] : subscript;
    if (md_cg_is_cuda(cg) || cg->is_storing || cg->formula->bounds == MD_BOUNDS_CLAMP || n->kind != MD_FX_OP ||
        n->op != MD_FX_ADD)
        return NULL;
    const md_fx_node *place = n->arg[md_fx_is_index(n->arg[0], cg->o.lane)];
    const bool moves = md_fx_is_index(n->arg[0], cg->o.lane) != md_fx_is_index(n->arg[1], cg->o.lane);
    return moves && !md_fx_uses_index(place, cg->o.lane) ? place : NULL;
}

/* The place where the first lane reads; the others follow by one each. */
static void add_line(sum *s, md_cg *cg, const md_fx_node *place, const char *stride)
{
    const md_cg_name start = md_cg_eval(cg, place);
    if (!start.text)
        return;
    s->is_guarded = s->is_line = true;
    add_term(cg, &s->uniform, md_cg_format(cg, "%s * %s", start.text, stride));
    add_term(cg, &s->stride, stride);
}

/* Adds what one axis contributes to the place. */
static void add_axis(md_cg_place *out, sum *s, md_cg *cg, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    const bool is_one = cg->o.unit >> tensor & 1 && axis == cg->formula->tensor[tensor].rank - 1;
    const char *stride = is_one ? "INT64_C(1)" : md_cg_format(cg, "p->s%" PRId32 "_%" PRId32, tensor, axis);
    md_fx_affine a;
    if (affine_of(&a, cg->formula, subscript)) {
        if (subscript->kind == MD_FX_CHECK)
            (void)md_cg_check(out, cg, tensor, axis, subscript);
        add_affine(s, cg, &a, stride, axis == cg->formula->tensor[tensor].rank - 1);
        return;
    }
    md_cg_name index = md_cg_check(out, cg, tensor, axis, subscript);
    const md_fx_node *place = place_of_line(cg, subscript);
    if (!index.text)
        return;
    if (place && !s->stride && axis == cg->formula->tensor[tensor].rank - 1)
        add_line(s, cg, place, stride);
    else if (index.is_uniform) {
        s->is_guarded = true;
        add_term(cg, &s->uniform, md_cg_format(cg, "%s * %s", index.text, stride));
    } else {
        add_term(cg, &s->lanes, md_cg_format(cg, "%s * md_splat_i(%s)", index.text, stride));
    }
}

static const char *pointer_text(md_cg *cg, int32_t tensor)
{
    const bool is_known = cg->pointers >> tensor & 1;
    if (!cg->prologue || (!is_known && cg->sink == cg->prologue)) /* a branch in the prologue ends before the body */
        return md_cg_format(cg, "p->t%" PRId32, tensor);
    if (!is_known)
        md_strbuf_printf(cg->prologue, "void *const t%" PRId32 " = p->t%" PRId32 ";\n", tensor, tensor);
    cg->pointers |= UINT32_C(1) << tensor;
    return md_cg_format(cg, "t%" PRId32, tensor);
}

/* A merged axis: the tensor's last axes are the lane's, one after the other in memory. */
static bool is_flat_access(const md_cg *cg, int32_t rank, const md_fx_node *const *subscript)
{
    return cg->o.n_flat > 1 && rank > 0 && md_fx_is_index(subscript[rank - 1], cg->o.lane);
}

static void place_sum(md_cg_place *out, md_cg *cg, const sum *s)
{
    const char *base = s->uniform ? s->uniform : "INT64_C(0)";
    if (s->uniform && strcmp(s->uniform, "INT64_C(0)") != 0)
        base = md_cg_share(cg, "int64_t", s->uniform, md_cg_can_hoist(cg, true, s->is_guarded));
    const char *first = md_cg_format(cg, "x%" PRId32, cg->o.lane);
    if (s->lanes) {
        const char *lanes = s->lanes;
        if (s->stride)
            lanes = md_cg_format(cg, "%s + md_iota_i(%s) * md_splat_i(%s)", lanes, first, s->stride);
        out->motion = MD_CG_SCATTERED;
        out->offset =
            md_cg_declare(cg, "md_i", false, false, md_cg_format(cg, "md_splat_i(%s) + %s", base, lanes)).text;
    } else if (s->is_unit) {
        out->motion = MD_CG_CONSECUTIVE;
        out->is_shifted = s->is_shifted;
        out->offset = s->uniform ? md_cg_format(cg, "%s + %s", base, first) : first;
    } else if (s->stride) {
        out->motion = MD_CG_STEPS;
        out->is_line = s->is_line;
        out->is_twos = s->is_twos;
        out->stride = md_cg_share(cg, "int64_t", s->stride, md_cg_can_hoist(cg, true, false));
        out->offset = md_cg_format(cg, "%s + %s * %s", base, first, out->stride);
    } else {
        out->motion = MD_CG_FIXED;
        out->offset = base;
    }
}

/* A cell's place in a plane as a pointer, which all planes share, and the plane's offset from there. */
static void place_cell(md_cg_place *out, md_cg *cg, int32_t tensor, const sum *s)
{
    const char *name = md_dtype_name(cg->formula->tensor[tensor].dtype);
    const char *to = md_cg_format(cg, "md_hold((const md_t_%s::E *)%s + (%s))", name, out->pointer,
                                  s->uniform ? s->uniform : "INT64_C(0)");
    out->motion = MD_CG_FIXED;
    out->pointer = md_cg_share(cg, "void *", to, false);
    out->offset = s->step ? md_cg_share(cg, "int64_t", md_cg_format(cg, "md_hold(%s)", s->step), false) : "INT64_C(0)";
    if (!s->beside)
        return;
    if (s->step)
        out->pointer = md_cg_share(
            cg, "void *", md_cg_format(cg, "md_hold((const md_t_%s::E *)%s + %s)", name, out->pointer, out->offset),
            false);
    out->offset = s->beside;
}

void md_cg_locate(md_cg_place *out, md_cg *cg, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    *out = (md_cg_place){.motion = MD_CG_FIXED};
    sum s = {0};
    int32_t n = is_flat_access(cg, rank, subscript) ? rank - cg->o.n_flat : rank;
    for (int32_t i = 0; i < n && cg->status == MD_OK; i++)
        add_axis(out, &s, cg, tensor, i, subscript[i]);
    if (n < rank) {
        s.stride = "INT64_C(1)";
        s.is_unit = true;
    }
    out->pointer = pointer_text(cg, tensor);
    if (cg->status == MD_OK && cg->o.is_cells)
        place_cell(out, cg, tensor, &s);
    else if (cg->status == MD_OK)
        place_sum(out, cg, &s);
}

const char *md_cg_unit_suffix(const md_cg *cg, const md_cg_place *at)
{
    return md_cg_is_cuda(cg) && at->is_shifted ? "_any" : "";
}

const char *md_cg_uniform_place(md_cg *cg, int32_t tensor, int32_t n, const md_fx_node *const *subscript)
{
    md_cg_place at = {.motion = MD_CG_FIXED};
    sum s = {0};
    for (int32_t i = 0; i < n && cg->status == MD_OK; i++)
        add_axis(&at, &s, cg, tensor, i, subscript[i]);
    return s.uniform ? s.uniform : "0";
}
