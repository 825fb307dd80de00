/* A device of recorded times, for the tuner and the dispatcher without hardware: it has another device's facts (so
 * its families), compiles nothing, computes nothing, and says of each launch that it took what a script says. Its
 * clock goes on by exactly that: equal runs are equal. */
#ifndef MD_TESTS_SUPPORT_DEVICES_SIM_DEVICE_H
#define MD_TESTS_SUPPORT_DEVICES_SIM_DEVICE_H

#include "device/device.h"

typedef struct sim_device_options {
    const md_dev_facts *facts; /* copied */
    /* Time in us of one run of a variant on a call (its shape); negative: the launch fails; 0 and NaN are given on
     * as they are. */
    double (*price)(void *user, const char *variant, const md_kn_call *call);
    void *user;
    double noise; /* of each timing: standard deviation of the logarithm */
    uint64_t seed;
    double compile_ms; /* each build, on the simulated clock, shared among the pool's threads */
    double timing_us; /* what a timing costs besides its launches */
    md_pool *pool;
    const md_log *log;
} sim_device_options;

md_status sim_device_open(md_dev **out, const sim_device_options *options);

#endif
