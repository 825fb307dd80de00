/* The caller's memory for temporaries, on a device whose work is done later: workspaces of streams and the memory of
 * sequences come from it, go back once with stream and bytes, and a refusal is an error after which all is well. */
#include "sequence/device_chain.h"

#include "dispatch/call/call.h"

enum { MOST_BLOCKS = 64, ROOM = 1 << 22 };

typedef struct ledger {
    char *room; /* memory of the device */
    size_t used;
    int n, n_live, n_wrong;
    bool refuses, skews; /* gives nothing; an odd address */
    struct {
        char *p;
        md_stream stream;
        size_t n_bytes;
    } block[MOST_BLOCKS];
} ledger;

static void *lend(void *user, int32_t number, md_stream stream, size_t n_bytes)
{
    ledger *l = user;
    l->n_wrong += number != 0 || n_bytes == 0;
    if (l->refuses || l->n == MOST_BLOCKS || l->used + n_bytes + 4096 > ROOM)
        return NULL;
    char *const p = l->room + l->used + (l->skews ? 16 : 0);
    l->used += (n_bytes + 16 + 255) / 256 * 256;
    l->block[l->n].p = p;
    l->block[l->n].stream = stream;
    l->block[l->n++].n_bytes = n_bytes;
    l->n_live++;
    return p;
}

static void take_back(void *user, int32_t number, md_stream stream, void *p, size_t n_bytes)
{
    ledger *l = user;
    int i = 0;
    while (i < l->n && l->block[i].p != p)
        i++;
    l->n_wrong += number != 0 || i == l->n || l->block[i].stream != stream || l->block[i].n_bytes != n_bytes;
    if (i < l->n)
        l->block[i].p = NULL;
    l->n_live--;
}

static ledger book;

static int set_up_ledger(void **state)
{
    void *room = NULL;
    if (set_up(state) != 0)
        return -1;
    assert_ok(device.base.ops->alloc(&room, &device.base, ROOM));
    book = (ledger){.room = room};
    device.base.memory = (md_dev_memory){lend, take_back, &book};
    return 0;
}

static void sequences_take_the_callers_memory(void **state)
{
    float *x = device_memory(), *y = device_memory();
    const int64_t n_before = device.n_allocs;
    (void)state;
    md_sq *sq = chain(NULL);
    for (int64_t n = 40; n <= MOST; n *= 10) { /* it grows: the old one goes back */
        put(x, (int)n);
        run(sq, 1, n, x, y);
        expect(y, n, (int)n);
        assert_int_equal(book.n_live, 1);
    }
    assert_true(book.n >= 2);
    assert_true(book.block[book.n - 1].n_bytes >= (size_t)counters(sq).arena_bytes);
    assert_ptr_equal(book.block[book.n - 1].stream, NULL);
    assert_true(device.n_allocs - n_before <= 1); /* counters, not memory */
    md_sq_destroy(&sq);
    assert_int_equal(book.n_live, 0);
    assert_int_equal(book.n_wrong, 0);
}

/* What a captured graph of the caller uses is kept until the sequence goes. */
static void captured_memory_stays(void **state)
{
    float *x = device_memory(), *y = device_memory();
    (void)state;
    md_sq *sq = chain(NULL);
    put(x, 0);
    run(sq, 3, 40, x, y);
    async_device_capture(&device, stream_at(3), true);
    run(sq, 3, 40, x, y);
    async_device_capture(&device, stream_at(3), false);
    run(sq, 1, MOST, x, y);
    assert_int_equal(book.n_live, 2);
    put(x, 5);
    async_device_replay(&device, stream_at(3));
    expect(y, 40, 5);
    md_sq_destroy(&sq);
    assert_int_equal(book.n_live, 0);
    assert_int_equal(book.n_wrong, 0);
}

static md_ds_op *make_running_sum(void)
{
    md_ds_op *made = NULL;
    const md_ds_op_options o = {
        .compile.hints = "64",
        .compile.hints_source = "test",
        .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
        .max_shapes = 10,
    };
    assert_ok(md_ds_op_create(&made, &runtime, "let a[i] = cumsum[i](X[i]); Y[i] = a[i] + max[k](a[k])", &o));
    md_ds_op_wait(made);
    return made;
}

static md_status sum(md_ds_op *made, int stream, int64_t n, float *x, float *y)
{
    const md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    return md_ds_call(made, stream_at(stream), (md_arg[]){md_t(&tx), md_t(&ty)}, 2);
}

/* The workspace of a stream. The caller's functions may fail at any call. */
static void streams_take_the_callers_memory(void **state)
{
    float *x = device_memory(), *y = device_memory(), value[MOST];
    md_ds_op *made = make_running_sum();
    const int n_before = book.n, n_live = book.n_live;
    (void)state;
    put(x, 0);
    book.refuses = true;
    for (int k = 0; k < 3; k++)
        assert_fails(sum(made, 1, 100, x, y), MD_OUT_OF_MEMORY, "the caller's allocator gave no");
    book.refuses = false;
    for (int k = 0; k < 4; k++) {
        const int stream = 1 + k % 2;
        put(y, 0);
        assert_ok(sum(made, stream, 100, x, y));
        assert_ok(device.base.ops->copy(&device.base, value, y, sizeof value));
        for (int i = 0; i < 100; i++)
            assert_true(value[i] == (float)(i * (i + 1) / 2 + 4950));
    }
    assert_int_equal(book.n - n_before, 2); /* one a stream, once */
    assert_ptr_equal(book.block[n_before].stream, stream_at(1));
    assert_ptr_equal(book.block[n_before + 1].stream, stream_at(2));
    assert_ok(sum(made, 1, MOST, x, y)); /* a larger one, in the stream's order */
    assert_null(book.block[n_before].p);
    assert_int_equal(book.n_live - n_live, 2);
    assert_int_equal(book.n_wrong, 0);
    md_ds_op_destroy(&made);
}

static void a_refusal_is_an_error_and_no_more(void **state)
{
    float *x = device_memory(), *y = device_memory();
    const int64_t n = 400;
    void *const memory[] = {x, y};
    const int n_live = book.n_live;
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        md_sq *sq = chain(NULL);
        put(x, kind);
        book.refuses = !kind;
        book.skews = kind;
        assert_fails(md_sq_run(sq, stream_at(1), &n, memory), kind ? MD_INVALID_ARGUMENT : MD_OUT_OF_MEMORY,
                     kind ? "not aligned to 256 bytes" : "the caller's allocator gave no");
        assert_int_equal(book.n_live, n_live);
        book.refuses = book.skews = false;
        run(sq, 1, n, x, y);
        expect(y, n, kind);
        md_sq_destroy(&sq);
        assert_int_equal(book.n_live, n_live);
        assert_int_equal(book.n_wrong, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_ledger, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(sequences_take_the_callers_memory),
        TEST(captured_memory_stays),
        TEST(streams_take_the_callers_memory),
        TEST(a_refusal_is_an_error_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
