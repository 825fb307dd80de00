/* Drawings that need no gnuplot: maps of cells, and bars over time. */
#include "report/page.h"

#include <math.h>

/* A share of at least `least` has this colour: one path for each keeps the page small. */
static const struct {
    double least;
    const char *colour;
} levels[] = {{0.97, "#1a9850"}, {0.9, "#66bd63"},  {0.8, "#a6d96a"}, {0.67, "#fee08b"},
              {0.5, "#fdae61"},  {0.33, "#f46d43"}, {0.0, "#a50026"}};
enum { LEVELS = sizeof levels / sizeof *levels, LEFT = 170, TOP = 8, CELL_MOST = 28, WIDTH = 760, LINE = 16 };

static int level_of(double share)
{
    int i = 0;
    while (i + 1 < LEVELS && share < levels[i].least)
        i++;
    return i;
}

static void begin(page *p, const char *label, int height)
{
    page_figure(p, label);
    fprintf(p->out, "<svg viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", WIDTH, height);
}

static void end(page *p, const char *label)
{
    fputs("</svg>\n", p->out);
    page_figure_end(p, label);
}

static void text_at(page *p, double x, double y, const char *anchor, const char *text)
{
    fprintf(p->out, "<text x=\"%g\" y=\"%g\" text-anchor=\"%s\">", x, y, anchor);
    page_text(p, text);
    fputs("</text>\n", p->out);
}

static void draw_level(page *p, const page_map *m, int level, double cell)
{
    fprintf(p->out, "<path fill=\"%s\" d=\"", levels[level].colour);
    for (int r = 0; r < m->n_rows; r++)
        for (int c = 0; c < m->n_columns; c++) {
            const double share = m->share(m->user, r, c);
            if (share >= 0.0 && level_of(share) == level)
                fprintf(p->out, "M%g %gh%gv%gh-%gz", LEFT + c * cell, TOP + r * cell, cell, cell, cell);
        }
    fputs("\"/>\n", p->out);
}

/* As many names as there is room for. */
static void draw_names(page *p, const page_map *m, double cell)
{
    const int row_step = (int)fmax(1.0, ceil(LINE / cell)), column_step = (int)fmax(1.0, ceil(3 * LINE / cell));
    for (int r = 0; r < m->n_rows; r += row_step)
        text_at(p, LEFT - 6, TOP + r * cell + cell / 2 + 4, "end", m->row_name(m->user, r));
    for (int c = 0; c < m->n_columns; c += column_step)
        text_at(p, LEFT + (c + 0.5) * cell, TOP + m->n_rows * cell + LINE, "middle", m->column_name(m->user, c));
    text_at(p, LEFT + m->n_columns * cell / 2, TOP + m->n_rows * cell + 2 * LINE, "middle", m->columns);
    text_at(p, 4, TOP + LINE, "start", m->rows);
}

static void draw_legend(page *p, double y)
{
    for (int i = 0; i < LEVELS; i++) {
        char text[16];
        const double x = LEFT + 72.0 * i;
        snprintf(text, sizeof text, "%s%.2f", i + 1 < LEVELS ? "from " : "below ",
                 levels[i + 1 < LEVELS ? i : i - 1].least);
        fprintf(p->out, "<rect x=\"%g\" y=\"%g\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, y, levels[i].colour);
        text_at(p, x + 13, y + 9, "start", text);
    }
}

void page_draw_map(page *p, const page_map *m)
{
    const double cell = fmin(CELL_MOST, (double)(WIDTH - LEFT - 8) / m->n_columns);
    const double below = TOP + m->n_rows * cell + 2.5 * LINE;
    begin(p, m->label, (int)(below + 1.5 * LINE));
    for (int i = 0; i < LEVELS; i++)
        draw_level(p, m, i, cell);
    draw_names(p, m, cell);
    draw_legend(p, below);
    end(p, m->label);
}

/* ---- Bars */

static void draw_bar(page *p, const page_bar *b, double start, double scale)
{
    static const char *const colour[] = {"#4575b4", "#fdae61", "#66bd63", "#d73027", "#984ea3"};
    fprintf(p->out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>",
            8 + (b->from - start) * scale, TOP + b->lane * LINE, fmax((b->to - b->from) * scale, 0.5), LINE - 4,
            colour[(size_t)b->kind % (sizeof colour / sizeof *colour)]);
    page_text(p, b->text);
    fputs("</title></rect>\n", p->out);
}

void page_draw_bars(page *p, const char *label, const char *unit, const page_bar *bar, int n)
{
    double start = INFINITY, stop = -INFINITY;
    int lanes = 0;
    char text[64];
    for (int i = 0; i < n; i++) {
        start = fmin(start, bar[i].from);
        stop = fmax(stop, bar[i].to);
        lanes = bar[i].lane >= lanes ? bar[i].lane + 1 : lanes;
    }
    if (n == 0 || !(stop > start))
        return;
    begin(p, label, TOP + lanes * LINE + 2 * LINE);
    for (int i = 0; i < n; i++)
        draw_bar(p, &bar[i], start, (WIDTH - 16) / (stop - start));
    snprintf(text, sizeof text, "%.3g %s", stop - start, unit);
    text_at(p, 8, TOP + (lanes + 1) * LINE, "start", "0");
    text_at(p, WIDTH - 8, TOP + (lanes + 1) * LINE, "end", text);
    end(p, label);
}
