/* i4 and u4 in kernels, bit for bit: every value, odd sizes, rows that share bytes, each variant of the pool pinned;
 * what lies behind the last element stays. PACKED_DEVICE is the device; the test skips itself where there is none. */
#include "support/check.h"

#include <md/combo.h>

#include <math.h>
#include <stdbool.h>

enum { MOST = 1 << 16, MAX_ARGS = 4, GUARD = 0x5a };

static md_context *context;

static int open_device(void **state)
{
    (void)state;
    const md_context_options o = {.device = PACKED_DEVICE, .hints = "64"};
    if (md_context_create(&context, &o) == MD_OK)
        return 0;
    print_message("no device %s: %s\n", PACKED_DEVICE, md_last_error());
    exit(77);
}

static int close_device(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

typedef struct tensor {
    md_tensor t;
    _Alignas(16) unsigned char bytes[MOST]; /* as the test sees it */
    double want[MOST / 4];
} tensor;

static tensor arg[MAX_ARGS];

static int64_t bytes_of(const md_tensor *t)
{
    int64_t last = 0;
    for (int32_t a = 0; a < t->rank; a++)
        last += (t->size[a] - 1) * t->stride[a];
    const bool is_packed = t->dtype == MD_I4 || t->dtype == MD_U4;
    return is_packed ? last / 2 + 1 : (last + 1) * (int64_t)md_dtype_size(t->dtype);
}

static int half_at(const unsigned char *bytes, int64_t i)
{
    return bytes[i / 2] >> i % 2 * 4 & 15;
}

static double value_at(const tensor *x, int64_t i)
{
    switch ((int)x->t.dtype) {
    case MD_I4:
        return (half_at(x->bytes, i) ^ 8) - 8;
    case MD_U4:
        return half_at(x->bytes, i);
    case MD_I32:
        return ((const int32_t *)(const void *)x->bytes)[i];
    default:
        return (double)((const float *)(const void *)x->bytes)[i];
    }
}

static void make(int k, md_dtype dtype, int32_t rank, const int64_t *size, int64_t pitch)
{
    arg[k].t = md_tensor_make(NULL, dtype, rank, size);
    if (rank == 2 && pitch)
        arg[k].t.stride[0] = pitch;
    memset(arg[k].bytes, GUARD, sizeof arg[k].bytes);
    for (int64_t i = 0, n = bytes_of(&arg[k].t); i < n; i++)
        if (md_dtype_size(dtype) == 1)
            arg[k].bytes[i] = (unsigned char)(i * 37 + i / 256 * 5 + 11);
        else if (i % 4 == 0 && dtype == MD_F32)
            ((float *)(void *)arg[k].bytes)[i / 4] = (float)(i * 7 % 160) / 4.0f - 20.0f;
        else if (i % 4 == 0)
            ((int32_t *)(void *)arg[k].bytes)[i / 4] = (int32_t)(i * 2654435761u >> 7) - 4000;
}

/* Runs one variant on copies of the arguments; false if it does not take these sizes. */
static bool run(md_op *op, int n, unsigned char *got)
{
    md_tensor t[MAX_ARGS];
    md_arg args[MAX_ARGS];
    for (int i = 0; i < n; i++) {
        t[i] = arg[i].t;
        assert_ok(md_alloc(&t[i].data, context, MOST));
        assert_ok(md_copy(context, t[i].data, arg[i].bytes, MOST));
        args[i] = md_t(&t[i]);
    }
    const md_status s = md_call(op, NULL, args, n);
    if (s == MD_OK)
        assert_ok(md_sync(context, NULL));
    assert_true(s == MD_OK || s == MD_UNSUPPORTED);
    assert_ok(md_copy(context, got, t[0].data, MOST));
    for (int i = 0; i < n; i++)
        md_free(context, t[i].data);
    return s == MD_OK;
}

static void check(const char *text, const char *variant, const unsigned char *got)
{
    static tensor y;
    static unsigned char right[MOST];
    const md_tensor *t = &arg[0].t;
    y.t = *t;
    memcpy(y.bytes, got, MOST);
    memcpy(right, arg[0].bytes, MOST);
    for (int64_t i = 0; i < t->size[0]; i++)
        for (int64_t j = 0; j < (t->rank > 1 ? t->size[1] : 1); j++) {
            const int64_t at = i * t->stride[0] + (t->rank > 1 ? j * t->stride[1] : 0);
            const double want = arg[0].want[i * (t->rank > 1 ? t->size[1] : 1) + j];
            if (value_at(&y, at) != want)
                fail_msg("%s, %s: [%d,%d] is %g, expected %g", text, variant, (int)i, (int)j, value_at(&y, at), want);
            if (md_dtype_size(t->dtype) == 1)
                right[at / 2] = (unsigned char)((right[at / 2] & ~(15 << at % 2 * 4)) | half_at(got, at) << at % 2 * 4);
        }
    if (md_dtype_size(t->dtype) == 1 && memcmp(right, got, MOST) != 0)
        fail_msg("%s, %s: writes outside of its elements", text, variant);
}

/* Every variant of the pool of each stage gives arg[0].want. */
static void compare(const char *text, int n)
{
    static unsigned char got[MOST];
    md_op *op = NULL, *pinned = NULL;
    int n_ran = 0;
    assert_ok(md_op_create(&op, context, text, NULL));
    assert_true(run(op, n, got));
    check(text, "the choice", got);
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++) {
        const char *name = md_op_variant(op, 0, i);
        assert_ok(md_op_create(&pinned, context, text, &(md_op_options){.pin = name}));
        if (run(pinned, n, got)) {
            check(text, name, got);
            n_ran++;
        }
        md_op_destroy(&pinned);
    }
    assert_true(n_ran > 0);
    md_op_destroy(&op);
}

