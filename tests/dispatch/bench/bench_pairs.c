/* What a warm md_call costs over a bare cudaLaunchKernelExC of the same kernel: bench_pairs CASE [PAIRS [WHAT]].
 * JSON lines. Not a test. Pin it to a core.
 *
 * A pair is one bare launch and one call, in random order. The figure is the median of the differences with its 95%
 * interval (order statistics).
 * CASE: same: one shape, same pointers. many: 8 ops x 64 shapes; each call has other pointers than the shape's last
 * one, and arguments that the caller has just made (of the bare launch, too). ops, shapes: the same with 8 ops of
 * one shape, or 64 shapes of one op. bulky: many, made from 2 KB that the bench keeps of each shape. apart: many,
 * but arguments and launches lie where they were left 512 launches ago. maps: a product whose three tensor maps all
 * move at each call. WHAT: call. bare: another bare launch instead of the call: the error of the method. launch: the
 * device's launch, as calls use it. behind: the bare launch, right after the call without its launch. alone: the
 * call without its launch, over nothing.
 * At the end CUPTI, if it is installed, counts what a call asks of CUDA. */
#include "md_build_config.h"

#include <stdio.h>
#if MD_HAVE_CUDA
#include "api/context.h"
#include "base/clock.h"
#include "base/sort.h"
#include "dispatch/bench/bare.h"
#include "dispatch/bench/cuda_calls.h"
#include "dispatch/support/stub.h"
#include "support/or_exit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 8, SHAPES = 64, PER_SYNC = 128 };

typedef struct item {
    md_op *op;
    int n;
    md_tensor tensor[2][4]; /* two sets of memory */
    md_arg arg[2][4];
    bare raw;
} item;

typedef enum what { CALL, BARE, LAUNCH, BEHIND, ALONE } what;
static const char *const name_of[] = {"call", "bare", "launch", "behind", "alone"};

static md_context *context;
static cudaStream_t stream;
static stub stubbed;

static void make_tensors(item *x, const char *sizes)
{
    x->n = md_op_n_args(x->op);
    for (int set = 0; set < 2; set++)
        for (int i = 0; i < x->n; i++) {
            int64_t bytes = 256;
            md_tensor *t = &x->tensor[set][i];
            CHECK(md_op_tensor(t, x->op, i, sizes));
            for (int32_t a = 0; a < t->rank; a++)
                bytes *= t->size[a] > 0 ? t->size[a] : 1;
            CHECK(md_alloc(&t->data, context, (size_t)bytes / 64));
            x->arg[set][i] = md_t(t);
        }
}

static void make_bare(item *x)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_kn_call call;
    md_ds_op *op = x->op->ds;
    CHECK(md_ds_bind(&bound, op, x->arg[0], x->n));
    CHECK(md_ds_find(&entry, op, NULL, &bound));
    const md_ds_plan *plan = md_ds_plan_of(entry);
    const md_bd_variant *v = op->stage[0].variant[plan->stage[0].pick.variant];
    const md_kn_geometry *g = &plan->stage[0].geometry.launch[0];
    const md_dev_cuda_kernel *k = (const md_dev_cuda_kernel *)v->kernel[0];
    if (op->n_stages != 1 || v->n_launches != 1 || plan->workspace_bytes) {
        fprintf(stderr, "%s: not one launch\n", v->name);
        exit(1);
    }
    md_ds_fill_call(&call, op, &bound);
    call.blocks = g->blocks;
    md_kn_word plain[MD_KN_MAX_PARAMS];
    md_kn_pack(plain, v->param[0], v->n_params[0], &call);
    memcpy(x->raw.params, plain, (size_t)v->n_params[0] * sizeof *plain);
    if (k->n_maps)
        CHECK(md_dev_cuda_fill_maps(x->raw.params, k, (md_dev_params){plain, v->n_params[0]}, &call));
    x->raw.kernel = (const void *)k->kernel;
    x->raw.own = v->kernel[0];
    x->raw.geometry = *g;
    x->raw.config =
        (cudaLaunchConfig_t){.gridDim = {(unsigned)g->grid[0], (unsigned)g->grid[1], (unsigned)g->grid[2]},
                             .blockDim = {(unsigned)g->block[0], (unsigned)g->block[1], (unsigned)g->block[2]},
                             .dynamicSmemBytes = (size_t)g->scratch_bytes,
                             .stream = stream,
                             .attrs = x->raw.attribute};
    x->raw.config.numAttrs = md_dev_cuda_attributes(x->raw.attribute, k, g);
    x->raw.n_params = v->n_params[0];
    md_ds_shape_entry_release(entry);
}

