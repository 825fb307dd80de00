/* The matrix hint x size of bench table and bench sweep: a table at the hints' own sizes, curves over all sizes. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 160, MOST_SIZES = 160 };

typedef struct matrix {
    int n_columns, n_sizes;
    const char *column[MOST_COLUMNS];
    int64_t size[MOST_SIZES];
    double us[MOST_COLUMNS][MOST_SIZES]; /* 0: not timed */
} matrix;

static int column_of(matrix *m, const char *name)
{
    int i = 0;
    while (i < m->n_columns && strcmp(m->column[i], name))
        i++;
    if (i == m->n_columns && i < MOST_COLUMNS)
        m->column[m->n_columns++] = name;
    return i;
}

static int size_of(matrix *m, int64_t size)
{
    int i = 0;
    while (i < m->n_sizes && m->size[i] != size)
        i++;
    if (i == m->n_sizes && i < MOST_SIZES)
        m->size[m->n_sizes++] = size;
    return i;
}

static void fill(matrix *m, const results *in, const char *dtype)
{
    for (int i = 0; i < in->n; i++) {
        const json_t *j = in->line[i].json;
        if (in->line[i].kind != RESULT_HINT || strcmp(result_dtype(j), dtype) != 0)
            continue;
        const int c = column_of(m, result_word(j, "column"));
        const int s = size_of(m, json_integer_value(json_array_get(json_object_get(j, "shape"), 0)));
        if (c < MOST_COLUMNS && s < MOST_SIZES)
            m->us[c][s] = result_number(j, "us");
    }
}

static double least(const matrix *m, int s)
{
    double us = INFINITY;
    for (int c = 0; c < m->n_columns; c++)
        if (m->us[c][s] > 0.0)
            us = fmin(us, m->us[c][s]);
    return us;
}

/* Of the many hints of a sweep a table shows those of TorchInductor's multi-kernel. */
static const int64_t shown_hint[] = {64, 256, 4096};
enum { SHOWN_HINTS = sizeof shown_hint / sizeof *shown_hint };

/* These hints, and whatever dispatches. */
static bool is_shown(const char *column)
{
    bool is_hint = false;
    for (int i = 0; i < SHOWN_HINTS; i++)
        is_hint |= !strncmp(column, "hint ", 5) && strtoll(column + 5, NULL, 10) == shown_hint[i];
    return is_hint || strncmp(column, "hint ", 5) != 0;
}

/* The sizes of the matrix that are nearest to the hints of the table, each once; how many. */
static int nearest_sizes(int nearest[SHOWN_HINTS], const matrix *m)
{
    int n = 0;
    for (int i = 0; i < SHOWN_HINTS; i++) {
        int best = 0;
        for (int s = 1; s < m->n_sizes; s++)
            if (fabs(log2((double)m->size[s] / (double)shown_hint[i])) <
                fabs(log2((double)m->size[best] / (double)shown_hint[i])))
                best = s;
        if (!n || nearest[n - 1] != best)
            nearest[n++] = best;
    }
    return n;
}

static void write_table(page *p, const matrix *m)
{
    int at[SHOWN_HINTS];
    const int n = nearest_sizes(at, m);
    char size[SHOWN_HINTS][24];
    const char *head[1 + SHOWN_HINTS] = {"what runs"};
    for (int i = 0; i < n; i++) {
        snprintf(size[i], sizeof size[i], "%lld", (long long)m->size[at[i]]);
        head[1 + i] = size[i];
    }
    page_table(p, "us, and times the fastest of the size", head, 1 + n);
    for (int c = 0; c < m->n_columns; c++) {
        if (!is_shown(m->column[c]))
            continue;
        page_row(p, m->column[c]);
        for (int i = 0; i < n; i++) {
            const double us = m->us[c][at[i]], best = least(m, at[i]);
            if (us > 0.0)
                page_cell(p, best / us, "%.2f (%.2f)", us, us / best);
            else
                page_cell(p, -1.0, "-");
        }
    }
    page_table_end(p);
}