static double saturated(double v, double low, double high)
{
    v = trunc(v);
    return v < low ? low : v > high ? high : v;
}

/* ---- pointwise ---- */

static void every_value_widens(void **state)
{
    (void)state;
    static const int64_t sizes[] = {512, 1, 2, 67, 33};
    for (int k = 0; k < 5; k++)
        for (int u = 0; u < 2; u++) {
            make(0, MD_F32, 1, &sizes[k], 0);
            make(1, u ? MD_U4 : MD_I4, 1, &sizes[k], 0);
            for (int64_t i = 0; i < sizes[k]; i++)
                arg[0].want[i] = value_at(&arg[1], i);
            compare(u ? "Y[i] = f32(X:u4[i])" : "Y[i] = f32(X:i4[i])", 2);
        }
}

/* Rows of odd length share a byte, unless the pitch is even; a store changes the half that is its own. */
static void narrow(bool is_real, bool is_unsigned, const int64_t *size, int64_t pitch)
{
    char text[64];
    make(0, is_unsigned ? MD_U4 : MD_I4, 2, size, pitch);
    make(1, is_real ? MD_F32 : MD_I32, 2, size, 0);
    for (int64_t i = 0; i < size[0] * size[1]; i++) {
        const double v = value_at(&arg[1], i);
        const int half = (int)(int64_t)v & 15;
        arg[0].want[i] = is_real       ? saturated(v, is_unsigned ? 0 : -8, is_unsigned ? 15 : 7)
                         : is_unsigned ? half
                                       : (half ^ 8) - 8;
    }
    snprintf(text, sizeof text, "Y:%s[i,j] = X:%s[i,j]", is_unsigned ? "u4" : "i4", is_real ? "f32" : "i32");
    compare(text, 2);
}

static void stores_touch_their_halves(void **state)
{
    (void)state;
    static const int64_t odd[] = {5, 33}, even[] = {4, 64};
    for (int k = 0; k < 4; k++) {
        narrow(k % 2, k / 2, odd, 0);
        narrow(k % 2, k / 2, odd, 34);
        narrow(k % 2, k / 2, even, 0);
    }
}

static void transposed_and_by_index(void **state)
{
    (void)state;
    static const int64_t in[] = {33, 17}, out[] = {17, 33}, n[] = {16};
    make(0, MD_U4, 2, out, 0);
    make(1, MD_I4, 2, in, 0);
    for (int64_t i = 0; i < 33; i++)
        for (int64_t j = 0; j < 17; j++)
            arg[0].want[j * 33 + i] = (int)value_at(&arg[1], i * 17 + j) & 15;
    compare("Y:u4[j,i] = X:i4[i,j]", 2);
    make(0, MD_F32, 1, n, 0);
    make(1, MD_I4, 1, in, 0);
    make(2, MD_U4, 1, n, 0);
    for (int64_t i = 0; i < 16; i++)
        arg[0].want[i] = value_at(&arg[1], (int64_t)value_at(&arg[2], i));
    compare("Y[i] = f32(T:i4[J:u4[i]])", 3);
    make(0, MD_I4, 1, in, 0);
    make(1, MD_I32, 1, n, 0);
    make(2, MD_U4, 1, n, 0);
    for (int64_t i = 0; i < 33; i++)
        arg[0].want[i] = value_at(&arg[0], i);
    for (int64_t i = 0; i < 16; i++) { /* 5i + 3 modulo 16: each element once */
        int32_t *j = (int32_t *)(void *)arg[1].bytes;
        j[i] = (int32_t)((i * 5 + 3) % 16 * 2);
        arg[0].want[j[i]] = (half_at(arg[2].bytes, i) ^ 8) - 8;
    }
    compare("Y:i4[J:i32[t]] = U:u4[t]", 3);
}

