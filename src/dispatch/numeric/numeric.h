/* Numeric policies. Under `deterministic` and `batch_invariant` every shape has one numeric class: that of the first
 * representative that fits it, of those listed at the nearest probe. Probes are a few fixed points of the sizes.
 * Probes, lists and representatives follow from the formula and the device alone: not from hints, threads, measured
 * rates or the shapes that came before. */
#ifndef MD_DISPATCH_NUMERIC_NUMERIC_H
#define MD_DISPATCH_NUMERIC_NUMERIC_H

#include "build/build.h"
#include "dispatch/policy.h"
#include "dispatch/space/space.h"

enum { MD_DS_MAX_PROBES = 64, MD_DS_MAX_LEVELS = 12, MD_DS_MAX_REPRESENTATIVES = 24, MD_DS_PROBE_REPRESENTATIVES = 4 };

/* The config that stands for a class. Its variant is in the pool from the start. */
typedef struct md_ds_representative {
    uint64_t id; /* of the class */
    const md_fa_family *family;
    md_fa_config config;
    md_kn_envelope envelope;
    md_bd_variant *variant; /* NULL until it is in the pool */
} md_ds_representative;

typedef struct md_ds_probe {
    double at[MD_DS_MAX_DYNAMIC]; /* log2 of the dims that tell probes apart, parallel to `dim` below */
    int32_t n, representative[MD_DS_PROBE_REPRESENTATIVES]; /* the first that fits serves */
} md_ds_probe;

typedef struct md_ds_numeric {
    /* dims in which probes differ; under batch_invariant only those that reductions run over */
    int32_t n_dims, dim[MD_DS_MAX_DYNAMIC];
    int32_t n_probes, n_representatives;
    md_ds_probe probe[MD_DS_MAX_PROBES];
    md_ds_representative representative[MD_DS_MAX_REPRESENTATIVES];
} md_ds_numeric;

/** Lays out probes and representatives for a stage whose policy is not `fast`. */
md_status md_ds_numeric_create(md_ds_numeric **out, const md_fa_target *target, const md_ds_space *space,
                               const md_ds_policy *policy);

/** The class that serves a shape, of a representative that is not known to have failed. MD_DS_NO_CLASS, which no
 * variant has, where there is none; 0 without a numeric policy (NULL). */
#define MD_DS_NO_CLASS UINT64_C(2)
uint64_t md_ds_numeric_class(const md_ds_numeric *numeric, const md_kn_shape *shape);

/* ---- probes.c, for numeric.c */

/* Sizes of a dim at which classes are chosen. */
typedef struct md_ds_levels {
    int32_t dim, n;
    int64_t size[MD_DS_MAX_LEVELS];
} md_ds_levels;

/** The levels of every dynamic dim, in the order of the space. Says how many probes they make, and which dims tell them
 * apart. */
void md_ds_probes_lay_out(md_ds_levels level[MD_DS_MAX_DYNAMIC], md_ds_numeric *numeric, const md_fa_target *target,
                          const md_ds_space *space, md_numeric policy);
/** Where probe i lies among the levels, and the sizes that it is chosen by. Those are smaller where a level is so large
 * that no kernel would be launched for it. */
void md_ds_probe_place(int64_t size[MD_FX_MAX_DIMS], md_ds_numeric *numeric, int32_t i, const md_ds_levels *level,
                       const md_fa_target *target, const md_ds_space *space);

#endif
