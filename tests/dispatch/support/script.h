/* Families whose every property a test writes down, on the fake device: choosing can be tested with neither compiler
 * nor clock.
 *
 * alpha, beta, gamma and last (the last resort) have two fields, v (0..3) and w (0..11). A kernel stores its mark,
 * 10 * family + v, in every element that its stage stores, so a result tells which variant made it. Linking script.c
 * replaces the table of families. */
#ifndef MD_TESTS_DISPATCH_SCRIPT_H
#define MD_TESTS_DISPATCH_SCRIPT_H

#include "dispatch/call/call.h"
#include "dispatch/create.h"
#include "support/devices/fake_device.h"

enum { SCRIPT_ALPHA, SCRIPT_BETA, SCRIPT_GAMMA, SCRIPT_LAST, SCRIPT_FAMILIES };
enum { SCRIPT_V = 4, SCRIPT_W = 12 };

/* What family/v<v> does; w changes nothing but the name, unless `ranges` is set. */
typedef struct script_row {
    bool is_legal; /* with w = 0 */
    int64_t legal_lo, legal_hi; /* of the first dim, at a hint; hi 0: no limit */
    int64_t lo, hi; /* envelope of the first dim; hi 0: no limit */
    bool needs_unit; /* envelope: last axes without gaps */
    double us, us_each; /* by the model: us + us_each * the first dim's size */
    int32_t slow_us; /* by the clock */
    int32_t extra; /* texts: parameters more than are needed */
    int32_t numeric; /* number of the numeric class; 0: nothing is promised */
    bool is_invariant;
    bool hangs; /* texts: does not end */
    bool cannot_emit, cannot_compile;
    _Atomic bool cannot_launch;
    _Atomic bool reports; /* index 99 on axis 0 of tensor 1 */
    _Atomic int32_t n_runs;
} script_row;

typedef struct script {
    script_row row[SCRIPT_FAMILIES][SCRIPT_V];
    bool applies[SCRIPT_FAMILIES];
    /* kernels are texts "COPY <mark>" for on_launch, with the parameters Y, X, n, stride of X, a: Y[n] = X[n] * a;
     * and, with_memory, work */
    bool is_text;
    bool with_memory;
    bool with_maps; /* and two tensor maps in front of them, which the device makes */
    /* config number c = 12 v + w of a family is legal, and correct, for 100 (c + 1) <= size < 100 (c + 2) only */
    bool ranges;
    /* gamma needs a kernel of its library at each size, which is loaded when `may_load` is 1 */
    bool library_loads;
    bool defers_loads; /* what no one loaded is found not to be loaded; else finding out loads it */
    _Atomic bool may_load, load_fails;
    double answered_us; /* what the library's answers say that its calls take; 0: nothing */
    bool is_cut; /* in slices */
    _Atomic int32_t n_loads; /* begun */
} script;
extern script script_now;

/** Nothing is legal; all families apply. */
void script_reset(void);
/** Makes a family's v legal everywhere at this model time. */
script_row *script_allow(int32_t family, int32_t v, double us);
/** Each family is legal at one hint only: alpha at 64, beta at 256, gamma at 4096. */
void script_one_family_a_hint(void);

/** A runtime on a fake device. */
typedef struct script_world {
    md_pool *pool;
    fake_device device;
    md_bd *builder;
    md_ds_runtime runtime;
    md_log log;
    _Atomic int32_t n_warnings;
    char warning[512]; /* the last one */
} script_world;
void script_world_open(script_world *out);
void script_world_close(script_world *w);
/** From now on the device has a clock of its own, by which a run takes slow_us + 1 us. Other work takes no time, so
 * measuring does not depend on what else the machine does. */
void script_own_clock(script_world *w);

/** Options that choose by the model at hints "64,256,4096". */
md_ds_op_options script_options(void);
/** Fails the test where it cannot be made. */
md_ds_op *script_op(script_world *w, const char *formula, const md_ds_op_options *options);

/** Two vectors of n floats, the second `stride` elements apart. */
typedef struct script_vectors {
    float *y, *x;
    md_tensor ty, tx;
    md_arg arg[2];
} script_vectors;
void script_vectors_make(script_vectors *v, int64_t n, int64_t stride);
void script_vectors_free(script_vectors *v);

/** Calls Y[n] = f(X[n]) and returns the mark, or -1 with the status in *status (may be NULL: fails the test). */
int32_t script_call(md_status *status, md_ds_op *op, int64_t n, int64_t stride);
/** What is picked for a shape. */
md_ds_pick script_pick(md_ds_op *op, int64_t n, int64_t stride);
/** "alpha/v0_w0" of a pick's variant. */
const char *script_name(const md_ds_op *op, int32_t variant);

#endif
