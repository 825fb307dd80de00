/* Row programs: cost. */
#include "family/row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"

#include <math.h>

/* What one pass, a level or the stores, does per element of the axis. */
typedef struct pass_work {
    double operations, transcendental, loaded_bytes, loads, stores, stored_bytes, scattered;
} pass_work;

typedef struct counter {
    const md_fa_target *target;
    const md_st_stage *stage;
    const md_cg_row_plan *plan;
    int32_t pass, lane;
    pass_work *work;
    bool over_lanes; /* what is the same along the axis is done once a row, not here */
} counter;

static const md_st_stage *stage_of(const md_fa_target *target)
{
    return &target->program->stage[target->stage];
}

static bool is_transcendental(md_fx_op op)
{
    return (op >= MD_FX_EXP && op <= MD_FX_EXP2) || (op >= MD_FX_SIN && op <= MD_FX_SILU) ||
           (op >= MD_FX_GELU && op <= MD_FX_SOFTPLUS) || op == MD_FX_POW;
}

static bool is_vector(const counter *c, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    int64_t coef[MD_MAX_RANK] = {0};
    if (!md_st_step(coef, c->target->program, tensor, subscript, c->lane))
        return false;
    for (int32_t i = 0; i < rank; i++)
        if (coef[i] != 0 && (i != rank - 1 || coef[i] != 1))
            return false;
    return true;
}

static void count_node(counter *c, const md_fx_node *n)
{
    pass_work *w = c->work;
    if (n->kind == MD_FX_LOAD) {
        w->loads += 1;
        w->loaded_bytes += (double)md_dtype_size(c->target->program->formula->tensor[n->id].dtype);
        w->scattered += !is_vector(c, n->id, n->n_args, n->arg);
    }
    w->transcendental += n->kind == MD_FX_OP && is_transcendental(n->op);
    w->operations += n->kind == MD_FX_OP && !is_transcendental(n->op) ? (n->op == MD_FX_DIV ? 4 : 1) : 0;
    w->operations += n->kind == MD_FX_CAST;
}

/* A value that an earlier pass kept costs a load. */
static bool is_kept(const counter *c, const md_fx_node *n)
{
    for (int32_t i = 0; i < c->plan->n_kept; i++) {
        const md_cg_kept *k = &c->plan->kept[i];
        if (k->first < c->pass && k->last >= c->pass && md_fx_equal(c->target->program->formula, k->node, n))
            return true;
    }
    return false;
}

static void count_value(counter *c, const md_fx_node *n)
{
    if (!md_fx_uses_index(n, c->stage->axis) || n->kind == MD_FX_INDEX)
        return;
    if (is_kept(c, n)) {
        c->work->loads += 1;
        c->work->loaded_bytes += n->type == MD_F64 ? 8 : 4;
        return;
    }
    count_node(c, n);
    for (int32_t i = 0; i < n->n_args; i++)
        count_value(c, n->arg[i]);
}

static void count_pass(counter *c)
{
    const md_st_stage *st = c->stage;
    *c->work = (pass_work){0};
    for (int32_t i = 0; i < st->row.n_reductions; i++) {
        const md_st_reduction *r = &st->row.reduction[i];
        if (r->level != c->pass)
            continue;
        count_value(c, r->body);
        c->work->operations += r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN ? 4 : r->op >= MD_FX_R_ARGMAX && r->op <= MD_FX_R_ARGMIN ? 12 : 1;
    }
    for (int32_t i = 0; c->pass == st->row.n_levels && i < st->n_stores; i++) {
        const md_st_store *s = &st->store[i];
        if (s->per_row)
            continue;
        count_value(c, s->value);
        c->work->stores += 1;
        c->work->stored_bytes += (double)md_dtype_size(c->target->program->formula->tensor[s->tensor].dtype);
        c->work->scattered += !is_vector(c, s->tensor, s->n_subscripts, s->subscript);
    }
}

static double stored_bytes(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = stage_of(target);
    double sum = 0, rows = (double)md_st_points(target->program, st->n_outer, st->outer, size);
    double n = (double)md_st_size(target->program, st->axis, size);
    for (int32_t i = 0; i < st->n_stores; i++)
        sum += rows * (st->store[i].per_row ? 1 : n) * (double)md_dtype_size(target->program->formula->tensor[st->store[i].tensor].dtype);
    return sum;
}

