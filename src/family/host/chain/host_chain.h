/* What the host's families of chains share. */
#ifndef MD_FAMILY_HOST_CHAIN_HOST_CHAIN_H
#define MD_FAMILY_HOST_CHAIN_HOST_CHAIN_H

#include "family/chain.h"

/* The fields that kernels get as MD_ROWS, MD_KEYS, MD_SPLIT. */
typedef struct md_fa_host_chain_fields {
    int32_t rows, keys, split;
} md_fa_host_chain_fields;

/** n up to whole units. */
static inline int64_t md_fa_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/** Rows of a panel: MD_HEIGHT. */
int64_t md_fa_host_chain_height(const md_fa_target *target);
/** Launches from one template: MD_PHASE is the number of each, from 1. */
md_status md_fa_host_chain_emit(md_kn_source *out, const md_fa_target *target, int32_t n_launches,
                                const char *template_name, const md_fa_host_chain_fields *fields);

#endif
