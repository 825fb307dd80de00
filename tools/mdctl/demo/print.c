/* What the demo prints: tables for people, whose last lines say what dispatch brings, or one line of JSON. */
#include "demo/demo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Says where other programs wanted the processors, too: the times of what waits for all threads grow most. */
static void print_load(int threads)
{
    double load = 0.0;
    if (getloadavg(&load, 1) == 1 && load > threads + 1.0)
        printf("  other programs kept the machine busy (load %.1f, %d threads of ours): times are rough\n", load,
               threads);
}

static void print_header(const demo_story *d)
{
    const trace *t = d->trace;
    int64_t lo = t->tokens[0], hi = lo, sum = 0;
    for (int i = 0; i < t->n; i++) {
        lo = t->tokens[i] < lo ? t->tokens[i] : lo;
        hi = t->tokens[i] > hi ? t->tokens[i] : hi;
        sum += t->tokens[i];
    }
    printf("%sA transformer block (%s, width %d, hidden %d, %d heads) under changing batch sizes%s\n", cli_bold(),
           d->dtype, d->block->width, d->block->hidden, d->block->heads, cli_plain());
    printf("  trace: %s\n  %d steps of %lld..%lld tokens, %.1f on average\n", t->origin, t->n, (long long)lo,
           (long long)hi, (double)sum / t->n);
    for (int i = 0; i < BLOCK_OPS; i++)
        printf("  %-9s %s\n", block_table[i].label, md_op_formula(d->op[i].op));
    printf("  %d results checked against the f64 reference: largest error %.1e of the largest value\n", d->n_verified,
           d->worst_error);
    printf("  built in %.2f s; the trace through md_call took %.1f ms\n", d->build_us / 1e6, d->replay_us / 1e3);
    print_load(d->device->threads);
}

static void print_served(const demo_story *d)
{
    printf("\n%swho served what%s\n", cli_bold(), cli_plain());
    for (int i = 0; i < BLOCK_OPS; i++)
        for (int k = 0; k < d->op[i].n_served; k++) {
            const demo_served *served = &d->op[i].served[k];
            printf("  %-9s %-46s %s %5lld..%-5lld %4lld calls (%s)\n", k ? "" : block_table[i].label, served->variant,
                   block_table[i].rule == BLOCK_BY_CONTEXT ? "context" : "tokens ", (long long)served->lo,
                   (long long)served->hi, (long long)served->calls, served->why);
        }
}

/* The least time at a sample of the matrix. */
static double least_at(const demo_race *m, int sample)
{
    double least = 0.0;
    for (int k = 0; k < m->n; k++)
        if (m->total[k].at[sample] > 0.0 && (least == 0.0 || m->total[k].at[sample] < least))
            least = m->total[k].at[sample];
    return least;
}

/* What a hint's kernel loses at another size, at worst; what is dispatched loses. */
static void matrix_losses(double *kernel, double *dispatched, const demo_race *m)
{
    *kernel = *dispatched = 1.0;
    for (int k = 0; k < m->n; k++)
        for (int i = 0; i < m->n_samples; i++) {
            double *to = m->total[k].kind == DEMO_HINT_KERNEL ? kernel : dispatched;
            if (m->total[k].at[i] > 0.0)
                *to = fmax(*to, m->total[k].at[i] / least_at(m, i));
        }
}

static void print_matrix_row(const demo_race *m, const demo_total *t)
{
    printf("  %-22s", t->label);
    for (int i = 0; i < m->n_samples; i++)
        if (t->at[i] > 0.0)
            printf(" %10.1f %s%5.2fx%s", t->at[i], cli_shade(t->at[i] / least_at(m, i)), t->at[i] / least_at(m, i),
                   cli_plain());
        else
            printf(" %17s", "-");
    printf("  %s\n", t->variant);
}

