/* Plans from picks, and where their memory lies. */
#ifndef MD_DISPATCH_SELECT_PLAN_H
#define MD_DISPATCH_SELECT_PLAN_H

#include "dispatch/op.h"

#include <md/md.h>

/* ---- place.c */

/* Where pieces of memory with lives lie in one arena: first fit, the largest first. */

typedef struct md_ds_piece {
    int32_t first, last; /* steps of its life, inclusive */
    size_t n_bytes; /* a multiple of the alignment */
    size_t offset; /* out */
} md_ds_piece;

/** Places pieces [n_placed, n) so that no two of [0, n) that live at the same time overlap; [0, n_placed) stay. *end:
 * bytes of the arena; SIZE_MAX if they exceed 63 bits. OUT_OF_MEMORY if the host's memory is short. */
md_status md_ds_place_pieces(size_t *end, md_ds_piece *piece, int32_t n_placed, int32_t n);

/* ---- plan.c */

/* Builds plans from picks: geometry of each stage, and where temporaries and workspace lie. */

/** A zeroed plan; free() frees it. NULL if memory is short. */
md_ds_plan *md_ds_plan_create(const md_ds_op *op);
/** Computes geometry, memory and modelled time from the picks of all stages. INVALID_ARGUMENT if the memory would
 * exceed 2^63 bytes. */
md_status md_ds_plan_finish(md_ds_plan *plan, const md_ds_op *op, const md_kn_shape *shape);
/** A copy in which one stage has another pick, whose variant is ready: of a chain's stage it serves instead of the
 * parts, and MD_DS_BY_PARTS lets these serve. The caller frees it. */
md_status md_ds_plan_with(md_ds_plan **out, const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick);

#endif
