/* The builder: every text compiled once, failures remembered, variants that run. */
#include "support/check.h"

#include "base/status.h"
#include "build/build.h"
#include "build/toy.h"
#include "support/devices/fake_device.h"
#include "support/fault.h"
#include "device/open.h"

#include <pthread.h>
#include <sched.h>

typedef struct fixture {
    md_pool *pool;
    fake_device fake;
    md_dev *host;
    md_bd *builder; /* on the fake device; a test may replace it */
    toy toy;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 2) != MD_OK)
        return -1;
    fake_device_init(&f->fake, f->pool, NULL);
    toy_init(&f->toy, &f->fake.base.facts);
    *state = f;
    return md_bd_create(&f->builder, &f->fake.base) == MD_OK ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_bd_destroy(&f->builder);
    int32_t leaked = f->fake.n_loaded - f->fake.n_unloaded;
    md_dev_close(&f->host);
    md_pool_destroy(&f->pool);
    free(f);
    return leaked;
}

/* From here on the test's builder works with the real host device. */
static void use_host(fixture *f)
{
    md_bd_destroy(&f->builder);
    assert_ok(md_dev_open(&f->host, &(md_dev_options){.device = "host", .pool = f->pool}));
    f->toy.target.facts = &f->host->facts;
    assert_ok(md_bd_create(&f->builder, f->host));
}

static md_bd_variant *make(fixture *f, int32_t kind, int32_t salt)
{
    md_bd_variant *v = NULL;
    md_fa_config config = toy_config(kind, salt);
    assert_ok(md_bd_variant_create(&v, f->builder, &f->toy.target, &toy_family, &config));
    return v;
}

static int32_t state_of(const md_bd_variant *v)
{
    return atomic_load_explicit(&v->state, memory_order_acquire);
}

static void run_and_check(fixture *f, md_bd_variant *v, int64_t n, float plus)
{
    float x[1000], y[1000], workspace[1000];
    md_kn_shape shape;
    md_kn_call call;
    md_kn_geometries geometry;
    assert_true(n <= 1000);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i;
    memset(y, 0, sizeof y);
    toy_call(&call, &shape, &f->toy, y, x, n);
    call.scalar[0].d = 3.0;
    call.workspace = workspace;
    md_fa_geometry_of(&geometry, &toy_family, &v->target, &v->config, &shape);
    assert_ok(md_bd_variant_run(v, &geometry, NULL, &call));
    for (int64_t i = 0; i < n; i++)
        assert_true(y[i] == 3.0f * (float)i + plus);
}

static void test_real_kernels(void **state)
{
    fixture *f = *state;
    use_host(f);
    const struct {
        int32_t kind;
        float plus;
        int32_t n_launches;
    } cases[] = {{TOY_PLAIN, 0.0f, 1}, {TOY_TWICE, 1.0f, 2}, {TOY_FUNCTION, 0.0f, 1}, {TOY_SAME_TWICE, 0.0f, 2}};
    for (int i = 0; i < 4; i++) {
        md_bd_variant *v = make(f, cases[i].kind, 0);
        assert_ok(md_bd_variant_wait(v));
        assert_int_equal(state_of(v), MD_BD_READY);
        assert_int_equal(v->n_launches, cases[i].n_launches);
        assert_true(v->build_ns > 0);
        run_and_check(f, v, 1000, cases[i].plus);
        run_and_check(f, v, 1, cases[i].plus);
        run_and_check(f, v, 0, cases[i].plus);
        md_bd_variant_destroy(&v);
        assert_null(v);
    }
    assert_int_equal(md_bd_count(f->builder)->compiled, 2); /* with and without +1: four launches have one text */
    assert_int_equal(md_bd_count(f->builder)->failed, 0);
    assert_true(md_bd_count(f->builder)->compile_ns > 0);
}