bool md_fa_row_can_stream(const md_fa_target *target, const int64_t *size)
{
    return stage_of(target)->row.has_elements && stored_bytes(target, size) >= 2.0 * (double)target->facts->l2_bytes;
}

/* Bytes of one unit of work (a row, a tile of columns) that passes after the first want again. */
static double unit_bytes(const pass_work *pass, int32_t n_passes, double points)
{
    double most = 0;
    for (int32_t i = 0; i < n_passes; i++)
        most = fmax(most, pass[i].loaded_bytes + pass[i].stored_bytes);
    return most * points;
}

/* Passes after the first read again: from the first cache for nothing, from the second one, or from memory. */
static void add_rereads(md_fa_features *out, const md_fa_target *target, double bytes, double unit)
{
    const md_dev_facts *f = target->facts;
    if (unit > 0.7 * (double)f->l2_bytes)
        out->memory_bytes += bytes;
    else if (unit > 0.7 * (double)f->l1_bytes)
        out->cache_bytes += bytes;
}

static double cycles_of(const pass_work *w, double rows, double n, const md_fa_row *row, const md_dev_facts *facts)
{
    double lanes = md_cg_width(facts), accesses = w->loads + w->stores;
    double vectors = row->is_column ? n / lanes : ceil(n / lanes);
    bool has_tail = !row->is_column && n - floor(n / lanes) * lanes > 0;
    double cycles = rows * vectors * (1.5 + accesses + w->operations);
    cycles += rows * n * (row->is_strided ? 1.5 * accesses : 1.2 * w->scattered);
    return cycles + rows * (row->is_column ? 0 : 30 + (has_tail ? 14 * accesses : 0)); /* folding the lanes, starting the loop */
}

void md_fa_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_row *row, const int64_t *size)
{
    const md_st_stage *st = stage_of(target);
    md_cg_row_options options = {.program = target->program, .stage = target->stage, .is_column = row->is_column,
                                 .keep_points = row->keeps ? row->capacity : 0};
    md_cg_row_plan plan;
    pass_work pass[MD_ST_MAX_REDUCTIONS + 1];
    md_kn_plan_geometry geometry;
    double flops = 0, bytes = 0, cycles = 0;
    double rows = (double)md_st_points(target->program, st->n_outer, st->outer, size), n = (double)md_st_size(target->program, st->axis, size);
    int32_t n_passes = st->row.n_levels + st->row.has_elements;
    bool is_online = row->merges && st->row.is_online && st->row.n_levels > 1;
    md_cg_row_plan_make(&plan, &options);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    *out = (md_fa_features){.ops_rate = 1, .launches = 1};
    out->memory_bytes = bytes + (row->is_streaming ? 0 : 0.6 * stored_bytes(target, size)); /* a line is read before it is written */
    for (int32_t i = 0; i < n_passes; i++) {
        counter c = {.target = target, .stage = st, .plan = &plan, .pass = i, .lane = md_cg_row_lane(&options), .work = &pass[i]};
        count_pass(&c);
        cycles += cycles_of(&pass[i], rows, n, row, target->facts);
        out->transcendental += rows * n * pass[i].transcendental;
    }
    double width = row->is_column ? (row->tile > 0 ? row->tile : 2) * md_cg_width(target->facts) : 1;
    for (int32_t i = 1; i < n_passes; i++) {
        bool is_near = is_online && i < st->row.n_levels; /* within a chunk */
        add_rereads(out, target, rows * n * pass[i].loaded_bytes, is_near ? row->chunk * pass[i].loaded_bytes : unit_bytes(pass, n_passes, n * width));
    }
    if (is_online)
        cycles += rows * ceil(n / row->chunk) * 60 * st->row.n_reductions;
    out->ops = cycles * md_fa_host_ops_per_cycle(target->facts);
    out->serial_us = row->is_streaming ? 0.3 : 0;
    md_fa_row_geometry(&geometry, target, row, size);
    out->parallel = md_fa_host_parallel(ceil((double)geometry.launch[0].blocks / (double)geometry.launch[0].grain), target->facts);
}
