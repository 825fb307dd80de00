/* The cost of row programs on the host. Each pass is counted element by element; then come the times that do not
 * overlap. */
#include "family/host/cycles_fit.h"
#include "family/host/row/host_row_fit.h"
#include "family/host/row/row.h"

#include "base/dtype.h"
#include "codegen/row/range.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"

#include <math.h>

/* What one pass (a level, or the stores) does for each element of the axis. */
typedef struct pass_work {
    double slots; /* vector operations, of which a core issues two a cycle */
    double transcendental; /* elementary functions, in the model's unit */
    double loads, stores, scattered; /* memory accesses */
    double loaded_bytes; /* values kept by earlier passes included */
    double kept_bytes; /* kept for later passes */
} pass_work;

typedef struct counter {
    const md_fa_target *target;
    const md_st_stage *stage;
    const md_cg_on_chip *on_chip;
    int32_t pass, lane;
    bool is_bytes; /* lanes are */
    pass_work *work;
} counter;

/* The cost of a node in two parts: issue slots of half a cycle, and the model's unit of elementary functions. */
static void cost_of(double *slots, double *units, const counter *c, const md_fx_node *n)
{
    const md_fx_op_row *op = md_fx_op_info(n->op);
    bool is_wide = n->type == MD_F64 || (n->type == MD_I64 && !c->is_bytes);
    *units = op->units * (is_wide ? 8 : 1); /* f64 calls libm */
    *slots = op->slots * (is_wide ? 2 : 1);
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
    double slots = 0, units = 0;
    if (n->kind == MD_FX_LOAD) {
        const md_dtype dtype = c->target->program->formula->tensor[n->id].dtype;
        w->loads += 1;
        w->slots += md_fa_host_conversion(dtype, false); /* beside the addition */
        w->loaded_bytes += md_dtype_bytes(dtype);
        w->scattered += !is_vector(c, n->id, n->n_args, n->arg);
    }
    if (n->kind == MD_FX_OP)
        cost_of(&slots, &units, c, n);
    w->slots += n->kind == MD_FX_CAST ? 4 : slots;
    w->transcendental += units;
}

