/* Shape entries: keys, eviction while some are held, threads, workspace, allocators. */
#include "base/status.h"
#include "dispatch/support/script.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <pthread.h>

static script_world world;
static const char *const copy = "Y[n] = X[n]";

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static md_ds_op *op_of(int64_t max_shapes)
{
    md_ds_op_options o = script_options();
    o.max_shapes = max_shapes;
    return script_op(&world, copy, &o);
}

/* Holds the entry of n elements at an offset and stride. */
static md_ds_shape_entry *hold(md_ds_op *op, int64_t n, int64_t offset, int64_t stride)
{
    script_vectors v;
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    script_vectors_make(&v, n + offset, stride);
    v.tx.data = v.x + offset;
    v.tx.size[0] = v.ty.size[0] = n;
    assert_ok(md_ds_bind(&bound, op, v.arg, 2));
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    script_vectors_free(&v);
    return entry;
}

static void a_record_is_a_shape_class(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    md_ds_shape_entry *a = hold(op, 50, 0, 1);
    assert_ptr_equal(hold(op, 50, 0, 1), a); /* other memory, the same entry */
    assert_ptr_equal(hold(op, 50, 16, 1), a); /* still on a 64-byte boundary */
    assert_int_equal(a->users, 3 + 1); /* and the table */
    assert_int_equal(op->count.hits, 2);
    assert_int_equal(op->count.misses, 1);
    md_ds_shape_entry *b = hold(op, 50, 1, 1); /* unaligned */
    md_ds_shape_entry *c = hold(op, 50, 0, 2); /* strided */
    md_ds_shape_entry *d = hold(op, 50, 0, 3); /* another stride */
    md_ds_shape_entry *e = hold(op, 51, 0, 1);
    assert_true(a != b && b != c && c != d && d != e && a != e);
    assert_true(c->is_strided && !a->is_strided && !b->is_strided);
    assert_int_equal(md_table_count(op->entries), 5);
    md_ds_shape_entry *all[] = {a, a, a, b, c, d, e};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        md_ds_shape_entry_release(all[i]);
    assert_int_equal(a->users, 1);
    md_ds_op_destroy(&op);
}

/* A tensor of one element is the same whatever its stride says. */
static void strides_of_single_elements_do_not_count(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    md_ds_shape_entry *a = hold(op, 1, 0, 1);
    assert_ptr_equal(hold(op, 1, 0, 7), a);
    md_ds_shape_entry_release(a);
    md_ds_shape_entry_release(a);
    md_ds_op_destroy(&op);
}

/* The time of all calls, from those that were timed; by the model where none was. */
static void times_are_scaled_to_all_calls(void **state)
{
    (void)state;
    md_ds_plan plan = {.model_us = 2.5};
    static const struct {
        uint64_t calls, n_timed, ns, all_ns;
    } row[] = {{10, 4, 400, 1000}, {10, 1, 70, 700}, {10, 10, 730, 730}, {10, 11, 733, 733}, {10, 0, 0, 25000}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_shape_entry e = {.calls = row[i].calls, .n_timed = row[i].n_timed, .time_ns = row[i].ns};
        atomic_init(&e.plan, &plan);
        assert_int_equal(md_ds_shape_entry_ns(&e), row[i].all_ns);
    }
}

static void held_records_stay(void **state)
{
    (void)state;
    md_ds_op *op = op_of(2);
    md_ds_shape_entry *a = hold(op, 10, 0, 1), *b = hold(op, 20, 0, 1);
    assert_int_equal(md_table_count(op->entries), 2);
    for (int64_t n = 30; n < 60; n++)
        assert_int_equal(script_call(NULL, op, n, 1), 0); /* served, though there is no place */
    assert_int_equal(md_table_count(op->entries), 2);
    assert_int_equal(op->count.evictions, 0);
    assert_int_equal(op->count.forgotten_calls, 30);
    md_ds_shape_entry *c = hold(op, 30, 0, 1);
    assert_true(c->is_loose && !a->is_loose && !b->is_loose);
    assert_ptr_equal(hold(op, 10, 0, 1), a); /* still there */
    md_ds_shape_entry_release(a);
    md_ds_shape_entry_release(a);
    md_ds_shape_entry_release(c);
    assert_int_equal(script_call(NULL, op, 40, 1), 0); /* takes the place of a */
    assert_int_equal(op->count.evictions, 1);
    assert_ptr_equal(hold(op, 20, 0, 1), b);
    md_ds_shape_entry_release(b);
    md_ds_shape_entry_release(b);
    md_ds_op_destroy(&op);
}

