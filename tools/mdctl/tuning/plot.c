/* The picture of a search, by gnuplot. */
#include "tuning/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_first_of_point(const tune_run *r, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (!strcmp(r->mark[k].point, r->mark[i].point))
            return false;
    return true;
}

static double least_of_point(const tune_run *r, const char *point)
{
    double least = INFINITY;
    for (int32_t i = 0; i < r->n_points_kept; i++)
        if (r->mark[i].us > 0.0 && !strcmp(r->mark[i].point, point))
            least = fmin(least, r->mark[i].us);
    return least;
}

/* Number of the config at its point, time over the best, modelled time over the best. */
static void write_point(FILE *to, const tune_run *r, const char *point)
{
    const double least = least_of_point(r, point);
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_points_kept; i++)
        if (r->mark[i].us > 0.0 && !strcmp(r->mark[i].point, point))
            fprintf(to, "%d %g %g\n", ++n, r->mark[i].us / least, r->mark[i].model_us / least);
    fputs("e\n", to);
}

static void write_curves(FILE *to, const tune_run *r, const char *columns, const char *style)
{
    bool is_first = true;
    for (int32_t i = 0; i < r->n_points_kept; i++)
        if (is_first_of_point(r, i)) {
            fprintf(to, "%s '-' using %s title '%s' with %s", is_first ? "plot" : ",", columns, r->mark[i].point,
                    style);
            is_first = false;
        }
    fputs("\n", to);
    for (int32_t i = 0; i < r->n_points_kept; i++)
        if (is_first_of_point(r, i))
            write_point(to, r, r->mark[i].point);
}

int tune_plot(const tune_run *r, const char *path)
{
    if (r->n_points_kept == 0)
        return cli_fail("nothing was timed: no picture");
    if (strchr(path, '\''))
        return cli_usage("--plot: a name without quotes, please");
    FILE *to = popen("gnuplot", "w");
    if (!to)
        return cli_fail("cannot run gnuplot");
    fprintf(to,
            "set terminal pngcairo size 1400,600\nset output '%s'\nset multiplot layout 1,2\nset logscale y\nset key "
            "outside below\nset grid\n",
            path);
    fputs("set xlabel 'config, in order of trial'\nset ylabel 'time over the best of its point'\n", to);
    write_curves(to, r, "1:2", "linespoints");
    fputs("set logscale x\nset xlabel 'modelled time over the best measured one'\nset ylabel 'measured time over the "
          "best'\n",
          to);
    write_curves(to, r, "3:2", "points pt 7");
    fputs("unset multiplot\n", to);
    return pclose(to) == 0 ? CLI_OK : cli_fail("gnuplot failed; is it installed?");
}
