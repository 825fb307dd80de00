/* Every operation on integers of every dtype, over pairs of edge values, against arithmetic in 128 bits: by compiled
 * kernels and by the reference evaluator. Comparisons, quotients, shifts and conversions of u64 know no sign. */
#include "support/check.h"

#include <math.h>
#include <stdbool.h>

__extension__ typedef __int128 wide;

enum { EDGES = 20, PAIRS = EDGES * EDGES, MOST_ARGS = 30 };

typedef struct kind {
    const char *name;
    md_dtype dtype;
    wide low, high;
    bool is_compiled; /* in the test of operations, which are those of i64 for all but u64 */
} kind;

static const kind kinds[] = {
    {"i8", MD_I8, INT8_MIN, INT8_MAX, true},      {"u8", MD_U8, 0, UINT8_MAX, true},
    {"i16", MD_I16, INT16_MIN, INT16_MAX, false}, {"u16", MD_U16, 0, UINT16_MAX, false},
    {"u32", MD_U32, 0, UINT32_MAX, false},        {"i32", MD_I32, INT32_MIN, INT32_MAX, true},
    {"i64", MD_I64, INT64_MIN, INT64_MAX, true},  {"u64", MD_U64, 0, UINT64_MAX, true},
};

/* One output: its formula for the dtype %T, and what it must be. `b` of a test of one operand is not used. */
typedef struct rule {
    const char *text;
    wide (*expected)(const kind *k, wide a, wide b);
    md_dtype dtype; /* MD_DTYPE_DEFAULT: that of the operands */
} rule;

static wide quotient(const kind *k, wide a, wide b)
{
    (void)k;
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static wide modulo(const kind *k, wide a, wide b)
{
    return b == 0 ? 0 : a - quotient(k, a, b) * b;
}

#define RULE(name, expression)                                                                                         \
    static wide name(const kind *k, wide a, wide b)                                                                    \
    {                                                                                                                  \
        (void)k, (void)a, (void)b;                                                                                     \
        return expression;                                                                                             \
    }
RULE(add, a + b)
RULE(sub, a - b)
RULE(mul, (wide)((uint64_t)a *(uint64_t)b))
RULE(rest, b == 0 ? 0 : a % b)
RULE(left, b<0 || b> 63 ? 0 : (wide)((uint64_t)a << b))
RULE(right, b<0 || b> 63 ? (a < 0 ? -1 : 0) : a >> b)
RULE(both, a &b)
RULE(either, a | b)
RULE(one, a ^ b)
RULE(inverted, ~a)
RULE(negative, -a)
RULE(absolute, a < 0 ? -a : a)
RULE(sign, (a > 0) - (a < 0))
RULE(smaller, a < b ? a : b)
RULE(larger, a > b ? a : b)
RULE(clamped, a > 5 ? 5 : a < 2 ? 2 : a)
RULE(below, a < b)
RULE(at_most, a <= b)
RULE(above, a > b)
RULE(at_least, a >= b)
RULE(same, a == b)
RULE(differs, a != b)
RULE(taken, a > b ? a : b)
RULE(below_signed, a < (int64_t)b)
RULE(above_signed, (int64_t)b > a)
RULE(same_signed, a == (int64_t)b)

static const rule rules[] = {
    {"A:@[i] + B:@[i]", add},
    {"A[i] - B[i]", sub},
    {"A[i] * B[i]", mul},
    {"A[i] // B[i]", quotient},
    {"A[i] % B[i]", modulo},
    {"fmod(A[i], B[i])", rest},
    {"A[i] << B[i]", left},
    {"A[i] >> B[i]", right},
    {"A[i] & B[i]", both},
    {"A[i] | B[i]", either},
    {"A[i] ^ B[i]", one},
    {"~A[i]", inverted},
    {"-A[i]", negative},
    {"abs(A[i])", absolute},
    {"sign(A[i])", sign},
    {"min(A[i], B[i])", smaller},
    {"max(A[i], B[i])", larger},
    {"clamp(A[i], 2, 5)", clamped},
    {"where(A[i] > B[i], A[i], B[i])", taken},
    {"A[i] < B[i]", below, MD_BOOL},
    {"A[i] <= B[i]", at_most, MD_BOOL},
    {"A[i] > B[i]", above, MD_BOOL},
    {"A[i] >= B[i]", at_least, MD_BOOL},
    {"A[i] == B[i]", same, MD_BOOL},
    {"A[i] != B[i]", differs, MD_BOOL},
    {"A[i] < i64(B[i])", below_signed, MD_BOOL},
    {"i64(B[i]) > A[i]", above_signed, MD_BOOL},
    {"A[i] == i64(B[i])", same_signed, MD_BOOL},
};
enum { RULES = sizeof rules / sizeof *rules };
_Static_assert(RULES + 2 <= MOST_ARGS, "more arguments");

/* Where no compiler is found, the reference evaluator answers. */
static const char *const compilers[] = {NULL, "/nonexistent/cc"};

static md_context *open_context(int which)
{
    md_context *c = NULL;
    const md_context_options o = {.device = "host", .cc = compilers[which], .threads = 1};
    assert_ok(md_context_create(&c, &o));
    return c;
}

static void edges_of(const kind *k, wide *edge)
{
    const wide middle = k->high / 2 + 1; /* 2^63 of u64 */
    const wide some[EDGES] = {0,      1,          2,          3,          5,           7,           63,
                              64,     k->low,     k->low + 1, k->low + 2, k->high,     k->high - 1, k->high - 2,
                              middle, middle - 1, middle + 1, k->low / 2, k->high / 3, -1};
    for (int i = 0; i < EDGES; i++)
        edge[i] = some[i] < k->low ? k->high / 7 : some[i];
}

static void put(md_dtype t, void *base, int64_t i, wide value)
{
    const uint64_t bits = (uint64_t)value;
    memcpy((char *)base + (size_t)i * md_dtype_size(t), &bits, md_dtype_size(t)); /* little endian */
}

/* An element's bits. */
static uint64_t get(md_dtype t, const void *base, int64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + (size_t)i * md_dtype_size(t), md_dtype_size(t));
    return bits;
}

