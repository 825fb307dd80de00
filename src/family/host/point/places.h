/* Loads whose places along the lanes are the same in all rows, though no vectors: X[i,clamp(j - 1, 0, n)], X[j // 2]. A
 * sweep works out once which vectors it reads for each vector of a row, and how their elements are arranged. */
#ifndef MD_FAMILY_HOST_POINT_PLACES_H
#define MD_FAMILY_HOST_POINT_PLACES_H

#include "codegen/codegen.h"
#include "family/family.h"

enum { MD_FA_MOST_PLACED = 8, MD_FA_PLACED_LANES = 1024, MD_FA_PLACED_BLOCK = 65536 };

typedef struct md_fa_placed {
    int32_t n_loads, n_values;
    const md_fx_node *load[MD_FA_MOST_PLACED], *value[MD_FA_MOST_PLACED]; /* values of the lanes' index alone */
    int32_t window[MD_FA_MOST_PLACED]; /* the load whose places along the lanes each has; set by md_fa_placed_make */
} md_fa_placed;

/** Finds them; false if there is no such load. */
bool md_fa_placed_find(md_fa_placed *out, const md_fa_target *target);
/** Prints struct md_places. */
void md_fa_placed_types(md_strbuf *out, const md_fa_target *target, const md_fa_placed *placed);
/** Prints what fills `places` in front of the rows. */
md_status md_fa_placed_make(md_strbuf *out, const md_fa_target *target, md_fa_placed *placed,
                            const md_cg_options *options);
/** After md_cg_begin and md_cg_hoist: prints the loads to the body, and makes them and the values known. */
void md_fa_placed_bind(md_strbuf *body, md_cg *cg, const md_fa_target *target, const md_fa_placed *placed);

#endif
