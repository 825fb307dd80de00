/* bench --compare OLD NEW: what was picked at each shape of two runs, and whether it became slower beyond the noise. */
#include "bench/bench.h"
#include "common/recorded.h"

#include <math.h>
#include <string.h>

/* A time is slower, or faster, if it differs by more than this and the middle 80% of both runs do not meet. */
static const double least_change = 0.02;

static int change_of(const recorded_line *was, const recorded_line *is)
{
    const double ratio = is->us / was->us;
    return ratio > 1.0 + least_change && is->lo > was->hi ? 1 : ratio < 1.0 - least_change && is->hi < was->lo ? -1 : 0;
}

static void print_change(const recorded_line *was, const recorded_line *is, int change)
{
    static const char *const word[] = {"faster", "", "SLOWER"};
    printf("%-18s %-5s %-24s %10.2f us %10.2f us  %6.3f  %s", is->op, is->dtype, is->shape, was->us, is->us,
           is->us / was->us, word[change + 1]);
    if (strcmp(was->variant, is->variant))
        printf("%s%s instead of %s", change ? ", " : "", is->variant, was->variant);
    printf("\n");
}

static int compare(const recorded *was, const recorded *is)
{
    int n = 0, n_slower = 0, n_faster = 0, n_missing = 0;
    double sum = 0.0;
    for (int i = 0; i < is->n; i++) {
        const recorded_line *before = is->line[i].is_pick ? recorded_pick(was, &is->line[i]) : NULL;
        n_missing += is->line[i].is_pick && !before;
        if (!before)
            continue;
        const int change = change_of(before, &is->line[i]);
        print_change(before, &is->line[i], change);
        sum += log(is->line[i].us / before->us);
        n_slower += change > 0;
        n_faster += change < 0;
        n++;
    }
    if (n == 0)
        return cli_fail("the two runs have no shape in common");
    printf("%d shapes: geometric mean %.3f, %d slower and %d faster beyond the noise", n, exp(sum / n), n_slower,
           n_faster);
    printf(n_missing ? "; %d only in the second run\n" : "\n", n_missing);
    return n_slower ? CLI_FAILED : CLI_OK;
}

static void say_left_out(const char *path, const recorded *r)
{
    if (r->n_other)
        fprintf(stderr, "mdctl: %s: %d lines are no times, left out\n", path, r->n_other);
}

int bench_compare(const cli_options *o)
{
    recorded was, is;
    if (o->n != 2)
        return cli_usage("bench --compare takes two files, the old run and the new one");
    if (!recorded_read(&was, o->arg[0]))
        return CLI_FAILED;
    if (!recorded_read(&is, o->arg[1])) {
        recorded_free(&was);
        return CLI_FAILED;
    }
    say_left_out(o->arg[0], &was);
    say_left_out(o->arg[1], &is);
    const int status = strcmp(was.device, is.device)
                           ? cli_fail("'%s' ran on '%s' and '%s' on '%s'", o->arg[0], was.device, o->arg[1], is.device)
                           : compare(&was, &is);
    recorded_free(&was);
    recorded_free(&is);
    return status;
}
