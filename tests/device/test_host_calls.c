/* Calls of the host device that their caller ends early, memory of the caller's own, and facts that a bundle was made
 * for. No compiler is needed. */
#include "device/host_fixture.h"

#include "base/status.h"
#include "device/facts.h"
#include "device/host/host.h"
#include "device/temporary.h"

#include <stdatomic.h>
#include <unistd.h>

enum { BLOCKS = 1000 };

/* ---- Cancelling */

static _Atomic int n_asked, ends_at; /* which question is answered by yes, and all behind it; 0: none */
static _Atomic int hits[BLOCKS];

static int ask(void *user)
{
    assert_ptr_equal(user, hits);
    const int n = atomic_fetch_add(&n_asked, 1) + 1;
    return ends_at > 0 && n >= ends_at;
}

static void add_blocks(const md_kn_word *params, int64_t first, int64_t last, void *scratch)
{
    (void)params;
    for (int64_t i = first; i < last; i++)
        atomic_fetch_add(&hits[i], 1);
    if (scratch)
        *(int64_t *)scratch = first;
}

static md_status add_one(const md_kn_call *call)
{
    (void)call;
    atomic_fetch_add(&hits[0], 1);
    return MD_OK;
}

/* A kernel without a library: only its entry, as host.c lays it out. */
typedef struct plain_kernel {
    void *library;
    md_kn_host_entry entry;
    md_kn_host_function function;
} plain_kernel;

static md_dev *open_asking(host_fixture *f)
{
    md_dev *dev = NULL;
    assert_ok(md_dev_open(
        &dev, &(md_dev_options){.device = "host", .cc = "true", .pool = f->pool, .cancel = {ask, (void *)hits}}));
    return dev;
}

static int n_hit(void)
{
    int n = 0;
    for (int i = 0; i < BLOCKS; i++) {
        assert_in_range(hits[i], 0, 1); /* no block twice */
        n += hits[i];
        hits[i] = 0;
    }
    return n;
}

/* Asked before each of many pieces; after the first yes nothing more is begun. */
static void test_cancelled_launches(void **state)
{
    md_dev *dev = open_asking(*state);
    md_dev_kernel *kernel = NULL;
    md_kn_launch_source s = {.code = MD_KN_FUNCTION, .function = add_one};
    md_kn_geometry g = {.blocks = BLOCKS, .grain = 400, .scratch_bytes = 64};
    assert_ok(dev->ops->load(&kernel, dev, NULL, 0, &s));
    plain_kernel *k = (plain_kernel *)kernel;
    for (ends_at = 0; ends_at <= 3; ends_at++) {
        n_asked = 0;
        assert_int_equal(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){0}, NULL),
                         ends_at == 1 ? MD_CANCELLED : MD_OK); /* a function is asked for once */
        assert_int_equal(n_asked, 1);
        assert_int_equal(n_hit(), ends_at != 1);
    }
    g.blocks = 0;
    n_asked = 0;
    ends_at = 1;
    assert_ok(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){0}, NULL));
    assert_int_equal(n_asked, 0);
    g.blocks = BLOCKS;
    k->function = NULL;
    k->entry = add_blocks;
    for (int with_scratch = 0; with_scratch < 2; with_scratch++) {
        g.scratch_bytes = with_scratch ? 64 : 0;
        ends_at = n_asked = 0;
        assert_ok(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){0}, NULL));
        assert_in_range(n_asked, 256, 400); /* pieces */
        assert_int_equal(n_hit(), BLOCKS);
        for (ends_at = 1; ends_at < 200; ends_at += 33) {
            n_asked = 0;
            assert_int_equal(dev->ops->launch(dev, NULL, kernel, &g, (md_dev_params){0}, NULL), MD_CANCELLED);
            assert_in_range(n_asked, ends_at, ends_at + 8); /* some threads ask at once */
            assert_in_range(n_hit(), 3 * (ends_at - 1), 4 * (ends_at - 1));
        }
    }
    k->entry = NULL;
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

