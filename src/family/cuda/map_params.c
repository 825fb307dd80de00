/* Lists of parameters with tensor maps. */
#include "base/status.h"
#include "codegen/codegen.h"
#include "family/cuda/cuda.h"

#include <string.h>

enum { MOST_OTHERS = 10 }; /* workspace and padding */

md_status md_fa_cuda_map_params(md_kn_launch_source *out, const md_fa_target *target, int32_t n_maps,
                                const md_kn_map *map, md_fa_cuda_more_params more)
{
    const int32_t counters = more.counters;
    const int32_t words = n_maps * MD_KN_MAP_WORDS;
    md_kn_param list[MD_KN_MAX_PARAMS];
    int32_t n = md_cg_params(list, target->program, target->stage);
    if (n < 0 || words + n + MOST_OTHERS + (counters > 0) > MD_KN_MAX_PARAMS)
        return md_fail(MD_UNSUPPORTED, "the stage has more tensors and sizes than a kernel takes parameters");
    for (int32_t i = 0; i < words; i++)
        out->param[i] =
            (md_kn_param){.kind = MD_KN_MAP, .a = (uint8_t)(i / MD_KN_MAP_WORDS), .b = (uint8_t)(i % MD_KN_MAP_WORDS)};
    memcpy(out->param + words, list, (size_t)n * sizeof *list);
    n += words;
    out->param[n++] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    if (counters > 0)
        out->param[n++] = (md_kn_param){.kind = MD_KN_COUNTERS, .b = (uint8_t)counters};
    if (more.packed)
        out->param[n++] = (md_kn_param){.kind = MD_KN_PACKED};
    for (int32_t i = 0; n_maps > 0 && n % 8 != 0; i++)
        out->param[n++] = (md_kn_param){.kind = MD_KN_PAD, .a = (uint8_t)i};
    out->n_params = n;
    out->n_maps = n_maps;
    for (int32_t i = 0; i < n_maps; i++)
        out->map[i] = map[i];
    return MD_OK;
}
