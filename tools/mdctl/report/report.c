/* mdctl report: a page from recorded results, or from a program's own statistics. */
#include "report/report.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>

static void write_page(FILE *to, const results *in)
{
    static void (*const section[])(page * p, const results *in) = {report_demo,     report_hints,  report_times,
                                                                   report_winners,  report_regret, report_tables,
                                                                   report_timeline, report_stats};
    char title[128];
    page p;
    const char *where = in->fact[in->fact[RESULT_HARDWARE][0] ? RESULT_HARDWARE : RESULT_DEVICE];
    snprintf(title, sizeof title, "multidispatch%s%s", where[0] ? " on " : "", where);
    page_begin(&p, to, title);
    for (size_t i = 0; i < sizeof section / sizeof *section; i++)
        section[i](&p, in);
    page_end(&p);
}

static int report(const cli_options *o, const results *in)
{
    FILE *to = o->output ? fopen(o->output, "w") : stdout;
    if (!to)
        return cli_fail("cannot write '%s'", o->output);
    write_page(to, in);
    return o->output ? cli_close_output(to, o->output, CLI_OK) : CLI_OK;
}

/* False where no section shows anything of them. */
static bool has_section(const results *in)
{
    bool has_any = in->count[RESULT_OTHER] < in->n;
    for (int i = 0; i < in->n && !has_any; i++)
        has_any = report_is_row(in->line[i].json);
    return has_any;
}

int cli_report(const cli_options *o)
{
    results in = {0};
    bool ok = true;
    if (o->n == 0)
        return cli_usage(
            "report takes files of results: of bench, regret, demo or the judges, or a program's MD_STATS");
    for (int i = 0; i < o->n && ok; i++)
        ok = results_read(&in, o->arg[i]);
    if (ok && !has_section(&in))
        ok = (cli_fail("the files hold no results that a page can show"), false);
    const int status = ok ? report(o, &in) : CLI_FAILED;
    results_free(&in);
    return status;
}
