/* Sizes at the edges of 64 bits through every public function that takes sizes: each call ends, with an answer or with
 * an error that has a message. Nothing of such a size is allocated, and no memory at a made-up address is touched. See
 * random.h for arguments; a hang ends with an alarm. */
#include "fuzz/random.h"

#include <md/md.h>

#include <string.h>
#include <unistd.h>

enum { N_KEPT = 3, MOST_ARGS = 8, TEXT = 512, HANG_SECONDS = 120 };

/* Ops that the whole run uses: kernels of the first context, none of the second. */
static const char *const kept_formula[N_KEPT] = {"C[m,n] = sum[k](A[m,k] * B[k,n])", "softmax",
                                                 "Y[i,j] = T[I[i],j] + X[i,j]"};
static const char *const formulas[] = {"C[m,n] = sum[k](A[m,k] * B[k,n])",
                                       "Y[i,j] = X[j,i]",
                                       "Y[i] = X[i] + X[i+1]",
                                       "Y[I[i],j] += 1",
                                       "S[] = sum[i,j](X[i,j])",
                                       "Y[b,i] = cumsum[i](X[b,i])",
                                       "Z[i] = sum[j](X[i,j]); Y[i,j] = X[i,j] / Z[i]",
                                       "C[a,b,c,d] = X[a,b] * Y[c,d]"};
static const char *const names[] = {"m", "n", "k", "i", "j", "b"};

typedef struct world {
    fuzz_run run;
    md_context *context, *bare; /* the bare one has no compiler */
    md_op *op[2 * N_KEPT];
    int64_t n_answered, n_refused;
} world;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s: %s\n", what, detail, md_last_error());
    abort();
}

static void check(world *w, md_status s, const char *what, const char *detail)
{
    if (s == MD_OK) {
        w->n_answered++;
        return;
    }
    w->n_refused++;
    if (s != MD_INVALID_ARGUMENT && s != MD_OUT_OF_MEMORY && s != MD_UNSUPPORTED)
        fail(md_status_name(s), what);
    if (!md_last_error()[0])
        fail("no message", detail);
}

static int take(void *user, const char *text, size_t n)
{
    *(size_t *)user += strnlen(text, n);
    return 0;
}

/* ---- Texts */

static void add_size(char *text, world *w, const char *name, bool may_be_range)
{
    const size_t at = strlen(text);
    const long long a = (long long)fuzz_size(&w->run), b = (long long)fuzz_size(&w->run);
    if (may_be_range && fuzz_below(&w->run, 2))
        snprintf(text + at, TEXT - at, "%s%s=%lld..%lld", at ? ", " : "", name, a < b ? a : b, a < b ? b : a);
    else
        snprintf(text + at, TEXT - at, "%s%s=%lld", at ? ", " : "", name, a);
}

/* Sizes of every dim that an argument of the op shows. */
static void sizes_of(char text[TEXT], world *w, const md_op *op)
{
    text[0] = 0;
    for (int32_t i = 0; i < md_op_n_args(op); i++) {
        md_arg_info info;
        if (md_op_arg(&info, op, i) != MD_OK)
            fail("md_op_arg", md_op_formula(op));
        for (int32_t a = 0; a < info.rank; a++) {
            char entry[80];
            snprintf(entry, sizeof entry, "%s=", info.dim[a]);
            if (info.static_size[a] < 0 && info.dim[a][0] && !strstr(text, entry))
                add_size(text, w, info.dim[a], false);
        }
    }
}

static void random_hints(char text[TEXT], world *w)
{
    const long long a = (long long)fuzz_size(&w->run), b = (long long)fuzz_size(&w->run);
    switch (fuzz_below(&w->run, 3)) {
    case 0:
        snprintf(text, TEXT, "%lld,%lld", a, b);
        break;
    case 1:
        snprintf(text, TEXT, "%s=%lld,%lld", names[fuzz_below(&w->run, 6)], a, b);
        break;
    default:
        snprintf(text, TEXT, "(m=%lld,n=%lld,k=1) (m=1,n=1,k=%lld)", a, b, a);
    }
}

/* ---- Functions that take sizes as text */

static void describe(world *w, md_op *op)
{
    char sizes[TEXT], two[2 * TEXT + 2], other[TEXT];
    md_tensor t;
    double flops, bytes;
    size_t n = 0;
    sizes_of(sizes, w, op);
    sizes_of(other, w, op);
    snprintf(two, sizeof two, "%s;%s", sizes, other);
    for (int32_t i = 0; i < md_op_n_args(op); i++)
        check(w, md_op_tensor(&t, op, i, sizes), "md_op_tensor", sizes);
    check(w, md_op_work(&flops, &bytes, op, sizes), "md_op_work", sizes);
    check(w, md_explain(op, sizes, fuzz_below(&w->run, 2), take, &n), "md_explain", sizes);
    check(w, md_prepare(op, two), "md_prepare", two);
}

