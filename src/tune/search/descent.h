/* Coordinate descent, for the configs of an op (propose.c) and of a combo's kernels (combo/tuning/tune.c): fields are
 * changed one at a time, in turn, and the best so far is where the next change starts. It ends when no field gives
 * anything. What a field is, and which values are next to its value, the caller says. */
#ifndef MD_TUNE_SEARCH_DESCENT_H
#define MD_TUNE_SEARCH_DESCENT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct md_tn_descent {
    int32_t n; /* fields */
    int32_t step; /* how many were looked at; a field counts each time */
    int32_t idle; /* the last so many gave nothing */
} md_tn_descent;

/** The number of the next step, whose field is that of the step modulo the number of fields. -1: the descent has ended.
 */
static inline int32_t md_tn_descent_next(md_tn_descent *descent)
{
    return descent->idle >= descent->n ? -1 : descent->step++;
}

/** Says whether the step found something. */
static inline void md_tn_descent_tell(md_tn_descent *descent, bool is_found)
{
    descent->idle = is_found ? 0 : descent->idle + 1;
}

#endif
