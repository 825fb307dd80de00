/* A search on the host device, whose kernels really run; some of them are bent by a device in between. */
#ifndef MD_TESTS_TUNE_HOST_SEARCH_H
#define MD_TESTS_TUNE_HOST_SEARCH_H

#include "support/check.h"

#include "tune/bench/bench.h"
#include "tune/search/search.h"

#define HOST_SEARCH_SILU "Y[i,j] = silu(X[i,j])"
enum { HOST_SEARCH_SMALL = 64 * 256 }; /* shapes with fewer elements are small */

/* What is done to kernels: nothing; the last result changed; the same on small shapes only, on others only; a byte
 * outside the outputs written; nothing written; rows added up by one f32; not launched; not compiled. */
typedef enum bend {
    BEND_NOTHING,
    BEND_RESULT,
    BEND_SMALL_RESULT,
    BEND_LARGE_RESULT,
    BEND_NEIGHBOUR,
    BEND_NOTHING_WRITTEN,
    BEND_LONG_SUM,
    BEND_LAUNCH,
    BEND_COMPILE
} bend;

/* A device whose operations are the host's but for one. Ops are found from the device by its place: there is one at
 * a time. */
typedef struct bent {
    md_dev_ops ops;
    const md_dev_ops *real;
    bend how;
    const char *variant; /* part of the name of those that are bent */
    _Atomic int32_t n_bent; /* several threads compile */
    int64_t live, peak; /* bytes that the device lent */
    struct {
        void *p;
        size_t n_bytes;
    } lent[256];
} bent;
extern bent host_search_bent; /* of the search that is open; one at a time */

typedef struct host_search {
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_fx_formula *formula;
    md_st_program *program;
    md_tn_counters count;
    md_tn_job job;
    md_tn_point point;
} host_search;

/** `variant`: part of the names of those that are bent. */
void host_search_open(host_search *search, const char *formula, int64_t i, int64_t j, bend how, const char *variant);
void host_search_close(host_search *search);
/** The family's record at the point, if there is one. */
bool host_search_find(md_tn_record *r, const host_search *search, const char *family);

#endif
