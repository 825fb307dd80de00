/* Arguments for any formula: sizes, tensors with random values, two copies of each output. */
#ifndef MD_TESTS_STAGE_MAKE_DATA_H
#define MD_TESTS_STAGE_MAKE_DATA_H

#include "expr/eval/eval.h"

#include <stdbool.h>

typedef struct data_options {
    int64_t most; /* dims have sizes 0 .. most */
    bool with_specials; /* some values are inf, -inf, nan or large */
} data_options;

typedef struct data_set {
    md_tensor tensor[MD_FX_MAX_TENSORS]; /* by tensor id */
    void *other[MD_FX_MAX_TENSORS]; /* outputs: a second copy with the same start values */
    int64_t n[MD_FX_MAX_TENSORS];
    md_fx_binding binding;
} data_set;

/** Makes and binds; false where the formula refuses the sizes (the max of nothing). Free it in any case. */
bool data_make(data_set *out, const md_fx_formula *formula, uint64_t *random, const data_options *options);
void data_free(data_set *d);
/** Compares the outputs with their second copies. False with a line about the first difference. */
bool data_compare(const data_set *d, const md_fx_formula *formula, char text[256]);

#endif
