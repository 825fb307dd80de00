/* What a bundle gives against compiling: opening, ops, choices and results at random shapes. Lines of JSON.
 *
 *   bench_bundle BUNDLE SHAPES SEED OP...
 *
 * A context with the bundle and one that compiles take turns at SHAPES random shapes of each OP of the catalogue.
 * RUN of them are run in both, and their bits compared. "new": a call whose kernels may still be loading, so that
 * others may stand in; "settled": a call after both have waited. MD_DEVICE says where, MD_CACHE_DIR which store (the
 * host's rates are measured once a store). Exits with 1 if a choice or a settled result differs, or if the bundle's
 * context compiled. With SHAPES 0 each op is called once, by the bundle. */
#include "bench_program.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors larger than MOST_BYTES are drawn again; a shape is run if it takes at most MOST_FLOPS. */
enum { RUN = 12, MOST_ARGS = 8, MOST_BYTES = 1 << 28 };
static const double MOST_FLOPS = 4e9;

typedef struct side {
    md_context *context;
    md_op *op;
    double create_us, wait_us;
} side;

typedef struct shape {
    char text[512];
    md_tensor tensor[MOST_ARGS];
    md_arg arg[MOST_ARGS];
    size_t bytes[MOST_ARGS];
    int is_output[MOST_ARGS], n;
} shape;

typedef struct counts {
    int shapes, choices, run, new_results, settled_results;
} counts;

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static side side_open(const char *bundle)
{
    side s = {.context = NULL};
    const double from = bench_now();
    const md_context_options o = {.bundle = bundle};
    bench_ok(md_context_create(&s.context, &o));
    s.create_us = bench_now() - from;
    return s;
}

static void side_op(side *s, const char *name)
{
    const double from = bench_now();
    bench_ok(md_op_create(&s->op, s->context, name, NULL));
    bench_ok(md_op_wait(s->op));
    s->wait_us = bench_now() - from;
}

/* Appends a random size, spread evenly over the octaves up to 8,192, for each dim that the text has not. */
static void add_sizes(char *text, size_t room, const md_arg_info *f)
{
    for (int axis = 0; axis < f->rank; axis++) {
        char start[80];
        snprintf(start, sizeof start, "%s=", f->dim[axis]);
        if (!f->dim[axis][0] || f->static_size[axis] >= 0 || strstr(text, start))
            continue;
        const size_t n = strlen(text);
        snprintf(text + n, room - n, "%s%s%u", n ? ", " : "", start, 1 + draw(1u << (1 + draw(13))));
    }
}

/* Tensor i at the drawn sizes, in its part of `memory`. False if it is too large. */
static int shape_tensor(shape *s, md_op *op, int i, const md_arg_info *f, char *memory)
{
    bench_ok(md_op_tensor(&s->tensor[i], op, i, s->text));
    size_t bytes = md_dtype_size(f->dtype);
    for (int axis = 0; axis < s->tensor[i].rank; axis++)
        bytes *= (size_t)s->tensor[i].size[axis];
    s->bytes[i] = bytes;
    s->is_output[i] = f->is_output;
    s->tensor[i].data = memory + (size_t)i * MOST_BYTES;
    s->arg[i] = md_t(&s->tensor[i]);
    return bytes <= MOST_BYTES;
}

/* Random sizes and the arguments for them. False if a tensor is too large. */
static int shape_draw(shape *s, md_op *op, char *memory)
{
    md_arg_info f;
    int fits = 1;
    s->text[0] = 0;
    s->n = md_op_n_args(op);
    if (s->n > MOST_ARGS)
        exit(fprintf(stderr, "%s has more than %d arguments\n", md_op_name(op), MOST_ARGS));
    for (int i = 0; i < s->n; i++)
        if (md_op_arg(&f, op, i) == MD_OK && !f.is_scalar)
            add_sizes(s->text, sizeof s->text, &f);
    for (int i = 0; i < s->n; i++) {
        bench_ok(md_op_arg(&f, op, i));
        s->bytes[i] = 0;
        s->arg[i] = md_s(0.5);
        if (!f.is_scalar)
            fits &= shape_tensor(s, op, i, &f, memory);
    }
    return fits;
}

/* Random numbers in [-1, 1] for all tensors. */
static void shape_fill(const shape *s, md_context *c)
{
    for (int i = 0; i < s->n; i++) {
        if (!s->bytes[i])
            continue;
        float *x = malloc(s->bytes[i]);
        for (size_t k = 0; k < s->bytes[i] / sizeof *x; k++)
            x[k] = (float)draw(2001) / 1000.f - 1.f;
        bench_ok(md_copy(c, s->tensor[i].data, x, s->bytes[i]));
        free(x);
    }
}

static int is_quick(md_op *op, const shape *s)
{
    double flops, bytes;
    bench_ok(md_op_work(&flops, &bytes, op, s->text));
    return flops <= MOST_FLOPS && bytes <= MOST_FLOPS / 64;
}

