/* Entries of the plan cache that are rewritten while they are read. A page that traps stops a reader or a writer at one
 * place in its work: the handler does there what another thread might do. */
#include "dispatch/cache/plan_cache.h"
#include "dispatch/call/cached_call.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/call/warm.h"
#include "support/check.h"
#include "support/valgrind.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *trapping; /* this page traps once */
static _Atomic uint64_t *watched; /* the sequence number of the plan entry */
static uint64_t added, seen; /* what the handler adds to it; what it was */
static int n_traps;

static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr;
    if (!trapping || at < trapping || at >= trapping + PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    mprotect(trapping, PAGE, PROT_READ | PROT_WRITE);
    seen = atomic_fetch_add(watched, added);
    n_traps++;
}

static void set_trap(void *page)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0); /* CMocka puts its own back */
    n_traps = 0;
    trapping = page;
    assert_int_equal(mprotect(trapping, PAGE, PROT_NONE), 0);
}

static void *pages(int n)
{
    void *p = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static int set_up(void **state)
{
    added = 0;
    return warm_set_up(state) || sysconf(_SC_PAGESIZE) != PAGE;
}

/* A shape with a plan, read past the thread cache. */
typedef struct reading {
    md_ds_op *op;
    md_ds_thread *thread;
    md_ds_call_args call;
    _Atomic uint64_t *plan_entry;
    warm_vectors v;
} reading;

static void reading_make(reading *r)
{
    md_arg arg[3];
    md_ds_counter *counter;
    r->op = warm_op(100);
    warm_shape(&r->v, 30, 1, 0);
    for (int i = 0; i < 2; i++)
        assert_ok(warm_call(r->op, &r->v, 1.0));
    warm_order(r->op, &r->v, arg, 2.0);
    assert_true(md_ds_call_args_take(&r->call, &r->op->layout, arg, 3));
    r->thread = md_ds_thread_get(r->op->runtime, r->op->runtime_id);
    assert_non_null(r->thread);
    r->plan_entry = (_Atomic uint64_t *)(uintptr_t)md_ds_plan_cache_find(&counter, atomic_load(&r->op->plan_cache),
                                                                         r->call.hash, r->thread->number);
    assert_non_null(r->plan_entry);
    watched = &r->plan_entry[MD_DS_SEQUENCE];
}

static md_ds_fast_result read_entry(reading *r)
{
    md_status s = MD_OK;
    const md_ds_fast_result result = md_ds_run_cached(&s, r->op, r->thread, NULL, &r->call);
    assert_ok(s);
    return result;
}

/* Nothing is launched from a plan entry that is being written, or that was written since it was looked at. */
static void a_plan_is_read_whole(void **state)
{
    (void)state;
    _Alignas(64) static reading r;
    reading_make(&r);
    const md_ds_param_map *map = md_ds_param_map_in(atomic_load(&r.plan_entry[MD_DS_DESCRIPTOR]));
    assert_true(atomic_load(&r.plan_entry[MD_DS_DESCRIPTOR]) & MD_DS_COMPACT);
    assert_int_equal(read_entry(&r), MD_DS_FAST_DONE);
    const int64_t launched = warm_launched;
    atomic_fetch_add(watched, 1); /* a writer has begun */
    assert_int_equal(read_entry(&r), MD_DS_FAST_UNKNOWN);
    atomic_fetch_sub(watched, 1);
    /* the param map is read after the look: it moves to a page that traps */
    char *copy = pages(1);
    memcpy(copy, map, sizeof *map + (size_t)map->n_params * sizeof *map->source);
    const uint64_t descriptor = atomic_load(&r.plan_entry[MD_DS_DESCRIPTOR]);
    atomic_store(&r.plan_entry[MD_DS_DESCRIPTOR], (descriptor & ~(uint64_t)(uintptr_t)map) | (uint64_t)(uintptr_t)copy);
    added = 2; /* written anew */
    set_trap(copy);
    assert_int_equal(read_entry(&r), MD_DS_FAST_UNKNOWN);
    assert_int_equal(n_traps, 1);
    assert_int_equal(warm_launched, launched);
    assert_int_equal(read_entry(&r), MD_DS_FAST_DONE);
    atomic_store(&r.plan_entry[MD_DS_DESCRIPTOR], descriptor);
    md_ds_op_destroy(&r.op);
    munmap(copy, PAGE);
}

/* The same of plans that a thread copies before it launches them. */
static void a_plan_is_copied_whole(void **state)
{
    (void)state;
    _Alignas(64) static reading r;
    script_now.with_memory = true;
    reading_make(&r);
    assert_false(atomic_load(&r.plan_entry[MD_DS_DESCRIPTOR]) & MD_DS_COMPACT);
    assert_int_equal(read_entry(&r), MD_DS_FAST_DONE);
    const int64_t launched = warm_launched;
    md_ds_thread_launch *next = &r.thread->thread_launch[r.thread->next_victim % MD_DS_THREAD_LAUNCHES];
    char *words = (char *)next->launch_args.launch_plan; /* written after the look */
    added = 2;
    set_trap(words - (uintptr_t)words % PAGE);
    assert_int_equal(read_entry(&r), MD_DS_FAST_UNKNOWN);
    assert_int_equal(n_traps, 1);
    assert_int_equal(warm_launched, launched);
    assert_int_equal(read_entry(&r), MD_DS_FAST_DONE);
    md_ds_op_destroy(&r.op);
}

/* A plan entry's number is odd while it is written. */
static void a_writer_says_so(void **state)
{
    (void)state;
    _Alignas(64) static reading r;
    enum { LEAD = offsetof(md_ds_packed_launch, word) + (MD_DS_DESCRIPTOR + 2) * sizeof(md_ds_word) };
    reading_make(&r);
    md_ds_shape_entry *entry = r.op->ring[0];
    char *two = pages(2);
    md_ds_packed_launch *encoded =
        (md_ds_packed_launch *)(void *)(two + PAGE - LEAD); /* its end lies on the next page */
    const uint64_t before = atomic_load(watched);
    encoded->n = MD_DS_HALVES;
    for (int i = 0; i < MD_DS_HALVES; i++)
        encoded->word[i] = atomic_load(&r.plan_entry[i]);
    set_trap(two + PAGE);
    md_ds_plan_cache_publish(atomic_load(&r.op->plan_cache), r.op, r.call.hash, encoded, entry, md_ds_plan_of(entry));
    assert_int_equal(n_traps, 1);
    assert_int_equal(seen % 2, 1);
    assert_true(seen > before);
    assert_int_equal(atomic_load(watched), seen + 1);
    md_ds_op_destroy(&r.op);
    munmap(two, 2 * PAGE);
}

/* ---- Counters that threads share */

#ifdef __x86_64__
static md_ds_counter *counted;
static int n_steps;

/* Single-steps the instruction that trapped. */
static void on_access(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    mprotect(trapping, PAGE, PROT_READ | PROT_WRITE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

/* Behind that instruction another thread counts five calls. */
static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100LL;
    atomic_fetch_add(counted, 5);
    n_steps++;
}

static uint64_t count_beside_others(int32_t number)
{
    static md_ds_thread thread;
    const struct sigaction access = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO},
                           step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct sigaction old[2];
    trapping = pages(1);
    counted = (md_ds_counter *)(void *)trapping;
    thread.number = number;
    n_steps = 0;
    assert_int_equal(sigaction(SIGSEGV, &access, &old[0]) | sigaction(SIGTRAP, &step, &old[1]), 0);
    assert_int_equal(mprotect(trapping, PAGE, PROT_NONE), 0);
    (void)md_ds_count_call(counted, &thread, 255);
    const uint64_t n = atomic_load(counted);
    assert_int_equal(sigaction(SIGSEGV, &old[0], NULL) | sigaction(SIGTRAP, &old[1], NULL), 0);
    munmap(trapping, PAGE);
    return n;
}

/* The last threads share counters, which they may not read and then write: the calls of others would be lost. */
static void shared_counters_lose_nothing(void **state)
{
    (void)state;
    if (is_under_valgrind())
        skip();
    for (int32_t number = MD_DS_SHARDS - 1; number < MD_DS_SHARDS + 3; number++) {
        const uint64_t n = count_beside_others(number);
        if (n_steps == 0)
            skip(); /* no single steps here */
        assert_int_equal(n, 6);
    }
}
#else
static void shared_counters_lose_nothing(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_plan_is_read_whole, set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(a_plan_is_copied_whole, set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(a_writer_says_so, set_up, warm_tear_down),
        cmocka_unit_test(shared_counters_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
