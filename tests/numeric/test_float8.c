/* The 8-bit reals in kernels, bit for bit: every value widened, every edge between two rounded, from f32, f64
 * and i64. FLOAT8_DEVICE is the device; the test skips itself where there is none. */
#include "support/check.h"

#include <math.h>
#include <stdbool.h>

#include "../base/float8.inc"

typedef struct format {
    const char *name;
    md_dtype dtype;
    const double *value; /* of every pattern */
} format;

static const format formats[] = {{"f8e4m3", MD_F8E4M3, f8e4m3}, {"f8e5m2", MD_F8E5M2, f8e5m2}};

enum { MOST = 8192 };

static md_context *context;

static int open_device(void **state)
{
    (void)state;
    const md_context_options o = {.device = FLOAT8_DEVICE};
    if (md_context_create(&context, &o) == MD_OK)
        return 0;
    print_message("no device %s: %s\n", FLOAT8_DEVICE, md_last_error());
    exit(77);
}

static int close_device(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

/* Y = X, converted from one dtype to the other by a kernel. */
static void convert(void *y, md_dtype to, const void *x, md_dtype from, int64_t n)
{
    char text[128];
    void *data[2] = {NULL, NULL};
    md_op *op = NULL;
    snprintf(text, sizeof text, "Y:%s[i] = X:%s[i]", md_dtype_name(to), md_dtype_name(from));
    assert_ok(md_op_create(&op, context, text, &(md_op_options){.max_variants = 1, .hints = "4096"}));
    const size_t bytes[] = {(size_t)n * md_dtype_size(to), (size_t)n * md_dtype_size(from)};
    for (int i = 0; i < 2; i++)
        assert_ok(md_alloc(&data[i], context, bytes[i]));
    assert_ok(md_copy(context, data[1], x, bytes[1]));
    md_tensor ty = md_tensor_make(data[0], to, 1, &n), tx = md_tensor_make(data[1], from, 1, &n);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, y, data[0], bytes[0]));
    for (int i = 0; i < 2; i++)
        md_free(context, data[i]);
    md_op_destroy(&op);
}

static void every_value_widens(void **state)
{
    (void)state;
    uint8_t pattern[256];
    float wide[256];
    for (int h = 0; h < 256; h++)
        pattern[h] = (uint8_t)h;
    for (int k = 0; k < 2; k++) {
        convert(wide, MD_F32, pattern, formats[k].dtype, 256);
        for (int h = 0; h < 256; h++) {
            const double want = formats[k].value[h];
            if (isnan(want) ? !isnan(wide[h]) : (double)wide[h] != want || !signbit(wide[h]) != !signbit(want))
                fail_msg("%s 0x%02x is %g, expected %g", formats[k].name, h, (double)wide[h], want);
        }
    }
}

/* The pattern of the finite value nearest to x, the even one of two: by trying all. */
static uint8_t nearest(const format *f, double x)
{
    int best = 0;
    if (isnan(x))
        return 0x7f;
    for (int h = 1; h < 128; h++) {
        const double a = fmin(fabs(x), 1e6), d = fabs(a - f->value[h]), least = fabs(a - f->value[best]);
        if (isfinite(f->value[h]) && (d < least || (d == least && h % 2 == 0)))
            best = h;
    }
    return (uint8_t)(best | (signbit(x) ? 0x80 : 0));
}

/* Every value, every middle between two, what lies beside it in f32 and in f64, and what is too large or small. */
static int edges_of(const format *f, double *x)
{
    int n = 0;
    for (int h = 0; h < 256; h++) {
        if (!isfinite(f->value[h]))
            continue;
        const double next = isfinite(f->value[(h + 1) & 255]) ? f->value[(h + 1) & 255] : f->value[h] * 1.125;
        const double middle = (f->value[h] + next) / 2;
        const float narrow = (float)middle;
        const double here[] = {f->value[h],
                               middle,
                               nextafter(middle, 0),
                               nextafter(middle, next),
                               (double)nextafterf(narrow, 0),
                               (double)nextafterf(narrow, (float)next)};
        memcpy(x + n, here, sizeof here);
        n += (int)(sizeof here / sizeof *here);
    }
    const double far[] = {1e30,   -1e30, INFINITY, -INFINITY, NAN,  449,     464,     480,    57345,  61440,
                          -65536, 1e-30, -1e-30,   1e-45,     -0.0, 0x1p-10, 0x1p-17, 0x1p-9, 0x1p-16};
    memcpy(x + n, far, sizeof far);
    return n + (int)(sizeof far / sizeof *far);
}

static void check_rounding(const format *f, const void *from, md_dtype type, const double *x, int n)
{
    static uint8_t got[MOST];
    convert(got, f->dtype, from, type, n);
    for (int i = 0; i < n; i++)
        if (got[i] != nearest(f, x[i]))
            fail_msg("%s %.17g as %s is 0x%02x, expected 0x%02x", md_dtype_name(type), x[i], f->name, got[i],
                     nearest(f, x[i]));
}

static void every_edge_rounds_to_even(void **state)
{
    (void)state;
    static double x[MOST], as_f32[MOST];
    static float single[MOST];
    for (int k = 0; k < 2; k++) {
        const int n = edges_of(&formats[k], x);
        assert_true(n <= MOST);
        for (int i = 0; i < n; i++) {
            single[i] = (float)x[i];
            as_f32[i] = (double)single[i];
        }
        check_rounding(&formats[k], single, MD_F32, as_f32, n);
        check_rounding(&formats[k], x, MD_F64, x, n);
    }
}

static void integers_round_once(void **state)
{
    (void)state;
    static double x[MOST];
    static int64_t whole[MOST];
    for (int k = 0; k < 2; k++) {
        int n = 0;
        for (int64_t i = -600; i <= 600; i++)
            whole[n++] = i;
        for (int64_t i = 1024; i < 70000; i += 127) {
            whole[n++] = i;
            whole[n++] = -i;
        }
        const int64_t far[] = {INT64_MAX, INT64_MIN, 57344, 57345, 61440, 61441, 1 << 24};
        memcpy(whole + n, far, sizeof far);
        n += (int)(sizeof far / sizeof *far);
        assert_true(n <= MOST);
        for (int i = 0; i < n; i++)
            x[i] = (double)whole[i];
        check_rounding(&formats[k], whole, MD_I64, x, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_widens),
        cmocka_unit_test(every_edge_rounds_to_even),
        cmocka_unit_test(integers_round_once),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
