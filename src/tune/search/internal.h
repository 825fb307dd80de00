/* What the files of the measured search share. */
#ifndef MD_TUNE_SEARCH_INTERNAL_H
#define MD_TUNE_SEARCH_INTERNAL_H

#include "tune/job/work.h"
#include "tune/verify/verify.h"

/* space.c */
/** The families that apply and are allowed; last resorts only where no other is. */
void md_tn_choose_families(md_tn_work *w);
/** Lists the configs of all families at all open points. */
md_status md_tn_list_spaces(md_tn_work *w);
/** True if a config of the family is legal at the point. A family without one leaves no record, and must not make the
 * point look unknown to every process. */
bool md_tn_has_config(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const md_fa_family *family);

/* tuning_point.c */
/** Reads what is known; takes the lease of the key if that is not complete. */
md_status md_tn_tuning_point_open(md_tn_work *w, md_tn_tuning_point *tuning_point);
/** Makes the tensors, which live only while the point is measured. False where there is no memory for them: then the
 * point is closed. */
bool md_tn_tuning_point_measure(md_tn_work *w, md_tn_tuning_point *tuning_point);
/** Frees the tensors. */
void md_tn_tuning_point_rest(md_tn_tuning_point *tuning_point);
void md_tn_tuning_point_close(md_tn_work *w, md_tn_tuning_point *tuning_point);

/* results.c */
/** The fastest trial of the family at the point; -1. */
int32_t md_tn_best_of_family(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t family);
/** Verifies each family's best at the point, puts it into the wisdom and logs it. */
void md_tn_keep_results(md_tn_work *w, md_tn_tuning_point *tuning_point);

/* propose.c */
/** Updates how fast builds end. Call it now and then. */
void md_tn_observe(md_tn_work *w);
/** Starts builds of configs worth trying next at a point, up to `n`; counts those that are new in *n_new. */
md_status md_tn_propose(int32_t *n_new, md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t n);

/* compare.c */
/** Waits for the builds that the point wants, within the budget. */
void md_tn_await(md_tn_work *w, md_tn_tuning_point *tuning_point);
/** Times what is new at the point against the best so far; sets tuning_point->best. */
md_status md_tn_compare_new(md_tn_work *w, md_tn_tuning_point *tuning_point);
/** Times the best few once more, with fresh samples; sets tuning_point->best. */
md_status md_tn_compare_best(md_tn_work *w, md_tn_tuning_point *tuning_point);
/** True if trial a is a better choice than b at the point, both timed: faster by more than noise, else own kernels
 * before libraries, else by name. */
bool md_tn_is_better(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t a, int32_t b);

/* lock.c */
/** Takes the device's lock among all processes of this user. False where it cannot be had in time. */
bool md_tn_lock(md_tn_work *w);
void md_tn_unlock(md_tn_work *w);

/* steps.c */
bool md_tn_same_config(const md_fa_family *family, const md_fa_config *a, const md_fa_config *b);
/** The config in the space; NULL: it is not legal there. */
const md_tn_choice *md_tn_find_choice(const md_tn_space *space, const md_fa_family *family, const md_fa_config *config);
/** Steps from one config to another, at most 3 counted a field. */
int32_t md_tn_steps(const md_fa_family *family, const md_fa_config *a, const md_fa_config *b);
/** The legal config next to another one in a field, above (1) or below (-1) its value. NULL: none. */
const md_tn_choice *md_tn_neighbour(const md_tn_space *space, const md_fa_family *family, md_fa_config config,
                                    int32_t field, int32_t way);

#endif
