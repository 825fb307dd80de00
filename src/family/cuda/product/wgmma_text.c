/* Prints the wgmma instruction of Hopper. Its text depends on the number of columns. */
#include "family/cuda/product/wgmma_text.h"

#include "family/cuda/product/gemm.h"

#include <inttypes.h>

void md_fa_wgmma_print_instruction(md_strbuf *out, const md_cg_product *p, int32_t columns)
{
    const md_dtype dtype = md_fa_cuda_map_type(p);
    const char *type = dtype == MD_BF16 ? "bf16" : dtype == MD_F16 ? "f16" : "tf32";
    const int32_t n = columns / 2, depth = dtype == MD_F32 ? 8 : 16;
    md_strbuf_printf(out,
                     "static __device__ __forceinline__ void md_wgmma(float (&d)[%" PRId32
                     "], unsigned long long a, unsigned long long b)\n{\n    asm "
                     "volatile(\"wgmma.mma_async.sync.aligned.m64n%" PRId32 "k%" PRId32 ".f32.%s.%s {",
                     n, columns, depth, type, type);
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s%%%" PRId32, i ? ", " : "", i);
    md_strbuf_printf(out, "}, %%%" PRId32 ", %%%" PRId32 ", 1, 1, 1", n, n + 1);
    if (dtype != MD_F32)
        md_strbuf_printf(out, ", %d, %d", md_cg_product_along(p, MD_CG_A) == MD_CG_ALONG_ROWS,
                         md_cg_product_along(p, MD_CG_B) == MD_CG_ALONG_ROWS);
    md_strbuf_add(out, ";\"\n        : ");
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s\"+f\"(d[%" PRId32 "])", i ? ", " : "", i);
    md_strbuf_add(out, "\n        : \"l\"(a), \"l\"(b));\n}\n");
}
