/* What is printed of bench table and bench sweep. */
#include "bench/table.h"

#include <string.h>

bool table_has_pool(const column *c)
{
    return c->op && !c->hint;
}

static double us_of(const bench_case *c, int i)
{
    return timing_quantile(&c->who[i].kernel, 0.5);
}

static int fastest(const bench_case *c)
{
    int best = 0;
    for (int i = 1; i < c->n; i++)
        best = us_of(c, i) < us_of(c, best) ? i : best;
    return best;
}

static int fastest_of_pool(const bench_case *c, const column *col)
{
    int best = col->contender;
    for (int32_t v = 0; v < md_op_n_variants(col->op, 0); v++)
        for (int i = 0; i < c->n; i++)
            if (!strcmp(c->who[i].choice.variant[0], md_op_variant(col->op, 0, v)) && us_of(c, i) < us_of(c, best))
                best = i;
    return best;
}

static void add_loss(loss *l, double x)
{
    l->n++;
    l->sum += x;
    l->worst = x > l->worst ? x : l->worst;
}

/* The contenders that a cell is compared with. */
typedef struct rivals {
    int least; /* fastest of the size */
    int own; /* fastest of the column's pool; -1: it has none */
} rivals;

static void print_cell(FILE *f, const table *t, const bench_case *c, int64_t size, const column *col, rivals r)
{
    const contender *rival = &c->who[col->contender];
    const double us = us_of(c, col->contender);
    fprintf(f, "{\"bench\": \"table\", \"op\": \"matmul\", \"dtype\": \"%s\", ", md_dtype_name(t->dtype));
    device_json(f, &t->b->device);
    fprintf(f,
            ", \"shape\": [%lld, %lld, %lld], \"column\": \"%s\", \"hint\": %d, \"variant\": \"%s\", \"us\": %.3f, "
            "\"lo\": %.3f, \"hi\": %.3f, \"regret\": %.4f, \"timed\": %d",
            (long long)size, (long long)size, (long long)size, col->label, col->hint, rival->choice.variant[0], us,
            timing_quantile(&rival->kernel, 0.1), timing_quantile(&rival->kernel, 0.9), us / us_of(c, r.least) - 1.0,
            c->n);
    if (r.own >= 0)
        fprintf(f, ", \"pool\": {\"best\": \"%s\", \"us\": %.3f, \"regret\": %.4f}", c->who[r.own].choice.variant[0],
                us_of(c, r.own), us / us_of(c, r.own) - 1.0);
    fprintf(f, "}\n");
}

void table_print_size(table *t, const bench_case *c, int64_t size)
{
    FILE *to[] = {stdout, t->b->output};
    const int least = fastest(c);
    cli_progress(NULL);
    for (int i = 0; i < t->n_columns; i++) {
        const column *col = &t->column[i];
        if (col->contender < 0)
            continue;
        const double us = us_of(c, col->contender);
        const int own = table_has_pool(col) ? fastest_of_pool(c, col) : -1;
        add_loss(&t->all[i], us / us_of(c, least) - 1.0);
        if (own >= 0)
            add_loss(&t->own[i], us / us_of(c, own) - 1.0);
        for (int f = 0; f < 2; f++)
            if (to[f])
                print_cell(to[f], t, c, size, col, (rivals){least, own});
    }
    fflush(stdout);
}

static double mean(const loss *l)
{
    return l->sum / (l->n ? l->n : 1);
}

void table_print_summary(const table *t)
{
    for (int i = 0; i < t->n_columns; i++) {
        const loss *all = &t->all[i], *own = &t->own[i];
        char pool[96] = "";
        if (!all->n)
            continue;
        if (own->n)
            snprintf(pool, sizeof pool, "; to the fastest of its pool %.2f%%, %.1f%%", 100.0 * mean(own),
                     100.0 * own->worst);
        fprintf(stderr, "mdctl: %s %-23s loses %6.2f%% on average, %7.1f%% at worst, to the fastest of the size%s\n",
                md_dtype_name(t->dtype), t->column[i].label, 100.0 * mean(all), 100.0 * all->worst, pool);
    }
}
