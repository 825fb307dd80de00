/* A family written by hand for tests of building and tuning: Y[n] = X[n] * c (+ 1 in two launches). */
#ifndef MD_TESTS_BUILD_TOY_H
#define MD_TESTS_BUILD_TOY_H

#include "family/family.h"

/* Values of the field "kind". */
enum {
    TOY_PLAIN, /* one launch */
    TOY_TWICE, /* two launches with a workspace; Y = X * c + 1 */
    TOY_BAD_TEXT, /* does not compile */
    TOY_NO_EMIT, /* emit fails */
    TOY_FUNCTION, /* a host function; Y = X * c */
    TOY_FAILING_FUNCTION, /* its first launch fails, the second would write Y[0] = 99 */
    TOY_SLOW, /* as TOY_PLAIN, ten times over */
    TOY_SAME_TWICE, /* two launches of one text */
    TOY_SHORT_ROWS, /* envelope: n <= 100 */
    TOY_N_KINDS,
    /* outside of the space: the text of TOY_PLAIN with a tensor map, of which the text says nothing */
    TOY_MAPPED = TOY_N_KINDS
};

typedef struct toy {
    md_fx_formula formula;
    md_st_program program;
    md_st_stage stage;
    _Atomic(void *) known[1][MD_ST_KNOWN];
    md_fa_target target;
} toy; /* large: static or on the heap */

void toy_init(toy *out, const md_dev_facts *facts);
extern const md_fa_family toy_family;
/** Config of a kind; `salt` in 0..9 makes texts differ. */
md_fa_config toy_config(int32_t kind, int32_t salt);
/** On the fake device: texts emitted now take so long a launch, in us; 0: no time. */
extern int32_t toy_slow_us;
/** A call Y = X * c on n elements. */
void toy_call(md_kn_call *call, md_kn_shape *shape, const toy *t, float *y, const float *x, int64_t n);

#endif
