/* Family gemm_packed: gemm whose operand B is constant, and was packed once (kernels/host/gemm_pack.c). Only for ops
 * with option `constant`. `vecs` is the packed form: variants of one value share it. */
#include "base/dtype.h"
#include "family/host/product/region.h"

/* True if packed columns take no more memory than the loads: narrower weights are faster widened anew (measured). */
static bool is_wide(const md_cg_product *p)
{
    for (int32_t o = MD_CG_B; o <= p->n_products; o++) {
        const md_fx_node *load = md_cg_product_memory(p, o);
        const int32_t values = p->is_paired ? 2 : 1; /* of an accumulator */
        if (load && values * (int32_t)md_dtype_size(md_cg_product_dtype(p, load)) < md_cg_product_acc_bytes(p))
            return false;
    }
    return true;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_host_gemm_spec *s = out;
    if (!target->constants || !md_fa_host_gemm_spec_of(s, target, config) || !is_wide(&s->p))
        return false;
    s->packs = md_fa_product_constants(target, &s->p);
    return s->packs != 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_host_gemm_spec s;
    (void)size;
    return spec_of(&s, target, config) && md_fa_host_gemm_is_legal(target, &s);
}

const md_fa_family md_fa_host_gemm_packed = {
    .name = "gemm_packed",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .n_fields = 4,
    .field = {{"rows", 12, 4, {12, 8, 6, 4}},
              {"vecs", 2, 1, {2, 1}, 1},
              {"depth", 256, 2, {256, 512}},
              {"block", 480, 3, {480, 240, 120}}},
    .kind = &md_fa_host_gemm_kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = md_fa_host_gemm_class,
};
