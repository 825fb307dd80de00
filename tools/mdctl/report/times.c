/* Times of ops beside the copy of their bytes and beside others: a table for each op, and who is fastest where. */
#include "common/cells.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void write_cell(page *p, const cell *c)
{
    page_row(p, c->shape);
    page_cell(p, -1.0, "%.2f", c->picked_us);
    if (c->copy_us > 0.0 && c->picked_us > 0.0)
        page_cell(p, c->copy_us / c->picked_us, "%.2f", c->copy_us / c->picked_us);
    else
        page_cell(p, -1.0, "-");
    if (c->picked_us > 0.0)
        page_cell(p, c->best_us / c->picked_us, "%.1f%%", 100.0 * (c->picked_us / c->best_us - 1.0));
    else
        page_cell(p, -1.0, "-");
    if (c->peer_us > 0.0 && c->picked_us > 0.0)
        page_cell(p, c->peer_us / c->picked_us, "%.2f of %s", c->peer_us / c->picked_us, c->peer);
    else
        page_cell(p, -1.0, "-");
    page_cell(p, -1.0, "%s", c->picked);
}

static void write_op(page *p, const cells *all, int first)
{
    static const char *const column[] = {
        "sizes", "us", "share of a copy's speed", "over the best of the pool", "speed over the best peer's", "variant"};
    char caption[128];
    snprintf(caption, sizeof caption, "%s, %s", all->of[first].op, all->of[first].dtype);
    page_table(p, caption, column, 6);
    for (int i = first; i < all->n; i++)
        if (cells_same_op(&all->of[i], &all->of[first]))
            write_cell(p, &all->of[i]);
    page_table_end(p);
}

/* Speed over the bytes of each shape. */
static void write_plot(page *p, const cells *all, int first)
{
    char label[160], *script = NULL;
    size_t size = 0;
    int n = 0, n_peers = 0;
    FILE *to = open_memstream(&script, &size);
    if (!to)
        return;
    fputs("$d << EOD\n", to);
    for (int i = first; i < all->n; i++) {
        const cell *c = &all->of[i];
        if (!cells_same_op(c, &all->of[first]) || c->bytes <= 0.0 || c->picked_us <= 0.0)
            continue;
        fprintf(to, "%g %g %g %g\n", c->bytes, c->bytes / c->picked_us / 1e3,
                c->copy_us > 0.0 ? c->bytes / c->copy_us / 1e3 : NAN,
                c->peer_us > 0.0 ? c->bytes / c->peer_us / 1e3 : NAN);
        n++;
        n_peers += c->peer_us > 0.0;
    }
    fprintf(to,
            "EOD\nset logscale x\nset xlabel 'bytes'\nset ylabel 'GB/s'\nset yrange [0:]\nplot $d using 1:2 with "
            "points pt 7 title "
            "'picked', $d using 1:3 with points pt 6 title 'a copy of the bytes'%s\n",
            n_peers ? ", $d using 1:4 with points pt 2 title 'best peer'" : "");
    fclose(to);
    snprintf(label, sizeof label, "Speed by size: %s, %s", all->of[first].op, all->of[first].dtype);
    if (n > 2)
        page_plot(p, label, script);
    free(script);
}

void report_times(page *p, const results *in)
{
    if (in->count[RESULT_TIME] == 0)
        return;
    cells all = cells_of(in);
    page_section(
        p, "Speed by size",
        "What was picked at each size: its part of the speed of a copy of the same bytes, its time over that of "
        "the fastest variant of the pool, and its speed over that of the fastest other program.");
    for (int i = 0; i < all.n; i++) {
        bool is_first = true;
        for (int k = 0; k < i; k++)
            is_first &= !cells_same_op(&all.of[k], &all.of[i]);
        if (is_first) {
            write_plot(p, &all, i);
            write_op(p, &all, i);
        }
    }
    free(all.of);
}