/* CLOCK: what was used since the hand passed stays before what was not. */
static void records_in_use_outlive_others(void **state)
{
    (void)state;
    md_ds_op *op = op_of(4);
    int64_t misses = 0;
    for (int64_t n = 1; n <= 4; n++)
        script_call(NULL, op, n, 1);
    for (int64_t n = 5; n < 50; n++) {
        script_call(NULL, op, n, 1);
        misses -= (int64_t)op->count.misses;
        script_call(NULL, op, 1, 1); /* again and again */
        misses += (int64_t)op->count.misses;
    }
    assert_true(misses <= 2); /* at the first pass of the hand all are as hot */
    assert_int_equal(op->count.evictions, 45 + misses);
    assert_int_equal(md_table_count(op->entries), 4);
    uint64_t calls = atomic_load(&op->count.forgotten_calls);
    for (int64_t i = 0; i < op->n_entries; i++)
        calls += atomic_load(&op->ring[i]->calls);
    assert_int_equal(calls, 4 + 2 * 45); /* no call is lost */
    md_ds_op_destroy(&op);
}

/* ---- Threads */

enum { THREADS = 16, ROUNDS = 200 };

typedef struct crowd {
    md_ds_op *op;
    pthread_barrier_t *start;
    int64_t seed, n_shapes;
    int32_t n_wrong;
} crowd;

static void *call_shapes(void *user)
{
    crowd *c = user;
    float x[64] = {0}, y[64];
    pthread_barrier_wait(c->start);
    for (int64_t i = 0; i < ROUNDS; i++) {
        int64_t n = 1 + (i * c->seed) % c->n_shapes;
        md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
        md_arg arg[2] = {md_t(&ty), md_t(&tx)};
        y[0] = y[n - 1] = -1.0f;
        c->n_wrong += md_ds_call(c->op, NULL, arg, 2) != MD_OK || y[0] != 0.0f || y[n - 1] != 0.0f;
    }
    return NULL;
}

static void crowd_run(md_ds_op *op, int64_t n_shapes)
{
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    crowd callers[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int32_t i = 0; i < THREADS; i++) {
        callers[i] = (crowd){op, &start, 1 + i, n_shapes, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_shapes, &callers[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(callers[i].n_wrong, 0);
    }
    pthread_barrier_destroy(&start);
}

static uint64_t all_calls(const md_ds_op *op)
{
    uint64_t calls = atomic_load(&op->count.forgotten_calls);
    for (int64_t i = 0; i < op->n_entries; i++)
        calls += op->ring[i] ? atomic_load(&op->ring[i]->calls) : 0;
    return calls;
}

static void one_shape_at_once_is_remembered_once(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    crowd_run(op, 1);
    /* x and y lie on the threads' stacks: two classes of alignment at most */
    assert_true(md_table_count(op->entries) <= 2);
    assert_int_equal(all_calls(op), THREADS * ROUNDS);
    assert_int_equal(op->count.hits + op->count.misses, THREADS * ROUNDS);
    for (int64_t i = 0; i < op->n_entries; i++)
        assert_int_equal(op->ring[i]->users, 1);
    md_ds_op_destroy(&op);
}

/* More threads than places: evicted, loose and remembered entries at the same time. */
static void more_threads_than_places(void **state)
{
    (void)state;
    md_ds_op *op = op_of(3);
    crowd_run(op, 40);
    assert_true(md_table_count(op->entries) <= 3);
    assert_int_equal(all_calls(op), THREADS * ROUNDS);
    md_ds_op_destroy(&op);
}

/* Every shape makes a variant of its own, by many threads at once. */
static void threads_adopt_variants(void **state)
{
    (void)state;
    for (int32_t v = 0; v < SCRIPT_V; v++)
        script_allow(SCRIPT_ALPHA, v, 1.0 + v)->hi = 10 * (v + 1);
    script_now.row[SCRIPT_ALPHA][3].hi = 0;
    md_ds_op_options o = script_options();
    o.compile.hints = "5";
    md_ds_op *op = script_op(&world, "Y[n] = X[n] * 0", &o); /* all marks v of family 0: 0..3 */
    for (int32_t v = 1; v < SCRIPT_V; v++)
        assert_int_equal(op->stage[0].n_variants, 1);
    pthread_t thread[8];
    pthread_barrier_t start;
    crowd callers[8];
    pthread_barrier_init(&start, NULL, 8);
    for (int32_t i = 0; i < 8; i++) {
        callers[i] = (crowd){op, &start, 1 + i, 40, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_shapes, &callers[i]), 0);
    }
    for (int32_t i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(op->stage[0].n_variants, 4);
    for (int64_t n = 1; n <= 40; n++)
        assert_int_equal(script_call(NULL, op, n, 1), (n - 1) / 10);
    md_ds_op_destroy(&op);
}

/* ---- Memory of a call */

static const char *const two_stages = "let s:f32[i,j] = sum[k](A[i,k] * B[k,j]); Y[i,j] = s[i,j] / sum[j](s[i,j])";

static int n_given, n_alive;
static bool is_refusing;

static void *give(void *user, size_t n_bytes, size_t alignment)
{
    (void)user;
    if (is_refusing)
        return NULL;
    n_given++;
    n_alive++;
    return aligned_alloc(alignment, n_bytes);
}

static void take_back(void *user, void *p, size_t n_bytes)
{
    (void)user;
    (void)n_bytes;
    n_alive--;
    free(p);
}

typedef struct product {
    float a[64], b[64], y[64];
    md_tensor ta, tb, ty;
    md_arg arg[3];
} product;

static void product_make(product *p, int64_t m, int64_t n, int64_t k)
{
    memset(p, 0, sizeof *p);
    p->ta = md_tensor_make(p->a, MD_F32, 2, (int64_t[]){m, k});
    p->tb = md_tensor_make(p->b, MD_F32, 2, (int64_t[]){k, n});
    p->ty = md_tensor_make(p->y, MD_F32, 2, (int64_t[]){m, n});
    p->arg[0] = md_t(&p->ta); /* in order of first appearance */
    p->arg[1] = md_t(&p->tb);
    p->arg[2] = md_t(&p->ty);
}

static void temporaries_come_from_the_allocator(void **state)
{
    (void)state;
    world.runtime.alloc = give;
    world.runtime.free = take_back;
    md_ds_op *op = script_op(&world, two_stages, NULL);
    product p;
    product_make(&p, 4, 8, 2);
    assert_int_equal(op->n_stages, 2);
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, NULL, p.arg, 3));
    assert_int_equal(n_given, 1); /* one block, lent again and again */
    is_refusing = true;
    product_make(&p, 8, 8, 8); /* the idle block is large enough */
    assert_ok(md_ds_call(op, NULL, p.arg, 3));
    md_ds_block *idle = world.runtime.blocks;
    world.runtime.blocks = NULL;
    assert_fails(md_ds_call(op, NULL, p.arg, 3), MD_OUT_OF_MEMORY, "the caller's allocator gave no");
    world.runtime.blocks = idle;
    is_refusing = false;
    md_ds_op_destroy(&op);
    script_world_close(&world);
    assert_int_equal(n_alive, 0);
    script_world_open(&world);
}

