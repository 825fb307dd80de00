/* What a warm md_call costs over a bare cudaLaunchKernelExC of the same kernel: bench_pairs CASE [PAIRS [WHAT]].
 * JSON lines. Not a test.
 *
 * same: one shape, same pointers; many: 8 ops x 64 shapes, at each call other pointers than at the shape's last one,
 * and arguments that the caller has just made (of the bare launch too); ops, shapes: so 8 ops of one shape, or 64
 * shapes of one op; bulky: many, made of 2 KB that the bench keeps of each shape; apart: many, but arguments and
 * launches lie where they were left 512 launches ago; maps: a product whose three tensor maps all move at each call;
 * new: calls of shapes that were not met before, 40 ops being alive. A pair is one bare launch and one call, in
 * turns first; the figure is the median of the differences with its 95% interval (order statistics). Pin it to a
 * core. WHAT: call; bare: another bare launch instead of the call, which shows what the method is off by; launch:
 * the device's, as calls ask for it; behind: the bare launch, right behind the call without its launch; alone: the
 * call without its launch, behind a launch as ever, over nothing. Then CUPTI, where it is, counts what a call asks
 * of CUDA. */
#include "md_build_config.h"

#include <stdio.h>
#if MD_HAVE_CUDA
#include "api/context.h"
#include "base/clock.h"
#include "device/cuda/internal.h"
#include "dispatch/stub.h"
#include "support/or_exit.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 8, SHAPES = 64, PER_SYNC = 128, LIVE = 40 };

/* A launch that only its call is left of. */
typedef struct bare {
    const void *kernel;
    const md_dev_kernel *own; /* the device's */
    md_kn_geometry geometry;
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute[3];
    int n_params;
    _Alignas(64) md_kn_word params[MD_DEV_CUDA_MAP_PARAMS];
} bare;

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

static inline void start_bare(const bare *b)
{
    void *args[1] = {(void *)(uintptr_t)b->params};
    if (cudaLaunchKernelExC(&b->config, b->kernel, args) != cudaSuccess)
        exit(2);
}

static inline uint64_t launch_bare(const bare *b)
{
    uint64_t start = md_clock_ns();
    start_bare(b);
    return md_clock_ns() - start;
}

static inline uint64_t call(const item *x, int set)
{
    uint64_t start = md_clock_ns();
    md_status s = md_call(x->op, stream, x->arg[set], x->n);
    uint64_t spent = md_clock_ns() - start;
    CHECK(s);
    return spent;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, what w, double *difference, double *raw, long n, uint64_t long_way)
{
    qsort(difference, (size_t)n, sizeof *difference, by_value);
    qsort(raw, (size_t)n, sizeof *raw, by_value);
    const long half = (long)(0.98 * sqrt((double)n)) + 1;
    printf("{\"case\": \"%s\", \"what\": \"%s\", \"pairs\": %ld, \"over_ns\": %.1f, \"lo\": %.1f, \"hi\": %.1f, "
           "\"p10\": %.1f, \"p90\": %.1f, \"raw_ns\": %.1f, \"long_way\": %.5f}\n",
           name, name_of[w], n, difference[n / 2], difference[n / 2 - half], difference[n / 2 + half],
           difference[n / 10], difference[n * 9 / 10], raw[n / 2], (double)long_way / (double)n);
    fflush(stdout);
}

static uint64_t long_calls(const item *items, int n)
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

static void copy_bare(bare *to, const bare *from)
{
    to->kernel = from->kernel;
    to->own = from->own;
    to->geometry = from->geometry;
    to->config = from->config;
    to->config.attrs = to->attribute;
    memcpy(to->attribute, from->attribute, sizeof to->attribute);
    to->n_params = from->n_params;
    memcpy(to->params, from->params, (size_t)from->n_params * sizeof *to->params);
}

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

/* What a caller keeps of a shape: its arguments and its launch are made of this. Few lines of the cache, so that it
 * is not the bench that pushes the library's out. */
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

