/* More than 2^31 elements, and more in one row: positions and counts in 32 bits would show. Marks stand where they
 * would wrap. Needs a GPU with 6 GB free; skips itself elsewhere. */
#include "support/check.h"

#include "base/clock.h"

#include <stdbool.h>

enum { LINE = 513, SIDE = 32769 };
static const int64_t LONG = (INT64_C(1) << 31) + 4099, LINES = (INT64_C(1) << 22) + 9, HEIGHT = 65537;
static md_context *context;

typedef struct large {
    md_tensor x, y;
    int64_t n; /* elements of x */
} large;

static void put(const md_tensor *t, int64_t at, uint8_t value)
{
    assert_ok(md_copy(context, (char *)t->data + at, &value, 1));
}

static uint8_t get(const md_tensor *t, int64_t at)
{
    uint8_t value = 77;
    assert_ok(md_copy(context, &value, (char *)t->data + at, 1));
    return value;
}

/* x: zeros; y: ones. False where there is no room. */
static bool make(large *l, int32_t rank, const int64_t *x, const int64_t *y)
{
    enum { PIECE = 1 << 26 };
    int64_t n[2] = {1, 1};
    for (int32_t i = 0; i < rank; i++) {
        n[0] *= x[i];
        n[1] *= y[i];
    }
    *l = (large){.x = md_tensor_make(NULL, MD_U8, rank, x), .y = md_tensor_make(NULL, MD_U8, rank, y), .n = n[0]};
    char *piece = malloc(PIECE);
    bool has_room = piece && md_alloc(&l->x.data, context, (size_t)n[0]) == MD_OK &&
                    md_alloc(&l->y.data, context, (size_t)n[1]) == MD_OK;
    for (int side = 0; has_room && side < 2; side++) {
        memset(piece, side, PIECE);
        for (int64_t at = 0; at < n[side]; at += PIECE)
            assert_ok(md_copy(context, (char *)(side ? l->y.data : l->x.data) + at, piece,
                              (size_t)(n[side] - at < PIECE ? n[side] - at : PIECE)));
    }
    free(piece);
    return has_room;
}

static void finish(large *l)
{
    md_free(context, l->x.data);
    md_free(context, l->y.data);
}

static void call(const char *text, const md_arg *arg, int32_t n)
{
    md_op *op = NULL;
    uint64_t start = md_clock_ns();
    assert_ok(md_op_create(&op, context, text, &(md_op_options){.hints = "64,4096", .max_variants = 4}));
    for (int again = 0; again < 3; again++) /* the third by a plan */
        assert_ok(md_call(op, NULL, arg, n));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_check(context));
    md_op_destroy(&op);
    print_message("%s: %.2f s\n", text, (double)(md_clock_ns() - start) * 1e-9);
}

#define MAKE(l, rank, x, y)                                                                                            \
    if (!make(l, rank, x, y)) {                                                                                        \
        finish(l);                                                                                                     \
        skip();                                                                                                        \
    }