/* The bytes of all outputs after a call, one behind the other; the caller frees them. */
static char *outputs(size_t *n, const side *of, const shape *s)
{
    char *bytes = NULL;
    *n = 0;
    bench_ok(md_call(of->op, NULL, s->arg, s->n));
    bench_ok(md_sync(of->context, NULL));
    for (int i = 0; i < s->n; i++) {
        if (!s->is_output[i])
            continue;
        bytes = realloc(bytes, *n + s->bytes[i]);
        bench_ok(md_copy(of->context, bytes + *n, s->tensor[i].data, s->bytes[i]));
        *n += s->bytes[i];
    }
    return bytes;
}

static void launch_print(const char *who, const side *of, const shape *s)
{
    md_launch *launch = NULL;
    md_choice c;
    bench_ok(md_resolve(&launch, of->op, s->arg, s->n));
    bench_ok(md_launch_choice(&c, launch));
    printf(", \"%s\": \"%s\"", who, c.variant[0]);
    md_launch_destroy(&launch);
}

static int compare(const char *when, const side *a, const side *b, const shape *s)
{
    size_t n[2];
    char *x = outputs(&n[0], a, s), *y = outputs(&n[1], b, s);
    const int differ = memcmp(x, y, n[0]) != 0;
    free(x);
    free(y);
    if (differ) {
        printf("{\"differ\": \"%s\", \"op\": \"%s\", \"sizes\": \"%s\"", when, md_op_name(a->op), s->text);
        launch_print("bundle", a, s);
        launch_print("compiled", b, s);
        printf("}\n");
    }
    return differ;
}

static int choices_differ(const side *a, const side *b, const shape *s)
{
    md_choice x, y;
    int differ = 0;
    bench_ok(md_choice_of(&x, a->op, s->arg, s->n));
    bench_ok(md_choice_of(&y, b->op, s->arg, s->n));
    for (int i = 0; i < x.n_stages; i++)
        differ |= strcmp(x.variant[i], y.variant[i]) != 0;
    if (differ)
        printf(
            "{\"differ\": \"choice\", \"op\": \"%s\", \"sizes\": \"%s\", \"bundle\": \"%s\", \"compiled\": \"%s\"}\n",
            md_op_name(a->op), s->text, x.variant[0], y.variant[0]);
    return differ;
}

static void op_compare(counts *n, side *a, side *b, char *memory, int shapes)
{
    static shape s;
    for (int i = 0, run = 0; i < shapes; i++) {
        while (!shape_draw(&s, a->op, memory))
            ;
        n->shapes++;
        n->choices += choices_differ(a, b, &s);
        if (run == RUN || !is_quick(a->op, &s))
            continue;
        run++;
        n->run++;
        shape_fill(&s, a->context);
        n->new_results += compare("new", a, b, &s);
        bench_ok(md_op_wait(a->op));
        bench_ok(md_op_wait(b->op));
        n->settled_results += compare("settled", a, b, &s);
    }
}

/* One call of the op with the bundle alone. */
static void op_run(side *a, char *memory)
{
    static shape s;
    size_t n;
    while (!shape_draw(&s, a->op, memory) || !is_quick(a->op, &s))
        ;
    shape_fill(&s, a->context);
    free(outputs(&n, a, &s));
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return fprintf(stderr, "usage: bench_bundle BUNDLE SHAPES SEED OP...\n"), 2;
    const int shapes = atoi(argv[2]);
    counts n = {0};
    md_store_counters compiles;
    void *memory = NULL;
    state = strtoull(argv[3], NULL, 10);
    side a = side_open(argv[1]), b = {.context = NULL};
    if (shapes)
        b = side_open("");
    bench_ok(md_alloc(&memory, a.context, (size_t)MOST_ARGS * MOST_BYTES));
    printf("{\"seed\": %s, \"open_us\": %.0f, \"open_compiling_us\": %.0f}\n", argv[3], a.create_us, b.create_us);
    for (int i = 4; i < argc; i++) {
        side_op(&a, argv[i]);
        if (shapes) {
            side_op(&b, argv[i]);
            op_compare(&n, &a, &b, memory, shapes);
        } else {
            op_run(&a, memory);
        }
        printf("{\"op\": \"%s\", \"variants\": %d, \"bundle_us\": %.0f, \"compiled_us\": %.0f}\n", argv[i],
               (int)md_op_n_variants(a.op, 0), a.wait_us, b.wait_us);
        fflush(stdout);
        md_op_destroy(&a.op);
        md_op_destroy(&b.op);
    }
    bench_ok(md_store_count(&compiles, a.context));
    printf("{\"shapes\": %d, \"choices_differ\": %d, \"run\": %d, \"new_differ\": %d, \"settled_differ\": %d, "
           "\"compiles\": %llu}\n",
           n.shapes, n.choices, n.run, n.new_results, n.settled_results, (unsigned long long)compiles.compiles);
    md_free(a.context, memory);
    md_context_destroy(&a.context);
    md_context_destroy(&b.context);
    return n.choices || n.settled_results || compiles.compiles;
}