static inline uint64_t call(const item *x, int set)
{
    uint64_t start = md_clock_ns();
    md_status s = md_call(x->op, stream, x->arg[set], x->n);
    uint64_t spent = md_clock_ns() - start;
    CHECK(s);
    return spent;
}

static void report(const char *name, what w, double *difference, double *raw, long n, uint64_t slow_calls)
{
    md_sort_doubles(difference, (size_t)n);
    md_sort_doubles(raw, (size_t)n);
    const long half = (long)(0.98 * sqrt((double)n)) + 1;
    printf("{\"case\": \"%s\", \"what\": \"%s\", \"pairs\": %ld, \"over_ns\": %.1f, \"lo\": %.1f, \"hi\": %.1f, "
           "\"p10\": %.1f, \"p90\": %.1f, \"raw_ns\": %.1f, \"slow_calls\": %.5f}\n",
           name, name_of[w], n, difference[n / 2], difference[n / 2 - half], difference[n / 2 + half],
           difference[n / 10], difference[n * 9 / 10], raw[n / 2], (double)slow_calls / (double)n);
    fflush(stdout);
}

static uint64_t count_slow_calls(const item *items, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n && i < OPS; i++)
        sum += items[i].op->ds->count.calls;
    return sum;
}

static inline uint64_t nothing(void)
{
    uint64_t start = md_clock_ns();
    return md_clock_ns() - start;
}

/* What the caller has made for this launch. */
typedef struct made {
    bare raw, again;
    item call;
} made;

static void make(made *m, const item *x, int set)
{
    copy_bare(&m->raw, &x->raw);
    copy_bare(&m->again, &x->raw);
    m->call.op = x->op;
    m->call.n = x->n;
    for (int i = 0; i < x->n; i++) {
        m->call.tensor[set][i] = x->tensor[set][i];
        m->call.arg[set][i] = md_t(&m->call.tensor[set][i]);
    }
}

/* What a caller keeps of a shape, to make arguments and launch from. Few cache lines, so that the bench does not evict
 * the library's. */
typedef struct parts {
    md_op *op;
    const md_dev_kernel *kernel;
    md_kn_geometry geometry;
    int32_t n, n_params;
    void *data[2][3];
    int64_t size[3][2];
    int32_t rank[3];
    md_kn_word params[];
} parts;

static parts *parts_of(const item *x)
{
    parts *p = aligned_alloc(64, (sizeof *p + (size_t)x->raw.n_params * sizeof *p->params + 63) / 64 * 64);
    if (!p || x->n > 3)
        exit(1);
    *p =
        (parts){.op = x->op, .kernel = x->raw.own, .geometry = x->raw.geometry, .n = x->n, .n_params = x->raw.n_params};
    for (int i = 0; i < x->n; i++) {
        const md_tensor *t = &x->tensor[0][i];
        p->data[0][i] = t->data;
        p->data[1][i] = x->tensor[1][i].data;
        p->rank[i] = t->rank;
        memcpy(p->size[i], t->size, sizeof p->size[i]);
    }
    memcpy(p->params, x->raw.params, (size_t)p->n_params * sizeof *p->params);
    return p;
}

