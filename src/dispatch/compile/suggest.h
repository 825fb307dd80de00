/* Which hints suit a service: the set of a given size with the least expected regret on the shapes that it met. By the
 * model alone: nothing is built or measured. */
#ifndef MD_DISPATCH_COMPILE_SUGGEST_H
#define MD_DISPATCH_COMPILE_SUGGEST_H

#include "dispatch/compile/compile.h"

typedef struct md_ds_suggest_options {
    /* policy.select DISTANCE: the nearest hint's best serves, else the best of all hints; `hints` are those of today,
     * to compare with */
    md_ds_compile_options compile;
    const md_met_shape *shape; /* sizes are not NULL */
    int32_t n_shapes;
    int32_t n_hints; /* at most this many; 1 .. MD_DS_MAX_HINTS */
} md_ds_suggest_options;

/* Regret: time over that of the best config of the whole space for that very shape, minus 1; both by the model.
 * Mean: by weight. */
typedef struct md_ds_regret {
    int32_t n_hints;
    double mean, worst;
} md_ds_regret;

typedef struct md_ds_suggestion {
    int32_t n_shapes; /* how many points all shapes became */
    md_ds_regret suggested, today;
} md_ds_suggestion;

/** Adds the suggested hints to `text`, in the language of MD_HINTS. INVALID_ARGUMENT for sizes that the formula does
 * not have or that are missing. */
md_status md_ds_suggest(md_strbuf *text, md_ds_suggestion *out, const md_dev_facts *facts, const char *formula,
                        const md_ds_suggest_options *options);

#endif
