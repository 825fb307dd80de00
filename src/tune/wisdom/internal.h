/* The wisdom itself, for the files that implement it. */
#ifndef MD_TUNE_WISDOM_INTERNAL_H
#define MD_TUNE_WISDOM_INTERNAL_H

#include "base/table.h"
#include "tune/wisdom/shipped.h"
#include "tune/wisdom/wisdom.h"
#include "tune/wisdom/line.h"

#include <pthread.h>

enum { MD_TN_MAX_LEASES = 64 };
#define MD_TN_WISDOM_KIND "wisdom"
#define MD_TN_QUARANTINE_KIND "quarantine"

struct md_tn_wisdom {
    pthread_mutex_t lock;
    md_table *records; /* "key \n family" -> md_tn_record */
    md_table *quarantine; /* "variant \n digest" -> a word why */
    md_sr *store; /* may be NULL */
    md_tn_shipped *shipped; /* may be NULL */
    md_tn_origin origin; /* of what is measured here */
    md_sr_bundle *const *bundle; /* [n_bundles] */
    int32_t n_bundles;
    _Atomic(md_sr_bundle_maker *) *maker; /* NULL: none is made */
    char facts[33]; /* digest; "": not known */
    md_sr_lease *lease[MD_TN_MAX_LEASES];
    md_tn_wisdom_counters count;
};

#endif
