/* bench --compare OLD NEW: what was picked at each shape of two runs, and whether it became slower beyond the noise. */
#include "bench/bench.h"
#include "common/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A time is slower, or faster, if it differs by more than this and the middle 80% of both runs do not meet. */
static const double least_change = 0.02;

static int change_of(const cell *was, const cell *is)
{
    const double ratio = is->picked_us / was->picked_us;
    return ratio > 1.0 + least_change && is->lo > was->hi ? 1 : ratio < 1.0 - least_change && is->hi < was->lo ? -1 : 0;
}

static void print_change(const cell *was, const cell *is, int change)
{
    static const char *const word[] = {"faster", "", "SLOWER"};
    printf("%-18s %-5s %-24s %10.2f us %10.2f us  %6.3f  %s", is->op, is->dtype, is->shape, was->picked_us,
           is->picked_us, is->picked_us / was->picked_us, word[change + 1]);
    if (strcmp(was->picked, is->picked))
        printf("%s%s instead of %s", change ? ", " : "", is->picked, was->picked);
    printf("\n");
}

static int compare(const cells *was, const cells *is)
{
    int n = 0, n_slower = 0, n_faster = 0, n_missing = 0;
    double sum = 0.0;
    for (int i = 0; i < is->n; i++) {
        const cell *now = &is->of[i], *before = now->picked_us > 0.0 ? cells_find(was, now) : NULL;
        n_missing += now->picked_us > 0.0 && !before;
        if (!before)
            continue;
        const int change = change_of(before, now);
        print_change(before, now, change);
        sum += log(now->picked_us / before->picked_us);
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

static int compare_results(const results *was, const results *is)
{
    cells before = cells_of(was), now = cells_of(is);
    const int status = before.of && now.of ? compare(&before, &now) : cli_fail("out of memory");
    free(before.of);
    free(now.of);
    return status;
}

int bench_compare(const cli_options *o)
{
    results was = {0}, is = {0};
    if (o->n != 2)
        return cli_usage("bench --compare takes two files, the old run and the new one");
    int status = results_read(&was, o->arg[0]) && results_read(&is, o->arg[1]) ? CLI_OK : CLI_FAILED;
    for (int i = RESULT_DEVICE; i <= RESULT_HARDWARE && status == CLI_OK; i++) /* versions may differ */
        if (was.fact[i][0] && is.fact[i][0] && strcmp(was.fact[i], is.fact[i]) != 0)
            status = cli_fail("'%s' ran on '%s' and '%s' on '%s'", o->arg[0], was.fact[i], o->arg[1], is.fact[i]);
    if (status == CLI_OK)
        status = compare_results(&was, &is);
    results_free(&was);
    results_free(&is);
    return status;
}