static uint64_t cut(md_dtype t, wide value)
{
    uint64_t bits = 0;
    const uint64_t all = (uint64_t)value;
    memcpy(&bits, &all, md_dtype_size(t));
    return bits;
}

/* Makes the op of a pattern with the dtype's name for each @, calls it with the data and ends it. */
typedef struct data {
    void *base[128]; /* by the first letter of the argument's name */
    size_t step[128]; /* bytes from argument X0 to X1 */
    int64_t size;
} data;

static void compute(md_context *c, const char *pattern, const kind *k, const data *d)
{
    char text[4096];
    size_t used = 0;
    md_tensor tensor[MOST_ARGS];
    md_arg args[MOST_ARGS];
    md_op *op = NULL;
    for (; *pattern; pattern++)
        used += (size_t)(*pattern == '@' ? snprintf(text + used, sizeof text - used, "%s", k->name)
                                         : snprintf(text + used, sizeof text - used, "%c", *pattern));
    assert_true(used < sizeof text);
    assert_ok(md_op_create(&op, c, text, &(md_op_options){.max_variants = 1}));
    for (int i = 0; i < md_op_n_args(op); i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, op, i));
        const size_t letter = (size_t)info.name[0];
        char *base = (char *)d->base[letter] + d->step[letter] * (size_t)atoi(info.name + 1);
        tensor[i] = md_tensor_make(base, info.dtype, info.rank, &d->size);
        args[i] = md_t(&tensor[i]);
    }
    assert_ok(md_call(op, NULL, args, md_op_n_args(op)));
    md_op_destroy(&op);
}

static uint64_t pairs[2][PAIRS], results[RULES][PAIRS];

static void check_pairs(md_context *c, const kind *k)
{
    char text[4096] = "";
    size_t used = 0;
    wide edge[EDGES];
    edges_of(k, edge);
    for (int r = 0; r < RULES; r++)
        used += (size_t)snprintf(text + used, sizeof text - used, "R%d:%s[i] = %s; ", r,
                                 rules[r].dtype == MD_BOOL ? "bool" : "@", rules[r].text);
    for (int i = 0; i < PAIRS; i++) {
        put(k->dtype, pairs[0], i, edge[i / EDGES]);
        put(k->dtype, pairs[1], i, edge[i % EDGES]);
    }
    compute(c, text, k,
            &(data){.base = {['A'] = pairs[0], ['B'] = pairs[1], ['R'] = results},
                    .step = {['R'] = sizeof results[0]},
                    .size = PAIRS});
    for (int r = 0; r < RULES; r++)
        for (int i = 0; i < PAIRS; i++) {
            const md_dtype t = rules[r].dtype ? rules[r].dtype : k->dtype;
            const wide a = edge[i / EDGES], b = edge[i % EDGES];
            const uint64_t want = cut(t, rules[r].expected(k, a, b)), is = get(t, results[r], i);
            if (is != want)
                fail_msg("%s of %s, A = %lld, B = %lld: %llu, expected %llu", rules[r].text, k->name, (long long)a,
                         (long long)b, (unsigned long long)is, (unsigned long long)want);
        }
}

