/* Writes a page of HTML. Plots are SVG that gnuplot makes; nothing is loaded from elsewhere. */
#include "report/page.h"
#include "common/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const head =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
    "content=\"light dark\">\n"
    "<style>\n"
    ":root{--text:#1b1b1b;--ground:#fff;--line:#ccc;--quiet:#555}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e8e8e8;--ground:#161616;--line:#444;--quiet:#aaa}"
    "figure svg{filter:invert(1) hue-rotate(180deg)}}\n"
    "body{font:1rem/1.5 system-ui,sans-serif;color:var(--text);background:var(--ground);max-width:75rem;margin:0 "
    "auto;padding:1rem}\n"
    "h2{border-top:1px solid var(--line);padding-top:1rem;margin-top:2rem}\np{max-width:45rem}\n"
    "figure{margin:1rem 0;overflow-x:auto}figure "
    "svg{max-width:100%;min-width:34rem;height:auto;background:#fff}figcaption,caption{color:var(--quiet);"
    "text-align:left}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.875rem}\n"
    "th,td{padding:.15rem .5rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left}\n"
    "td[data-share]{background:hsl(var(--hue) 60% 50% / .35)}\n"
    "</style>\n";

void page_text(page *p, const char *text)
{
    static const char *const escape[256] = {['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"};
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (escape[*at])
            fputs(escape[*at], p->out);
        else
            fputc(*at, p->out);
}

void page_begin(page *p, FILE *out, const char *title)
{
    *p = (page){.out = out, .has_gnuplot = system("command -v gnuplot >/dev/null 2>&1") == 0};
    fprintf(out, "%s<title>", head);
    page_text(p, title);
    fputs("</title>\n</head>\n<body>\n<main>\n<h1>", out);
    page_text(p, title);
    fputs("</h1>\n", out);
    if (!p->has_gnuplot)
        fputs("<p>gnuplot is not installed: this page has tables and no plots.</p>\n", out);
}

void page_end(page *p)
{
    fputs("</main>\n</body>\n</html>\n", p->out);
}

void page_section(page *p, const char *heading, const char *meaning)
{
    fputs("<h2>", p->out);
    page_text(p, heading);
    fputs("</h2>\n", p->out);
    page_paragraph(p, meaning);
}

void page_paragraph(page *p, const char *text)
{
    fputs("<p>", p->out);
    page_text(p, text);
    fputs("</p>\n", p->out);
}

/* A region that scrolls can be reached by the keyboard. */
void page_table(page *p, const char *caption, const char *const *column, int n)
{
    fputs("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"", p->out);
    page_text(p, caption);
    fputs("\">\n<table>\n<caption>", p->out);
    page_text(p, caption);
    fputs("</caption>\n<tr>", p->out);
    for (int i = 0; i < n; i++) {
        fputs("<th scope=\"col\">", p->out);
        page_text(p, column[i]);
        fputs("</th>", p->out);
    }
}

void page_row(page *p, const char *first)
{
    fputs("</tr>\n<tr><th scope=\"row\">", p->out);
    page_text(p, first);
    fputs("</th>", p->out);
}

void page_cell(page *p, double share, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (share < 0.0)
        fputs("<td>", p->out);
    else /* red below half, green at 1 */
        fprintf(p->out, "<td data-share=\"%.2f\" style=\"--hue:%.0f\">", share,
                share > 0.5 ? 240.0 * (share < 1.0 ? share - 0.5 : 0.5) : 0.0);
    page_text(p, text);
    fputs("</td>", p->out);
}

void page_table_end(page *p)
{
    fputs("</tr>\n</table>\n</div>\n", p->out);
}

/* Behind the XML declaration, which HTML does not have. */
static void copy_svg(page *p, FILE *from)
{
    char line[4096];
    bool is_inside = false;
    while (fgets(line, sizeof line, from)) {
        is_inside |= strstr(line, "<svg") != NULL;
        if (is_inside)
            fputs(line, p->out);
    }
}

void page_quote(FILE *commands, const char *text)
{
    fputc('\'', commands);
    for (; *text; text++) {
        if (*text == '\'') /* twice: the character itself */
            fputc(*text, commands);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, commands);
    }
    fputc('\'', commands);
}

static bool run_gnuplot(int number, const char *path, const char *commands)
{
    FILE *to = popen("gnuplot", "w");
    if (!to)
        return false;
    fprintf(to,
            "set terminal svg size 760,420 dynamic name 'plot%d' font 'sans-serif,14'\nset output '%s'\nset grid\n"
            "set key outside below\n%s\n",
            number, path, commands);
    return pclose(to) == 0;
}

/* A figure wider than the window scrolls, and can be reached by the keyboard. */
void page_figure(page *p, const char *label)
{
    fputs("<figure tabindex=\"0\" role=\"img\" aria-label=\"", p->out);
    page_text(p, label);
    fputs("\">\n", p->out);
}

void page_figure_end(page *p, const char *label)
{
    fputs("<figcaption>", p->out);
    page_text(p, label);
    fputs("</figcaption>\n</figure>\n", p->out);
}

void page_plot(page *p, const char *label, const char *commands)
{
    char path[] = "/tmp/mdctl-plot-XXXXXX";
    const int file = p->has_gnuplot ? mkstemp(path) : -1;
    if (file < 0)
        return;
    FILE *svg = fdopen(file, "r");
    if (svg && run_gnuplot(++p->n_plots, path, commands)) {
        page_figure(p, label);
        copy_svg(p, svg);
        page_figure_end(p, label);
    } else {
        cli_fail("no plot '%s': gnuplot failed", label);
    }
    if (svg)
        fclose(svg);
    unlink(path);
}