static void print_matrix(const demo_story *d)
{
    const demo_race *m = d->matrix;
    printf("\n%sone kernel for all sizes%s: the kernel of each hint alone, %s, us and over the least\n  %-22s",
           cli_bold(), cli_plain(), block_table[BLOCK_PRODUCT].label, "tokens");
    for (int i = 0; i < m->n_samples; i++)
        printf(" %17lld", (long long)m->sample[i][0]);
    printf("\n");
    for (int k = 1; k < m->n; k++)
        print_matrix_row(m, &m->total[k]);
    print_matrix_row(m, &m->total[0]);
}

/* Adds a sample's time and the best one's; 0 where it does not fit. */
static void add_at(double us[DEMO_SAMPLES], double best[DEMO_SAMPLES], const demo_race *r, const demo_total *t)
{
    for (int i = 0; i < r->n_samples; i++) {
        us[i] = t->at[i] > 0.0 && us[i] >= 0.0 ? us[i] + t->at[i] : -1.0;
        best[i] += r->best_at[i];
    }
}

static demo_ratio ratio_of(const double us[DEMO_SAMPLES], const double best[DEMO_SAMPLES], int n)
{
    demo_ratio out = {0.0, 0.0};
    for (int i = 0; i < n; i++) {
        const double ratio = us[i] > 0.0 ? us[i] / best[i] : INFINITY;
        out.mean += ratio / n;
        out.worst = fmax(out.worst, ratio);
    }
    return out;
}

static demo_ratio ratio_of_total(const demo_race *r, const demo_total *t)
{
    double us[DEMO_SAMPLES] = {0}, best[DEMO_SAMPLES] = {0};
    add_at(us, best, r, t);
    return ratio_of(us, best, r->n_samples);
}

/* A row of the table: which build of each op. */
typedef struct row {
    char label[128];
    const demo_total *total[DEMO_OPS];
} row;

static const demo_total *find(const demo_race *r, const char *label)
{
    for (int k = 0; k < r->n; k++)
        if (!strcmp(r->total[k].label, label))
            return &r->total[k];
    return NULL;
}

/* The single kernel that loses least (sign 1) or most (sign -1) on average, of those that fit all samples. An op of
 * several stages has no single kernels: what is dispatched stands for it. */
static const demo_total *single_kernel(const demo_race *r, int sign)
{
    const demo_total *found = NULL;
    for (int k = 0; k < r->n; k++) {
        const demo_total *t = &r->total[k];
        if (t->kind == DEMO_VARIANT && t->n_samples == r->n_samples &&
            (!found || sign * ratio_of_total(r, t).mean < sign * ratio_of_total(r, found).mean))
            found = t;
    }
    return found ? found : &r->total[0];
}

static demo_ratio ratio_of_block(const demo_story *d, const row *x)
{
    double us[DEMO_SAMPLES] = {0}, best[DEMO_SAMPLES] = {0};
    for (int i = 0; i < BLOCK_OPS; i++)
        add_at(us, best, &d->race[i], x->total[i]);
    return ratio_of(us, best, d->race[0].n_samples);
}

static void print_ratio(demo_ratio x)
{
    char text[32] = "-";
    if (isfinite(x.mean))
        snprintf(text, sizeof text, "%.2f (%.2f)", x.mean, x.worst);
    printf(" %s%13s%s", isfinite(x.mean) ? cli_shade(x.mean) : "", text, isfinite(x.mean) ? cli_plain() : "");
}

static void print_row(const demo_story *d, const row *x)
{
    printf("  %-22s", x->label);
    for (int i = 0; i < BLOCK_OPS; i++)
        print_ratio(ratio_of_total(&d->race[i], x->total[i]));
    print_ratio(ratio_of_block(d, x));
    print_ratio(ratio_of_total(&d->race[BLOCK_LOPSIDED], x->total[BLOCK_LOPSIDED]));
    printf("\n");
}

static row row_by_label(const demo_story *d, const char *label)
{
    row x = {{0}, {0}};
    snprintf(x.label, sizeof x.label, "%s", label);
    for (int i = 0; i < DEMO_OPS; i++)
        x.total[i] = find(&d->race[i], label);
    return x;
}