static void each_operation_gives_exact_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        md_context *c = open_context(which);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (which > 0 || kinds[k].is_compiled)
                check_pairs(c, &kinds[k]);
        md_context_destroy(&c);
    }
}

/* ---- reductions and scans */

static void check_folds(md_context *c, const kind *k)
{
    wide edge[EDGES], top, bottom;
    uint64_t from[EDGES], folds[6] = {0}, scans[2][EDGES], total = 0, product = 1;
    int at_top = 0, at_bottom = 0;
    edges_of(k, edge);
    for (int i = 0; i < EDGES; i++)
        put(k->dtype, from, i, edge[i]);
    compute(c,
            "F0:@[] = max[i](A:@[i]); F1:@[] = min[i](A[i]); F2:i64[] = argmax[i](A[i]); F3:i64[] = argmin[i](A[i]); "
            "F4:@[] = sum[i](A[i]); F5:@[] = prod[i](A[i] | 1); S0:@[i] = cummax[i](A[i]); S1:@[i] = cummin[i](A[i])",
            k,
            &(data){.base = {['A'] = from, ['F'] = folds, ['S'] = scans},
                    .step = {['F'] = sizeof *folds, ['S'] = sizeof scans[0]},
                    .size = EDGES});
    top = bottom = edge[0];
    for (int i = 0; i < EDGES; i++) {
        at_top = edge[i] > top ? i : at_top;
        at_bottom = edge[i] < bottom ? i : at_bottom;
        top = edge[at_top];
        bottom = edge[at_bottom];
        total += (uint64_t)edge[i];
        product *= (uint64_t)edge[i] | 1;
        assert_int_equal(get(k->dtype, scans[0], i), cut(k->dtype, top));
        assert_int_equal(get(k->dtype, scans[1], i), cut(k->dtype, bottom));
    }
    assert_int_equal(get(k->dtype, folds, 0), cut(k->dtype, top));
    assert_int_equal(cut(k->dtype, (wide)folds[1]), cut(k->dtype, bottom));
    assert_int_equal(folds[2], at_top);
    assert_int_equal(folds[3], at_bottom);
    assert_int_equal(cut(k->dtype, (wide)folds[4]), cut(k->dtype, (wide)total));
    assert_int_equal(cut(k->dtype, (wide)folds[5]), cut(k->dtype, (wide)product));
}

static void reductions_and_scans_give_exact_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        md_context *c = open_context(which);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            check_folds(c, &kinds[k]);
        md_context_destroy(&c);
    }
}

/* ---- updates: every edge value meets 7 in the element that its index names */

static void check_updates(md_context *c, const kind *k)
{
    static const char *const names[] = {"+=", "*=", "max=", "min="};
    wide edge[EDGES];
    uint64_t from[EDGES], into[4][EDGES];
    int64_t ids[EDGES];
    edges_of(k, edge);
    char text[512];
    size_t used = 0;
    for (int u = 0; u < 4; u++)
        used += (size_t)snprintf(text + used, sizeof text - used, "G%d:@[I[t]] %s A:@[t]; ", u, names[u]);
    for (int i = 0; i < EDGES; i++) {
        put(k->dtype, from, i, edge[i]);
        ids[i] = (i * 7 + 3) % EDGES;
        for (int u = 0; u < 4; u++)
            put(k->dtype, into[u], i, 7);
    }
    compute(
        c, text, k,
        &(data){.base = {['A'] = from, ['I'] = ids, ['G'] = into}, .step = {['G'] = sizeof into[0]}, .size = EDGES});
    for (int i = 0; i < EDGES; i++) {
        const wide a = edge[i], want[] = {a + 7, (wide)((uint64_t)a * 7), a > 7 ? a : 7, a < 7 ? a : 7};
        for (int u = 0; u < 4; u++)
            if (get(k->dtype, into[u], ids[i]) != cut(k->dtype, want[u]))
                fail_msg("7 %s %lld of %s is %llu", names[u], (long long)a, k->name,
                         (unsigned long long)get(k->dtype, into[u], ids[i]));
    }
}