static void test_cancelled_lists(void **state)
{
    host_fixture *f = *state;
    md_dev *dev = open_asking(f), *other = host_open(f, "true", 0);
    md_dev_kernel *kernel = NULL;
    md_kn_launch_source s = {.code = MD_KN_FUNCTION, .function = add_one};
    assert_ok(dev->ops->load(&kernel, dev, NULL, 0, &s));
    ((plain_kernel *)kernel)->entry = add_blocks;
    int64_t first[] = {0, BLOCKS}, cut[BLOCKS + 1];
    for (int i = 0; i <= BLOCKS; i++)
        cut[i] = i;
    md_dev_item item = {kernel, NULL};
    const md_dev_list list = {&item, first, 1, cut, BLOCKS, 0};
    ends_at = n_asked = 0;
    assert_ok(dev->ops->launch_list(dev, &list));
    assert_int_equal(n_asked, BLOCKS);
    assert_int_equal(n_hit(), BLOCKS);
    for (ends_at = 1; ends_at < 500; ends_at += 100) {
        n_asked = 0;
        assert_int_equal(dev->ops->launch_list(dev, &list), MD_CANCELLED);
        assert_in_range(n_asked, ends_at, ends_at + 8);
        assert_in_range(n_hit(), ends_at - 1, ends_at - 1);
    }
    n_asked = 0;
    assert_ok(other->ops->launch_list(other, &list)); /* nobody asks there */
    assert_int_equal(n_asked, 0);
    assert_int_equal(n_hit(), BLOCKS);
    dev->ops->unload(dev, kernel);
    md_dev_close(&other);
    md_dev_close(&dev);
}

/* ---- Memory for temporaries */

static struct {
    char *next; /* what alloc gives */
    int n_taken, n_given;
    size_t n_bytes;
    md_stream stream;
} own;

static void *take(void *user, int32_t device, md_stream stream, size_t n_bytes)
{
    assert_ptr_equal(user, &own);
    assert_int_equal(device, 3);
    own.n_taken++;
    own.n_bytes = n_bytes;
    own.stream = stream;
    return own.next;
}

static void give(void *user, int32_t device, md_stream stream, void *p, size_t n_bytes)
{
    assert_ptr_equal(user, &own);
    assert_int_equal(device, 3);
    assert_ptr_equal(p, own.next);
    assert_true(stream == own.stream && n_bytes == own.n_bytes);
    own.n_given++;
}

static char workspace_there;

/* The caller's allocator serves where there is one; what it gives is aligned as the device needs, or goes back. */
static void test_temporaries(void **state)
{
    static _Alignas(512) char memory[1024];
    md_dev *dev = host_open(*state, "true", 0);
    md_stream stream = (md_stream)&workspace_there;
    void *p = NULL;
    assert_ok(md_dev_take_temporary(&p, dev, stream, 100));
    assert_non_null(p);
    memset(p, 1, 100);
    md_dev_give_temporary(dev, stream, p, 100);
    md_dev_give_temporary(dev, stream, NULL, 100);
    dev->facts.index = 3;
    dev->memory = (md_dev_memory){take, give, &own};
    md_dev_give_temporary(dev, stream, NULL, 100);
    assert_int_equal(own.n_given, 0);
    static const struct {
        int at;
        bool fits, fits_with_workspace;
    } rows[] = {{0, true, true}, {64, true, false}, {256, true, true}, {32, false, false}, {1, false, false}};
    md_dev_ops ops = *dev->ops, *const before = (md_dev_ops *)(uintptr_t)dev->ops;
    for (int with = 0; with < 2; with++) {
        memcpy(&ops.workspace, with ? (void *[]){&workspace_there} : (void *[]){NULL}, sizeof ops.workspace);
        dev->ops = &ops;
        for (size_t i = 0; i < MD_COUNT(rows); i++) {
            const bool fits = with ? rows[i].fits_with_workspace : rows[i].fits;
            own.next = memory + rows[i].at;
            own.n_taken = own.n_given = 0;
            p = NULL;
            assert_int_equal(md_dev_take_temporary(&p, dev, stream, 200 + i), fits ? MD_OK : MD_INVALID_ARGUMENT);
            assert_ptr_equal(p, fits ? own.next : NULL);
            assert_int_equal(own.n_taken, 1);
            assert_int_equal(own.n_bytes, 200 + i);
            assert_int_equal(own.n_given, !fits);
            if (fits)
                md_dev_give_temporary(dev, stream, p, 200 + i);
            assert_int_equal(own.n_given, 1);
        }
    }
    own.next = NULL;
    own.n_given = 0;
    assert_fails(md_dev_take_temporary(&p, dev, stream, 77), MD_OUT_OF_MEMORY, "no 77 bytes");
    assert_int_equal(own.n_given, 0);
    dev->ops = before;
    dev->memory = (md_dev_memory){0};
    md_dev_close(&dev);
}

