/* The table of benchmark policies. */
#include "tune/bench/policy.h"

#include <math.h>

static const md_tn_policy policies[] = {
    [MD_TN_FOR_TUNING] = {.sample_us = 50.0,
                          .most_repeats = 256,
                          .second_look = 8.0,
                          .cheap_us = 1000.0,
                          .look_factor = 2.0,
                          .samples = 8,
                          .cut = {{4, 1.25}},
                          .least_samples = 8,
                          .compare_by = MD_TN_BY_MEDIAN,
                          .judge_by = MD_TN_BY_MEDIAN},
    [MD_TN_FOR_TUNING_FINAL] = {.sample_us = 50.0,
                                .most_repeats = 256,
                                .second_look = INFINITY,
                                .samples = 16,
                                .cut = {{6, 1.08}},
                                .least_samples = 16,
                                .tie = 0.005,
                                .compare_by = MD_TN_BY_MEDIAN,
                                .judge_by = MD_TN_BY_MEDIAN},
    [MD_TN_FOR_MEASURE] = {.sample_us = 50.0,
                           .most_repeats = 512,
                           .second_look = 1.5,
                           .cheap_us = 300.0,
                           .look_factor = 2.0,
                           .samples = 16,
                           .cut = {{2, 1.15}, {4, 1.06}, {6, 1.04}, {8, 1.03}, {12, 1.02}},
                           .least_samples = 2,
                           .tie = 0.01,
                           .compare_by = MD_TN_BY_MEDIAN,
                           .judge_by = MD_TN_BY_MEDIAN},
    /* Samples are short, since a call that comes meanwhile waits for one. */
    [MD_TN_FOR_BACKGROUND] = {.sample_us = 50.0,
                              .most_repeats = 64,
                              .second_look = INFINITY,
                              .samples = 16,
                              .cut = {{2, 1.2}, {4, 1.12}, {6, 1.06}, {8, 1.04}, {10, 1.03}, {12, 1.02}},
                              .least_samples = 2,
                              .tie = 0.005,
                              .compare_by = MD_TN_BY_LEAST,
                              .judge_by = MD_TN_BY_LOW_MEDIAN},
    [MD_TN_FOR_BENCH] = {.sample_us = 1000.0,
                         .most_repeats = 64,
                         .second_look = 3.0,
                         .cheap_us = 1000.0,
                         .warm_up_us = 50000.0,
                         .samples = 15,
                         .least_samples = 15,
                         .compare_by = MD_TN_BY_MEDIAN,
                         .judge_by = MD_TN_BY_MEDIAN},
};

const md_tn_policy *md_tn_policy_for(md_tn_purpose purpose)
{
    return &policies[purpose];
}
