/* The roofline of a stage and what keeps a variant from it, by the cost model. */
#include "stats/roof.h"

#include "base/json.h"
#include "codegen/row/range.h"

/* Bytes of an element of the wider operand of a product; of what is no plain load, those of f32. */
static int32_t operand_bytes(const md_st_program *program, const md_st_product *product)
{
    const md_fx_node *const operand[] = {product->a[0], product->b[0]};
    int32_t bits = 0;
    for (int32_t i = 0; i < MD_COUNT(operand); i++)
        bits =
            MD_MAX(bits, operand[i]->kind == MD_FX_LOAD ? md_dtype_bits(program->formula->tensor[operand[i]->id].dtype)
                                                        : md_dtype_bits(MD_F32));
    return MD_MAX(bits / 8, 1);
}

/* The part of a row that its condition leaves: on the host nothing else is computed (codegen/row/range.h). */
static double part_of_row(const md_fa_target *target, const int64_t *size)
{
    md_cg_range range;
    if (target->facts->kind != MD_DEV_HOST || md_fa_stage(target)->kind != MD_ST_ROW)
        return 1.0;
    md_cg_range_of(&range, target->program, target->stage, false);
    return md_cg_range_length(&range, target->program, target->stage, size) /
           (double)MD_MAX(md_st_size(target->program, md_fa_stage(target)->axis, size), 1);
}

md_tn_shortfall md_ss_shortfall(const md_ds_op *op, const md_ds_plan *plan, int32_t stage, const int64_t *size)
{
    const md_ds_pool *pool = &op->stage[stage];
    const md_st_stage *s = &op->program->stage[stage];
    md_fa_features features = {.ops_rate = 1.0, .parallel = 1.0, .launches = 1};
    md_tn_need need = {.is_product = s->kind == MD_ST_PRODUCT};
    const int32_t variant = plan->stage[stage].pick.variant;
    if (plan->stage[stage].is_idle || variant < 0)
        return (md_tn_shortfall){0};
    if (need.is_product)
        need.operand_bytes = operand_bytes(op->program, &s->product);
    md_st_work(&need.flops, &need.bytes, op->program, stage, size);
    need.flops *= part_of_row(&pool->target, size);
    md_fa_features_of(&features, pool->variant[variant]->family, &pool->target, &pool->variant[variant]->config, size);
    return md_tn_shortfall_of(pool->target.facts, &features, &need);
}

json_t *md_ss_roof_json(const md_tn_shortfall *x)
{
    return x->us > 0.0 ? json_pack("{s:o, s:s, s:o, s:s, s:o}", "us", md_json_real(x->roof_us), "limit",
                                   x->is_arithmetic ? "arithmetic" : "memory", "model_us", md_json_real(x->us),
                                   "reason", x->reason, "lost_us", md_json_real(x->lost_us))
                       : json_null();
}
