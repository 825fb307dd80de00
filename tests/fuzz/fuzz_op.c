/* Fuzz target of everything above the front end: options and a formula become an op or a message, and an op that is
 * made describes, prepares, explains and computes at small sizes without touching what is not its own.
 *
 * An input is seven parts, each but the last ending with a newline: two letters of flags, static sizes, hints,
 * weights, pin, sizes of a shape, and the formula. There is no compiler here, so families write their kernels and
 * the reference evaluator runs (or the library family, which needs no compiler).
 *
 * With libFuzzer, from the root of the sources (some minutes to build):
 *   CC=clang meson setup BUILD -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false
 *   -Dc_args=-fsanitize=fuzzer-no-link
 *   ninja -C BUILD src/libmultidispatch.a
 *   clang -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -Iinclude -Itests tests/fuzz/fuzz_op.c
 *   BUILD/src/libmultidispatch.a \
 *     -ljansson -lopenblas -lpthread -ldl -lm -o fuzz_op
 *   ./fuzz_op -dict=tests/fuzz/formula.dict -max_len=1000 WORK data/fuzz/op */
#include "fuzz/text.h"

enum { FIELDS = 6, GUARD = 64, MOST_ELEMENTS = 4096, MOST_ARGS = 32, MOST_DIMS = 48, CONTEXT_LIFE = 200 };
static const double most_work = 2e5; /* the reference takes some hundred nanoseconds for one operation here */

typedef struct input {
    const char *flags, *sizes, *hints, *weights, *pin, *shape, *formula;
    uint64_t random; /* of the bytes */
} input;

/* FNV-1a, and then splitmix64. */
static uint64_t hash(const uint8_t *data, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 0x100000001b3u;
    return h;
}

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool split(input *in, char *text)
{
    const char **field[FIELDS] = {&in->flags, &in->sizes, &in->hints, &in->weights, &in->pin, &in->shape};
    for (int i = 0; i < FIELDS; i++) {
        char *end = strchr(text, '\n');
        if (!end)
            return false;
        *end = 0;
        *field[i] = text;
        text = end + 1;
    }
    in->formula = text;
    return strlen(in->flags) == 2;
}

/* ---- The context: one for many inputs, since opening a device takes some milliseconds, but not for all: texts that
 * failed stay in it. */

static md_context *context;

static void renew_context(void)
{
    static int n_left;
    if (context && n_left-- > 0)
        return;
    if (context && (md_stats_write(context, "/dev/null", "json") || md_stats_write(context, "/dev/null", "csv")))
        abort();
    md_context_destroy(&context);
    n_left = CONTEXT_LIFE;
    if (md_context_create(
            &context, &(md_context_options){.device = "host", .cc = "/nonexistent/cc", .threads = 1, .hints = "16"}) !=
        MD_OK)
        abort();
}

static int take(void *user, const char *text, size_t n)
{
    *(size_t *)user += strnlen(text, n);
    return 0;
}

/* ---- Arguments in memory between guards */

typedef struct arguments {
    int32_t n;
    md_arg arg[MOST_ARGS];
    md_tensor tensor[MOST_ARGS];
    uint8_t *block[MOST_ARGS];
    size_t n_bytes[MOST_ARGS]; /* between the guards */
} arguments;

/* Sizes 0..5 of every dynamic dim that some argument shows. */
static void random_sizes(char *out, size_t n_out, const md_op *op, uint64_t *random)
{
    const char *known[MOST_DIMS];
    int32_t n = 0;
    size_t used = 0;
    out[0] = 0;
    for (int32_t i = 0; i < md_op_n_args(op); i++) {
        md_arg_info info;
        if (md_op_arg(&info, op, i) != MD_OK)
            abort();
        for (int32_t a = 0; !info.is_scalar && a < info.rank; a++) {
            bool is_known = info.static_size[a] >= 0 || !info.dim[a][0];
            for (int32_t k = 0; k < n; k++)
                is_known |= !strcmp(known[k], info.dim[a]);
            if (is_known || n == MOST_DIMS || used >= n_out)
                continue;
            known[n++] = info.dim[a];
            used += (size_t)snprintf(out + used, n_out - used, "%s%s=%d", n > 1 ? ", " : "", info.dim[a],
                                     (int)(next(random) % 6));
        }
    }
}

static bool is_real(md_dtype t)
{
    return t == MD_F32 || t == MD_F64 || t == MD_F16 || t == MD_BF16;
}

/* Any bits are a value of a real type; integers are small, so that most indices lie inside; bools are 0 or 1. */
static void fill(uint8_t *p, size_t n_bytes, md_dtype t, uint64_t *random)
{
    size_t item = md_dtype_size(t);
    for (size_t i = 0; i + item <= n_bytes; i += item) {
        uint64_t r = next(random);
        int64_t v = is_real(t) ? (int64_t)r : t == MD_BOOL ? (int64_t)(r & 1) : (int64_t)(r % 8) - 1;
        if (r >> 60)
            v = t == MD_F32   ? (int64_t)0x3f800000 + (int64_t)(r % 8388608)
                : t == MD_F64 ? (int64_t)0x3ff0000000000000 + (int64_t)(r >> 12)
                              : v;
        memcpy(p + i, &v, item);
    }
}

