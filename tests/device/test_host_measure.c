/* What the host's rates are computed from: which loops run how often, and what comes of their times. The clock and the
 * loops are the test's: a machine whose rates are known, on which other load comes and goes. */
#include "support/fault.h"
#include "support/golden.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/task/pool.h"
#include "device/host/host.h"
#include "device/open.h"

#include <time.h>

typedef struct machine {
    int32_t threads, vector_bytes;
    int64_t l2_bytes;
    bool is_estimate;
    double chains_ns, copy_ns, alone_ns, cached_ns, launch_ns; /* of a block of such a loop; of a loop's start */
    double load[8]; /* the loops of a kind take longer by these, one after the other, and then by the last one; 0: 1 */
    int32_t fails_at; /* this loop cannot run */
} machine;

static const machine *of;
static uint64_t now_ns, tick_ns; /* tick: passes at each look at the clock */
static int32_t n_loops, n_of_kind, n_same;
enum { N_BODIES = 4 };
static md_cpu own;
static md_pool_body known[N_BODIES];
static md_strbuf said;
static char line[200];

uint64_t __wrap_md_clock_ns(void);
md_status __wrap_md_pool_loop(md_pool *pool, int64_t n, int64_t grain, size_t scratch_bytes, md_pool_body body,
                              void *context);

uint64_t __wrap_md_clock_ns(void)
{
    return now_ns += tick_ns;
}

/* Equal lines that follow each other are one, and their number. */
static void say(const char *text)
{
    if (strcmp(text, line)) {
        if (n_same)
            md_strbuf_printf(&said, "  %d x %s\n", n_same, line);
        snprintf(line, sizeof line, "%s", text);
        n_same = 0;
    }
    n_same += *text != 0;
}

static double load_of(int32_t i)
{
    double load = 1;
    for (int32_t k = 0; k < 8 && k <= i; k++)
        load = of->load[k] > 0 ? of->load[k] : load;
    return load;
}

/* Ns of a loop without load. The order tells the bodies: arithmetic, touching memory, copies, launches. */
static double ns_of_loop(int32_t body, int64_t n, int64_t grain)
{
    const double lanes = (double)MD_MIN((n + grain - 1) / grain, of->threads);
    const double copy = n == 1 ? of->cached_ns : grain == 1 ? of->copy_ns : of->alone_ns;
    return body == 3 ? of->launch_ns : (double)n / lanes * (body == 0 ? of->chains_ns : body == 2 ? copy : 0);
}

/* The number of a loop's body; how many loops of its kind were before it. */
static int32_t look_at(int32_t *n_before, md_pool_body body, int64_t n, int64_t grain)
{
    static int64_t last_n, last_grain;
    int32_t i = 0;
    while (i < N_BODIES && known[i] && known[i] != body)
        i++;
    assert_true(i < N_BODIES);
    n_of_kind = known[i] && n == last_n && grain == last_grain ? n_of_kind + 1 : 0;
    *n_before = n_of_kind;
    known[i] = body;
    last_n = n;
    last_grain = grain;
    return i;
}

md_status __wrap_md_pool_loop(md_pool *pool, int64_t n, int64_t grain, size_t scratch_bytes, md_pool_body body,
                              void *context)
{
    int32_t n_before = 0;
    char text[sizeof line];
    const int32_t found = look_at(&n_before, body, n, grain), kind = context ? found : 3;
    (void)pool;
    assert_int_equal(scratch_bytes, 0);
    snprintf(text, sizeof text, "loop %d of %d blocks, %d at a time", kind, (int)n, (int)grain);
    say(text);
    tick_ns = kind == 3; /* it looks at the clock until it has been busy for long enough */
    if (kind > 0 || of->vector_bytes <= own.vector_bytes) /* arithmetic of wider vectors would end the program */
        body(context, 0, 1, 0, NULL);
    if (kind < 3 && kind > 0 && n > 1)
        body(context, n - 1, n, 0, NULL); /* the last one is within the memory, too */
    tick_ns = 0;
    now_ns += (uint64_t)(ns_of_loop(kind, n, grain) * load_of(n_before));
    return ++n_loops == of->fails_at ? MD_OUT_OF_MEMORY : MD_OK;
}