static row row_of_kernels(const demo_story *d, const char *label, int sign)
{
    row x = {{0}, {0}};
    snprintf(x.label, sizeof x.label, "%s", label);
    for (int i = 0; i < DEMO_OPS; i++)
        x.total[i] = single_kernel(&d->race[i], sign);
    return x;
}

static void print_table(const demo_story *d)
{
    const row worst = row_of_kernels(d, "worst single kernels", -1), best = row_of_kernels(d, "best single kernels", 1);
    printf(
        "\n%swhat dispatch brings%s: time over that of the best kernel at each of %d steps, mean (worst step)\n  %-22s",
        cli_bold(), cli_plain(), d->race[0].n_samples, "");
    for (int i = 0; i < BLOCK_OPS; i++)
        printf(" %13s", block_table[i].label);
    printf(" %13s %13s\n", "whole block", block_table[BLOCK_LOPSIDED].label);
    print_row(d, &worst);
    print_row(d, &best);
    for (int k = 1; k < d->race[0].n; k++)
        if (d->race[0].total[k].kind == DEMO_SINGLE_HINT || d->race[0].total[k].kind == DEMO_WAY) {
            const row x = row_by_label(d, d->race[0].total[k].label);
            print_row(d, &x);
        }
    const row dispatched = row_by_label(d, d->race[0].total[0].label);
    print_row(d, &dispatched);
}

/* Where a build stands among those of an op; kernels that do not fit all samples come last. */
static int place_of(const demo_race *r, int k)
{
    int place = 0;
    const double mean = ratio_of_total(r, &r->total[k]).mean;
    for (int i = 0; i < r->n; i++)
        if (r->total[i].kind == DEMO_VARIANT && i != k) {
            const double other = ratio_of_total(r, &r->total[i]).mean;
            place += other < mean || (!(mean < other) && i < k);
        }
    return place;
}

static void print_kernel(const char *op, const demo_race *r, const demo_total *t)
{
    const demo_ratio x = ratio_of_total(r, t);
    printf("  %-9s %-56s", op, t->label);
    if (isfinite(x.mean))
        print_ratio(x);
    else
        printf(" %13s at %d of %d steps", "only", t->n_samples, r->n_samples);
    printf("\n");
}

/* The best few of each op's single kernels: --json has all. */
static void print_kernels(const demo_story *d)
{
    enum { SHOWN = 6 };
    printf("\n%ssingle kernels%s, the same: mean (worst step)\n", cli_bold(), cli_plain());
    for (int i = 0; i < DEMO_OPS; i++) {
        const demo_race *r = &d->race[i];
        int n = 0;
        for (int place = 0; place < SHOWN; place++)
            for (int k = 0; k < r->n; k++)
                if (r->total[k].kind == DEMO_VARIANT && place_of(r, k) == place)
                    print_kernel(n++ ? "" : block_table[i].label, r, &r->total[k]);
    }
}

/* Percent that a ratio is above 1. */
static double percent(double ratio)
{
    return 100.0 * (ratio - 1.0);
}

static void print_sentences(const demo_story *d)
{
    double kernel, dispatched;
    const row best = row_of_kernels(d, "", 1), all = row_by_label(d, d->race[0].total[0].label);
    const demo_ratio single = ratio_of_block(d, &best), picked = ratio_of_block(d, &all);
    const demo_race *lopsided = &d->race[BLOCK_LOPSIDED];
    matrix_losses(&kernel, &dispatched, d->matrix);
    printf(
        "\nA kernel made for one size takes up to %.2f times the best one's time at another, and what is dispatched at "
        "most %.2f times; over rows from few and long to many and short the best single kernel takes up to %.2f "
        "times, what is dispatched %.2f.\n",
        kernel, dispatched, ratio_of_total(lopsided, best.total[BLOCK_LOPSIDED]).worst,
        ratio_of_total(lopsided, all.total[BLOCK_LOPSIDED]).worst);
    printf("Over the trace the block loses %.1f%% to the best kernel of each step (worst step %.1f%%); the best single "
           "kernels, known in advance, lose %.1f%% (%.1f%%).\n",
           percent(picked.mean), percent(picked.worst), percent(single.mean), percent(single.worst));
    printf("A size not met before adds %.0f us to its first call at the median, %.0f us at worst of %d, and compiles "
           "nothing.\n",
           d->new_shapes->median_us, d->new_shapes->worst_us, d->new_shapes->n);
}

