/* Y[n] = X[n] * a on the fake device or behind an asynchronous one, where every kernel takes what a test says: by
 * a clock that the test owns. Linking timed.c wants script.c. */
#ifndef MD_TESTS_DISPATCH_TIMED_H
#define MD_TESTS_DISPATCH_TIMED_H

#include "dispatch/hybrid/hybrid.h"
#include "dispatch/support/script.h"
#include "support/devices/async_device.h"

#include <pthread.h>

enum { TIMED_MARKS = 40, TIMED_N = 300, TIMED_MADE = 512 };

typedef struct timed {
    script_world world;
    async_device device;
    bool is_async;
    /* of TIMED_N elements, by mark: 10 * family + v; those that end with 3 give wrong results */
    double us_of[TIMED_MARKS];
    /* by mark: 1: rounds its operand to tf32, and what that loses counts tenfold in the result (as below exp); 2: an
     * operand that it computed */
    int tf32[TIMED_MARKS];
    bool allows_tf32; /* of ops */
    double us_each; /* of as many more, in parts of that: 0: any number takes as long */
    double noise; /* times are off by up to this part */
    double quiet_us; /* without calls, by the real clock, before a background race; 0: there are none */
    bool idle_tune, races_cheaply; /* of ops */
    const char *hints; /* of ops; NULL: those of script_options */
    bool agrees; /* of ops: picks change at an agreement of ranks alone */
    bool only_mine; /* what pool threads run takes no time of the clock */
    bool all_spend; /* without the asynchronous device: what pool threads run takes the device's time, too */
    pthread_t owner;
    uint32_t seed;
    double now_us;
    int32_t served[TIMED_MARKS];
    void *made[TIMED_MADE];
    int n_made;
} timed;
extern timed timed_now;

int timed_set_up(void **state);
int timed_set_up_async(void **state);
int timed_tear_down(void **state);
/** The clock of the asynchronous device; it only goes forward. */
double timed_clock_us(void *user);
void timed_wait_until(double us);

/** An op; hybrid_share 0: the default. */
md_ds_op *timed_op(md_select select, double hybrid_share);
/** Waits for the device, then destroys it. */
void timed_finish(md_ds_op **op);

typedef struct timed_call {
    md_tensor y, x;
    md_arg arg[3];
} timed_call;
/** X[i] = i, a = 2. */
void timed_make(timed_call *c, int64_t n);
/** The entry of the shape, held. */
md_ds_shape_entry *timed_entry(md_ds_op *op, const timed_call *c);
/** The mark of the variant that serves. */
int32_t timed_incumbent(md_ds_op *op, const timed_call *c);
/** How far the trial of the shape is; zeros where there is none. */
md_ds_trial_state timed_trial_of(md_ds_op *op, const timed_call *c);
/** Calls until the pool has prepared a trial, or found that there is no challenger. */
void timed_wait_for_trial(md_ds_op *op, timed_call *c);

#endif