static void pairs(const char *name, item *items, int n_items, bool is_moving, bool is_made, bool is_bulky, long n,
                  what w)
{
    static made now;
    double *difference = malloc((size_t)n * sizeof *difference), *raw = malloc((size_t)n * sizeof *raw);
    bare *twin = malloc((size_t)n_items * sizeof *twin);
    uint8_t *turn = calloc((size_t)n_items, 1);
    parts **part = calloc((size_t)n_items, sizeof *part);
    uint32_t seed = 1;
    if (!difference || !raw || !twin || !turn || !part)
        exit(1);
    for (int k = 0; k < n_items; k++) {
        copy_bare(&twin[k], &items[k].raw);
        part[k] = is_made && !is_bulky ? parts_of(&items[k]) : NULL;
    }
    for (int round = 0; round < 8; round++)
        for (int k = 0; k < n_items; k++)
            (void)call(&items[k], 0);
    CHECK(md_sync(context, stream));
    stub_make(&stubbed, context->dev);
    uint64_t before = long_calls(items, n_items);
    for (long i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t k = (uint32_t)((uint64_t)seed * (uint64_t)n_items >> 32);
        const item *x = &items[k];
        const bare *own = &x->raw, *again = &twin[k];
        const int set = is_moving ? turn[k] ^= 1 : 0;
        if (is_made) {
            if (is_bulky)
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
    report(name, w, difference, raw, n, long_calls(items, n_items) - before);
    free(difference);
    free(raw);
    for (int k = 0; k < n_items; k++)
        free(part[k]);
    free(part);
    free(twin);
    free(turn);
}

/* ---- What is asked of CUDA */

typedef struct cupti_data { /* the beginning of CUpti_CallbackData */
    int site; /* 0: enter */
    const char *name;
} cupti_data;
typedef void (*cupti_callback)(void *user, int domain, uint32_t id, const cupti_data *data);
enum { DRIVER = 1, RUNTIME = 2 };
static int n_runtime, n_driver;
static char names[400];

static void count_call(void *user, int domain, uint32_t id, const cupti_data *data)
{
    (void)user, (void)id;
    if (data->site != 0)
        return;
    n_runtime += domain == RUNTIME;
    n_driver += domain == DRIVER;
    if (strlen(names) < 300 && !strstr(names, data->name))
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", data->name);
}

static void count_cuda(const item *items, int n_items, bool is_moving)
{
    enum { CALLS = 200 };
    void *lib = dlopen("libcupti.so", RTLD_NOW);
    int (*subscribe)(void **, cupti_callback, void *) =
        lib ? (int (*)(void **, cupti_callback, void *))(uintptr_t)dlsym(lib, "cuptiSubscribe") : NULL;
    int (*enable)(uint32_t, void *, int) =
        lib ? (int (*)(uint32_t, void *, int))(uintptr_t)dlsym(lib, "cuptiEnableDomain") : NULL;
    void *subscriber = NULL;
    if (!subscribe || !enable || subscribe(&subscriber, count_call, NULL) || enable(1, subscriber, RUNTIME) ||
        enable(1, subscriber, DRIVER)) {
        printf("{\"cuda_calls\": \"not counted: no CUPTI\"}\n");
        return;
    }
    n_runtime = n_driver = 0;
    for (int i = 0; i < CALLS; i++)
        (void)call(&items[i % n_items], is_moving ? i & 1 : 0);
    printf("{\"calls\": %d, \"runtime_calls\": %d, \"driver_calls\": %d, \"names\": \"%s\"}\n", CALLS, n_runtime,
           n_driver, names);
    (void)enable(0, subscriber, RUNTIME);
    (void)enable(0, subscriber, DRIVER);
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

/* Shapes that were not met before: what the first call costs over a later one. Nothing may be compiled. */
static void new_shapes(long n)
{
    static md_op *op[LIVE];
    static const char *const formula[] = {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", "Y[i,j] = X[i,j] * 2 + 1",
                                          "Y[i] = sum[k](X[i,k])", "Y[i,j] = X[i,j] - max[k](X[i,k])",
                                          "Y[j] = sum[i](X[i,j])"};
    double *difference = malloc((size_t)n * sizeof *difference), *layout = malloc((size_t)n * sizeof *layout);
    void *memory = NULL;
    uint32_t seed = 7;
    CHECK(md_alloc(&memory, context, (size_t)1 << 28));
    for (int i = 0; i < LIVE; i++) {
        char name[32];
        snprintf(name, sizeof name, "op%d", i);
        CHECK(md_op_create(&op[i], context, formula[i % 5], &(md_op_options){.name = name}));
    }
    uint64_t compiled = md_bd_count(context->builder)->emitted;
    for (long k = 0; k < n; k++) {
        md_tensor t[2];
        md_arg arg[2];
        char sizes[64];
        seed = seed * 1664525u + 1013904223u;
        md_op *o = op[seed >> 8 & 0xffff ? (seed >> 8) % LIVE : 0];
        snprintf(sizes, sizeof sizes, "%s=%d, %s=%d", "i", 1 + (int)(seed >> 20 & 1023),
                 md_op_dim(o, "k") >= 0 ? "k" : "j", 1 + (int)(seed >> 10 & 4095));
        for (int i = 0; i < 2; i++) {
            CHECK(md_op_tensor(&t[i], o, i, sizes));
            t[i].data = (char *)memory + (size_t)i * ((size_t)1 << 27);
            arg[i] = md_t(&t[i]);
        }
        uint64_t t0 = md_clock_ns();
        CHECK(md_call(o, stream, arg, 2));
        uint64_t t1 = md_clock_ns();
        CHECK(md_sync(context, stream));
        CHECK(md_call(o, stream, arg, 2));
        CHECK(md_call(o, stream, arg, 2));
        CHECK(md_sync(context, stream));
        uint64_t t2 = md_clock_ns();
        CHECK(md_call(o, stream, arg, 2));
        uint64_t t3 = md_clock_ns();
        CHECK(md_sync(context, stream));
        layout[k] = (double)(t3 - t2);
        difference[k] = (double)(t1 - t0) - layout[k];
    }
    qsort(difference, (size_t)n, sizeof *difference, by_value);
    qsort(layout, (size_t)n, sizeof *layout, by_value);
    printf("{\"case\": \"new shapes, %d ops\", \"n\": %ld, \"over_warm_us_p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, "
           "\"max\": %.2f, \"warm_us\": %.2f, \"emitted\": %llu}\n",
           LIVE, n, difference[n / 2] / 1e3, difference[n * 9 / 10] / 1e3, difference[n * 99 / 100] / 1e3,
           difference[n - 1] / 1e3, layout[n / 2] / 1e3,
           (unsigned long long)(md_bd_count(context->builder)->emitted - compiled));
    md_free(context, memory);
    for (int i = 0; i < LIVE; i++)
        md_op_destroy(&op[i]);
}

int main(int argc, char **argv)
{
    static item items[OPS * SHAPES];
    const char *name = argc > 1 ? argv[1] : "same";
    const long n = argc > 2 ? atol(argv[2]) : !strcmp(name, "new") ? 2000 : 1000000;
    what w = CALL;
    for (what each = CALL; argc > 3 && each <= ALONE; each++)
        w = !strcmp(argv[3], name_of[each]) ? each : w;
    CHECK(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return 1;
    if (!strcmp(name, "new")) {
        new_shapes(n);
        return 0;
    }
    const bool is_same = !strcmp(name, "same"), is_maps = !strcmp(name, "maps");
    const int n_ops = is_same || !strcmp(name, "shapes") ? 1 : OPS,
              n_shapes = is_same || !strcmp(name, "ops") ? 1 : SHAPES;
    const int n_items = is_maps ? make_product(items) : make_many(items, n_ops, n_shapes);
    pairs(name, items, n_items, !is_same, !is_same && !is_maps && strcmp(name, "apart"), !strcmp(name, "bulky"), n, w);
    count_cuda(items, n_items, !is_same);
    return 0; /* all ends with the process */
}
#else
int main(void)
{
    printf("built without CUDA: nothing to compare with\n");
    return 0;
}
#endif
