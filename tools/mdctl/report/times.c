/* Times of ops beside the copy of their bytes and beside others: a table for each op, and who is fastest where. */
#include "common/cells.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_time(const cell *c)
{
    return c->picked_us > 0.0;
}

static bool has_copy(const cell *c)
{
    return c->copy_us > 0.0 && has_time(c);
}

static bool has_roof(const cell *c)
{
    return c->roof_us > 0.0 && has_time(c);
}

static bool has_peer(const cell *c)
{
    return c->peer_us > 0.0 && has_time(c);
}

static void write_us(page *p, const cell *c)
{
    page_cell(p, -1.0, "%.2f", c->picked_us);
}

static void write_copy(page *p, const cell *c)
{
    page_cell(p, c->copy_us / c->picked_us, "%.2f", c->copy_us / c->picked_us);
}

static void write_roof(page *p, const cell *c)
{
    page_cell(p, fmin(c->roof_us / c->picked_us, 1.0), "%.2f of %s", c->roof_us / c->picked_us, c->limit);
}

static void write_reason(page *p, const cell *c)
{
    page_cell(p, -1.0, "%s", c->reason);
}

static void write_best(page *p, const cell *c)
{
    page_cell(p, c->best_us / c->picked_us, "%.1f%%", 100.0 * (c->picked_us / c->best_us - 1.0));
}

static void write_peer(page *p, const cell *c)
{
    page_cell(p, c->peer_us / c->picked_us, "%.2f of %s", c->peer_us / c->picked_us, c->peer);
}

static void write_variant(page *p, const cell *c)
{
    page_cell(p, -1.0, "%s", c->picked);
}

/* A column is left out where no cell has it, and the page says so. */
static const struct {
    const char *name, *absent;
    bool (*has)(const cell *c);
    void (*write)(page *p, const cell *c);
} columns[] = {
    {"us", NULL, has_time, write_us},
    {"share of a copy's speed", "a copy", has_copy, write_copy},
    {"share of the roofline", "the roofline", has_roof, write_roof},
    {"what costs most beyond it, by the model", NULL, has_roof, write_reason},
    {"over the best of the pool", NULL, has_time, write_best},
    {"speed over the best peer's", "other programs", has_peer, write_peer},
    {"variant", NULL, has_time, write_variant},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void find_shown(bool shown[COLUMNS], const cells *all, int first)
{
    memset(shown, 0, COLUMNS * sizeof *shown);
    for (int i = first; i < all->n; i++)
        for (int k = 0; k < COLUMNS && cells_same_op(&all->of[i], &all->of[first]); k++)
            shown[k] |= columns[k].has(&all->of[i]);
}

static void write_cell(page *p, const cell *c, const bool shown[COLUMNS])
{
    page_row(p, c->shape);
    for (int k = 0; k < COLUMNS; k++)
        if (shown[k] && columns[k].has(c))
            columns[k].write(p, c);
        else if (shown[k])
            page_cell(p, -1.0, "-");
}

/* "softmax, f32; not timed beside a copy, other programs" */
static void caption_of(char out[256], const cell *c, const bool shown[COLUMNS])
{
    const char *between = "; not timed beside ";
    size_t used = (size_t)snprintf(out, 256, "%s, %s", c->op, c->dtype);
    for (int k = 0; k < COLUMNS; k++)
        if (!shown[k] && columns[k].absent && used < 256) {
            used += (size_t)snprintf(out + used, 256 - used, "%s%s", between, columns[k].absent);
            between = ", ";
        }
}

static void write_op(page *p, const cells *all, int first)
{
    const char *head[COLUMNS + 1] = {"sizes"};
    char caption[256];
    bool shown[COLUMNS];
    int n = 1;
    find_shown(shown, all, first);
    for (int k = 0; k < COLUMNS; k++)
        if (shown[k])
            head[n++] = columns[k].name;
    caption_of(caption, &all->of[first], shown);
    page_table(p, caption, head, n);
    for (int i = first; i < all->n; i++)
        if (cells_same_op(&all->of[i], &all->of[first]))
            write_cell(p, &all->of[i], shown);
    page_table_end(p);
}

/* GB/s; NaN, which gnuplot leaves out, where it was not timed. */
static double rate_of(const cell *c, double us)
{
    return us > 0.0 ? c->bytes / us / 1e3 : NAN;
}

/* Speed over the bytes of each shape. */
static void write_plot(page *p, const cells *all, int first)
{
    char label[160], *script = NULL;
    size_t size = 0;
    int n = 0, n_peers = 0, n_roofs = 0;
    FILE *to = open_memstream(&script, &size);
    if (!to)
        return;
    fputs("$d << EOD\n", to);
    for (int i = first; i < all->n; i++) {
        const cell *c = &all->of[i];
        if (!cells_same_op(c, &all->of[first]) || c->bytes <= 0.0 || c->picked_us <= 0.0)
            continue;
        fprintf(to, "%g %g %g %g %g\n", c->bytes, c->bytes / c->picked_us / 1e3, rate_of(c, c->copy_us),
                rate_of(c, c->peer_us), rate_of(c, c->roof_us));
        n++;
        n_peers += c->peer_us > 0.0;
        n_roofs += c->roof_us > 0.0;
    }
    fprintf(to,
            "EOD\nset logscale x\nset xlabel 'bytes'\nset ylabel 'GB/s'\nset yrange [0:]\nplot $d using 1:2 with "
            "points pt 7 title "
            "'picked', $d using 1:3 with points pt 6 title 'a copy of the bytes'%s%s\n",
            n_peers ? ", $d using 1:4 with points pt 2 title 'best peer'" : "",
            n_roofs ? ", $d using 1:5 with points pt 10 title 'the roofline'" : "");
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
        "What was picked at each size: its part of the speed of a copy of the same bytes, and of the roofline (the "
        "least time for the bytes or operations on this device); its time over that of the pool's fastest variant; "
        "and its speed over that of the fastest other program.");
    for (int i = 0; i < all.n; i++)
        if (cells_is_first(&all, i)) {
            write_plot(p, &all, i);
            write_op(p, &all, i);
        }
    free(all.of);
}