static void bare_of(bare *to, const parts *p)
{
    const md_dev_cuda_kernel *k = (const md_dev_cuda_kernel *)p->kernel;
    to->kernel = (const void *)k->kernel;
    to->own = p->kernel;
    to->geometry = p->geometry;
    to->n_params = p->n_params;
    memcpy(&to->config, p->geometry.grid, 6 * sizeof(int32_t));
    to->config.dynamicSmemBytes = (size_t)p->geometry.scratch_bytes;
    to->config.stream = stream;
    to->config.attrs = to->attribute;
    to->config.numAttrs = md_dev_cuda_attributes(to->attribute, k, &p->geometry);
    memcpy(to->params, p->params, (size_t)p->n_params * sizeof *p->params);
}

static void make_of(made *m, const parts *p, int set)
{
    bare_of(&m->raw, p);
    bare_of(&m->again, p);
    m->call.op = p->op;
    m->call.n = p->n;
    for (int i = 0; i < p->n; i++) {
        m->call.tensor[set][i] = md_tensor_make(p->data[set][i], MD_F32, p->rank[i], p->size[i]);
        m->call.arg[set][i] = md_t(&m->call.tensor[set][i]);
    }
}

/* The second half of a pair. */
static double other(const item *x, const bare *again, int set, what w)
{
    if (w == CALL)
        return (double)call(x, set);
    if (w == BARE)
        return (double)launch_bare(again);
    stub_set(&stubbed, context->dev, w == BEHIND);
    const uint64_t start = md_clock_ns();
    md_status s = w == BEHIND ? md_call(x->op, stream, x->arg[set], x->n)
                              : context->dev->ops->launch(context->dev, stream, again->own, &again->geometry,
                                                          (md_dev_params){again->params, again->n_params}, NULL);
    if (w == BEHIND)
        start_bare(again);
    const uint64_t spent = md_clock_ns() - start;
    stub_set(&stubbed, context->dev, false);
    CHECK(s);
    return (double)spent;
}

static double alone(const item *x, const bare *raw, int set)
{
    (void)launch_bare(raw);
    stub_set(&stubbed, context->dev, true);
    uint64_t spent = call(x, set);
    stub_set(&stubbed, context->dev, false);
    (void)launch_bare(raw);
    return (double)spent - (double)nothing();
}

typedef struct bench_case {
    const char *name;
    item *items;
    int n_items;
    bool is_moving; /* each call has other pointers than the last one */
    bool is_made; /* the caller makes arguments and launch for each call */
    bool is_bulky; /* from 2 KB per shape */
} bench_case;

static void pairs(const bench_case *c, long n, what w)
{
    item *items = c->items;
    const int n_items = c->n_items;
    static made now;
    double *difference = malloc((size_t)n * sizeof *difference), *raw = malloc((size_t)n * sizeof *raw);
    bare *twin = malloc((size_t)n_items * sizeof *twin);
    uint8_t *last_set = calloc((size_t)n_items, 1);
    parts **part = calloc((size_t)n_items, sizeof *part);
    uint32_t seed = 1;
    if (!difference || !raw || !twin || !last_set || !part)
        exit(1);
    for (int k = 0; k < n_items; k++) {
        copy_bare(&twin[k], &items[k].raw);
        part[k] = c->is_made && !c->is_bulky ? parts_of(&items[k]) : NULL;
    }
    for (int round = 0; round < 8; round++)
        for (int k = 0; k < n_items; k++)
            (void)call(&items[k], 0);
    CHECK(md_sync(context, stream));
    stub_make(&stubbed, context->dev);
    uint64_t before = count_slow_calls(items, n_items);
    for (long i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t k = (uint32_t)((uint64_t)seed * (uint64_t)n_items >> 32);
        const item *x = &items[k];
        const bare *own = &x->raw, *again = &twin[k];
        const int set = c->is_moving ? last_set[k] ^= 1 : 0;
        if (c->is_made) {
            if (c->is_bulky)
                make(&now, x, set);
            else
                make_of(&now, part[k], set);
            x = &now.call, own = &now.raw, again = &now.again;
        }
        double b, a = 0.0;
        const bool is_first = seed >> 8 & 1;
        if (w == ALONE) {
            difference[i] = alone(x, own, set);
        } else {
            a = is_first ? (double)launch_bare(own) : 0.0;
            b = other(x, again, set, w);
            a = is_first ? a : (double)launch_bare(own);
            difference[i] = b - a;
        }
        raw[i] = a;
        if (i % PER_SYNC == 0)
            CHECK(md_sync(context, stream));
    }
    report(c->name, w, difference, raw, n, count_slow_calls(items, n_items) - before);
    free(difference);
    free(raw);
    for (int k = 0; k < n_items; k++)
        free(part[k]);
    free(part);
    free(twin);
    free(last_set);
}