static void test_shared(void **state)
{
    fixture *f = *state;
    md_bd_variant *a = make(f, TOY_PLAIN, 1);
    assert_ok(md_bd_variant_wait(a));
    md_bd_variant *b = make(f, TOY_PLAIN, 1);
    assert_int_equal(state_of(b), MD_BD_READY); /* at once */
    assert_ptr_equal(a->kernel[0], b->kernel[0]);
    md_bd_variant *c = make(f, TOY_PLAIN, 2);
    assert_ok(md_bd_variant_wait(c));
    assert_ptr_not_equal(a->kernel[0], c->kernel[0]);
    md_bd_variant *d = make(f, TOY_MAPPED, 1); /* a loaded kernel has its tensor maps with it */
    assert_ok(md_bd_variant_wait(d));
    assert_ptr_not_equal(a->kernel[0], d->kernel[0]);
    const md_bd_counters *count = md_bd_count(f->builder);
    assert_int_equal(count->emitted, 4);
    assert_int_equal(count->compiled, 3);
    assert_int_equal(count->shared, 1);
    assert_string_equal(a->name, b->name);
    md_bd_variant_destroy(&d);
    md_bd_variant_destroy(&a);
    assert_ok(md_bd_variant_wait(b)); /* a's kernels are the builder's */
    md_bd_variant_destroy(&b);
    md_bd_variant_destroy(&c);
    md_bd_variant_destroy(&c);
    md_bd_variant_destroy(NULL);
}

enum { N_THREADS = 16, N_EACH = 30, N_TEXTS = 3 };

static void *query(void *context)
{
    fixture *f = context;
    md_bd_variant *v[N_EACH];
    for (int i = 0; i < N_EACH; i++) {
        md_fa_config config = toy_config(TOY_PLAIN, i % N_TEXTS);
        if (md_bd_variant_create(&v[i], f->builder, &f->toy.target, &toy_family, &config) != MD_OK)
            return f;
    }
    void *result = NULL; /* anything else: wrong */
    for (int i = 0; i < N_EACH; i++) {
        if (md_bd_variant_wait(v[i]) != MD_OK || state_of(v[i]) != MD_BD_READY || !v[i]->kernel[0])
            result = f;
        md_bd_variant_destroy(&v[i]);
    }
    return result;
}

static void test_single_flight(void **state)
{
    fixture *f = *state;
    pthread_t thread[N_THREADS];
    f->fake.compile_ms = 20;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, query, f), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result = NULL;
        pthread_join(thread[i], &result);
        assert_null(result);
    }
    assert_int_equal(f->fake.n_compiled, N_TEXTS);
    assert_int_equal(md_bd_count(f->builder)->compiled, N_TEXTS);
    assert_int_equal(md_bd_count(f->builder)->shared, N_THREADS * N_EACH - N_TEXTS);
}

/* A kernel on a device that dumps: a file for each of the two endings, and no other. */
static void expect_dumped(fixture *f, md_dev *dev, const char *text, const char *binary)
{
    char root[] = "/tmp/md-test-build-XXXXXX", command[200];
    assert_non_null(mkdtemp(root));
    assert_ok(md_dump_open(&dev->dump, root, NULL));
    md_bd_variant *v = make(f, TOY_PLAIN, 7);
    assert_ok(md_bd_variant_wait(v));
    md_bd_variant_destroy(&v);
    md_dump_close(&dev->dump);
    snprintf(command, sizeof command, "ls %s/*%s %s/*%s > /dev/null && test $(ls -A %s | wc -l) = 2", root, text, root,
             binary, root);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
}

/* The text and the binary, each called as what it is. */
static void test_dump(void **state)
{
    fixture *f = *state;
    expect_dumped(f, &f->fake.base, ".c", ".ptx"); /* its binaries are texts */
    f->fake.base.facts.kind = MD_DEV_CUDA;
    md_bd_destroy(&f->builder);
    assert_ok(md_bd_create(&f->builder, &f->fake.base));
    expect_dumped(f, &f->fake.base, ".cu", ".ptx");
    f->fake.base.facts.kind = MD_DEV_HOST;
    use_host(f);
    expect_dumped(f, f->host, ".c", ".so");
}

