/* Fuzz target of the small texts: sizes, hints and weights are read or refused with a message, and what is read is
 * within its bounds.
 *
 * An input is three lines: sizes, hints, weights. Built as fuzz_op.c, with -Isrc. */
#include "base/status.h"
#include "dispatch/space/space.h"
#include "fuzz/text.h"

#include <math.h>

static md_status check_size(void *user, const char *name, int64_t lo, int64_t hi)
{
    const char *text = user;
    require(name[0] && lo >= 0 && lo <= hi, "a size", text);
    return MD_OK;
}

static void check_space(const md_ds_space *s, const char *text)
{
    char label[MD_DS_LABEL];
    int64_t size[MD_FX_MAX_DIMS];
    require(s->n >= 0 && s->n <= MD_DS_MAX_DYNAMIC && s->n_hints >= 1 && s->n_hints <= MD_DS_MAX_HINTS, "counts", text);
    for (int32_t h = 0; h < s->n_hints; h++) {
        for (int32_t d = 0; d < s->n; d++) {
            const md_fx_dim *dim = &s->formula->dim[s->dim[d]];
            require(s->hint[h][d] >= dim->lo && s->hint[h][d] <= dim->hi, "a hint out of its dim's range", text);
            require(s->weight[d] >= 0.0 && isfinite(s->weight[d]), "a weight", text);
        }
        md_ds_hint_sizes(size, s, h);
        md_ds_point_label(label, s, s->hint[h]);
        require(label[0] && strlen(label) < sizeof label, "a label", text);
        require(md_ds_distance(s, MD_METRIC_LOG2, size, s->hint[h]) == 0.0, "a hint is away from itself", text);
        require(md_ds_distance(s, MD_METRIC_INDUCTOR, size, s->hint[h]) == 0.0, "a hint is away from itself", text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    md_fx_formula *f = NULL;
    md_ds_space *space = malloc(sizeof *space);
    if (!space)
        abort();
    char *hints = strchr(text, '\n'), *weights = hints ? strchr(hints + 1, '\n') : NULL;
    if (weights) {
        *hints++ = *weights++ = 0;
        if (md_fx_sizes_parse(text, check_size, text) != MD_OK)
            require(md_last_error()[0] != 0, "no message", text);
        if (md_fx_formula_create(&f, "C[m,n] = sum[k](A[m,k] * B[k,n])", &(md_fx_options){.sizes = text}) == MD_OK) {
            if (md_ds_space_make(space, f, hints, "fuzz", weights) == MD_OK)
                check_space(space, hints);
            else
                require(md_last_error()[0] != 0, "no message", hints);
        }
    }
    md_fx_formula_destroy(&f);
    free(space);
    free(text);
    return 0;
}
