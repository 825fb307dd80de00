/* Runs the units of a combo by loops over lists: one loop a level, cut into pieces of about equal work. */
#include "base/status.h"
#include "combo/combo.h"
#include "device/device.h"

#include <stdlib.h>

/* Work is counted in bytes. A unit costs as much as some bytes by itself, and a piece is worth being taken by itself
 * from some bytes on. A loop that takes less than LEAST_US is one piece. */
enum { UNIT_BYTES = 256, LEAST_PIECE = 32 << 10, PIECES_A_LANE = 8, LEAST_US = 4 };

struct md_cb_loops {
    int32_t n;
    md_dev_list *list;
    md_dev_item *item;
    int64_t *first; /* one number more than a list has items */
    int64_t *cut; /* [lists] malloc'ed together */
};

/* True if the items take less time, by the model, than waking another thread. */
static bool is_short(const md_cb_unit *unit, const md_dev_list *list)
{
    double us = 0;
    bool is_known = true;
    for (int64_t i = 0; i < list->n && us < LEAST_US && is_known; i++) {
        us += unit[i].plan->model_us;
        is_known = unit[i].plan->model_us > 0;
    }
    return is_known && us < LEAST_US;
}

/* The last cut may be no multiple of the grain, since the item ends there. */
static int64_t cut_list(int64_t *cut, const md_cb_unit *unit, md_dev_list *list, int32_t lanes)
{
    double sum = 0, piece, open = 0;
    int64_t n = 0;
    cut[n++] = 0;
    if (is_short(unit, list)) {
        cut[n] = list->first[list->n];
        return 1;
    }
    for (int64_t i = 0; i < list->n; i++)
        sum += unit[i].bytes + UNIT_BYTES;
    piece = MD_MAX(sum / (lanes * PIECES_A_LANE), LEAST_PIECE);
    for (int64_t i = 0; i < list->n; i++) {
        const int64_t blocks = unit[i].geometry.blocks, grain = MD_MAX(unit[i].geometry.grain, 1);
        const double a_block = (unit[i].bytes + UNIT_BYTES) / (double)blocks;
        for (int64_t at = 0; at < blocks;) {
            const int64_t wanted = (int64_t)((piece - open) / a_block) / grain * grain;
            const int64_t step = MD_MIN(MD_MAX(wanted, grain), blocks - at);
            at += step;
            open += a_block * (double)step;
            if (open >= piece * 0.99) {
                cut[n++] = list->first[i] + at;
                open = 0;
            }
        }
    }
    if (cut[n - 1] != list->first[list->n])
        cut[n++] = list->first[list->n];
    return n - 1;
}

/* No list has more pieces than this. */
static int64_t most_cuts(const md_cb_schedule *plan, int32_t lanes)
{
    return (int64_t)lanes * PIECES_A_LANE * 2 * plan->n_levels + 2 * plan->n_levels + 2 * plan->n_units;
}

static void fill_list(md_cb *cb, md_dev_list *list, const md_cb_unit *unit, struct md_cb_loops *l)
{
    int64_t *first = l->first + (unit - cb->plan->unit) + (list - l->list);
    md_dev_item *item = l->item + (unit - cb->plan->unit);
    list->item = item;
    list->first = first;
    first[0] = 0;
    for (int64_t i = 0; i < list->n; i++) {
        item[i] = (md_dev_item){unit[i].variant->kernel[unit[i].launch], cb->plan->word + unit[i].params};
        first[i + 1] = first[i] + unit[i].geometry.blocks;
        list->scratch_bytes = MD_MAX(list->scratch_bytes, unit[i].geometry.scratch_bytes);
    }
}

void md_cb_loops_free(md_cb *cb)
{
    struct md_cb_loops *l = cb->loops;
    if (!l)
        return;
    free(l->list);
    free(l->item);
    free(l->first);
    free(l->cut);
    free(l);
    cb->loops = NULL;
}

static md_status make_loops(md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    const int32_t lanes = MD_MAX(cb->runtime->dev->facts.threads, 1);
    struct md_cb_loops *l = calloc(1, sizeof *l);
    if (!l)
        return md_fail_memory();
    cb->loops = l;
    l->n = plan->n_levels;
    l->list = calloc((size_t)MD_MAX(l->n, 1), sizeof *l->list);
    l->item = malloc((size_t)MD_MAX(plan->n_units, 1) * sizeof *l->item);
    l->first = malloc((size_t)(plan->n_units + l->n + 1) * sizeof *l->first);
    l->cut = malloc((size_t)most_cuts(plan, lanes) * sizeof *l->cut);
    if (!l->list || !l->item || !l->first || !l->cut) {
        md_cb_loops_free(cb);
        return md_fail_memory();
    }
    const md_cb_unit *unit = plan->unit, *end = plan->unit + plan->n_units;
    int64_t *cut = l->cut;
    for (int32_t k = 0; k < l->n; k++) {
        md_dev_list *list = &l->list[k];
        while (unit + list->n < end && unit[list->n].level == k)
            list->n++;
        fill_list(cb, list, unit, l);
        list->cut = cut;
        list->n_pieces = list->n > 0 ? cut_list(cut, unit, list, lanes) : 0;
        cut += list->n_pieces + 1;
        unit += list->n;
    }
    return MD_OK;
}

int64_t md_cb_pieces(const md_cb *cb)
{
    int64_t n = 0;
    for (int32_t k = 0; cb->loops && k < cb->loops->n; k++)
        n = MD_MAX(n, cb->loops->list[k].n_pieces);
    return n;
}

md_status md_cb_run_loops(md_cb *cb)
{
    md_dev *dev = cb->runtime->dev;
    if (!cb->loops)
        MD_TRY(make_loops(cb));
    for (int32_t k = 0; k < cb->loops->n; k++)
        if (cb->loops->list[k].n > 0)
            MD_TRY(dev->ops->launch_list(dev, &cb->loops->list[k]));
    return MD_OK;
}