static void test_parallel(void **state)
{
    fixture *f = *state;
    atomic_store(&f->fake.held, "toy");
    md_bd_variant *v[6];
    for (int i = 0; i < 6; i++) {
        v[i] = make(f, TOY_PLAIN, i);
        assert_int_equal(state_of(v[i]), MD_BD_QUEUED); /* create does not wait */
    }
    while (atomic_load(&f->fake.n_compiling) < 2)
        sched_yield();
    atomic_store(&f->fake.held, NULL);
    for (int i = 0; i < 6; i++) {
        assert_ok(md_bd_variant_wait(v[i]));
        md_bd_variant_destroy(&v[i]);
    }
    assert_int_equal(f->fake.most_compiling, 2); /* the pool's threads */
}

static void wait_for_flag(void *context)
{
    while (!atomic_load((_Atomic bool *)context))
        sched_yield();
}

/* Behind all that is queued a build would begin when the flag is set, and the test would never end. */
static void test_hurry(void **state)
{
    fixture *f = *state;
    _Atomic bool flag = false;
    for (int i = 0; i < 4; i++)
        md_jobs_submit(md_pool_jobs(f->pool), wait_for_flag, &flag);
    md_bd_variant *v = make(f, TOY_PLAIN, 0), *other = make(f, TOY_PLAIN, 1), *same = make(f, TOY_PLAIN, 0);
    assert_ok(md_bd_variant_hurry(v));
    assert_int_equal(state_of(v), MD_BD_READY);
    assert_int_equal(state_of(same), MD_BD_READY);
    assert_int_equal(state_of(other), MD_BD_QUEUED);
    assert_ok(md_bd_variant_hurry(v)); /* nothing is left to build */
    atomic_store(&flag, true);
    md_bd_wait_all(f->builder);
    assert_int_equal(state_of(other), MD_BD_READY);
    assert_int_equal(f->fake.n_compiled, 2); /* the job that was queued for v did nothing */
    md_bd_variant_destroy(&v);
    md_bd_variant_destroy(&same);
    md_bd_variant_destroy(&other);
}

/* What a job that only waits says and hears. */
typedef struct occupant {
    _Atomic bool runs, may_end;
} occupant;

static void occupy(void *context)
{
    occupant *o = context;
    atomic_store(&o->runs, true);
    wait_for_flag(&o->may_end);
}

typedef struct first_build {
    md_bd_variant *v[3];
    int32_t n, ready; /* builds that ended; how many of v were ready after the first */
    bool is_last_ready;
} first_build;

static void note_first(void *user)
{
    first_build *b = user;
    if (b->n++ > 0)
        return;
    for (int32_t i = 0; i < 3; i++)
        b->ready += state_of(b->v[i]) == MD_BD_READY;
    b->is_last_ready = state_of(b->v[2]) == MD_BD_READY;
}

/* One thread is free for what is queued; of three builds the hastened one is the first. */
static void test_hasten(void **state)
{
    fixture *f = *state;
    static occupant thread[2]; /* the pool has two */
    for (int32_t i = 0; i < 2; i++) {
        md_jobs_submit(md_pool_jobs(f->pool), occupy, &thread[i]);
        wait_for_flag(&thread[i].runs);
    }
    first_build b = {.v = {make(f, TOY_PLAIN, 0), make(f, TOY_PLAIN, 1), make(f, TOY_PLAIN, 2)}};
    md_bd_variant_hasten(b.v[2]);
    md_bd_variant_hasten(b.v[2]); /* once is enough */
    md_bd_listen(f->builder, note_first, &b);
    atomic_store(&thread[0].may_end, true);
    for (int32_t i = 0; i < 3; i++) {
        assert_ok(md_bd_variant_wait(b.v[i]));
        md_bd_variant_hasten(b.v[i]); /* nothing is left to build */
    }
    atomic_store(&thread[1].may_end, true);
    md_bd_wait_all(f->builder);
    md_bd_listen(f->builder, NULL, NULL);
    assert_int_equal(b.ready, 1);
    assert_true(b.is_last_ready);
    assert_int_equal(f->fake.n_compiled, 3);
    for (int32_t i = 0; i < 3; i++)
        md_bd_variant_destroy(&b.v[i]);
}