static bool make_argument(arguments *a, const md_op *op, int32_t i, md_tensor t, bool is_strided, uint64_t *random)
{
    md_arg_info info;
    int64_t n = 1, step = is_strided ? 2 : 1;
    if (md_op_arg(&info, op, i) != MD_OK)
        abort();
    for (int32_t d = 0; d < t.rank; d++) {
        n *= t.size[d] > MOST_ELEMENTS ? MOST_ELEMENTS + 1 : t.size[d];
        if (n > MOST_ELEMENTS)
            return false;
        t.stride[d] *= step;
    }
    a->n_bytes[i] = (size_t)(n * step) * md_dtype_size(t.dtype);
    a->block[i] = aligned_alloc(64, (a->n_bytes[i] + 2 * GUARD + 63) / 64 * 64);
    if (!a->block[i])
        return false;
    memset(a->block[i], 0xa5, a->n_bytes[i] + 2 * GUARD);
    fill(a->block[i] + GUARD, a->n_bytes[i], t.dtype, random);
    a->tensor[i] = t;
    a->tensor[i].data = a->block[i] + GUARD;
    a->arg[i] = md_t(&a->tensor[i]);
    return true;
}

/* False where a tensor would be too large for this, or the sizes do not suit the op. */
static bool make_arguments(arguments *a, md_op *op, const char *sizes, bool is_strided, uint64_t *random)
{
    memset(a, 0, sizeof *a);
    a->n = md_op_n_args(op);
    for (int32_t i = 0; i < a->n; i++) {
        md_arg_info info;
        md_tensor t;
        if (md_op_arg(&info, op, i) != MD_OK)
            abort();
        if (info.is_scalar)
            a->arg[i] = info.dtype == MD_I64 ? md_i((int64_t)(next(random) % 5) - 1)
                                             : md_s((double)(next(random) % 100) / 10.0);
        else if (md_op_tensor(&t, op, i, sizes) != MD_OK || !make_argument(a, op, i, t, is_strided, random))
            return false;
    }
    return true;
}

static bool is_guarded(const arguments *a)
{
    for (int32_t i = 0; i < a->n; i++)
        for (size_t k = 0; a->block[i] && k < GUARD; k++)
            if (a->block[i][k] != 0xa5 || a->block[i][GUARD + a->n_bytes[i] + k] != 0xa5)
                return false;
    return true;
}

static void free_arguments(arguments *a)
{
    for (int32_t i = 0; i < a->n; i++)
        free(a->block[i]);
}

/* ---- One op */

static void describe(md_op *op, const input *in)
{
    md_tensor t;
    double flops, bytes;
    size_t n = 0;
    for (int32_t i = -1; i <= md_op_n_args(op); i++)
        (void)md_op_tensor(&t, op, i, in->shape);
    (void)md_op_work(&flops, &bytes, op, in->shape);
    for (int32_t json = 0; json < 2; json++) {
        md_status s = md_explain(op, in->shape, json, take, &n);
        require(s == MD_OK || s == MD_INVALID_ARGUMENT || s == MD_UNSUPPORTED || s == MD_OUT_OF_MEMORY, "explain",
                in->formula);
    }
    for (int32_t s = 0; s < md_op_n_stages(op); s++)
        if (md_op_n_variants(op, s))
            require(md_op_source(op, s, md_op_variant(op, s, 0), take, &n) == MD_OK, "source", in->formula);
}

static void call(md_op *op, const input *in, bool is_strided, uint64_t *random)
{
    char sizes[1024];
    double flops = 0.0, bytes = 0.0;
    arguments a;
    random_sizes(sizes, sizeof sizes, op, random);
    if (md_op_work(&flops, &bytes, op, sizes) != MD_OK || !(flops + bytes < most_work))
        return;
    if (make_arguments(&a, op, sizes, is_strided, random)) {
        md_launch *launch = NULL;
        md_status s = md_call(op, NULL, a.arg, a.n);
        require(s == MD_OK || s == MD_INVALID_ARGUMENT || s == MD_UNSUPPORTED || s == MD_OUT_OF_MEMORY, "call",
                in->formula);
        require(is_guarded(&a), "a call wrote outside its tensors", in->formula);
        if (s == MD_OK && md_resolve(&launch, op, a.arg, a.n) == MD_OK)
            (void)md_launch_run(launch, NULL, NULL, 0);
        md_launch_destroy(&launch);
        require(is_guarded(&a), "a launch wrote outside its tensors", in->formula);
    }
    free_arguments(&a);
}

static void try_op(input *in)
{
    static const md_dtype dtype[] = {MD_DTYPE_DEFAULT, MD_F64, MD_F16, MD_BF16};
    unsigned f = (unsigned char)in->flags[0], g = (unsigned char)in->flags[1];
    md_op_options o = {
        .sizes = in->sizes,
        .hints = in->hints[0] ? in->hints : NULL,
        .weights = in->weights[0] ? in->weights : NULL,
        .pin = in->pin[0] ? in->pin : NULL,
        .select = (md_select)(f % 4),
        .bounds = (md_bounds)(f / 4 % 3),
        .metric = (md_metric)(g % 3),
        .persistent = (md_persistent)(g / 4 % 4),
        .dtype = dtype[g / 16 % 4],
        .max_variants = (int32_t)(f / 16 % 4),
    };
    md_op *op = NULL;
    md_status s = md_op_create(&op, context, in->formula, &o);
    require((op != NULL) == (s == MD_OK), "a result with an error", in->formula);
    if (s != MD_OK) {
        require(s == MD_INVALID_ARGUMENT || s == MD_UNSUPPORTED || s == MD_NOT_FOUND || s == MD_COMPILE ||
                    s == MD_OUT_OF_MEMORY,
                "a status", in->formula);
        require(md_last_error()[0] != 0, "no message", in->formula);
        return;
    }
    describe(op, in);
    for (int round = 0; round < 3; round++)
        call(op, in, round == 2, &in->random);
    md_op_destroy(&op);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    input in = {.random = hash(data, size)};
    renew_context();
    if (split(&in, text))
        try_op(&in);
    free(text);
    return 0;
}
