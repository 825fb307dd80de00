/* What an op costs on a fresh machine: all ops of the catalogue, each in a context of its own with nothing in store.
 *
 *   bench_create [OP...]
 *
 * prints a line of JSON for each op: compiles, time and CPU time of md_op_create, and the time until the first result
 * with `async`. CPU time is that of all threads and compilers, so other load hardly changes it. */
#include "common/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

static double ms_of(const struct timeval *t)
{
    return (double)t->tv_sec * 1e3 + (double)t->tv_usec * 1e-3;
}

static double cpu_ms(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return ms_of(&self.ru_utime) + ms_of(&self.ru_stime) + ms_of(&children.ru_utime) + ms_of(&children.ru_stime);
}

double cli_now_us(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return ms_of(&now) * 1e3;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_create: %s: %s\n", what, md_last_error());
    exit(1);
}

static md_context *open_context(void)
{
    md_context *c = NULL;
    const md_context_options options = {.device = "host", .threads = 2, .cache_dir = ""};
    if (md_context_create(&c, &options) != MD_OK)
        fail("context");
    return c;
}

/* All dynamic dims of an op at one size, as data_make reads them; fewer bytes where there are many dims. Returns how
 * many there are. */
static int sizes_of(char out[512], const md_op *op, int size)
{
    md_arg_info info;
    int n = 0;
    out[0] = 0;
    for (int32_t i = 0; i < md_op_n_args(op) && md_op_arg(&info, op, i) == MD_OK; i++)
        for (int32_t a = 0; a < info.rank; a++) {
            char part[64], found[520];
            snprintf(part, sizeof part, " %s=%d,", info.dim[a], size);
            snprintf(found, sizeof found, " %s", out);
            if (!info.dim[a][0] || info.static_size[a] >= 0 || strstr(found, part))
                continue;
            strncat(out, part, 511 - strlen(out));
            n++;
        }
    if (n > 0)
        out[strlen(out) - 1] = 0;
    return n;
}

static void create(const char *name)
{
    md_store_counters counters;
    int32_t n_variants = 0;
    md_context *c = open_context();
    md_op *op = NULL;
    const double cpu = cpu_ms(), start = cli_now_us();
    if (md_op_create(&op, c, name, NULL) != MD_OK)
        fail(name);
    printf("{\"op\": \"%s\", \"create_ms\": %.0f, \"create_cpu_ms\": %.0f", name, (cli_now_us() - start) / 1e3,
           cpu_ms() - cpu);
    if (md_store_count(&counters, c) != MD_OK)
        fail("counters");
    for (int32_t s = 0; s < md_op_n_stages(op); s++)
        n_variants += md_op_n_variants(op, s);
    printf(", \"stages\": %d, \"variants\": %d, \"compiles\": %d", md_op_n_stages(op), n_variants,
           (int)counters.compiles);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void first_result(const char *name)
{
    char sizes[512];
    data_set data;
    md_context *c = open_context();
    md_op *op = NULL;
    const md_op_options options = {.async = 1};
    const double start = cli_now_us(), cpu = cpu_ms();
    if (md_op_create(&op, c, name, &options) != MD_OK)
        fail(name);
    const double created = cli_now_us();
    if (sizes_of(sizes, op, 64) > 2)
        sizes_of(sizes, op, 16);
    if (data_make(&data, c, op, sizes, 1) != MD_OK)
        fail(name);
    const double ready = cli_now_us();
    if (md_call(op, NULL, data.arg, data.n) != MD_OK)
        fail(name);
    printf(", \"async_first_ms\": %.0f, \"async_first_cpu_ms\": %.0f}\n",
           (cli_now_us() - ready + created - start) / 1e3, cpu_ms() - cpu);
    fflush(stdout);
    data_free(&data);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

int main(int argc, char **argv)
{
    const char *name, *formula, *about;
    for (int i = 1; i < argc; i++) {
        create(argv[i]);
        first_result(argv[i]);
    }
    for (int32_t i = 0; argc < 2; i++) {
        md_catalogue(i, &name, &formula, &about);
        if (!name)
            break;
        create(name);
        first_result(name);
    }
    return 0;
}