static void test_failures(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        md_bd_variant *v = make(f, TOY_BAD_TEXT, 0);
        assert_fails(md_bd_variant_wait(v), MD_COMPILE, "does not compile");
        assert_fails(md_bd_variant_wait(v), MD_COMPILE, v->name);
        assert_int_equal(state_of(v), MD_BD_FAILED);
        assert_string_equal(v->failure, "scripted: this text does not compile");
        md_bd_variant_destroy(&v);
    }
    assert_int_equal(f->fake.n_compiled, 1); /* not tried again */
    md_bd_variant *v = make(f, TOY_NO_EMIT, 0);
    assert_int_equal(state_of(v), MD_BD_FAILED);
    assert_fails(md_bd_variant_wait(v), MD_COMPILE, "toy kind 3 cannot be written");
    md_bd_variant_destroy(&v);
    assert_int_equal(md_bd_count(f->builder)->failed, 2);
    assert_int_equal(md_bd_count(f->builder)->compiled, 0);
    v = make(f, TOY_PLAIN, 0); /* the others are not harmed */
    assert_ok(md_bd_variant_wait(v));
    md_bd_variant_destroy(&v);
}

static md_bd_text *ask(fixture *f, const char *text)
{
    md_bd_text *out = NULL;
    md_kn_launch_source source = {.code = MD_KN_TEXT, .entry = "md_kernel"};
    md_strbuf_add(&source.text, text);
    assert_ok(md_bd_text_ask(&out, f->builder, &source));
    md_strbuf_finish(&source.text);
    return out;
}

/* Texts of no variant: built when they are asked for, once for all who ask; a failure has its reason. */
static void test_texts_without_a_variant(void **state)
{
    fixture *f = *state;
    const md_dev_kernel *kernel = NULL, *again = NULL;
    const char *why = NULL;
    const md_bd_text *const one = ask(f, "one"), *const bad = ask(f, "FAIL_COMPILE"), *const two = ask(f, "two");
    assert_true(ask(f, "one") == one && one != two);
    md_bd_wait_all(f->builder);
    assert_int_equal(md_bd_text_state(&kernel, &why, one), MD_BD_READY);
    assert_true(kernel && !why);
    assert_int_equal(md_bd_text_state(&again, NULL, ask(f, "one")), MD_BD_READY);
    assert_true(again == kernel);
    assert_int_equal(md_bd_text_state(&again, NULL, two), MD_BD_READY);
    assert_true(again != kernel);
    kernel = NULL;
    assert_int_equal(md_bd_text_state(&kernel, &why, bad), MD_BD_FAILED);
    assert_true(!kernel && why && strstr(why, "does not compile"));
    assert_int_equal(f->fake.n_loaded, 2);
}

static void test_failing_launch(void **state)
{
    fixture *f = *state;
    use_host(f);
    md_bd_variant *v = make(f, TOY_FAILING_FUNCTION, 0);
    assert_ok(md_bd_variant_wait(v));
    float y[1] = {5.0f}, x[1] = {1.0f};
    md_kn_shape shape;
    md_kn_call call;
    md_kn_geometries geometry;
    toy_call(&call, &shape, &f->toy, y, x, 1);
    call.scalar[0].d = 2.0;
    md_fa_geometry_of(&geometry, &toy_family, &v->target, &v->config, &shape);
    assert_fails(md_bd_variant_run(v, &geometry, NULL, &call), MD_DEVICE, "always fails");
    assert_true(y[0] == 5.0f); /* the second launch did not happen */
    md_bd_variant_destroy(&v);
}

static void test_no_compiler(void **state)
{
    fixture *f = *state;
    md_bd_destroy(&f->builder);
    assert_ok(md_dev_open(&f->host, &(md_dev_options){.cc = "/nonexistent/cc", .pool = f->pool}));
    assert_ok(md_bd_create(&f->builder, f->host));
    md_bd_variant *text = make(f, TOY_PLAIN, 0), *function = make(f, TOY_FUNCTION, 0);
    assert_fails(md_bd_variant_wait(text), MD_COMPILE, "/nonexistent/cc");
    assert_ok(md_bd_variant_wait(function)); /* needs none */
    run_and_check(f, function, 100, 0.0f);
    md_bd_variant_destroy(&text);
    md_bd_variant_destroy(&function);
}

