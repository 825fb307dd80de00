/* Lists of stored picks and times: of equal ones the newest, and of all the newest. */
#include "base/status.h"
#include "tune/stored/stored.h"

#include <stdlib.h>
#include <string.h>

void md_tn_stored_list_finish(md_tn_stored_list *list)
{
    free(list->pick);
    free(list->time);
    memset(list, 0, sizeof *list);
}

/* Memory for one element more; NULL where there is none. */
static void *grow(void *old, int32_t *room, int32_t n, size_t size)
{
    enum { FIRST = 64 };
    if (n < *room)
        return old;
    const int32_t more = *room ? 2 * *room : FIRST;
    void *list = n < INT32_MAX / 2 ? realloc(old, (size_t)more * size) : NULL;
    if (list)
        *room = more;
    return list;
}

void md_tn_stored_add_pick(md_tn_stored_list *list, const md_tn_stored_pick *pick)
{
    md_tn_stored_pick *more = grow(list->pick, &list->room_of_picks, list->n_picks, sizeof *pick);
    list->failed |= !more;
    if (!more)
        return;
    list->pick = more;
    list->pick[list->n_picks++] = *pick;
}

void md_tn_stored_add_time(md_tn_stored_list *list, const md_tn_stored_time *time)
{
    md_tn_stored_time *more = grow(list->time, &list->room_of_times, list->n_times, sizeof *time);
    list->failed |= !more;
    if (!more)
        return;
    list->time = more;
    list->time[list->n_times++] = *time;
}

/* ---- Orders. Whole structs differ by nothing else, since unused bytes are 0 in all that readers and callers make. */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_shape(const md_tn_stored_pick *x, const md_tn_stored_pick *y)
{
    int c = compare(x->at.environment, y->at.environment);
    if (!c)
        c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = compare(x->shape.lo, y->shape.lo);
    return c ? c : compare(x->shape.hi, y->shape.hi);
}

static int by_variant_and_place(const md_tn_stored_time *x, const md_tn_stored_time *y)
{
    int c = compare(x->at.environment, y->at.environment);
    if (!c)
        c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = compare((uint64_t)x->clock, (uint64_t)y->clock);
    if (!c)
        c = strcmp(x->variant, y->variant);
    return c ? c : memcmp(x->size, y->size, sizeof x->size);
}

static int newest_first(const md_tn_conditions *x, const md_tn_conditions *y)
{
    const int c = compare((uint64_t)y->date, (uint64_t)x->date);
    return c ? c : compare((uint64_t)y->order, (uint64_t)x->order);
}

/* Orders picks so that equal ones stand together, the newest first. */
static int order_picks(const void *a, const void *b)
{
    const md_tn_stored_pick *x = a, *y = b;
    const int c = by_shape(x, y);
    return c ? c : newest_first(&x->at, &y->at);
}

static int order_times(const void *a, const void *b)
{
    const md_tn_stored_time *x = a, *y = b;
    const int c = by_variant_and_place(x, y);
    return c ? c : newest_first(&x->at, &y->at);
}

static int newest_pick_first(const void *a, const void *b)
{
    const md_tn_stored_pick *x = a, *y = b;
    const int c = compare((uint64_t)y->at.date, (uint64_t)x->at.date);
    return c ? c : by_shape(x, y);
}

static int newest_time_first(const void *a, const void *b)
{
    const md_tn_stored_time *x = a, *y = b;
    int c = compare((uint64_t)x->stage, (uint64_t)y->stage);
    if (!c)
        c = compare((uint64_t)y->at.date, (uint64_t)x->at.date);
    return c ? c : by_variant_and_place(x, y);
}

static void merge_picks(md_tn_stored_list *list)
{
    int32_t n = 0;
    if (list->n_picks == 0)
        return;
    for (int32_t i = 0; i < list->n_picks; i++)
        list->pick[i].at.order = i;
    qsort(list->pick, (size_t)list->n_picks, sizeof *list->pick, order_picks);
    for (int32_t i = 0; i < list->n_picks; i++)
        if (n == 0 || by_shape(&list->pick[n - 1], &list->pick[i]) != 0)
            list->pick[n++] = list->pick[i];
    qsort(list->pick, (size_t)n, sizeof *list->pick, newest_pick_first);
    list->n_picks = MD_MIN(n, MD_TN_STORED_PICKS);
    for (int32_t i = 0; i < list->n_picks; i++)
        list->pick[i].at.order = 0;
}

static void merge_times(md_tn_stored_list *list)
{
    int32_t n = 0, stored = 0, of_stage = 0;
    if (list->n_times == 0)
        return;
    for (int32_t i = 0; i < list->n_times; i++)
        list->time[i].at.order = i;
    qsort(list->time, (size_t)list->n_times, sizeof *list->time, order_times);
    for (int32_t i = 0; i < list->n_times; i++)
        if (n == 0 || by_variant_and_place(&list->time[n - 1], &list->time[i]) != 0)
            list->time[n++] = list->time[i];
    qsort(list->time, (size_t)n, sizeof *list->time, newest_time_first);
    for (int32_t i = 0; i < n; i++) {
        of_stage = stored > 0 && list->time[stored - 1].stage == list->time[i].stage ? of_stage + 1 : 0;
        if (of_stage < MD_TN_STORED_TIMES)
            list->time[stored++] = list->time[i];
    }
    list->n_times = stored;
    for (int32_t i = 0; i < stored; i++)
        list->time[i].at.order = 0;
}

void md_tn_stored_merge(md_tn_stored_list *list)
{
    merge_picks(list);
    merge_times(list);
}
