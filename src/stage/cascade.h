/* Cascades: a reduction whose body refers to the results of earlier ones. It can be made in the same pass if its body
 * splits into a part of the element and an invertible part of those results: then what was summed with an earlier
 * state of the results is brought up to a later one by a factor (the condition of RedFuser, Tang et al., 2026). */
#ifndef MD_STAGE_CASCADE_H
#define MD_STAGE_CASCADE_H

#include "stage/form.h"

/* What the body of a cascade may refer to. */
typedef struct md_st_cascade_rules {
    int32_t axis;
    void *user;
    /** True if the REF is one of earlier results, and so the same along the axis. */
    bool (*is_result)(void *user, const md_fx_node *ref);
    /** True if `a` is what the maximum in `reference` is the maximum of: exp(a - reference) is then at most 1. */
    bool (*is_shifted)(void *user, const md_fx_node *a, const md_fx_node *reference);
} md_st_cascade_rules;

/* body = part(element, e) * outer(results), e = exp(a - reference). */
typedef struct md_st_cascade {
    const md_fx_node *a, *reference; /* NULL: there is no exponential of the kind */
    const md_fx_node *exponential; /* the exponential as it stands in the body */
    const md_fx_node *part; /* the body without outer; NULL: 1 */
    md_st_factors outer; /* factors of results alone: they leave the sum */
    bool is_rounded; /* an exponential or a factor of results stood below a conversion to a narrow type */
} md_st_cascade;

/** Splits a body of type real. False where it does not split, or memory is short. Conversions to narrow types stay
 * around what they round; factors of results leave them, which changes no relative error. */
bool md_st_cascade_of(md_st_cascade *out, md_st_maker *m, const md_fx_node *body, const md_st_cascade_rules *rules);

#endif