/* True if an earlier pass kept the value, which then costs a load. */
static bool is_kept(const counter *c, const md_fx_node *n)
{
    for (int32_t i = 0; i < c->on_chip->n_kept; i++) {
        const md_cg_on_chip_value *value = &c->on_chip->kept[i];
        if (value->first < c->pass && value->last >= c->pass &&
            md_fx_equal(c->target->program->formula, value->node, n))
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

static double reduction_slots(const counter *c, const md_st_reduction *r)
{
    bool is_wide = r->type == MD_F64 || r->type == MD_I64, is_arg = md_cg_is_arg(r->op);
    if (c->is_bytes)
        return r->op == MD_FX_R_SUM ? 3 : 1;
    return is_arg ? 10 * (r->body_type == MD_F32 ? 1 : 2)
                  : (r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN ? 5 : 1) * (is_wide ? 2 : 1);
}

static void count_pass(counter *c)
{
    const md_st_stage *st = c->stage;
    *c->work = (pass_work){0};
    for (int32_t i = 0; i < st->row.n_reductions; i++) {
        if (st->row.reduction[i].level != c->pass)
            continue;
        count_value(c, st->row.reduction[i].body);
        c->work->slots += reduction_slots(c, &st->row.reduction[i]);
    }
    for (int32_t i = 0; c->pass == st->row.n_levels && i < st->n_stores; i++) {
        const md_st_store *s = &st->store[i];
        if (s->per_row)
            continue;
        count_value(c, s->value);
        c->work->slots += 2 * md_fa_host_conversion(c->target->program->formula->tensor[s->tensor].dtype, true);
        c->work->stores += 1;
        c->work->scattered += !is_vector(c, s->tensor, s->n_subscripts, s->subscript);
    }
    for (int32_t i = 0; i < c->on_chip->n_kept; i++)
        if (c->on_chip->kept[i].first == c->pass)
            c->work->kept_bytes += c->on_chip->kept[i].node->type == MD_F64 ? 8 : 4;
}

/* True if nontemporal stores may pay at these sizes: the outputs exceed the L2 cache. */
static bool can_stream(const md_fa_target *target, const int64_t *size)
{
    return md_fa_stage(target)->row.has_elements && md_fa_host_can_stream(target, size);
}

bool md_fa_row_stores_pay(const md_fa_target *target, const int64_t *size, int32_t is_nontemporal, int32_t is_strided)
{
    return !is_nontemporal || (!is_strided && can_stream(target, size));
}

/* Cycles of a pass over all rows, without elementary functions. */
static double cycles_of(const pass_work *w, double rows, double n, const md_fa_row *row, double lanes)
{
    double accesses = w->loads + w->stores + (w->kept_bytes > 0);
    double vectors = row->is_column ? n / lanes : ceil(n / lanes);
    bool has_tail = !row->is_column && n > floor(n / lanes) * lanes;
    double cycles = rows * vectors * (1 + 0.5 * accesses + 0.5 * w->slots);
    cycles += rows * n * (row->is_strided ? STRIDED_CYCLES * accesses : SCATTERED_CYCLES * w->scattered);
    /* reducing the lanes, starting the loop */
    return cycles +
           rows * (row->is_column
                       ? 0
                       : ROW_CYCLES + (has_tail ? (lanes >= 16 ? TAIL_CYCLES : TAIL_ACCESS_CYCLES * accesses) : 0));
}

/* The launch that is being estimated. */
typedef struct estimate {
    const md_fa_target *target;
    const md_fa_row *row;
    md_fa_features *out;
    double rows, n; /* rows; elements of a row */
    double idle; /* columns: lanes that run over those that are wanted */
    bool is_online;
    pass_work pass[MD_ST_MAX_REDUCTIONS + 1];
    int32_t n_levels, n_passes;
    double lanes; /* of a vector */
} estimate;

/* Bytes that a pass reads again from the L1 cache if they fit: a row with its kept values and the next row, a chunk, or
 * a tile of columns. */
static double unit_bytes(const estimate *e, bool is_chunk)
{
    double loaded = 0, kept = 0, points = e->n;
    for (int32_t i = 0; i < e->n_passes; i++) {
        loaded = fmax(loaded, e->pass[i].loaded_bytes);
        kept += e->pass[i].kept_bytes;
    }
    if (e->row->is_column)
        points *= (e->row->tile > 0 ? e->row->tile : 16) * md_cg_width(e->target->facts);
    if (is_chunk)
        points = fmin(points, e->row->chunk);
    return points * (loaded * (e->row->prefetch ? 2 : 1) + kept);
}

static double us_of_cycles(const estimate *e, double cycles, double units)
{
    const md_dev_facts *f = e->target->facts;
    double ops = cycles * md_fa_host_ops_per_cycle(f) + units * 60,
           gflops = f->gflops > 0 ? f->gflops / f->threads : 50;
    return ops / (gflops * e->out->parallel) * 1e-3;
}

static double beyond_private_us(const estimate *e, double bytes)
{
    const md_dev_facts *f = e->target->facts;
    double far = fmax(bytes - 0.5 * (double)f->l2_bytes * e->out->parallel, 0);
    return far / (f->memory_gbps > 0 ? f->memory_gbps : 10) * 1e-3;
}

/* Adds the data that passes after the first read again: free from L1, else from L2 or memory. */
static void add_rereads(estimate *e)
{
    const md_dev_facts *f = e->target->facts;
    double points = e->rows * e->n, rate = (f->cache_gbps > 0 ? f->cache_gbps : 50) * e->out->parallel * 1e3;
    for (int32_t i = 1; i < e->n_passes; i++) {
        bool is_chunk = e->is_online && i < e->n_levels, is_level = i < e->n_levels;
        double bytes = points * (e->pass[i].loaded_bytes + 2 * e->pass[i].kept_bytes), unit = unit_bytes(e, is_chunk);
        if (unit > L2_PART * (double)f->l2_bytes) {
            e->out->memory_bytes += bytes;
        } else if (unit > (double)f->l1_bytes) {
            e->out->cache_bytes += bytes;
            e->out->serial_us += is_level && !e->row->is_column
                                     ? (UNHIDDEN_CACHE + (e->row->prefetch ? UNHIDDEN_FETCH : 0)) * bytes / rate
                                     : 0;
        }
    }
}

/* Without prefetch, memory is idle while the levels after the first compute. */
static void add_memory_idle_time(estimate *e, double bytes)
{
    double cycles = 0, units = 0;
    for (int32_t i = 1; i < e->n_levels; i++) {
        cycles += cycles_of(&e->pass[i], e->rows * e->idle, e->n, e->row, e->lanes);
        units += e->rows * e->n * e->pass[i].transcendental;
    }
    double computing = us_of_cycles(e, cycles, units), memory = beyond_private_us(e, bytes);
    if (!e->row->prefetch && !e->row->is_column)
        e->out->serial_us += UNHIDDEN_MEMORY * fmin(e->n_levels > 1 ? computing : IDLE_PART * memory, memory);
}

/* The factor by which columns slow memory down: they read rows in pieces, and pieces of one cache line cost more than
 * twice as much as long ones. */
static double column_factor(const estimate *e)
{
    double piece = (e->row->tile > 0 ? e->row->tile : 16) * (double)e->target->facts->vector_bytes / 64.0;
    return e->row->is_column ? 1 + PIECE_PART / (piece * piece) : 1;
}

/* Few columns leave lanes of their vectors idle. */
static double idle_of(const md_fa_target *target, const md_fa_row *row, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const double lanes = md_cg_width(target->facts);
    if (!row->is_column)
        return 1;
    const double columns = fmax(1, (double)md_st_size(target->program, st->outer[st->n_outer - 1], size));
    return ceil(columns / lanes) * lanes / columns;
}

/* A line is read into the cache before it is written. Nontemporal stores save that, but for the ends of rows that share
 * a line; a result that would have fitted the cache is then read from memory. */
static double lines_bytes(const md_fa_target *target, const estimate *e, double stored, const int64_t *size)
{
    enum { LINE = 64 };
    if (!e->row->is_streaming)
        return stored;
    if (!can_stream(target, size))
        return 2 * stored;
    return fmod(stored, LINE * fmax(e->rows, 1)) == 0 ? 0 : 2 * LINE * e->rows;
}

static void row_features(md_fa_features *out, const md_fa_target *target, const void *spec, const int64_t *size)
{
    const md_fa_row *row = spec;
    const md_st_stage *st = md_fa_stage(target);
    md_cg_range range;
    md_cg_range_of(&range, target->program, target->stage, row->is_column);
    const md_cg_bytes item = md_fa_row_bytes(target, row);
    md_cg_row_options options = {.program = target->program,
                                 .stage = target->stage,
                                 .is_column = row->is_column,
                                 .keep_points = row->keeps && range.n == 0 ? row->capacity : 0};
    estimate e = {.target = target,
                  .row = row,
                  .out = out,
                  .n_levels = st->row.n_levels,
                  .n_passes = st->row.n_levels + st->row.has_elements,
                  .lanes = md_cg_width(target->facts) * md_cg_lanes_per_32_bits(item)};
    md_cg_on_chip on_chip;
    md_kn_geometries geometry;
    double flops = 0, bytes = 0, cycles = 0, stored = md_fa_stored_bytes(target, size);
    e.rows = (double)md_st_points(target->program, st->n_outer, st->outer, size);
    e.n = md_fa_row_length(target, row, size);
    e.idle = idle_of(target, row, size);
    e.is_online = row->merges && st->row.is_online && st->row.n_levels > 1;
    md_cg_on_chip_make(&on_chip, &options);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    md_fa_row_geometry(&geometry, target, row, size);
    *out = (md_fa_features){.ops_rate = 1, .launches = 1};
    out->parallel =
        md_fa_host_parallel(ceil((double)geometry.launch[0].blocks / (double)geometry.launch[0].grain), target->facts);
    out->memory_bytes = (bytes + lines_bytes(target, &e, stored, size)) * column_factor(&e);
    for (int32_t i = 0; i < e.n_passes; i++) {
        counter c = {.target = target,
                     .stage = st,
                     .on_chip = &on_chip,
                     .pass = i,
                     .lane = md_cg_row_lane(&options),
                     .is_bytes = item != MD_CG_NO_BYTES,
                     .work = &e.pass[i]};
        count_pass(&c);
        cycles += cycles_of(&e.pass[i], e.rows * e.idle, e.n, row, e.lanes);
        out->transcendental += e.rows * e.n * e.pass[i].transcendental;
    }
    if (e.is_online)
        cycles += e.rows * (ROW_CYCLES + fmax(ceil(e.n / row->chunk) - 1, 0) * MERGE_CYCLES *
                                             st->row.n_reductions); /* merging chunks */
    out->ops = cycles * md_fa_host_ops_per_cycle(target->facts);
    out->serial_us = row->is_streaming
                         ? STREAMING_US
                         : (row->is_column ? UNHIDDEN_COLUMN_STORES : UNHIDDEN_STORES) * beyond_private_us(&e, stored);
    add_rereads(&e);
    add_memory_idle_time(&e, bytes);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_row_geometry(out, target, spec, shape->size);
}

const md_fa_kind md_fa_host_row_kind = {
    .envelope = md_fa_row_envelope, .features = row_features, .emit = md_fa_row_emit, .geometry = geometry};
