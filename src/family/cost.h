/* What features of host families are made from. */
#ifndef MD_FAMILY_COST_H
#define MD_FAMILY_COST_H

#include "family/family.h"

/* Per point of the stage's largest iteration space, every distinct node once. */
typedef struct md_fa_host_work {
    double operations, transcendental, loads, stores;
    double scattered; /* of loads and stores: those that cannot be vectors */
} md_fa_host_work;

void md_fa_host_count(md_fa_host_work *out, const md_st_stage *stage, const md_st_program *program);
/** Lanes that `blocks` equal blocks keep busy, a last wave counted as it is: 1 .. threads. */
double md_fa_host_parallel(double blocks, const md_dev_facts *facts);
/** f32 operations of one cycle of a lane at peak, as features count them: two fma units. */
double md_fa_host_ops_per_cycle(const md_dev_facts *facts);

#endif