static void make_op(world *w)
{
    char sizes[TEXT] = "", hints[TEXT], weights[TEXT] = "";
    const char *formula = formulas[fuzz_below(&w->run, sizeof formulas / sizeof *formulas)];
    md_op *op = NULL;
    random_hints(hints, w);
    if (fuzz_below(&w->run, 2))
        add_size(sizes, w, names[fuzz_below(&w->run, 6)], true);
    add_size(weights, w, names[fuzz_below(&w->run, 6)], false);
    const md_op_options o = {.sizes = sizes,
                             .hints = fuzz_below(&w->run, 2) ? hints : NULL,
                             .weights = fuzz_below(&w->run, 4) ? NULL : weights,
                             .select = (md_select)(1 + fuzz_below(&w->run, 2)),
                             .metric = (md_metric)fuzz_below(&w->run, 3),
                             .max_variants = 4};
    check(w, md_op_create(&op, w->bare, formula, &o), "md_op_create", formula);
    if (op)
        describe(w, op);
    md_op_destroy(&op);
}

static void suggest(world *w)
{
    enum { MET = 4 };
    char text[MET][TEXT], hints[TEXT];
    md_met_shape met[MET];
    size_t n = 0;
    random_hints(hints, w);
    for (int i = 0; i < MET; i++) {
        text[i][0] = 0;
        for (int k = 0; k < 3; k++)
            add_size(text[i], w, names[k], false);
        met[i] = (md_met_shape){text[i], (double)fuzz_size(&w->run)};
    }
    const md_suggest_options s = {met, 1 + fuzz_below(&w->run, MET), 1 + fuzz_below(&w->run, 8), 1, take, &n};
    const md_op_options o = {.hints = fuzz_below(&w->run, 2) ? hints : NULL,
                             .select = (md_select)(1 + fuzz_below(&w->run, 2))};
    check(w, md_hints_suggest(w->bare, formulas[0], &o, &s), "md_hints_suggest", text[0]);
}

static void tune(world *w)
{
    char hints[TEXT];
    size_t n = 0;
    const int64_t indices[] = {fuzz_size(&w->run), -1, fuzz_size(&w->run)};
    random_hints(hints, w);
    const md_tune_options t = {
        .budget_ms = 1, .max_builds = 1, .write = take, .user = &n, .indices = indices, .n_indices = 3};
    check(w, md_tune_formula(w->bare, formulas[fuzz_below(&w->run, 8)], &(md_op_options){.hints = hints}, &t),
          "md_tune_formula", hints);
}

