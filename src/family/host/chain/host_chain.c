/* The texts of the host's chains. */
#include "family/host/chain/host_chain.h"

#include <inttypes.h>

int64_t md_fa_host_chain_height(const md_fa_target *target)
{
    const int64_t lanes = md_cg_width(target->facts);
    return lanes == 16 ? 12 : lanes == 8 ? 6 : 4;
}

md_status md_fa_host_chain_emit(md_kn_source *out, const md_fa_target *target, int32_t n_launches,
                                const char *template_name, const md_fa_host_chain_fields *fields)
{
    static const md_kn_param extra[] = {{.kind = MD_KN_BLOCKS}, {.kind = MD_KN_WORKSPACE}};
    md_status status = MD_OK;
    *out = (md_kn_source){.n_launches = n_launches};
    for (int32_t i = 0; i < n_launches && status == MD_OK; i++) {
        md_strbuf defines = {0};
        md_strbuf_printf(&defines,
                         "#define MD_VL %" PRId32 "\n#define MD_ROWS %" PRId32 "\n#define MD_KEYS %" PRId32
                         "\n#define MD_SPLIT %" PRId32 "\n#define MD_PHASE %" PRId32 "\n#define MD_HEIGHT %" PRId64
                         "\n#define MD_USE_EXP 1\n",
                         md_cg_width(target->facts), fields->rows, fields->keys, fields->split, i + 1,
                         md_fa_host_chain_height(target));
        status = md_fa_chain_emit(&out->launch[i], target, extra, 2, template_name, &defines);
    }
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