static void measure(const machine *m, const char *title)
{
    md_dev_facts f = {.threads = m->threads, .vector_bytes = m->vector_bytes, .l2_bytes = m->l2_bytes};
    const int64_t before = (int64_t)time(NULL);
    of = m;
    now_ns = n_loops = n_of_kind = 0;
    memset(known, 0, sizeof known);
    md_strbuf_printf(&said, "%s:\n", title);
    md_dev_host_measure(&f, NULL, m->is_estimate);
    say("");
    md_strbuf_printf(&said, "  memory %.5g, a lane %.5g, cache %.5g GB/s; %.6g GFLOP/s; launch %.4g us; spread %.4g\n",
                     f.memory_gbps, f.lane_gbps, f.cache_gbps, f.gflops, f.launch_us, f.rates_spread);
    assert_in_range(f.rates_at, before, time(NULL));
}

static const machine plain = {.threads = 4,
                              .vector_bytes = 32,
                              .l2_bytes = 1 << 20,
                              .chains_ns = 5000,
                              .copy_ns = 60000,
                              .alone_ns = 30000,
                              .cached_ns = 8000,
                              .launch_ns = 1500};

/* Each machine differs from the first in what its title says. */
static void test_machines(void **state)
{
    machine m = plain;
    (void)state;
    md_cpu_detect(&own);
    measure(&m, "four threads");
    m.is_estimate = true;
    measure(&m, "an estimate");
    m = plain, m.threads = 1;
    measure(&m, "one thread");
    m = plain, m.threads = 2, m.alone_ns = 20000;
    measure(&m, "two threads, of which one has the full rate");
    m = plain, m.vector_bytes = 16;
    measure(&m, "vectors of 16 bytes");
    m = plain, m.vector_bytes = 64;
    measure(&m, "vectors of 64 bytes");
    m = plain, m.l2_bytes = 3 << 20;
    measure(&m, "larger caches");
    m.is_estimate = true;
    measure(&m, "larger caches, an estimate");
    m = plain, m.l2_bytes = 64 << 20;
    measure(&m, "very large caches");
    m = plain, m.chains_ns = 1e7, m.copy_ns = 3e8, m.alone_ns = 3e8, m.cached_ns = 3e8, m.launch_ns = 1e6;
    measure(&m, "slow in all");
    m = plain, m.chains_ns = m.copy_ns = m.alone_ns = m.cached_ns = 1e-3, m.launch_ns = 0;
    measure(&m, "fast in all");
    m = plain, m.cached_ns = 1e5;
    measure(&m, "no cache");
    memcpy(m.load, (double[]){2, 1.5, 1.4, 1.3, 1.2, 1.1, 1, 1}, sizeof m.load);
    measure(&m, "load that ends");
    memcpy(m.load, (double[]){1, 1.02, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5}, sizeof m.load);
    measure(&m, "load that begins");
    memcpy(m.load, (double[]){1, 1.04, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5}, sizeof m.load);
    measure(&m, "load that leaves it unsure");
    for (int32_t i = 0; i < 5; i++) { /* the first one of each kind */
        m = plain, m.fails_at = (int32_t[]){1, 5, 6, 10, 14}[i];
        measure(&m, "a loop that cannot run");
    }
    m = plain;
    fault_after(1);
    measure(&m, "no memory to measure with");
    fault_after(0);
    check_golden(MD_GOLDEN "/rates.txt", &said);
    md_strbuf_finish(&said);
}

/* An open device's rates are measured anew, and the device keeps those it had. */
static void test_again(void **state)
{
    const int64_t before = (int64_t)time(NULL);
    md_dev *dev = NULL;
    md_dev_host_rates found;
    md_pool *pool = NULL;
    (void)state;
    of = &plain;
    now_ns = n_loops = n_of_kind = 0;
    memset(known, 0, sizeof known);
    memset(&found, 0xff, sizeof found);
    assert_ok(md_pool_create(&pool, 1));
    assert_ok(md_dev_host_open(&dev, &(md_dev_options){.pool = pool}));
    const md_dev_facts old = dev->facts;
    md_dev_host_measure_again(&found, dev);
    assert_true(n_loops > 0);
    for (int32_t i = 0; i < 5; i++)
        assert_true(found.rate[i] > 0 && found.rate[i] < 1e9);
    assert_true(found.spread >= 0 && found.spread < 1);
    assert_in_range(found.at, before, time(NULL));
    assert_memory_equal(&dev->facts, &old, sizeof old);
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    md_strbuf_finish(&said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_machines), cmocka_unit_test(test_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
