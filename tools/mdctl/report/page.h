/* A page of HTML that loads nothing: sections, tables whose cells are coloured by a share, plots by gnuplot. */
#ifndef MDCTL_REPORT_PAGE_H
#define MDCTL_REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct page {
    FILE *out;
    int n_plots;
    bool has_gnuplot;
} page;

void page_begin(page *p, FILE *out, const char *title);
void page_end(page *p);
void page_section(page *p, const char *heading, const char *meaning);
void page_paragraph(page *p, const char *text);
/** Text with its special characters escaped. */
void page_text(page *p, const char *text);
/** A table with a caption and n columns; it scrolls where the window is narrow. */
void page_table(page *p, const char *caption, const char *const *column, int n);
void page_row(page *p, const char *head);
/** A cell; share in [0, 1] colours it from red to green, a share below 0 not at all. */
void page_cell(page *p, double share, const char *format, ...) __attribute__((format(printf, 3, 4)));
void page_table_end(page *p);
/** Begins a figure, whose SVG follows; ends it with its label as the caption. */
void page_figure(page *p, const char *label);
void page_figure_end(page *p, const char *label);

/* A map of cells, drawn as SVG without gnuplot. */
typedef struct page_map {
    const char *label, *rows, *columns; /* what it shows, and what lies along its sides */
    int n_rows, n_columns;
    const char *(*row_name)(const void *user, int row); /* "" for none; of a cell's row and column */
    const char *(*column_name)(const void *user, int column);
    double (*share)(const void *user, int row, int column); /* in [0, 1]; below 0: no cell */
    const void *user;
} page_map;
void page_draw_map(page *p, const page_map *map);

/* Bars over time, drawn as SVG. */
typedef struct page_bar {
    double from, to; /* in any unit */
    int lane, kind; /* the lane it lies in, from 0; its colour, from 0 */
    const char *text; /* what it is, for whoever points at it */
} page_bar;
void page_draw_bars(page *p, const char *label, const char *unit, const page_bar *bar, int n);
/** Writes a text of a result into commands of gnuplot, in quotes that nothing in it can end. */
void page_quote(FILE *commands, const char *text);
/** A plot from commands of gnuplot with their data; `label` says what it shows. Nothing where gnuplot is missing. */
void page_plot(page *p, const char *label, const char *commands);

#endif