/* Sizes whose temporary cannot be: no tensor of the caller shows it. */
static void temporaries_that_cannot_be(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&world, two_stages, NULL);
    product p;
    product_make(&p, (int64_t)1 << 40, (int64_t)1 << 40, 0);
    for (int i = 0; i < 3; i++) {
        md_tensor *t[] = {&p.ta, &p.tb, &p.ty};
        t[i]->stride[0] = i < 2; /* A and B are empty; Y is refused for itself */
    }
    md_status s = md_ds_call(op, NULL, p.arg, 3);
    assert_int_equal(s, MD_INVALID_ARGUMENT);
    md_ds_op_destroy(&op);
    md_kn_shape shape = {.size = {(int64_t)1 << 40, (int64_t)1 << 40, 0}};
    op = script_op(&world, two_stages, NULL);
    md_ds_shape_entry *entry = NULL;
    const md_ds_request request = {.shape = &shape, .as = &(md_ds_as){0}, .effort = MD_DS_SOON};
    assert_fails(md_ds_shape_entry_make(&entry, op, &request), MD_INVALID_ARGUMENT,
                 "more than 10^18 operations and bytes");
    shape.size[0] = 0; /* empty after all */
    assert_ok(md_ds_shape_entry_make(&entry, op, &request));
    md_ds_shape_entry_free(entry);
    md_ds_op_destroy(&op);
}

static void names(void **state)
{
    (void)state;
    static const char *const long_name =
        "0123456789012345678901234567890123456789012345678901234567890\xc3\xa9\xc3\xa9\xc3\xa9";
    md_ds_op_options o = script_options();
    o.name = "two\nlines\ttab";
    md_ds_op *op = script_op(&world, copy, &o);
    assert_string_equal(op->name, "two?lines?tab");
    md_ds_op_destroy(&op);
    o.name = long_name; /* 61 + 3 * 2 bytes: no half of a character */
    op = script_op(&world, copy, &o);
    assert_int_equal(strlen(op->name), 63);
    assert_memory_equal(op->name, long_name, 63);
    md_ds_op_destroy(&op);
    o.name = "";
    op = script_op(&world, copy, &o);
    assert_string_equal(op->name, "op");
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_a_shape_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strides_of_single_elements_do_not_count, set_up, tear_down),
        cmocka_unit_test(times_are_scaled_to_all_calls),
        cmocka_unit_test_setup_teardown(held_records_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_in_use_outlive_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_shape_at_once_is_remembered_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_threads_than_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_adopt_variants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(temporaries_come_from_the_allocator, set_up, tear_down),
        cmocka_unit_test_setup_teardown(temporaries_that_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