/* ---- Facts of another machine */

/* What pools are chosen by is the other's; what this machine has or has not stays its own. */
static void test_assumed_facts(void **state)
{
    md_dev *dev = host_open(*state, "true", 0);
    md_dev_facts other = {.kind = MD_DEV_HOST,
                          .threads = 77,
                          .vector_bytes = 16,
                          .memory_gbps = 123,
                          .lane_gbps = 45,
                          .cache_gbps = 67,
                          .gflops = 890,
                          .launch_us = 2,
                          .l2_bytes = 1 << 19,
                          .index = 9,
                          .arch = "its arch",
                          .flags = "-O2 -mits",
                          .compiler = "its cc",
                          .nvrtc = 12,
                          .capability = 5};
    dev->facts.index = 1;
    dev->facts.has_blas = true;
    dev->facts.global_bytes = 1000;
    dev->facts.can_compile = false;
    const int64_t l2_bytes = dev->facts.l2_bytes;
    const int32_t threads = dev->facts.threads;
    assert_ok(md_dev_assume(dev, &other));
    assert_true(dev->is_assumed);
    assert_true(dev->facts.memory_gbps == 123 && dev->facts.lane_gbps == 45 && dev->facts.cache_gbps == 67 &&
                dev->facts.gflops == 890 && dev->facts.launch_us == 2);
    assert_int_equal(dev->facts.vector_bytes, 16);
    assert_int_equal(dev->facts.l2_bytes, l2_bytes);
    assert_int_equal(dev->facts.threads, threads);
    assert_string_equal(dev->facts.arch, "its arch");
    assert_string_equal(dev->facts.flags, "-O2 -mits");
    assert_string_equal(dev->facts.compiler, "its cc");
    assert_true(dev->facts.nvrtc == 12 && dev->facts.capability == 5);
    assert_true(dev->assumed.threads == 77 && dev->assumed.l2_bytes == 1 << 19);
    assert_true(dev->assumed.has_blas && !dev->assumed.can_compile && dev->assumed.index == 1 &&
                dev->assumed.global_bytes == 1000 && dev->assumed.board == dev->facts.board);
    dev->facts.can_compile = true; /* then its own compiler counts */
    memcpy(dev->facts.compiler, "own cc", 7);
    dev->facts.nvrtc = 13;
    dev->facts.capability = 6;
    assert_ok(md_dev_assume(dev, &other));
    assert_string_equal(dev->facts.compiler, "own cc");
    assert_true(dev->facts.nvrtc == 13 && dev->facts.capability == 6);
    other = dev->facts;
    assert_ok(md_dev_assume(dev, &other));
    assert_false(dev->is_assumed);
    md_dev_close(&dev);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {TEST(test_cancelled_launches), TEST(test_cancelled_lists),
                                       TEST(test_temporaries), TEST(test_assumed_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