static void test_elements(void **state)
{
    (void)state;
    large l;
    MAKE(&l, 1, &LONG, &LONG);
    const int64_t marks[] = {0, (INT64_C(1) << 31) - 1, INT64_C(1) << 31, LONG - 1};
    for (int i = 0; i < 4; i++)
        put(&l.x, marks[i], (uint8_t)(i + 2));
    call("Y:u8[i] = X:u8[i] * 2 + 1", (md_arg[]){md_t(&l.y), md_t(&l.x)}, 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(get(&l.y, marks[i]), 2 * (i + 2) + 1);
    assert_int_equal(get(&l.y, LONG - 2), 1);
    assert_int_equal(get(&l.y, LONG / 2), 1);
    call("Y:u8[i] = cummax[i](X:u8[i])", (md_arg[]){md_t(&l.y), md_t(&l.x)}, 2);
    assert_int_equal(get(&l.y, LONG / 2), 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(get(&l.y, marks[i]), i + 2);
    finish(&l);
}

static void test_row(void **state)
{
    (void)state;
    large l;
    const int64_t size[] = {1, LONG}, one[] = {1, 1};
    MAKE(&l, 2, size, one);
    md_tensor y = l.y;
    y.rank = 1;
    put(&l.x, 5, 3);
    put(&l.x, LONG - 3, 9);
    call("Y:u8[r] = max[j](X:u8[r,j])", (md_arg[]){md_t(&y), md_t(&l.x)}, 2);
    assert_int_equal(get(&y, 0), 9);
    finish(&l);
}

static void test_lines(void **state)
{
    (void)state;
    large l;
    const int64_t x[] = {LINES, LINE}, y[] = {3, LINE}, n = 3, ids[] = {LINES - 1, 0, LINES - 3};
    MAKE(&l, 2, x, y);
    md_tensor t = md_tensor_make(NULL, MD_I64, 1, &n);
    put(&l.x, (LINES - 1) * LINE + 5, 4);
    put(&l.x, (LINES - 3) * LINE, 6);
    assert_ok(md_alloc(&t.data, context, sizeof ids));
    assert_ok(md_copy(context, t.data, ids, sizeof ids));
    call("Y:u8[t,d] = X:u8[ids:i64[t],d]", (md_arg[]){md_t(&l.y), md_t(&l.x), md_t(&t)}, 3);
    assert_int_equal(get(&l.y, 5), 4);
    assert_int_equal(get(&l.y, LINE), 0);
    assert_int_equal(get(&l.y, 2 * LINE), 6);
    md_free(context, t.data);
    finish(&l);
}

static void test_transpose(void **state)
{
    (void)state;
    large l;
    const int64_t x[] = {HEIGHT, SIDE}, y[] = {SIDE, HEIGHT};
    MAKE(&l, 2, x, y);
    put(&l.x, (HEIGHT - 1) * SIDE + SIDE - 1, 4);
    put(&l.x, (HEIGHT - 2) * SIDE + 7, 6);
    call("Y:u8[i,j] = X:u8[j,i]", (md_arg[]){md_t(&l.y), md_t(&l.x)}, 2);
    assert_int_equal(get(&l.y, (SIDE - 1) * HEIGHT + HEIGHT - 1), 4);
    assert_int_equal(get(&l.y, 7 * HEIGHT + HEIGHT - 2), 6);
    assert_int_equal(get(&l.y, 7 * HEIGHT + HEIGHT - 1), 0);
    finish(&l);
}

/* ---- Convolutions of an image of more than 2^31 elements of two bytes: 3 x 3 places and 64 channels, summed up */
enum { CHANNELS = 64, FILTERS = 8, IMAGE = 5800, TWO = 0x4000 /* 2 in bf16 */, ONE = 0x3f80 };

static void put_two(const md_tensor *t, int64_t at)
{
    const uint16_t value = TWO;
    assert_ok(md_copy(context, (char *)t->data + 2 * at, &value, sizeof value));
}

static int get_half(const md_tensor *t, int64_t at)
{
    uint16_t value = 77;
    assert_ok(md_copy(context, &value, (char *)t->data + 2 * at, sizeof value));
    return value;
}

/* Where the element of a channel lies. */
static int64_t place(bool is_planes, int64_t channels, int64_t c, int64_t y, int64_t x)
{
    return is_planes ? (c * IMAGE + y) * IMAGE + x : (y * IMAGE + x) * channels + c;
}

/* By the pinned family; where it does not serve here, nothing is checked. */
static void convolve(const char *text, const char *pin, const md_arg *arg, bool is_planes)
{
    static const int marks[][2] = {{0, 0}, {4860, 77}, {5790, 5000}, {IMAGE - 1, IMAGE - 1}};
    const uint64_t start = md_clock_ns();
    const md_op_options options = {.hints = "64,4096", .max_variants = 4, .pin = pin};
    md_op *op = NULL;
    md_status status = md_op_create(&op, context, text, &options);
    if (status == MD_OK)
        status = md_call(op, NULL, arg, 3);
    if (status == MD_UNSUPPORTED && pin) {
        print_message("%s: %s\n", pin, md_last_error());
        md_op_destroy(&op);
        return;
    }
    assert_ok(status);
    assert_ok(md_call(op, NULL, arg, 3));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_check(context));
    for (int i = 0; i < (int)(sizeof marks / sizeof *marks); i++)
        for (int o = 0; o < FILTERS; o += FILTERS - 1)
            assert_int_equal(get_half(arg[0].tensor, place(is_planes, FILTERS, o, marks[i][0], marks[i][1])), TWO);
    assert_int_equal(get_half(arg[0].tensor, place(is_planes, FILTERS, 3, 5798, 5797)), 0);
    assert_int_equal(get_half(arg[0].tensor, place(is_planes, FILTERS, 3, 5798, 5798)), TWO); /* beside the last mark */
    md_op_destroy(&op);
    print_message("%s by %s: %.2f s\n", text, pin ? pin : "default", (double)(md_clock_ns() - start) * 1e-9);
}

static void convolve_all(const char *text, bool is_planes)
{
    static const char *const pins[] = {NULL, "gemm_window", "gemm_simt", "conv_lib"};
    const int64_t rows = 2 * IMAGE, columns = (int64_t)IMAGE * CHANNELS, filters = (int64_t)IMAGE * FILTERS;
    const int64_t planes[] = {1, CHANNELS, IMAGE, IMAGE}, pixels[] = {1, IMAGE, IMAGE, CHANNELS},
                  y_planes[] = {1, FILTERS, IMAGE, IMAGE}, y_pixels[] = {1, IMAGE, IMAGE, FILTERS},
                  w_planes[] = {FILTERS, CHANNELS, 3, 3}, w_pixels[] = {FILTERS, 3, 3, CHANNELS};
    large l;
    uint16_t ones[FILTERS * 9 * CHANNELS];
    MAKE(&l, 2, ((int64_t[]){rows, columns}), ((int64_t[]){rows, filters})); /* as bytes */
    md_tensor x = md_tensor_make(l.x.data, MD_BF16, 4, is_planes ? planes : pixels),
              y = md_tensor_make(l.y.data, MD_BF16, 4, is_planes ? y_planes : y_pixels),
              w = md_tensor_make(NULL, MD_BF16, 4, is_planes ? w_planes : w_pixels);
    for (int i = 0; i < FILTERS * 9 * CHANNELS; i++)
        ones[i] = ONE;
    assert_ok(md_alloc(&w.data, context, sizeof ones));
    assert_ok(md_copy(context, w.data, ones, sizeof ones));
    put_two(&x, place(is_planes, CHANNELS, 0, 0, 0));
    put_two(&x, place(is_planes, CHANNELS, CHANNELS - 1, 4860, 77));
    put_two(&x, place(is_planes, CHANNELS, 1, 5790, 5000));
    put_two(&x, place(is_planes, CHANNELS, CHANNELS - 1, IMAGE - 1, IMAGE - 1));
    for (int i = 0; i < (int)(sizeof pins / sizeof *pins); i++)
        convolve(text, pins[i], (md_arg[]){md_t(&y), md_t(&x), md_t(&w)}, is_planes);
    md_free(context, w.data);
    finish(&l);
}

static void test_planes(void **state)
{
    (void)state;
    convolve_all("Y:bf16[n,o,y,x] = sum[c,r,s](where(y+r >= 1 and y+r <= size(X.2) and x+s >= 1 and x+s <= size(X.3), "
                 "X:bf16[n,c,y+r-1,x+s-1], 0) * W:bf16[o,c,r,s])",
                 true);
}

static void test_pixels(void **state)
{
    (void)state;
    convolve_all("Y:bf16[n,y,x,o] = sum[r,s,c](where(y+r >= 1 and y+r <= size(X.1) and x+s >= 1 and x+s <= size(X.2), "
                 "X:bf16[n,y+r-1,x+s-1,c], 0) * W:bf16[o,r,s,c])",
                 false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements), cmocka_unit_test(test_row),
                                       cmocka_unit_test(test_lines),    cmocka_unit_test(test_transpose),
                                       cmocka_unit_test(test_planes),   cmocka_unit_test(test_pixels)};
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_OK) {
        print_message("LARGE TENSORS NOT CHECKED: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&context);
    return failed;
}
