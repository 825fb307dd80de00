/* Splits and launches of chains of few rows. */
#include "family/cuda/chain/few_rows.h"
#include "family/cuda/cuda.h"

enum { MAIL_ROOM = 16 }; /* places that chain_meet.h has beyond those of a block's rows */

int64_t md_fa_few_rows_mail(int32_t rows, int32_t width)
{
    return (int64_t)(rows * width / 4 + MAIL_ROOM) * 24 + 8;
}

int64_t md_fa_few_rows_splits(const md_fa_target *target, const md_fa_chain *sized, const md_fa_few_rows *few)
{
    const int64_t items = MD_MAX(md_fa_cuda_chain_tiles(sized, few->rows), 1),
                  blocks = MD_MAX(target->facts->threads, 1) * (int64_t)few->resident;
    if (few->meet > 0)
        return few->meet;
    if (few->length > 0)
        return MD_MAX((sized->keys + few->length - 1) / few->length, 1);
    if (items > MD_FA_CHAIN_TICKETS || 2 * items > blocks)
        return 1;
    return MD_MAX(MD_MIN(blocks / items, (sized->keys + few->unit - 1) / few->unit), 1);
}

void md_fa_few_rows_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_chain *sized,
                             const md_fa_few_rows *few)
{
    const int64_t items = md_fa_cuda_chain_tiles(sized, few->rows), splits = md_fa_few_rows_splits(target, sized, few);
    md_kn_geometry *g = &out->launch[0];
    *g = md_fa_cuda_chain_grid(splits, items, few->threads);
    g->scratch_bytes = few->shared;
    g->overlaps = true;
    g->cluster = few->meet > 0 ? (int32_t)splits : 1;
    if (splits > 1 && few->meet == 0)
        out->workspace_bytes = items * splits * few->part * 4;
}
