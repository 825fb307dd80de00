/* Counts from which families compute their features. */
#ifndef MD_FAMILY_COST_H
#define MD_FAMILY_COST_H

#include "family/family.h"

/* Numbers per point of the stage's largest iteration space. Each distinct node counts once. */
typedef struct md_fa_host_work {
    double operations, transcendental, loads, stores;
    double scattered; /* those of the loads and stores that cannot be vectors */
    double widest_load; /* bytes of an element */
} md_fa_host_work;

void md_fa_host_count(md_fa_host_work *out, const md_st_stage *stage, const md_st_program *program);
/** Operations of a host that turn a vector of elements of memory into values, or back, beyond those of wide types: f8
 * takes many. */
double md_fa_host_conversion(md_dtype dtype, bool is_store);
/** md_st_work of the target's stage, computed once for each memo. */
void md_fa_work(double *flops, double *bytes, const md_fa_target *target, const int64_t *size);
/** The target's stage at these sizes, from the memo, else in `room`. */
const md_fa_extent *md_fa_extent_of(md_fa_extent *room, const md_fa_target *target, const int64_t *size);
/** Bytes that the stage stores. */
double md_fa_stored_bytes(const md_fa_target *target, const int64_t *size);
/** True if nontemporal stores may pay on the host: the stored bytes exceed the L2 cache. */
bool md_fa_host_can_stream(const md_fa_target *target, const int64_t *size);
/** Blocks that a thread takes at a time, from their number and the elements of each. What is shorter than waking a
 * thread is one piece; else there are at least four pieces for each thread, so that a slow thread does not delay the
 * others. */
int64_t md_fa_host_grain(int64_t blocks, int64_t points, const md_dev_facts *facts);
/** The number of threads that `blocks` equal blocks keep busy on average, the last wave included: 1 ..
 * facts.threads. */
double md_fa_host_parallel(double blocks, const md_dev_facts *facts);
/** f32 operations that a thread can do in a cycle, as features count them: two fma units. */
double md_fa_host_ops_per_cycle(const md_dev_facts *facts);

/** The p-norm of times that overlap in part: between their maximum (p large) and their sum (p 1). Both >= 0. */
double md_fa_norm(double a, double b, double p);

#endif