/* ---- Cases */

static int make_many(item *items, int n_ops, int n_shapes)
{
    static const char *const formula[OPS] = {"Y[i,j] = X[i,j] * 2 + B[j]",      "Y[i,j] = X[i,j] + B[j]",
                                             "Y[i,j] = X[i,j] - B[j]",          "Y[i,j] = X[i,j] * B[j]",
                                             "Y[i,j] = max(X[i,j], B[j])",      "Y[i,j] = abs(X[i,j])",
                                             "Y[i,j] = X[i,j] * X[i,j] + B[j]", "Y[i,j] = sum[k](X[i,k]) + X[i,j]"};
    for (int k = 0; k < n_ops * n_shapes; k++) {
        char sizes[64];
        item *x = &items[k];
        if (k < n_ops)
            CHECK(md_op_create(&x->op, context, formula[k], &(md_op_options){.max_variants = 2, .hints = "64"}));
        else
            x->op = items[k % n_ops].op;
        snprintf(sizes, sizeof sizes, "i=%d, j=%d", 1 + k / n_ops % 8, 16 + k / (8 * n_ops));
        make_tensors(x, sizes);
        make_bare(x);
    }
    return n_ops * n_shapes;
}

/* Stores by the copy engine, too, so that all three tensors have maps. */
static int make_product(item *x)
{
    static const char *const text = "Y[m,n] = sum[k](X[m,k] * W[n,k])";
    const char *pin = "gemm_wgmma/rows128_columns128_pingpong0_cluster1_split1_epilogue1_pad0";
    CHECK(md_op_create(&x->op, context, text, &(md_op_options){.dtype = MD_BF16, .pin = pin}));
    make_tensors(x, "m=128, n=128, k=64");
    make_bare(x);
    return 1;
}

enum { COUNTED = 200 };

static void call_all(void *user)
{
    const bench_case *c = user;
    for (int i = 0; i < COUNTED; i++)
        (void)call(&c->items[i % c->n_items], c->is_moving ? i & 1 : 0);
}

int main(int argc, char **argv)
{
    static item items[OPS * SHAPES];
    const char *name = argc > 1 ? argv[1] : "same";
    const long n = argc > 2 ? atol(argv[2]) : 1000000;
    what w = CALL;
    for (what each = CALL; argc > 3 && each <= ALONE; each++)
        w = !strcmp(argv[3], name_of[each]) ? each : w;
    CHECK(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return 1;
    const bool is_same = !strcmp(name, "same"), is_maps = !strcmp(name, "maps");
    const int n_ops = is_same || !strcmp(name, "shapes") ? 1 : OPS,
              n_shapes = is_same || !strcmp(name, "ops") ? 1 : SHAPES;
    const int n_items = is_maps ? make_product(items) : make_many(items, n_ops, n_shapes);
    bench_case c = {
        name, items, n_items, !is_same, !is_same && !is_maps && strcmp(name, "apart"), !strcmp(name, "bulky")};
    pairs(&c, n, w);
    count_cuda(call_all, &c, COUNTED);
    return 0; /* all ends with the process */
}
#else
int main(void)
{
    printf("built without CUDA: nothing to compare with\n");
    return 0;
}
#endif