static void make_context(world *w)
{
    char hints[TEXT];
    md_context *c = NULL;
    md_op *op = NULL;
    random_hints(hints, w);
    const bool by_environment = fuzz_below(&w->run, 2) != 0;
    if (by_environment)
        setenv("MD_HINTS", hints, 1);
    const md_context_options o = {.device = "host",
                                  .cc = "/nonexistent/cc",
                                  .threads = 1,
                                  .hints = by_environment ? NULL : hints,
                                  .max_shapes = fuzz_below(&w->run, 2) ? fuzz_size(&w->run) : 0};
    check(w, md_context_create(&c, &o), "md_context_create", hints);
    unsetenv("MD_HINTS");
    if (c)
        check(w, md_op_create(&op, c, formulas[0], &(md_op_options){.max_variants = 2}), "md_op_create", hints);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* ---- Functions that take tensors */

/* Tensors at places of their own that are no memory. NULL: no data. */
static int32_t make_tensors(md_tensor tensor[MOST_ARGS], md_arg arg[MOST_ARGS], world *w, const md_op *op,
                            bool has_data)
{
    const int32_t n = md_op_n_args(op);
    int64_t shared[8];
    for (int i = 0; i < 8; i++)
        shared[i] = fuzz_size(&w->run);
    for (int32_t i = 0; i < n; i++) {
        md_arg_info info;
        int64_t size[MD_MAX_RANK] = {0};
        if (md_op_arg(&info, op, i) != MD_OK)
            fail("md_op_arg", md_op_formula(op));
        for (int32_t a = 0; a < info.rank; a++)
            size[a] = info.dim[a][0] ? shared[(unsigned char)info.dim[a][0] % 8] : fuzz_size(&w->run);
        void *data = has_data ? (void *)((uintptr_t)(i + 1) << 40) : NULL;
        tensor[i] = md_tensor_make(data, info.dtype, info.rank, size);
        for (int32_t a = 0; a < info.rank; a++)
            tensor[i].stride[a] = fuzz_below(&w->run, 4)   ? tensor[i].stride[a]
                                  : fuzz_below(&w->run, 2) ? 0
                                                           : fuzz_size(&w->run);
        arg[i] = md_t(&tensor[i]);
    }
    return n;
}

static void pass_tensors(world *w, md_op *op)
{
    md_tensor tensor[MOST_ARGS];
    md_arg arg[MOST_ARGS];
    md_choice choice;
    md_launch *launch = NULL;
    int32_t n = make_tensors(tensor, arg, w, op, true);
    arg[n] = md_as(0, fuzz_size(&w->run));
    n += fuzz_below(&w->run, 2);
    check(w, md_choice_of(&choice, op, arg, n), "md_choice_of", md_op_formula(op));
    if (md_resolve(&launch, op, arg, n) == MD_OK)
        check(w, md_launch_choice(&choice, launch), "md_launch_choice", md_op_formula(op));
    md_launch_destroy(&launch);
    n = make_tensors(tensor, arg, w, op, false);
    check(w, md_call(op, NULL, arg, n), "md_call", md_op_formula(op));
    check(w, md_reference(op, arg, n), "md_reference", md_op_formula(op));
}

/* The first kept op, a product, on real tensors, chosen by other sizes. */
static void call_as(world *w, md_op *product)
{
    static _Alignas(64) float data[3][16];
    const int64_t size[2] = {4, 4};
    md_tensor tensor[3];
    md_arg arg[6];
    int32_t n = 3;
    for (int i = 0; i < 3; i++) {
        tensor[i] = md_tensor_make(data[i], MD_F32, 2, size);
        arg[i] = md_t(&tensor[i]);
    }
    for (int32_t d = 0; d < 3; d++)
        if (fuzz_below(&w->run, 2))
            arg[n++] = md_as(d, fuzz_size(&w->run));
    check(w, md_call(product, NULL, arg, n), "md_call", "as");
}

static void take_bytes(world *w)
{
    void *p = NULL;
    const int64_t n = fuzz_size(&w->run);
    if (n < INT64_C(1) << 50)
        return;
    check(w, md_alloc(&p, w->bare, (size_t)n), "md_alloc", "");
    check(w, md_alloc(&p, w->bare, SIZE_MAX - (size_t)fuzz_below(&w->run, 70)), "md_alloc", "");
    if (p)
        fail("md_alloc", "more than any machine has");
}

static void report(world *w)
{
    static const char *const format[] = {"json", "csv", "table"};
    check(w, md_stats_write(w->context, "/dev/null", format[fuzz_below(&w->run, 3)]), "md_stats_write", "");
}

static void step(world *w)
{
    const int32_t kind = fuzz_below(&w->run, 20);
    md_op *op = w->op[fuzz_below(&w->run, 2 * N_KEPT)];
    alarm(HANG_SECONDS);
    if (kind < 3)
        make_op(w);
    else if (kind < 8)
        describe(w, op);
    else if (kind < 13)
        pass_tensors(w, op);
    else if (kind < 15)
        call_as(w, w->op[0]);
    else if (kind < 16)
        suggest(w);
    else if (kind < 17)
        tune(w);
    else if (kind < 18)
        make_context(w);
    else if (kind < 19)
        take_bytes(w);
    else
        report(w);
}

int main(int argc, char **argv)
{
    world w = {.run = fuzz_start(argc, argv, 60)};
    setenv("MD_CACHE_DIR", "", 0);
    setenv("MD_LOG", "none", 0);
    md_context_options o = {.device = "host", .threads = 2, .hints = "64"};
    check(&w, md_context_create(&w.context, &o), "md_context_create", "");
    o.cc = "/nonexistent/cc";
    check(&w, md_context_create(&w.bare, &o), "md_context_create", "");
    for (int i = 0; i < 2 * N_KEPT; i++)
        check(&w,
              md_op_create(&w.op[i], i < N_KEPT ? w.context : w.bare, kept_formula[i % N_KEPT],
                           &(md_op_options){.max_variants = 3}),
              "md_op_create", kept_formula[i % N_KEPT]);
    while (fuzz_goes_on(&w.run))
        step(&w);
    for (int i = 0; i < 2 * N_KEPT; i++)
        md_op_destroy(&w.op[i]);
    md_context_destroy(&w.context);
    md_context_destroy(&w.bare);
    printf("%lld rounds, %lld answered, %lld refused\n", (long long)w.run.round - 1, (long long)w.n_answered,
           (long long)w.n_refused);
    return w.n_answered == 0 || w.n_refused == 0;
}
