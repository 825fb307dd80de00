/* Lists of stored picks, times and swaps: of equal ones the newest, and of all the newest. */
#include "base/grow.h"
#include "base/status.h"
#include "tune/stored/stored.h"

#include <stdlib.h>
#include <string.h>

void md_tn_stored_list_finish(md_tn_stored_list *list)
{
    free(list->pick);
    free(list->time);
    free(list->swap);
    memset(list, 0, sizeof *list);
}

void md_tn_stored_add_pick(md_tn_stored_list *list, const md_tn_stored_pick *pick)
{
    if (md_grow(&list->pick, (size_t)list->n_picks, sizeof *pick))
        list->pick[list->n_picks++] = *pick;
    else
        list->failed = true;
}

void md_tn_stored_add_time(md_tn_stored_list *list, const md_tn_stored_time *time)
{
    if (md_grow(&list->time, (size_t)list->n_times, sizeof *time))
        list->time[list->n_times++] = *time;
    else
        list->failed = true;
}

void md_tn_stored_add_swap(md_tn_stored_list *list, const md_tn_stored_swap *swap)
{
    if (md_grow(&list->swap, (size_t)list->n_swaps, sizeof *swap))
        list->swap[list->n_swaps++] = *swap;
    else
        list->failed = true;
}

void md_tn_stored_add(md_tn_stored_list *list, const md_tn_stored_list *more)
{
    for (int32_t i = 0; i < more->n_picks; i++)
        md_tn_stored_add_pick(list, &more->pick[i]);
    for (int32_t i = 0; i < more->n_times; i++)
        md_tn_stored_add_time(list, &more->time[i]);
    for (int32_t i = 0; i < more->n_swaps; i++)
        md_tn_stored_add_swap(list, &more->swap[i]);
}

/* ---- What is equal but for its conditions. Whole structs differ by nothing else, since unused bytes are 0 in all that
 * readers and callers make. */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_shape(const void *a, const void *b)
{
    const md_tn_stored_pick *x = a, *y = b;
    int c = compare(x->at.environment, y->at.environment);
    if (!c)
        c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = compare(x->shape.lo, y->shape.lo);
    return c ? c : compare(x->shape.hi, y->shape.hi);
}

static int by_variant_and_place(const void *a, const void *b)
{
    const md_tn_stored_time *x = a, *y = b;
    int c = compare(x->at.environment, y->at.environment);
    if (!c)
        c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = compare((uint64_t)x->clock, (uint64_t)y->clock);
    if (!c)
        c = strcmp(x->variant, y->variant);
    return c ? c : memcmp(x->size, y->size, sizeof x->size);
}

static int by_what_gives_way(const void *a, const void *b)
{
    const md_tn_stored_swap *x = a, *y = b;
    int c = by_shape(x, y);
    if (!c)
        c = compare((uint64_t)x->op, (uint64_t)y->op);
    return c ? c : strcmp(x->of.variant, y->of.variant);
}

/* ---- Orders: equal ones together, the newest of them first; then the newest of all first */

static int newest_first(const void *a, const void *b)
{
    const md_tn_conditions *x = a, *y = b;
    const int c = compare((uint64_t)y->date, (uint64_t)x->date);
    return c ? c : compare((uint64_t)y->order, (uint64_t)x->order);
}

static int order_picks(const void *a, const void *b)
{
    const int c = by_shape(a, b);
    return c ? c : newest_first(a, b);
}

static int order_times(const void *a, const void *b)
{
    const int c = by_variant_and_place(a, b);
    return c ? c : newest_first(a, b);
}

static int order_swaps(const void *a, const void *b)
{
    const int c = by_what_gives_way(a, b);
    return c ? c : newest_first(a, b);
}

static int newest_pick_first(const void *a, const void *b)
{
    const int c = newest_first(a, b);
    return c ? c : by_shape(a, b);
}

static int newest_time_first(const void *a, const void *b)
{
    const md_tn_stored_time *x = a, *y = b;
    int c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = newest_first(x, y);
    return c ? c : by_variant_and_place(x, y);
}

static int newest_swap_first(const void *a, const void *b)
{
    const int c = newest_first(a, b);
    return c ? c : by_what_gives_way(a, b);
}

typedef int (*compare_fn)(const void *a, const void *b);

/* Of equal ones the newest. Returns how many are left. */
static int32_t keep_newest(void *list, int32_t n, size_t size, compare_fn equal, compare_fn together, compare_fn newest)
{
    char *const at = list;
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++)
        ((md_tn_conditions *)(void *)(at + (size_t)i * size))->order = i;
    if (n > 0)
        qsort(at, (size_t)n, size, together);
    for (int32_t i = 0; i < n; i++) {
        char *const one = at + (size_t)i * size;
        ((md_tn_conditions *)(void *)one)->order = 0;
        if (n_kept == 0 || equal(at + (size_t)(n_kept - 1) * size, one) != 0)
            memmove(at + (size_t)n_kept++ * size, one, size);
    }
    if (n_kept > 0)
        qsort(at, (size_t)n_kept, size, newest);
    return n_kept;
}

/* The newest of each stage. */
static int32_t limit_times(md_tn_stored_time *time, int32_t n)
{
    int32_t stored = 0, of_stage = 0;
    for (int32_t i = 0; i < n; i++) {
        of_stage = stored > 0 && time[stored - 1].stage == time[i].stage ? of_stage + 1 : 0;
        if (of_stage < MD_TN_STORED_TIMES)
            time[stored++] = time[i];
    }
    return stored;
}

void md_tn_stored_merge(md_tn_stored_list *list)
{
    list->n_picks =
        keep_newest(list->pick, list->n_picks, sizeof *list->pick, by_shape, order_picks, newest_pick_first);
    list->n_picks = MD_MIN(list->n_picks, MD_TN_STORED_PICKS);
    list->n_times = keep_newest(list->time, list->n_times, sizeof *list->time, by_variant_and_place, order_times,
                                newest_time_first);
    list->n_times = limit_times(list->time, list->n_times);
    list->n_swaps =
        keep_newest(list->swap, list->n_swaps, sizeof *list->swap, by_what_gives_way, order_swaps, newest_swap_first);
    list->n_swaps = MD_MIN(list->n_swaps, MD_TN_STORED_PICKS);
}
