/* Who is fastest where: the family of the best variant over rows and their length. */
#include "common/cells.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LEAST_CELLS = 6 };

typedef struct axis {
    int n;
    int64_t size[MOST];
} axis;

static void add_size(axis *a, int64_t size)
{
    int i = 0;
    while (i < a->n && a->size[i] < size)
        i++;
    if ((i < a->n && a->size[i] == size) || a->n == MOST)
        return;
    memmove(&a->size[i + 1], &a->size[i], (size_t)(a->n - i) * sizeof *a->size);
    a->size[i] = size;
    a->n++;
}

static const cell *cell_at(const cells *all, int first, int64_t rows, int64_t length)
{
    for (int i = first; i < all->n; i++)
        if (cells_same_op(&all->of[i], &all->of[first]) && all->of[i].size[0] == rows && all->of[i].size[1] == length)
            return &all->of[i];
    return NULL;
}

static void write_grid(page *p, const cells *all, int first, const axis *rows, const axis *lengths)
{
    char caption[160], text[MOST][24], row[24];
    const char *column[MOST + 1] = {"rows, length"};
    for (int k = 0; k < lengths->n; k++) {
        snprintf(text[k], sizeof text[k], "%lld", (long long)lengths->size[k]);
        column[k + 1] = text[k];
    }
    snprintf(caption, sizeof caption, "%s, %s: the family of the fastest variant, and what the pick takes over it",
             all->of[first].op, all->of[first].dtype);
    page_table(p, caption, column, lengths->n + 1);
    for (int i = 0; i < rows->n; i++) {
        snprintf(row, sizeof row, "%lld", (long long)rows->size[i]);
        page_row(p, row);
        for (int k = 0; k < lengths->n; k++) {
            const cell *c = cell_at(all, first, rows->size[i], lengths->size[k]);
            if (c && c->best_us > 0.0) /* the family is what stands before the config */
                page_cell(p, c->best_us / c->picked_us, "%.*s %.2f", (int)strcspn(c->best, "/ "), c->best,
                          c->picked_us / c->best_us);
            else
                page_cell(p, -1.0, "-");
        }
    }
    page_table_end(p);
}

/* Where at least half of a grid was timed. */
static bool write_op(page *p, const cells *all, int first, bool is_first)
{
    axis rows = {0}, lengths = {0};
    int n = 0;
    for (int i = first; i < all->n; i++)
        if (cells_same_op(&all->of[i], &all->of[first]) && all->of[i].size[0] && all->of[i].best[0]) {
            add_size(&rows, all->of[i].size[0]);
            add_size(&lengths, all->of[i].size[1]);
            n++;
        }
    if (n < LEAST_CELLS || 2 * n < rows.n * lengths.n)
        return false;
    if (is_first)
        page_section(p, "Who is fastest where",
                     "Over rows and their length, or over M and N; nothing is fastest everywhere.");
    write_grid(p, all, first, &rows, &lengths);
    return true;
}

void report_winners(page *p, const results *in)
{
    cells all = cells_of(in);
    bool is_first = true;
    for (int i = 0; i < all.n; i++)
        if (cells_is_first(&all, i) && write_op(p, &all, i, is_first))
            is_first = false;
    free(all.of);
}