void demo_print_text(const demo_story *d)
{
    print_header(d);
    print_served(d);
    print_matrix(d);
    print_table(d);
    print_kernels(d);
    print_sentences(d);
}

static void json_builds(FILE *f, const demo_race *r)
{
    fprintf(f, "\"builds\": [");
    for (int k = 0; k < r->n; k++) {
        fprintf(f, "%s{\"build\": \"%s\", \"us\": %.2f, \"samples\": %d, \"at\": [", k ? ", " : "", r->total[k].label,
                r->total[k].us, r->total[k].n_samples);
        for (int i = 0; i < r->n_samples; i++)
            fprintf(f, "%s%.2f", i ? ", " : "", r->total[k].at[i]);
        fprintf(f, "]}");
    }
    fprintf(f, "], \"sampled\": [");
    for (int k = 0; k < r->n_samples; k++)
        fprintf(f, "%s[%lld, %lld]", k ? ", " : "", (long long)r->sample[k][0], (long long)r->sample[k][1]);
    fprintf(f, "]");
}

static void json_op(FILE *f, const demo_story *d, int i)
{
    const demo_race *r = &d->race[i];
    fprintf(f,
            "%s{\"op\": \"%s\", \"replay_us\": %.1f, \"samples\": %d, \"best_us\": %.2f, \"regret\": %.4f, "
            "\"worst_regret\": %.4f, ",
            i && i < BLOCK_OPS ? ", " : "", block_table[i].label, d->op[i].replay_us, r->n_samples, r->best_us,
            r->total[0].us / r->best_us - 1.0, r->worst_regret);
    json_builds(f, r);
    fprintf(f, ", \"served\": [");
    for (int k = 0; k < d->op[i].n_served; k++)
        fprintf(f, "%s{\"variant\": \"%s\", \"why\": \"%s\", \"lo\": %lld, \"hi\": %lld, \"calls\": %lld}",
                k ? ", " : "", d->op[i].served[k].variant, d->op[i].served[k].why, (long long)d->op[i].served[k].lo,
                (long long)d->op[i].served[k].hi, (long long)d->op[i].served[k].calls);
    fprintf(f, "]}");
}

void demo_print_json(FILE *f, const demo_story *d)
{
    fputc('{', f);
    device_json(f, d->device);
    fprintf(f,
            ", \"threads\": %d, \"dtype\": \"%s\", \"width\": %d, \"hidden\": %d, \"heads\": %d, "
            "\"steps\": %d, "
            "\"build_us\": %.0f, \"replay_us\": %.1f, \"verified\": %d, "
            "\"worst_error\": %.3g, \"new_shapes\": {\"shapes\": %d, \"median_us\": %.2f, \"worst_us\": %.2f}, "
            "\"matrix\": {\"op\": \"%s\", ",
            d->device->threads, d->dtype, d->block->width, d->block->hidden, d->block->heads, d->trace->n, d->build_us,
            d->replay_us, d->n_verified, fmin(d->worst_error, 1e300), d->new_shapes->n, d->new_shapes->median_us,
            d->new_shapes->worst_us, block_table[BLOCK_PRODUCT].label);
    json_builds(f, d->matrix);
    fprintf(f, "}, \"ops\": [");
    for (int i = 0; i < BLOCK_OPS; i++)
        json_op(f, d, i);
    fprintf(f, "], \"lopsided\": ");
    json_op(f, d, BLOCK_LOPSIDED);
    fprintf(f, "}\n");
}
