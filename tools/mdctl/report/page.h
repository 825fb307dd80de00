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
/** Text with its special characters escaped. */
void page_text(page *p, const char *text);
/** A table with a caption and n columns; it scrolls where the window is narrow. */
void page_table(page *p, const char *caption, const char *const *column, int n);
void page_row(page *p, const char *head);
/** A cell; share in [0, 1] colours it from red to green, a share below 0 not at all. */
void page_cell(page *p, double share, const char *format, ...) __attribute__((format(printf, 3, 4)));
void page_table_end(page *p);
/** A plot from commands of gnuplot with their data; `label` says what it shows. Nothing where gnuplot is missing. */
void page_plot(page *p, const char *label, const char *commands);

#endif
