/* A user's own kernels as families of one op. custom.c has the callbacks and checks, custom_text.c prints the text,
 * expr/whole evaluates grids and envelopes. */
#ifndef MD_FAMILY_CUSTOM_CUSTOM_H
#define MD_FAMILY_CUSTOM_CUSTOM_H

#include "expr/whole.h"
#include "family/family.h"

enum { MD_FA_MAX_CUSTOMS = 16, MD_FA_CUSTOM_RULES = 8 };

typedef struct md_fa_custom {
    md_fa_family family; /* named "custom/<name>" */
    char name[48], entry[64];
    char *source;
    char *field_name[MD_FA_MAX_FIELDS]; /* what family.field[].name points to */
    md_numeric numeric;
    double rate;
    bool is_strided;
    int32_t align; /* 0 or 16 */
    /* Rules: their inputs are the formula's n_dims sizes, then the tunables. */
    int32_t n_dims, n_grid, n_block, n_shared, n_envelope, n_legal;
    md_fx_whole *grid[3], *block[3], *shared[1], *envelope[MD_FA_CUSTOM_RULES], *legal[MD_FA_CUSTOM_RULES];
} md_fa_custom;

typedef struct md_fa_customs {
    md_digest128 digest; /* of all descriptions: sources, tunables, rules */
    int32_t n;
    const md_fa_family *list[MD_FA_MAX_CUSTOMS + 1]; /* the families for the device; NULL-terminated */
    md_fa_custom custom[MD_FA_MAX_CUSTOMS]; /* in the order of family.custom, which counts from 1 */
} md_fa_customs;

/** Copies and checks descriptions. The program must have one stage and outlive them. *out is NULL if none is for the
 * device. INVALID_ARGUMENT names the kernel and what is wrong with it; UNSUPPORTED if the formula has several
 * stages. */
md_status md_fa_customs_create(md_fa_customs **out, const md_custom *list, int32_t n, const md_st_program *program,
                               md_dev_kind device);
void md_fa_customs_destroy(md_fa_customs **customs);

/** The custom kernel that a config belongs to. */
static inline const md_fa_custom *md_fa_custom_of(const md_fa_target *target, const md_fa_config *config)
{
    return &target->customs->custom[config->custom - 1];
}

/** The inputs of rules: sizes by dim id (NULL: only rules that read none are evaluated), then values of tunables. */
static inline void md_fa_custom_inputs(int64_t out[MD_FX_MAX_DIMS + MD_FA_MAX_FIELDS], const md_fa_custom *custom,
                                       const int64_t *size, const int32_t *tunable)
{
    for (int32_t d = 0; size && d < custom->n_dims; d++)
        out[d] = size[d];
    for (int32_t i = 0; i < custom->family.n_fields; i++)
        out[custom->n_dims + i] = tunable[i];
}

/** Checks that tunables, sizes, tensors and scalars have different names as parameters: otherwise INVALID_ARGUMENT. */
md_status md_fa_custom_check_names(const md_fa_custom *custom, const md_st_program *program);
/** Prints the text of a variant. */
md_status md_fa_custom_emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config);

#endif
