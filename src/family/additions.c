/* Counts the terms of a stage's sums, and tells which of them are added up in order. */
#include "family/additions.h"

#include "base/dtype.h"
#include "base/number/sum.h"
#include "expr/node.h"

typedef struct counter {
    const md_st_program *program;
    const int64_t *size;
    double terms; /* of loops inside expressions: a sum inside a sum has the terms of both */
} counter;

static bool adds(md_fx_op op)
{
    return op == MD_FX_R_SUM || op == MD_FX_R_PROD || op == MD_FX_R_MEAN || op == MD_FX_R_VAR;
}

static bool count_loop(void *user, const md_fx_node *node)
{
    counter *c = user;
    if ((node->kind == MD_FX_REDUCE && adds(node->op)) || node->kind == MD_FX_SCAN)
        for (int32_t i = 0; i < node->n_bound; i++)
            c->terms *= fmax(1.0, (double)md_st_size(c->program, node->bound[i], c->size));
    return true;
}

static double loops_of(const md_st_program *program, const md_st_stage *s, const int64_t *size)
{
    counter c = {program, size, 1.0};
    for (int32_t i = 0; i < s->n_stores; i++)
        (void)md_fx_visit(s->store[i].value, count_loop, &c);
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        (void)md_fx_visit(s->row.reduction[i].body, count_loop, &c);
    if (s->kind == MD_ST_SCAN)
        (void)md_fx_visit(s->scan.body, count_loop, &c);
    return c.terms;
}

/* Terms that meet in an element by the stage's kind. */
static double own_terms(const md_st_program *program, const md_st_stage *s, const int64_t *size)
{
    if (s->kind == MD_ST_CHAIN) {
        md_st_chain_sizes chain;
        md_st_chain_measure(&chain, program, (int32_t)(s - program->stage), size);
        return (double)(s->chain->pairs ? MD_MAX(chain.keys, chain.rows) : chain.keys) + (double)chain.depth;
    }
    if (s->kind == MD_ST_PRODUCT)
        return (double)md_st_points(program, s->product.n_k, s->product.k, size);
    bool has_sum = s->kind == MD_ST_SCAN;
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        has_sum |= adds(s->row.reduction[i].op);
    return has_sum ? (double)md_st_size(program, s->axis, size) : 1.0;
}

/* Updates of an element by other elements. */
static double updates_of(const md_st_program *program, const md_st_stage *s, const int64_t *size)
{
    const double along = s->axis >= 0 ? (double)md_st_size(program, s->axis, size) : 1.0;
    return s->has_duplicates ? along * (double)md_st_points(program, s->n_outer, s->outer, size) : 1.0;
}

/* Sums without a second level: products on a GPU, scans of f64. */
static bool is_in_order(const md_fa_target *target, const md_st_stage *s)
{
    if (s->kind == MD_ST_SCAN)
        return s->scan.type == MD_F64 || md_fx_is_recurrence(s->scan.op);
    return target->facts->kind != MD_DEV_HOST && s->kind == MD_ST_PRODUCT;
}

double md_fa_additions(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *s = &target->program->stage[target->stage];
    const double terms = own_terms(target->program, s, size) * loops_of(target->program, s, size);
    const double updates = updates_of(target->program, s, size);
    const double of_sums = is_in_order(target, s) ? terms : md_sum_additions(terms);
    return (terms > 1.0 ? of_sums : 0.0) + (updates > 1.0 ? updates : 0.0);
}

static bool note_rounding(void *user, const md_fx_node *node)
{
    double *most = user;
    if (node->kind == MD_FX_CAST && (node->to == MD_BF16 || node->to == MD_F16))
        *most = fmax(*most, md_dtype_moved_roundoff(node->to));
    return true;
}

double md_fa_moved_rounding(const md_fa_target *target)
{
    const md_st_stage *s = md_fa_stage(target);
    double most = 0.0;
    if (s->kind != MD_ST_CHAIN)
        return 0.0;
    (void)md_fx_visit(s->chain->weight, note_rounding, &most);
    for (int32_t i = 0; s->chain->pairs && i < s->chain->pairs->n_sums; i++)
        (void)md_fx_visit(s->chain->pairs->sum[i].weight, note_rounding, &most);
    for (int32_t i = 0; i < s->chain->n_terms; i++)
        (void)md_fx_visit(s->chain->term[i], note_rounding, &most);
    return most;
}

double md_fa_allowed_error(md_dtype dtype, double additions)
{
    static const struct {
        md_dtype dtype;
        double functions;
    } row[] = {{MD_F64, 1e-10}, {MD_F32, 1e-4}, {MD_BF16, 0.02}, {MD_F16, 0.004}};
    double allowed = 3.0 * md_dtype_roundoff(dtype);
    for (size_t i = 0; i < MD_COUNT(row); i++)
        allowed = row[i].dtype == dtype ? row[i].functions : allowed;
    return md_dtype_is_real(dtype) ? allowed + additions * md_dtype_roundoff(dtype == MD_F64 ? MD_F64 : MD_F32) : 0.0;
}
