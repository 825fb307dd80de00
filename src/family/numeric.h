/* Numeric classes: which variants of a stage give the same bits, and what those bits depend on. A class follows from
 * the order in which a kernel adds, multiplies and compares. tests/dispatch/test_numeric_bits.c and
 * tests/cuda/test_numeric.c compare results of variants bit for bit. */
#ifndef MD_FAMILY_NUMERIC_H
#define MD_FAMILY_NUMERIC_H

#include "family/family.h"

enum { MD_FA_NUMERIC_NAME = MD_FA_NAME + 16 };

typedef struct md_fa_numeric {
    /* digest of the name, never 0. Variants of one stage and class give the same bits for the same values and sizes */
    uint64_t id;
    char name[MD_FA_NUMERIC_NAME]; /* "row/lanes64_keep0"; the variant's name if it has a class to itself */
    /* the same call gives the same bits: no atomics in arbitrary order, nothing that depends on timing */
    bool is_repeatable;
    /* the bits of an element depend neither on its row's position nor on sizes of dims that no reduction runs over; no
     * envelope limits such a dim */
    bool is_invariant;
} md_fa_numeric;

/** The class of a variant. */
void md_fa_numeric_of(md_fa_numeric *out, const md_fa_target *target, const md_fa_family *family,
                      const md_fa_config *config);

/* ---- Classes that families of both devices share, for md_fa_family.numeric. */
/** Elementwise stages: the same functions for vectors of any width. */
md_fa_class md_fa_class_sweep(const md_fa_target *target, const md_fa_config *config);
/** Plain loops: each sum in order, functions of single values. */
md_fa_class md_fa_class_nest(const md_fa_target *target, const md_fa_config *config);
/** Products on the host: K in order, one accumulator for each element, one rounding a step. */
md_fa_class md_fa_class_product(const md_fa_target *target, const md_fa_config *config);
/** True if the stage's rows can be merged from chunks that were reduced one by one. */
bool md_fa_is_online(const md_fa_target *target);

/** True if a numeric policy allows the class. */
static inline bool md_fa_numeric_allows(md_numeric policy, const md_fa_numeric *n)
{
    return policy == MD_NUMERIC_BATCH_INVARIANT ? n->is_repeatable && n->is_invariant
                                                : policy != MD_NUMERIC_DETERMINISTIC || n->is_repeatable;
}

#endif