/* ---- rows, columns, scans, products ---- */

static void reductions(void **state)
{
    (void)state;
    static const int64_t size[] = {9, 67};
    make(1, MD_I4, 2, size, 0);
    make(0, MD_I32, 1, &size[0], 0);
    for (int64_t i = 0; i < 9; i++) {
        arg[0].want[i] = 0;
        for (int64_t j = 0; j < 67; j++)
            arg[0].want[i] += value_at(&arg[1], i * 67 + j);
    }
    compare("Y:i32[i] = sum[j](i64(X:i4[i,j]))", 2);
    make(0, MD_I32, 1, &size[1], 0);
    for (int64_t j = 0; j < 67; j++) {
        arg[0].want[j] = 0;
        for (int64_t i = 0; i < 9; i++)
            arg[0].want[j] += value_at(&arg[1], i * 67 + j);
    }
    compare("Y:i32[j] = sum[i](i64(X:i4[i,j]))", 2);
    make(0, MD_I32, 2, size, 0);
    for (int64_t i = 0; i < 9 * 67; i++)
        arg[0].want[i] = value_at(&arg[1], i) + (i % 67 ? arg[0].want[i - 1] : 0);
    compare("Y:i32[i,j] = cumsum[j](i64(X:i4[i,j]))", 2);
    make(0, MD_I4, 2, size, 0);
    for (int64_t i = 0; i < 9; i++) {
        double most = -8;
        for (int64_t j = 0; j < 67; j++)
            most = fmax(most, value_at(&arg[1], i * 67 + j));
        for (int64_t j = 0; j < 67; j++)
            arg[0].want[i * 67 + j] = (((int)(value_at(&arg[1], i * 67 + j) - most) & 15) ^ 8) - 8;
    }
    compare("Y:i4[i,j] = X:i4[i,j] - max[k](X[i,k])", 2);
}

static void weights_of_products(void **state)
{
    (void)state;
    static const int64_t y[] = {5, 33}, x[] = {5, 67}, w[] = {33, 67};
    make(0, MD_F32, 2, y, 0);
    make(1, MD_F32, 2, x, 0);
    make(2, MD_I4, 2, w, 0);
    make(3, MD_F32, 1, &w[0], 0);
    for (int64_t n = 0; n < 33; n++) /* powers of 2, so that sums are exact */
        ((float *)(void *)arg[3].bytes)[n] = ldexpf(1.0f, (int)(n % 5) - 2);
    for (int64_t b = 0; b < 5; b++)
        for (int64_t n = 0; n < 33; n++) {
            double sum = 0;
            for (int64_t k = 0; k < 67; k++)
                sum += value_at(&arg[1], b * 67 + k) * value_at(&arg[2], n * 67 + k);
            arg[0].want[b * 33 + n] = sum * value_at(&arg[3], n);
        }
    compare("Y[b,n] = sum[k](X[b,k] * f32(W:i4[n,k])) * s[n]", 4);
}

static void assert_refused(const char *text, const char *why)
{
    md_op *op = NULL;
    assert_int_not_equal(md_op_create(&op, context, text, NULL), MD_OK);
    if (!strstr(md_last_error(), why))
        fail_msg("%s: %s", text, md_last_error());
}

static void updates_are_refused(void **state)
{
    (void)state;
    assert_refused("Y:i4[J:i32[t]] += U:i32[t]", "'Y' is packed (i4)");
    assert_refused("Y:u4[J:i32[t]] max= U:u4[t]", "'Y' is packed (u4)");
}

static void combos_refuse(void **state)
{
    (void)state;
    md_op *op = NULL;
    md_combo *combo = NULL;
    static const int64_t n[] = {16};
    make(0, MD_F32, 1, n, 0);
    make(1, MD_I4, 1, n, 0);
    arg[0].t.data = arg[0].bytes;
    arg[1].t.data = arg[1].bytes;
    assert_ok(md_op_create(&op, context, "Y[i] = f32(X:i4[i])", NULL));
    const md_arg args[] = {md_t(&arg[0].t), md_t(&arg[1].t)};
    const md_combo_part part = {.op = op, .n_items = 1, .n_args = 2, .args = args};
    assert_int_equal(md_combo_bind(&combo, context, &part, 1), MD_UNSUPPORTED);
    assert_non_null(strstr(md_last_error(), "combos have no packed tensors (i4)"));
    md_op_destroy(&op);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_widens),      cmocka_unit_test(stores_touch_their_halves),
        cmocka_unit_test(transposed_and_by_index), cmocka_unit_test(reductions),
        cmocka_unit_test(weights_of_products),     cmocka_unit_test(updates_are_refused),
        cmocka_unit_test(combos_refuse),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
