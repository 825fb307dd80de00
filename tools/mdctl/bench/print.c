/* Prints the contenders of a case, as rows or as JSON lines. */
#include "bench/bench.h"

#include <string.h>

/* "b=8, n=64" as {"b": 8, "n": 64}. The library has checked the text before. */
static void print_sizes(FILE *f, const char *sizes)
{
    const char *blanks = " \t,;", *separator = "";
    fputc('{', f);
    for (const char *at = sizes + strspn(sizes, blanks); *at; at += strspn(at, blanks)) {
        size_t n = strcspn(at, "= \t");
        const char *value = at + n + strspn(at + n, "= \t");
        size_t digits = strspn(value, "0123456789");
        if (!digits)
            break;
        fputs(separator, f);
        fputc('"', f);
        cli_json_escape(f, at, n);
        fprintf(f, "\": %.*s", (int)digits, value);
        separator = ", ";
        at = value + digits;
    }
    fputc('}', f);
}

/* Amount a microsecond; 0 if no time passed. */
static double rate(double amount, double us)
{
    return us > 0.0 ? amount / us : 0.0;
}

/* The sizes alone, as a list. */
static void print_shape(FILE *f, const char *sizes)
{
    const char *separator = "";
    fputc('[', f);
    for (const char *at = strchr(sizes, '='); at; at = strchr(at, '=')) {
        at += 1 + strspn(at + 1, " \t");
        fputs(separator, f);
        fwrite(at, 1, strspn(at, "0123456789"), f);
        separator = ", ";
    }
    fputc(']', f);
}

/* What a call takes beyond its kernel; a GPU works while the host goes on. The medians of both have noise of their own,
 * and no call takes less than its kernel. */
static double host_us(const bench *b, const contender *rival)
{
    const double us =
        timing_quantile(&rival->call, 0.5) - (b->device.is_gpu ? 0.0 : timing_quantile(&rival->kernel, 0.5));
    return us > 0.0 ? us : 0.0;
}

static void print_json(FILE *f, const bench *b, const bench_case *c, const contender *rival)
{
    double us = timing_quantile(&rival->kernel, 0.5);
    fprintf(f, "{\"peer\": \"%s\", \"op\": ", rival->peer);
    cli_json_text(f, c->name);
    fprintf(f, ", \"sizes\": ");
    print_sizes(f, c->sizes);
    fprintf(f, ", \"shape\": ");
    print_shape(f, c->sizes);
    fprintf(f, ", \"dtype\": \"%s\", ", md_dtype_name(c->dtype));
    device_json(f, &b->device);
    for (int s = 0; s < rival->choice.n_stages; s++)
        fprintf(f, "%s%s", s ? " " : ", \"variant\": \"", rival->choice.variant[s]);
    if (rival->choice.n_stages)
        fprintf(f, "\", \"why\": \"%s\"", rival->choice.source[0]);
    fprintf(f, ", \"us\": %.3f, \"lo\": %.3f, \"hi\": %.3f, \"vs\": %.4f", us, timing_quantile(&rival->kernel, 0.1),
            timing_quantile(&rival->kernel, 0.9), timing_ratio(&rival->kernel, &c->who[0].kernel));
    if (rival->call.n)
        fprintf(f, ", \"host_us\": %.3f, \"tflops\": %.4f", host_us(b, rival), rate(c->flops, us) / 1e6);
    fprintf(f, ", \"gbps\": %.3f, \"k\": %d, \"bytes\": %.0f", rate(c->bytes, us) / 1e3, rival->op ? c->n_sets : 1,
            c->bytes);
    if (rival == &c->who[0] && c->roof.us > 0.0)
        fprintf(f, ", \"roof_us\": %.3f, \"roof\": \"%s\", \"reason\": \"%s\"", c->roof.us, c->roof.limit,
                c->roof.reason);
    fputs("}\n", f);
    fflush(f);
}

static void print_row(const bench_case *c, const contender *rival)
{
    double us = timing_quantile(&rival->kernel, 0.5);
    printf("%-18s %-5s %-28s %-44s %-9s %11.2f us  %7.2f GB/s  %8.2f GFLOP/s  %6.3f\n", c->name,
           md_dtype_name(c->dtype), c->sizes, rival->choice.n_stages ? rival->choice.variant[0] : rival->peer,
           rival->choice.n_stages ? rival->choice.source[0] : "", us, rate(c->bytes, us) / 1e3,
           rival->op ? rate(c->flops, us) / 1e3 : 0.0, timing_ratio(&rival->kernel, &c->who[0].kernel));
}

void bench_print(bench *b, bench_case *c)
{
    cli_progress(NULL);
    if (c->n && (b->o->json || b->output)) {
        c->explained = explained(c->who[0].op, c->sizes);
        c->roof = roofline_of(json_object_get(c->explained, "stages"));
    }
    for (int i = 0; i < c->n; i++) {
        if (b->o->json)
            print_json(stdout, b, c, &c->who[i]);
        else
            print_row(c, &c->who[i]);
        if (b->output)
            print_json(b->output, b, c, &c->who[i]);
    }
    fflush(stdout);
}
