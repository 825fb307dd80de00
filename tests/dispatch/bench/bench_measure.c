/* What the first call of a shape takes under MD_SELECT_MEASURE, in a first context and in a second one that finds its
 * picks: bench_measure DEVICE FOLDER [OP]. The picks are kept in FOLDER. Shapes are 1 to 4096 rows. A JSON line for
 * each context. Not a test. */
#include "base/clock.h"
#include "base/sort.h"
#include "md/md.h"
#include "support/or_exit.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARGS = 8, SHAPES = 13 };

static const char *const ops[] = {"softmax", "rms_norm", "gelu", "linear"};

/* Sizes of the op at one shape: the first dim is 2^k, the others are 1024. */
static void set_sizes(char *out, size_t n, md_op *op, int k)
{
    static const char *const dims[] = {"i", "b", "m", "j", "n", "k"};
    size_t used = 0;
    int found = 0;
    for (int d = 0; d < 6; d++)
        if (md_op_dim(op, dims[d]) >= 0) {
            used +=
                (size_t)snprintf(out + used, n - used, "%s%s=%d", found ? ", " : "", dims[d], found ? 1024 : 1 << k);
            found = 1;
        }
}

static double call_first(md_context *c, md_op *op, int k)
{
    md_tensor t[ARGS];
    md_arg arg[ARGS];
    md_arg_info info;
    char sizes[200];
    int n = 0;
    set_sizes(sizes, sizeof sizes, op, k);
    for (; n < ARGS && md_op_arg(&info, op, n) == MD_OK; n++) {
        if (info.is_scalar) {
            arg[n] = md_s(1e-5);
            continue;
        }
        CHECK(md_op_tensor(&t[n], op, n, sizes));
        int64_t bytes = 16;
        for (int32_t a = 0; a < t[n].rank; a++)
            bytes *= t[n].size[a];
        CHECK(md_alloc(&t[n].data, c, (size_t)bytes));
        arg[n] = md_t(&t[n]);
    }
    const uint64_t start = md_clock_ns();
    CHECK(md_call(op, NULL, arg, n));
    CHECK(md_sync(c, NULL));
    const double ms = (double)(md_clock_ns() - start) * 1e-6;
    for (int i = 0; i < n; i++)
        if (arg[i].tensor)
            md_free(c, t[i].data);
    return ms;
}

static void run(const char *device, const char *folder, const char *name, int which)
{
    md_context *c = NULL;
    md_op *op = NULL;
    double ms[SHAPES], sum = 0.0;
    const md_context_options o = {.device = device, .cache_dir = folder, .select = MD_SELECT_MEASURE};
    CHECK(md_context_create(&c, &o));
    const uint64_t start = md_clock_ns();
    CHECK(md_op_create(&op, c, name, NULL));
    CHECK(md_op_wait(op));
    const double creation = (double)(md_clock_ns() - start) * 1e-6;
    const double first = call_first(c, op, 9); /* checks results, too */
    for (int k = 0; k < SHAPES; k++)
        sum += ms[k] = k == 9 ? call_first(c, op, 13) : call_first(c, op, k);
    md_sort_doubles(ms, SHAPES);
    printf("{\"op\": \"%s\", \"context\": %d, \"creation_ms\": %.1f, \"first_ms\": %.2f, \"mean_ms\": %.2f, "
           "\"median_ms\": %.2f, \"worst_ms\": %.2f}\n",
           name, which, creation, first, sum / SHAPES, ms[SHAPES / 2], ms[SHAPES - 1]);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench_measure DEVICE FOLDER [OP]\n");
        return 1;
    }
    for (int i = 0; i < 4; i++)
        for (int which = 1; which <= 2; which++)
            if (argc == 3 || i == 0)
                run(argv[1], argv[2], argc > 3 ? argv[3] : ops[i], which);
    return 0;
}
