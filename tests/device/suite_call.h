/* One formula on a device: an op, its variants, calls on data, comparisons. */
#ifndef MD_TESTS_DEVICE_SUITE_CALL_H
#define MD_TESTS_DEVICE_SUITE_CALL_H

#include "device/suite.h"
#include "family/family.h"
#include "support/random/data.h"

typedef struct suite {
    const suite_options *options;
    md_context *context;
    int64_t n_calls, n_elements, n_unchecked, n_variants,
        n_skipped; /* skipped: a pinned variant does not fit the shape */
    int n_failed;
} suite;

/* A formula with what it is made with, and its data: results are known before anything is called. */
enum { SUITE_MAX_SETS = 8 };
typedef struct suite_formula {
    const char *text;
    md_op_options options;
    char constants[1024]; /* all inputs, for the options */
    md_fx_formula *formula;
    int n_sets;
    data_set set[SUITE_MAX_SETS];
    bound_result result[SUITE_MAX_SETS][MD_FX_MAX_TENSORS];
    bool is_faulty[SUITE_MAX_SETS]; /* some index lies outside: the call is to say so */
} suite_formula;

/** Calls fn(suite, i, user) for i < n, on as many threads as the options say: each has a suite and a context of its
 * own, so that what one formula reports is nobody else's. Counts and failures are added up. fn must not use CMocka's
 * assertions. */
typedef void (*suite_fn)(suite *s, int64_t i, void *user);
void suite_each(suite *s, int64_t n, suite_fn fn, void *user);

/** Reports a failure of the formula; the test goes on. */
void suite_complain(suite *s, const suite_formula *f, int set, const char *variant, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/** False, with a complaint, where the formula is refused. */
bool suite_begin(suite *s, suite_formula *f, const char *text, const md_op_options *options);
/** Adds data, if sizes can be found, and computes what is expected. */
void suite_add(suite *s, suite_formula *f, uint64_t seed, const data_options *options);
void suite_end(suite_formula *f);

/** Makes the op and calls it on every set with whatever is picked. */
void suite_check_picked(suite *s, suite_formula *f);
/** The same with every variant of every stage pinned in turn; `every`: only one in so many. */
void suite_check_variants(suite *s, suite_formula *f, int every);
/** The same with this one, of the pool or not. */
void suite_check_variant(suite *s, suite_formula *f, int32_t stage, const char *name);
/** The same with a legal config of the family at the sizes of the sets, each with the same chance. False where the
 * family does not apply, or none is legal. */
bool suite_check_random(suite *s, suite_formula *f, const md_st_program *program, int32_t stage,
                        const md_fa_family *family, uint64_t *seed);
/** Calls with each output that can be given the memory of an input of its dtype and layout. */
void suite_check_in_place(suite *s, suite_formula *f);

#endif
