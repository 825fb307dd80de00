/* Counts the operations, loads and stores of a stage, and says what a host thread can do in a cycle. */
#include "family/cost.h"

#include "base/dtype.h"
#include "codegen/codegen.h"

#include <math.h>

typedef struct counter {
    md_fa_host_work *out;
    const md_st_program *program;
    int32_t lane;
} counter;

static bool is_transcendental(const md_fx_node *n)
{
    return n->kind == MD_FX_OP && md_fx_op_is_heavy(n->op);
}

static bool is_scattered(const counter *c, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    int64_t coef[MD_MAX_RANK] = {0};
    if (c->lane < 0)
        return false;
    if (!md_st_step(coef, c->program, tensor, subscript, c->lane))
        return true;
    for (int32_t i = 0; i < rank; i++)
        if (coef[i] != 0 && (i != rank - 1 || coef[i] != 1))
            return true;
    return false;
}

double md_fa_host_conversion(md_dtype dtype, bool is_store)
{
    const bool is_f8 = dtype == MD_F8E4M3 || dtype == MD_F8E5M2;
    return !is_f8 ? 0 : is_store ? 5 : 3;
}

static bool count(void *user, const md_fx_node *n)
{
    counter *c = user;
    if (n->kind == MD_FX_LOAD)
        c->out->operations += md_fa_host_conversion(c->program->formula->tensor[n->id].dtype, false);
    c->out->transcendental += is_transcendental(n);
    c->out->operations += (n->kind == MD_FX_OP && !is_transcendental(n)) || n->kind == MD_FX_CAST;
    c->out->loads += n->kind == MD_FX_LOAD;
    c->out->scattered += n->kind == MD_FX_LOAD && is_scattered(c, n->id, n->n_args, n->arg);
    if (n->kind == MD_FX_LOAD)
        c->out->widest_load = fmax(c->out->widest_load, md_dtype_bytes(c->program->formula->tensor[n->id].dtype));
    return true;
}

static void make_count(md_fa_host_work *out, const md_st_stage *stage, const md_st_program *program)
{
    counter c = {out, program, stage->axis};
    *out = (md_fa_host_work){.stores = stage->n_stores};
    md_cg_visit(stage, count, &c);
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *s = &stage->store[i];
        out->operations += md_fa_host_conversion(program->formula->tensor[s->tensor].dtype, true);
        out->scattered += is_scattered(&c, s->tensor, s->n_subscripts, s->subscript);
    }
}

static void make_known_count(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    (void)user;
    make_count(out, &program->stage[stage], program);
}

void md_fa_host_count(md_fa_host_work *out, const md_st_stage *stage, const md_st_program *program)
{
    const int32_t number = (int32_t)(stage - program->stage);
    if (stage >= program->stage && stage < program->stage + program->n_stages)
        md_st_know(out, program, number,
                   &(md_st_fact){.which = MD_ST_KNOWN_COUNT, .n_bytes = sizeof *out, .make = make_known_count});
    else
        make_count(out, stage, program); /* a changed copy of a stage, which has no number */
}

void md_fa_work(double *flops, double *bytes, const md_fa_target *target, const int64_t *size)
{
    md_fa_memo *memo = target->memo;
    if (memo && memo->has_work) {
        *flops = memo->flops;
        *bytes = memo->bytes;
        return;
    }
    md_st_work(flops, bytes, target->program, target->stage, size);
    if (memo) {
        memo->flops = *flops;
        memo->bytes = *bytes;
        memo->has_work = true;
    }
}

static void measure_product(md_fa_extent *out, const md_st_program *program, const md_st_product *p,
                            const int64_t *size)
{
    out->rows = (double)md_st_points(program, p->n_m, p->m, size);
    out->columns = (double)md_st_points(program, p->n_n, p->n, size);
    out->depth = (double)md_st_points(program, p->n_k, p->k, size);
    out->batch = (double)md_st_points(program, p->n_batch, p->batch, size);
}

const md_fa_extent *md_fa_extent_of(md_fa_extent *room, const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const md_st_program *program = target->program;
    md_fa_extent *e = target->memo ? &target->memo->extent : room;
    if (target->memo && target->memo->has_extent)
        return e;
    *e = (md_fa_extent){.batch = 1};
    if (st->kind == MD_ST_PRODUCT)
        measure_product(e, program, &st->product, size);
    else {
        e->rows = (double)md_st_points(program, st->n_outer, st->outer, size);
        e->columns = st->axis >= 0 ? (double)md_st_size(program, st->axis, size) : 1;
    }
    md_fa_work(&e->flops, &e->bytes, target, size);
    e->item = st->n_tensors > 0 ? md_dtype_bytes(program->formula->tensor[st->tensor[0]].dtype) : 1;
    if (target->memo)
        target->memo->has_extent = true;
    return e;
}

double md_fa_stored_bytes(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const double rows = (double)md_st_points(target->program, st->n_outer, st->outer, size),
                 n = st->axis >= 0 ? (double)md_st_size(target->program, st->axis, size) : 1;
    double sum = 0;
    for (int32_t i = 0; i < st->n_stores; i++)
        sum += rows * (st->store[i].per_row ? 1 : n) *
               md_dtype_bytes(target->program->formula->tensor[st->store[i].tensor].dtype);
    return sum;
}

bool md_fa_host_can_stream(const md_fa_target *target, const int64_t *size)
{
    const int32_t caches = MD_MIN(MD_MAX(target->facts->threads, 1), 2);
    return md_fa_stored_bytes(target, size) >= caches * (double)target->facts->l2_bytes;
}

int64_t md_fa_host_grain(int64_t blocks, int64_t points, const md_dev_facts *facts)
{
    enum { ALONE_POINTS = 8192, GRAIN_POINTS = 16384 };
    points = MD_MAX(points, 1);
    if (blocks <= ALONE_POINTS / points)
        return MD_MAX(blocks, 1);
    const int64_t most = blocks / (MD_MAX(facts->threads, 1) * 4);
    return MD_MAX(MD_MIN(GRAIN_POINTS / points, most), 1);
}

double md_fa_host_parallel(double blocks, const md_dev_facts *facts)
{
    double threads = facts->threads > 1 ? facts->threads : 1;
    if (blocks <= 1)
        return 1;
    return blocks / ceil(blocks / threads);
}

double md_fa_host_ops_per_cycle(const md_dev_facts *facts)
{
    return facts->vector_bytes / 4 * 4.0;
}

double md_fa_norm(double a, double b, double p)
{
    const double high = fmax(a, b), low = fmin(a, b), part = low > 0 ? pow(low / high, p) : 0;
    return part > 1e-9 ? high * pow(1 + part, 1 / p) : high;
}
