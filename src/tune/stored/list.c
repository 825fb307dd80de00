/* Lists of stored picks and times: of equal ones the newest, and of all the newest. */
#include "base/grow.h"
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