static void write_curves(page *p, const matrix *m, const char *dtype)
{
    char label[96], *script = NULL;
    size_t n = 0;
    const char *separator = "plot ";
    FILE *to = open_memstream(&script, &n);
    if (!to)
        return;
    for (int c = 0; c < m->n_columns; c++) {
        if (!is_shown(m->column[c]))
            continue;
        fprintf(to, "$d%d << EOD\n", c);
        for (int s = 0; s < m->n_sizes; s++)
            if (m->us[c][s] > 0.0)
                fprintf(to, "%lld %g\n", (long long)m->size[s], least(m, s) / m->us[c][s]);
        fputs("EOD\n", to);
    }
    fputs("set logscale x 2\nset xlabel 'size'\nset ylabel 'share of the fastest'\nset yrange [:1.02]\n", to);
    for (int c = 0; c < m->n_columns; c++)
        if (is_shown(m->column[c])) {
            fprintf(to, "%s$d%d with linespoints pt 7 ps 0.3 dt %d title ", separator, c,
                    strstr(m->column[c], "default") ? 2 : 1);
            page_quote(to, m->column[c]);
            separator = ", ";
        }
    fputs("\n", to);
    fclose(to);
    snprintf(label, sizeof label, "Share of the fastest kernel of each size, %s", dtype);
    page_plot(p, label, script);
    free(script);
}

/* ---- The map: each hint's kernel at each size, and below it what dispatches */

typedef struct map_user {
    const matrix *m;
    int n_rows, row[MOST_COLUMNS]; /* columns of the matrix */
    char name[32];
} map_user;

static const char *row_name(const void *user, int row)
{
    const map_user *u = user;
    return u->m->column[u->row[row]];
}

static const char *column_name(const void *user, int column)
{
    map_user *u = (map_user *)user;
    snprintf(u->name, sizeof u->name, "%lld", (long long)u->m->size[column]);
    return u->name;
}

static double share(const void *user, int row, int column)
{
    const map_user *u = user;
    const double us = u->m->us[u->row[row]][column];
    return us > 0.0 ? least(u->m, column) / us : -1.0;
}

static void write_map(page *p, const matrix *m, const char *dtype, bool is_hint)
{
    enum { LEAST_HINTS = 3 };
    char label[160];
    map_user user = {.m = m};
    for (int c = 0; c < m->n_columns; c++)
        if (!strncmp(m->column[c], "hint ", 5) == is_hint)
            user.row[user.n_rows++] = c;
    if (user.n_rows < (is_hint ? LEAST_HINTS : 1))
        return;
    snprintf(label, sizeof label,
             is_hint ? "Before: one hint's kernel at all sizes, %s: share of the fastest of the size"
                     : "After: what dispatches, %s: share of the fastest of the size",
             dtype);
    page_draw_map(p, &(page_map){label, is_hint ? "one hint" : "dispatched", "size", user.n_rows, m->n_sizes, row_name,
                                 column_name, share, &user});
}

void report_hints(page *p, const results *in)
{
    static const char *const dtypes[] = {"bf16", "f16", "f32", "f64"};
    bool is_first = true;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        matrix *m = calloc(1, sizeof *m);
        if (m)
            fill(m, in, dtypes[i]);
        if (m && m->n_columns && is_first)
            page_section(p, "Hint and size",
                         "A product with all sizes dynamic. A kernel made for one hint serves other sizes worse; what "
                         "dispatches picks among the hints' kernels.");
        if (m && m->n_columns) {
            is_first = false;
            write_table(p, m);
            write_map(p, m, dtypes[i], true);
            write_map(p, m, dtypes[i], false);
            if (m->n_sizes > 3)
                write_curves(p, m, dtypes[i]);
        }
        free(m);
    }
}
