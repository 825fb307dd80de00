/* What threads of fuzz_pairs.c do to one context: an action for each public function. */
#ifndef MD_TESTS_FUZZ_PAIRS_H
#define MD_TESTS_FUZZ_PAIRS_H

#include "fuzz/random.h"

#include <md/md.h>

enum { PAIR_OPS = 4, PAIR_N = 8 };

static const char *const pair_formulas[PAIR_OPS] = {"C[m,n] = sum[k](A[m,k] * B[k,n])", "Y[i,j] = A[i,j] * B[i,j] + 1",
                                                    "S[i,j] = A[i,j] * rsqrt(mean[j](A[i,j] * A[i,j]) + 1e-5) + B[i,j]",
                                                    "Y[i,j] = exp(A[i,j]) + B[j,i]"};
static const md_select pair_modes[PAIR_OPS] = {MD_SELECT_MODEL, MD_SELECT_HYBRID, MD_SELECT_DISTANCE,
                                               MD_SELECT_MEASURE};
static const char *const pair_sizes[PAIR_OPS] = {"m=8, n=8, k=8", "i=8, j=8", "i=8, j=8", "i=8, j=8"};

typedef struct pair_world {
    md_context *context;
    md_op *op[PAIR_OPS]; /* each takes two inputs and an output of PAIR_N x PAIR_N */
    md_launch *launch;
    float input[2][PAIR_N * PAIR_N];
    char *wisdom; /* what the context exported */
    char folder[64]; /* of its store */
} pair_world;

/* A thread's own: its choices, the memory that it writes, and how often a call failed. */
typedef struct pair_thread {
    pair_world *world;
    fuzz_run run;
    float result[PAIR_N * PAIR_N];
    int64_t n_failed;
} pair_thread;

typedef struct pair_action {
    const char *name;
    void (*run)(pair_thread *t);
} pair_action;

/** The table; ends with a NULL name. */
extern const pair_action pair_actions[];

/** Sizes up to 8, so that shapes are new now and then; smaller views are not contiguous. */
void pair_arguments(md_arg arg[3], md_tensor tensor[3], pair_thread *t, const md_op *op, bool is_any_size);

#endif