/* Leaving at any moment waits for what is under way; what was only queued is not built any more. */
static void test_destroy_early(void **state)
{
    fixture *f = *state;
    f->fake.compile_ms = 30;
    md_bd_variant *v[5];
    for (int i = 0; i < 5; i++)
        v[i] = make(f, i % 2 ? TOY_PLAIN : TOY_TWICE, i);
    for (int i = 4; i >= 0; i--)
        md_bd_variant_destroy(&v[i]);
    md_bd_destroy(&f->builder);
    assert_true(f->fake.n_compiled < 8);
    assert_int_equal(f->fake.n_loaded, f->fake.n_unloaded);
    md_bd_destroy(&f->builder);
}

static void test_source(void **state)
{
    fixture *f = *state;
    md_bd_variant *v = make(f, TOY_TWICE, 4);
    md_strbuf text = {0};
    assert_ok(md_bd_variant_source(&text, v));
    assert_non_null(strstr(text.text, "launch 1 of 2: toy */\n/* salt 4 */"));
    assert_non_null(strstr(text.text, "launch 2 of 2: toy */"));
    md_strbuf_finish(&text);
    md_bd_variant_destroy(&v);
    v = make(f, TOY_FUNCTION, 0);
    assert_ok(md_bd_variant_source(&text, v));
    assert_non_null(strstr(text.text, "a function of the library"));
    md_strbuf_finish(&text);
    md_bd_variant_destroy(&v);
}

/* Salts are comments, and kinds are code. */
static void test_digest(void **state)
{
    fixture *f = *state;
    md_bd_variant *v[] = {make(f, TOY_PLAIN, 4), make(f, TOY_PLAIN, 5), make(f, TOY_SLOW, 4), make(f, TOY_TWICE, 4)};
    md_digest128 digest[MD_COUNT(v)];
    for (int i = 0; i < MD_COUNT(v); i++)
        assert_ok(md_bd_variant_digest(&digest[i], v[i]));
    assert_memory_equal(&digest[0], &digest[1], sizeof *digest);
    for (int i = 2; i < MD_COUNT(v); i++)
        assert_memory_not_equal(&digest[0], &digest[i], sizeof *digest);
    for (int i = 0; i < MD_COUNT(v); i++)
        md_bd_variant_destroy(&v[i]);
}

/* Whatever allocation fails, the answer is an error or a FAILED variant, nothing is lost, and the builder goes on. */
static void test_short_of_memory(void **state)
{
    fixture *f = *state;
    int32_t n_refused = 0;
    for (int64_t n = 1; n < 60; n++) {
        md_bd *builder = NULL;
        md_bd_variant *v = NULL;
        md_fa_config config = toy_config(TOY_TWICE, 0);
        fault_after(n);
        md_status status = md_bd_create(&builder, &f->fake.base);
        if (status == MD_OK)
            status = md_bd_variant_create(&v, builder, &f->toy.target, &toy_family, &config);
        if (status == MD_OK)
            status = md_bd_variant_wait(v);
        int happened = fault_happened();
        fault_after(0);
        n_refused += happened;
        assert_true(happened ? status != MD_OK || state_of(v) == MD_BD_READY : status == MD_OK);
        md_bd_variant_destroy(&v);
        if (builder) {
            config = toy_config(TOY_PLAIN, 7);
            assert_ok(md_bd_variant_create(&v, builder, &f->toy.target, &toy_family, &config));
            assert_ok(md_bd_variant_wait(v));
            md_bd_variant_destroy(&v);
        }
        md_bd_destroy(&builder);
        assert_int_equal(f->fake.n_loaded, f->fake.n_unloaded);
    }
    assert_true(n_refused > 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_real_kernels),
        TEST(test_shared),
        TEST(test_single_flight),
        TEST(test_parallel),
        TEST(test_hurry),
        TEST(test_hasten),
        TEST(test_failures),
        TEST(test_no_compiler),
        TEST(test_failing_launch),
        TEST(test_destroy_early),
        TEST(test_short_of_memory),
        TEST(test_source),
        TEST(test_digest),
        TEST(test_texts_without_a_variant),
        TEST(test_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
