/* Which variants of a pool can serve a shape. */
#ifndef MD_DISPATCH_SELECT_FIT_H
#define MD_DISPATCH_SELECT_FIT_H

#include "dispatch/pool/pool.h"

/* What a variant is chosen for. */
typedef struct md_ds_query {
    const md_kn_shape *shape;
    const int64_t *select_sizes; /* sizes to choose by, by dim id */
    const md_kn_call *call; /* data for MD_SELECT_MEASURE; NULL: the model chooses */
    const md_digest128 *key; /* of the shape, to find a stored pick (kept.h); NULL: none is looked for */
    bool with_unbuilt; /* variants that are being built, or whose library is not loaded, count as ready */
    bool may_load; /* libraries may load what they need */
    bool without_unasked; /* not the variants of libraries that were not asked, or have not answered */
    bool only_deferred; /* only variants whose library's kernel waits until a load pays */
    bool loads; /* the caller loads what libraries need: they count as ready unless that failed before */
    uint64_t numeric_class; /* of this class only; 0: any */
} md_ds_query;

/** NULL if variant i can serve the shape, else why not ("longer than it was compiled for"). Libraries load what they
 * need. */
const char *md_ds_misfit(const md_ds_pool *c, int32_t i, const md_kn_shape *shape);
/** The same, but libraries load nothing: NULL if calls may pick the variant. */
const char *md_ds_reject_reason(const md_ds_pool *c, int32_t i, const md_kn_shape *shape);
/** True if variant i can serve what the query asks for. */
bool md_ds_fits(const md_ds_pool *c, int32_t i, const md_ds_query *query);
/** The same of the first n variants. Cheaper than one by one: many variants have the same envelope. */
void md_ds_fit_all(bool *fits, const md_ds_pool *c, int32_t n, const md_ds_query *query);

#endif
