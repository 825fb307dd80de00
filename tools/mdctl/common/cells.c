/* Gathers lines of times into cells. */
#include "common/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* True for a third size and nothing behind it: M x N x K. */
static bool is_product(const char *rest)
{
    int end = 0;
    return sscanf(rest, " x %*d%n", &end) == 0 && end > 0 && !rest[end];
}

static cell *cell_of(cells *all, const json_t *j)
{
    char shape[128];
    result_shape(shape, j);
    for (int i = all->n - 1; i >= 0; i--) /* lines of a cell follow one another */
        if (!strcmp(all->of[i].op, result_word(j, "op")) && !strcmp(all->of[i].shape, shape) &&
            !strcmp(all->of[i].dtype, result_dtype(j)))
            return &all->of[i];
    cell *c = &all->of[all->n++];
    snprintf(c->op, sizeof c->op, "%s", result_word(j, "op"));
    snprintf(c->dtype, sizeof c->dtype, "%s", result_dtype(j));
    memcpy(c->shape, shape, sizeof shape);
    long long rows = 0, length = 0;
    int end = 0;
    if (sscanf(shape, "%lld x %lld%n", &rows, &length, &end) == 2 && (!shape[end] || is_product(shape + end))) {
        c->size[0] = rows;
        c->size[1] = length;
    }
    return c;
}

static bool is_less(double us, double than)
{
    return than == 0.0 || us < than;
}

static void add_line(cell *c, const json_t *j)
{
    const char *peer = result_word(j, "peer"), *variant = result_word(j, "variant");
    const double us = result_number(j, "us");
    c->bytes = fmax(c->bytes, result_number(j, "bytes"));
    if (!strcmp(peer, "copy") || !strcmp(peer, "clone") || !strcmp(peer, "read")) {
        c->copy_us = is_less(us, c->copy_us) ? us : c->copy_us;
    } else if (!strncmp(peer, "md", 2)) {
        if (c->picked_us == 0.0) {
            c->picked_us = c->lo = c->hi = us;
            if (json_object_get(j, "lo")) {
                c->lo = result_number(j, "lo");
                c->hi = result_number(j, "hi");
            }
            snprintf(c->picked, sizeof c->picked, "%s", variant);
            c->roof_us = result_number(j, "roof_us");
            snprintf(c->limit, sizeof c->limit, "%s", result_word(j, "roof"));
            snprintf(c->reason, sizeof c->reason, "%s", result_word(j, "reason"));
        }
        if (is_less(us, c->best_us)) {
            c->best_us = us;
            snprintf(c->best, sizeof c->best, "%s", variant);
        }
    } else if (is_less(us, c->peer_us)) {
        c->peer_us = us;
        snprintf(c->peer, sizeof c->peer, "%s", peer);
    }
}

cells cells_of(const results *in)
{
    cells all = {.of = calloc((size_t)in->count[RESULT_TIME] + 1, sizeof *all.of)};
    for (int i = 0; all.of && i < in->n; i++)
        if (in->line[i].kind == RESULT_TIME)
            add_line(cell_of(&all, in->line[i].json), in->line[i].json);
    return all;
}

bool cells_same_op(const cell *a, const cell *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->dtype, b->dtype);
}

bool cells_is_first(const cells *all, int i)
{
    int k = 0;
    while (!cells_same_op(&all->of[k], &all->of[i]))
        k++;
    return k == i;
}

const cell *cells_find(const cells *all, const cell *like)
{
    for (int i = 0; i < all->n; i++)
        if (cells_same_op(&all->of[i], like) && !strcmp(all->of[i].shape, like->shape) && all->of[i].picked_us > 0.0)
            return &all->of[i];
    return NULL;
}
