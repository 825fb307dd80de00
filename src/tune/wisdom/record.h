/* A record: what measuring found about one family of one stage at one point. */
#ifndef MD_TUNE_WISDOM_RECORD_H
#define MD_TUNE_WISDOM_RECORD_H

#include "base/hash.h"
#include "family/family.h"

/* The result of trying a config. */
typedef enum md_tn_verdict {
    MD_TN_TIMED,
    MD_TN_SLOW, /* given up early: `us` is a first look, or the budget it ran into */
    MD_TN_UNBUILT, /* did not compile or load */
    MD_TN_FAILED, /* did not launch, or gave no time (zero, NaN) */
    MD_TN_WRONG, /* its results were not those of the reference, or it wrote where it must not: quarantined */
    MD_TN_ENDLESS /* did not end, and was killed: quarantined */
} md_tn_verdict;
const char *md_tn_verdict_name(md_tn_verdict verdict);
bool md_tn_verdict_parse(md_tn_verdict *out, const char *name);

typedef struct md_tn_candidate {
    char name[MD_FA_NAME];
    md_tn_verdict verdict;
    double us, spread; /* median of kernel time, > 0 where timed; half of what lies between its quartiles, us */
    int32_t count; /* samples */
} md_tn_candidate;

/* One entry of the wisdom: the best config of a family at a point, and everything that was compared there. */
typedef struct md_tn_record {
    /* canonical: formula with dtypes and static sizes, stage, sizes of the point, tf32, class of alignment; md_tn_key.
     * Owned */
    char *key;
    char family[MD_FA_NAME], variant[MD_FA_NAME]; /* "row_looped", "row_looped/lanes32_vec4" */
    double us, spread; /* of the variant; ESTIMATE: by the model, spread 0, count 0 */
    int32_t count;
    md_tune rigor;
    bool is_complete; /* false: the budget ended it; a search of this rigor may go on from here */
    md_digest128 source; /* of the variant's text as it was measured (md_bd_variant_digest) */
    int64_t date; /* seconds since 1970, UTC; of records that beat each other the newer one stays */
    int32_t n_candidates;
    md_tn_candidate *candidate; /* owned; in order of trial */
} md_tn_record;

/** A deep copy; on failure *out is zeroed. */
md_status md_tn_record_copy(md_tn_record *out, const md_tn_record *record);
/** Frees what the record owns and zeroes it. */
void md_tn_record_finish(md_tn_record *record);
/** Adds a candidate, or replaces the one of that name. */
md_status md_tn_record_add(md_tn_record *record, const md_tn_candidate *candidate);
/** True if `a` may replace `b`: it is more rigorous, or as rigorous and complete where b is not, or of as many samples
 * or more. */
bool md_tn_record_beats(const md_tn_record *a, const md_tn_record *b);

/** The key of a stage at sizes (by dim id): one line, malloc'ed, the caller frees. `is_ragged`: rows and data lie at
 * no boundary. allows_tf32 is part of it only where a kernel can make use of that: GPU products of f32. */
md_status md_tn_key(char **out, const md_fa_target *target, const int64_t *size, bool is_ragged);
/** What the keys of a stage begin with, at any sizes. The caller frees. */
md_status md_tn_key_beginning(char **out, const md_fa_target *target);
/** The sizes (by dim id) that a key of the stage has. False if it is no key of it, or has another alignment's
 * class or options. */
bool md_tn_key_sizes(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target, const char *key);

#endif