/* Numbers of i64 that meet in one element wrap before they are compared: no order matters. */
static void check_meetings(md_context *c, const kind *k)
{
    wide edge[EDGES], least = 7, most = 7;
    int64_t from[EDGES], ids[EDGES] = {0};
    uint64_t into[2][EDGES] = {{7}, {7}};
    const size_t step = sizeof into[0];
    edges_of(&kinds[6], edge); /* of i64 */
    for (int i = 0; i < EDGES; i++) {
        from[i] = (int64_t)edge[i];
        const uint64_t bits = cut(k->dtype, edge[i]);
        const wide stored = k->low < 0 && bits > (uint64_t)k->high ? (wide)bits - (k->high - k->low + 1) : (wide)bits;
        least = stored < least ? stored : least;
        most = stored > most ? stored : most;
    }
    compute(c, "G0:@[I[t]] min= W:i64[t]; G1:@[I[t]] max= W[t]", k,
            &(data){.base = {['W'] = from, ['I'] = ids, ['G'] = into}, .step = {['G'] = step}, .size = EDGES});
    assert_int_equal(get(k->dtype, into[0], 0), cut(k->dtype, least));
    assert_int_equal(get(k->dtype, into[1], 0), cut(k->dtype, most));
}

static void updates_give_exact_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        md_context *c = open_context(which);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            check_updates(c, &kinds[k]);
            check_meetings(c, &kinds[k]);
        }
        md_context_destroy(&c);
    }
}

/* ---- conversions */

/* Truncated toward zero; what is out of range gives the nearest number, NaN gives 0. */
static wide whole(const kind *k, double x)
{
    if (isnan(x))
        return 0;
    return x <= (double)k->low ? k->low : x >= (double)k->high ? k->high : (wide)x;
}

static void check_conversions(md_context *c, const kind *k)
{
    const double high = (double)k->high, low = (double)k->low;
    double reals[EDGES] = {0,          -0.0,      0.5,    -0.5,    1.5,      -1.5,         NAN,
                           INFINITY,   -INFINITY, high,   low,     high + 1, high * 2 + 3, high - 0.5,
                           low - 0.75, 0x1p63,    0x1p64, -0x1p63, 1e300,    0x1.8p63};
    wide edge[EDGES];
    uint64_t from[EDGES], stored[2][EDGES];
    double wides[2][EDGES];
    float floats[EDGES], singles[EDGES];
    edges_of(k, edge);
    for (int i = 0; i < EDGES; i++) {
        put(k->dtype, from, i, edge[i]);
        singles[i] = (float)reals[i];
    }
    compute(
        c, "S0:@[i] = @(X:f64[i]); S1:@[i] = X[i]; D0:f64[i] = A:@[i]; F:f32[i] = A[i]; D1:f64[i] = @(Z:f32[i])", k,
        &(data){.base = {['A'] = from, ['X'] = reals, ['Z'] = singles, ['S'] = stored, ['D'] = wides, ['F'] = floats},
                .step = {['S'] = sizeof stored[0], ['D'] = sizeof wides[0]},
                .size = EDGES});
    for (int i = 0; i < EDGES; i++) {
        const uint64_t want = cut(k->dtype, whole(k, reals[i]));
        if (get(k->dtype, stored[0], i) != want || get(k->dtype, stored[1], i) != want)
            fail_msg("%g as %s is %llu and stored %llu, expected %llu", reals[i], k->name,
                     (unsigned long long)get(k->dtype, stored[0], i), (unsigned long long)get(k->dtype, stored[1], i),
                     (unsigned long long)want);
        if (wides[0][i] != (double)edge[i] || floats[i] != (float)edge[i] ||
            wides[1][i] != (double)whole(k, (double)singles[i]))
            fail_msg("%s %lld is %.17g; %g is %.17g", k->name, (long long)edge[i], wides[0][i], reals[i], wides[1][i]);
    }
}

static void conversions_round_and_saturate(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        md_context *c = open_context(which);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            check_conversions(c, &kinds[k]);
        md_context_destroy(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_gives_exact_bits),
        cmocka_unit_test(reductions_and_scans_give_exact_bits),
        cmocka_unit_test(updates_give_exact_bits),
        cmocka_unit_test(conversions_round_and_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
