/* The measured search, and estimates of the model that are stored. */
#ifndef MD_TUNE_SEARCH_SEARCH_H
#define MD_TUNE_SEARCH_SEARCH_H

#include "tune/job/job.h"
#include "tune/wisdom/wisdom.h"

/* ---- estimates.c */

/* Answers of the model for a stage, kept in the store: on a GPU the model takes tenths of a second for a stage's pool.
 * Answers of a library built from other sources are not found. Not thread-safe: for filling one pool. */

typedef struct md_tn_estimates md_tn_estimates; /* NULL: knows and keeps nothing */

/** Reads what is kept for the stage. *out NULL where there is no store, or nothing worth keeping. */
md_status md_tn_estimates_open(md_tn_estimates **out, md_tn_wisdom *wisdom, const md_fa_target *target);
/** Writes what is new, and frees. */
void md_tn_estimates_close(md_tn_estimates **estimates);

/** What md_tn_best gives at this shape, from memory or anew. */
md_status md_tn_estimate(md_fa_config *out, double *us, md_tn_estimates *estimates, const md_fa_target *target,
                         const md_fa_family *family, const md_kn_shape *shape);

/* ---- search.c */

/* The measured search: for every family of a stage its best config at each of some points, found by building and
 * timing some configs (or all), and kept in the wisdom. */

/** Fills the wisdom for all points; what is there already, complete and of this rigor or more, is not measured again.
 * Ends at about its budget with the best so far (incomplete records, from which a later job goes on). OUT_OF_MEMORY
 * and such of single points are counted, not returned. */
md_status md_tn_tune(const md_tn_job *job);

/* What a config is wanted for. */
typedef struct md_tn_query {
    const md_fa_target *target;
    const md_tn_point *point;
    const md_kn_shape *shape; /* of the tensors at the point: envelopes must hold for it */
    md_tune rigor; /* OFF: the family's default config where that is legal; else wisdom first, then the model */
    md_tn_wisdom *wisdom; /* NULL: none */
    md_tn_estimates *estimates; /* NULL: the model is asked anew */
} md_tn_query;

typedef struct md_tn_decision {
    md_fa_config config;
    double us;
    bool is_measured; /* `us` was measured on such a device with this driver and compiler; else it is an estimate */
} md_tn_decision;

/** The config of a family at a point, by what is known. NOT_FOUND where no config is legal. */
md_status md_tn_decide(md_tn_decision *out, const md_tn_query *query, const md_fa_family *family);

#endif
