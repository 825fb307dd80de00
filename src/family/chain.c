/* Chains of both devices: their sizes and work at a shape, and the text of a launch. */
#include "family/chain.h"

#include "base/status.h"
#include "expr/ops.h"
#include "family/cost.h"
#include "family/emit.h"

/* Operations of each score; in the program's place of epilogues, which chains have none of. */
typedef struct score_work {
    double ops, transcendental;
} score_work;

static bool count(void *user, const md_fx_node *n)
{
    score_work *w = user;
    bool is_heavy = n->kind == MD_FX_OP && md_fx_op_is_heavy(n->op);
    w->transcendental += is_heavy;
    w->ops += (n->kind == MD_FX_OP && !is_heavy) + (n->kind == MD_FX_CAST ? 4 : 0) + (n->kind == MD_FX_LOAD ? 2 : 0);
    return true;
}

static void make_work(void *out, const md_st_program *program, int32_t stage, const void *user)
{
    const md_st_chain *c = program->stage[stage].chain;
    score_work *w = out;
    (void)user;
    *w = (score_work){.ops = c->has_maximum ? 3 : 0, .transcendental = c->has_maximum};
    for (int32_t i = 0; c->pairs && i < c->pairs->n_sums; i++)
        (void)md_fx_visit(c->pairs->sum[i].weight, count, w);
    if (c->pairs)
        return;
    (void)md_fx_visit(c->open, count, w);
    for (int32_t i = 0; i < c->n_terms; i++) {
        w->ops += 1;
        (void)md_fx_visit(c->term[i], count, w);
    }
    (void)md_fx_visit(c->weight, count, w);
}

static double part_of(const md_fa_target *target, const int64_t *size)
{
    md_fa_memo *memo = target->memo;
    if (!memo)
        return md_st_chain_part(target->program, target->stage, size);
    if (memo->chain_part < 0)
        memo->chain_part = md_st_chain_part(target->program, target->stage, size);
    return memo->chain_part;
}

bool md_fa_chain_measure(md_fa_chain *out, const md_fa_target *target, const int64_t *size)
{
    const md_st_program *program = target->program;
    md_st_chain_sizes n;
    score_work work;
    double flops = 0;
    *out = (md_fa_chain){0};
    if (!md_cg_chain_of(&out->c, program, target->stage, target->facts->kind) &&
        !md_cg_pairs_of(&out->c, program, target->stage, target->facts->kind))
        return false;
    md_st_know(&work, program, target->stage,
               &(md_st_fact){.which = MD_ST_KNOWN_EPILOGUE, .n_bytes = sizeof work, .make = make_work});
    md_st_chain_measure(&n, program, target->stage, size);
    out->batches = n.batches;
    out->rows = n.rows;
    out->keys = n.keys;
    out->depth = n.depth;
    out->columns = n.columns;
    out->part = part_of(target, size);
    out->ops = work.ops;
    out->transcendental = work.transcendental;
    md_fa_work(&flops, &out->bytes, target, size);
    return true;
}

md_status md_fa_chain_emit(md_kn_launch_source *out, const md_fa_target *target, const md_kn_param *extra,
                           int32_t n_extra, const char *template_name, md_strbuf *defines)
{
    md_cg_chain chain;
    md_strbuf expr = {0};
    md_status status = md_fa_begin_launch(out, target);
    const bool is_pairs = md_cg_pairs_of(&chain, target->program, target->stage, target->facts->kind);
    if (status == MD_OK && !is_pairs && !md_cg_chain_of(&chain, target->program, target->stage, target->facts->kind))
        status = md_fail(MD_INTERNAL, "the stage is no chain");
    for (int32_t i = 0; status == MD_OK && i < n_extra; i++)
        out->param[out->n_params++] = extra[i];
    if (status == MD_OK)
        status = (!is_pairs ? md_cg_chain_print
                  : target->facts->kind == MD_DEV_CUDA
                      ? md_cg_pairs_print_cuda
                      : md_cg_pairs_print)(defines, &expr, &chain, out->param, out->n_params);
    return md_fa_end_launch(status, out, target->facts->kind, template_name, defines, &expr);
}
