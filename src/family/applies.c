/* Which stages families of one kind serve, on both devices. */
#include "family/applies.h"

bool md_fa_row_applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_ROW && !md_fa_stage(target)->has_duplicates;
}

bool md_fa_scan_applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_SCAN && !md_fa_stage(target)->has_duplicates;
}

bool md_fa_gather_applies(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return st->kind == MD_ST_POINTWISE && st->has_gather && !st->has_scatter;
}

bool md_fa_scatter_applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_POINTWISE && md_fa_stage(target)->has_scatter;
}

bool md_fa_scatter_has_row_index(const md_fa_target *target)
{
    const md_st_store *s = &md_fa_stage(target)->store[0];
    for (int32_t i = 0; i < s->n_subscripts; i++)
        if (md_fx_has_kind(s->subscript[i], MD_FX_LOAD))
            return !md_fx_uses_index(s->subscript[i], md_fa_stage(target)->axis);
    return false;
}
