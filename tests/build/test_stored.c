/* Kernels that outlive a process: compiled once, found by the next builder, healed where the file is bad; failures
 * are remembered where they are final. */
#include "support/check.h"

#include "build/internal.h"
#include "build/stored.h"
#include "build/toy.h"
#include "store/scratch.h"
#include "support/devices/fake_device.h"
#include "support/fault.h"

typedef struct fixture {
    scratch *scratch;
    md_pool *pool;
    fake_device fake;
    toy toy;
} fixture;

static int setup(void **state)
{
    void *folder = NULL;
    fixture *f = calloc(1, sizeof *f);
    if (!f || scratch_setup(&folder) != 0 || md_pool_create(&f->pool, 2) != MD_OK)
        return -1;
    f->scratch = folder;
    fake_device_init(&f->fake, f->pool, NULL);
    toy_init(&f->toy, &f->fake.base.facts);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    void *folder = f->scratch;
    const int32_t leaked = f->fake.n_loaded - f->fake.n_unloaded;
    md_pool_destroy(&f->pool);
    scratch_teardown(&folder);
    free(f);
    return leaked;
}

typedef struct process {
    md_sr *store;
    md_bd *builder;
} process;

static process start(fixture *f)
{
    process p = {scratch_open(f->scratch, "here"), NULL};
    assert_ok(md_bd_create(&p.builder, &f->fake.base));
    md_bd_use_store(p.builder, p.store);
    return p;
}

static void end(process *p)
{
    md_bd_destroy(&p->builder);
    md_sr_close(&p->store);
}

static md_status build(fixture *f, process *p, int32_t kind, int32_t salt)
{
    md_bd_variant *v = NULL;
    md_fa_config config = toy_config(kind, salt);
    assert_ok(md_bd_variant_create(&v, p->builder, &f->toy.target, &toy_family, &config));
    const md_status status = md_bd_variant_wait(v);
    md_bd_variant_destroy(&v);
    return status;
}

/* What a process asks of its compiler, and takes from the store, for a few variants. */
static void expect(fixture *f, uint64_t compiles, uint64_t stored)
{
    process p = start(f);
    assert_ok(build(f, &p, TOY_PLAIN, 0));
    assert_ok(build(f, &p, TOY_PLAIN, 1));
    assert_ok(build(f, &p, TOY_TWICE, 2));
    assert_ok(build(f, &p, TOY_FUNCTION, 0));
    const md_bd_counters *count = md_bd_count(p.builder);
    assert_int_equal(count->compiles, compiles);
    assert_int_equal(count->stored, stored);
    end(&p);
}

static void the_next_process_compiles_nothing(void **state)
{
    fixture *f = *state;
    process first = start(f);
    assert_ok(build(f, &first, TOY_PLAIN, 0));
    assert_ok(build(f, &first, TOY_PLAIN, 1));
    assert_ok(build(f, &first, TOY_TWICE, 2));
    const uint64_t n = md_bd_count(first.builder)->compiles;
    assert_true(n >= 3);
    assert_int_equal(md_bd_count(first.builder)->stored, 0);
    end(&first);
    expect(f, 0, n);
    assert_int_equal(f->fake.n_compiled, (int32_t)n);
    /* Another compiler, other flags: other kernels. */
    snprintf(f->fake.base.facts.flags, sizeof f->fake.base.facts.flags, "-fother");
    expect(f, n, 0);
    expect(f, 0, n);
}

static void bad_entries_are_compiled_anew(void **state)
{
    fixture *f = *state;
    expect(f, 4, 0);
    scratch_shell("for f in $(find '%s' -path '*/kernel/*' -type f); do printf x | dd of=$f bs=1 seek=70 conv=notrunc "
                  "2>/dev/null; done",
                  f->scratch->root);
    expect(f, 4, 0);
    expect(f, 0, 4);
    scratch_shell("find '%s' -path '*/kernel/*' -type f -exec truncate -s -1 {} +", f->scratch->root);
    expect(f, 4, 0);
    expect(f, 0, 4);
    scratch_shell("chmod 0777 '%s'", f->scratch->root); /* others may have written: nothing of it is loaded */
    expect(f, 4, 0);
    assert_int_equal(f->scratch->n_warnings, 1);
}

/* An entry that is whole but does not load, as after a change that no key tells. */
static md_status spoil(void *user, const char *key, const void *payload, size_t n)
{
    (void)payload;
    (void)n;
    snprintf(user, 100, "%s", key);
    return MD_OK;
}

static void what_does_not_load_is_compiled_anew(void **state)
{
    fixture *f = *state;
    static const char *const payloads[] = {"BFAIL_LOAD", "", "B", "Xother"}; /* none is a kernel */
    for (int i = 0; i < 4; i++) {
        char key[100] = "";
        process p = start(f);
        assert_ok(build(f, &p, TOY_PLAIN, 7));
        assert_ok(md_sr_each(p.store, 0, "kernel", spoil, key));
        assert_true(key[0]);
        assert_ok(md_sr_put(p.store, "kernel", key, payloads[i], strlen(payloads[i])));
        end(&p);
        p = start(f);
        assert_ok(build(f, &p, TOY_PLAIN, 7));
        assert_int_equal(md_bd_count(p.builder)->compiles, 1);
        assert_true(md_sr_count(p.store)->healed > 0);
        end(&p);
        p = start(f);
        assert_ok(build(f, &p, TOY_PLAIN, 7));
        assert_int_equal(md_bd_count(p.builder)->compiles, 0);
        end(&p);
    }
}

/* What is kept comes back whole, down to a single byte. */
static void what_is_kept_comes_back(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *binary, *failure;
    } row[] = {{"b", NULL}, {"binary", NULL}, {NULL, "f"}, {NULL, "failure"}};
    md_sr *store = scratch_open(f->scratch, "here");
    for (int i = 0; i < MD_COUNT(row); i++) {
        const md_digest128 digest = {(uint64_t)i, 7};
        const size_t n = row[i].binary ? strlen(row[i].binary) : 0;
        md_bd_stored stored;
        assert_true(md_bd_stored_put(store, digest, "md_kernel", row[i].binary, n, row[i].failure));
        assert_int_equal(md_bd_stored_find(&stored, store, digest, "another"), MD_NOT_FOUND);
        assert_ok(md_bd_stored_find(&stored, store, digest, "md_kernel"));
        assert_int_equal(stored.n_binary, n);
        if (row[i].binary)
            assert_memory_equal(stored.binary, row[i].binary, n);
        else
            assert_string_equal(stored.failure, row[i].failure);
        free(stored.bytes);
        fault_once(1);
        assert_false(md_bd_stored_put(store, digest, "md_kernel", row[i].binary, n, row[i].failure));
        fault_after(0);
        assert_false(md_bd_stored_put(NULL, digest, "md_kernel", row[i].binary, n, row[i].failure));
    }
    md_sr_close(&store);
}

/* A GPU's bundle has the kernels that the library runs for itself. */
static void bundles_hold_the_librarys_own_kernels(void **state)
{
    fixture *f = *state;
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        char path[4200];
        md_sr_bundle_maker *maker = NULL;
        md_sr_bundle *bundle = NULL;
        md_bd *builder = NULL;
        f->fake.base.facts.kind = is_gpu ? MD_DEV_CUDA : MD_DEV_HOST;
        snprintf(path, sizeof path, "%s/a.mdb", f->scratch->folder);
        assert_ok(md_bd_create(&builder, &f->fake.base));
        assert_ok(md_sr_bundle_maker_create(&maker));
        const int32_t n_compiled = f->fake.n_compiled;
        assert_ok(md_bd_record_bundle(builder, maker));
        assert_int_equal(f->fake.n_compiled - n_compiled, is_gpu ? 2 : 0);
        assert_ok(md_sr_bundle_write(maker, path));
        assert_ok(md_sr_bundle_open(&bundle, path));
        assert_int_equal(md_sr_bundle_count(bundle), is_gpu ? 2 : 0);
        md_sr_bundle_close(&bundle);
        md_sr_bundle_maker_destroy(&maker);
        md_bd_destroy(&builder);
    }
}

/* Where only what is kept is written: each launch of a kept variant, and nothing of the others. */
static void bundles_hold_what_is_kept(void **state)
{
    fixture *f = *state;
    static const struct {
        int32_t n, kept; /* variants */
    } rows[] = {{1, 0}, {1, 1}, {3, 1}, {3, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[4200];
        md_sr_bundle_maker *maker = NULL;
        md_sr_bundle *bundle = NULL;
        md_bd *builder = NULL;
        md_bd_variant *v[3] = {NULL};
        snprintf(path, sizeof path, "%s/kept.mdb", f->scratch->folder);
        assert_ok(md_bd_create(&builder, &f->fake.base));
        assert_ok(md_sr_bundle_maker_create(&maker));
        assert_ok(md_bd_record_bundle(builder, maker));
        md_sr_bundle_keep_only(maker, MD_BD_BUNDLED);
        for (int32_t k = 0; k < rows[i].n; k++) {
            const md_fa_config config = toy_config(TOY_PLAIN, k);
            assert_ok(md_bd_variant_create(&v[k], builder, &f->toy.target, &toy_family, &config));
            assert_ok(md_bd_variant_wait(v[k]));
            if (k < rows[i].kept)
                assert_ok(md_bd_bundled_keep(v[k]));
        }
        assert_ok(md_sr_bundle_write(maker, path));
        assert_ok(md_sr_bundle_open(&bundle, path));
        assert_int_equal(md_sr_bundle_count(bundle), rows[i].kept);
        md_sr_bundle_close(&bundle);
        for (int32_t k = 0; k < rows[i].n; k++)
            md_bd_variant_destroy(&v[k]);
        md_sr_bundle_maker_destroy(&maker);
        md_bd_destroy(&builder);
    }
}

/* What a bundle has is not compiled; what it lacks is, unless nothing may be. */
static void kernels_come_from_bundles(void **state)
{
    fixture *f = *state;
    char path[4200];
    md_sr_bundle_maker *maker = NULL;
    md_sr_bundle *bundle = NULL;
    process p = {NULL, NULL};
    snprintf(path, sizeof path, "%s/from.mdb", f->scratch->folder);
    assert_ok(md_sr_bundle_maker_create(&maker));
    assert_ok(md_bd_create(&p.builder, &f->fake.base));
    assert_ok(md_bd_record_bundle(p.builder, maker));
    assert_ok(build(f, &p, TOY_PLAIN, 0));
    md_bd_destroy(&p.builder);
    assert_ok(md_sr_bundle_write(maker, path));
    md_sr_bundle_maker_destroy(&maker);
    assert_ok(md_sr_bundle_open(&bundle, path));
    for (int compiles = 0; compiles < 2; compiles++) {
        const md_bd_bundles bundles = {.bundle = &bundle, .n = 1, .compiles = compiles};
        assert_ok(md_bd_create(&p.builder, &f->fake.base));
        md_bd_use_bundles(p.builder, &bundles);
        assert_ok(build(f, &p, TOY_PLAIN, 0));
        assert_int_equal(build(f, &p, TOY_PLAIN, 1), compiles ? MD_OK : MD_COMPILE);
        assert_int_equal(md_bd_count(p.builder)->bundled, 1);
        assert_int_equal(md_bd_count(p.builder)->compiles, compiles);
        md_bd_destroy(&p.builder);
    }
    md_sr_bundle_close(&bundle);
}

static void final_failures_are_remembered(void **state)
{
    fixture *f = *state;
    for (int is_final = 0; is_final < 2; is_final++) {
        /* a host's compiler may fail for want of memory or disk */
        f->fake.base.facts.kind = is_final ? MD_DEV_CUDA : MD_DEV_HOST;
        for (int i = 0; i < 2; i++) {
            process p = start(f);
            assert_fails(build(f, &p, TOY_BAD_TEXT, 0), MD_COMPILE, "scripted");
            assert_int_equal(md_bd_count(p.builder)->compiles, is_final && i ? 0 : 1);
            assert_int_equal(md_bd_count(p.builder)->stored, is_final && i ? 1 : 0);
            assert_int_equal(md_bd_count(p.builder)->failed, 1);
            end(&p);
        }
    }
}

/* Where one kernel could not be written, the next ones are not tried: a disk that is full would be asked each time. */
static void a_disk_that_failed_is_asked_once(void **state)
{
    fixture *f = *state;
    process p = start(f);
    assert_ok(build(f, &p, TOY_PLAIN, 1));
    const uint64_t n_written = md_sr_count(p.store)->written;
    assert_true(n_written > 0);
    scratch_shell("rm -r '%s' && echo no folder >'%s'", f->scratch->root, f->scratch->root);
    for (int i = 2; i < 6; i++)
        assert_ok(build(f, &p, TOY_PLAIN, i));
    assert_int_equal(md_sr_count(p.store)->written, n_written);
    assert_int_equal(md_sr_count(p.store)->write_failures, 1);
    end(&p);
    scratch_shell("rm '%s'", f->scratch->root);
}

/* A source whose every part that reaches a kernel has a value of its own. */
static void fill_source(md_kn_launch_source *s)
{
    *s = (md_kn_launch_source){.code = MD_KN_TEXT, .entry = "entry", .origin = "origin", .label = "label", .n_maps = 2};
    md_strbuf_add(&s->text, "text");
    s->map[0] = (md_kn_map){.tensor = 1,
                            .dtype = 2,
                            .swizzle = 32,
                            .n_dims = {2, 0, 1},
                            .dim = {{3, 4}, {0}, {5}},
                            .axis = {1, 0, 2},
                            .box = {8, 16, 24}};
    s->map[1] = (md_kn_map){.tensor = 2, .dtype = 3, .n_axes = 2, .axes = {1, 2}, .axes_box = {4, 6}};
}

/* Changes part i of what a kernel is made of; false beyond the last one. */
static bool change(md_kn_launch_source *s, md_dev *dev, const char **compiler, int i)
{
    md_kn_map *dims = &s->map[0], *axes = &s->map[1];
    uint8_t *const small[] = {&dims->tensor,    &dims->dtype,     &dims->swizzle,   &dims->shrinks,
                              &dims->is_copy,   &dims->n_dims[0], &dims->n_dims[1], &dims->dim[0][0],
                              &dims->dim[0][1], &dims->dim[2][0], &dims->axis[0],   &dims->axis[2],
                              &axes->tensor,    &axes->n_axes,    &axes->axes[0],   &axes->axes[1]};
    uint16_t *const large[] = {&dims->box[0], &dims->box[1], &dims->box[2], &axes->axes_box[0], &axes->axes_box[1]};
    const int n_small = MD_COUNT(small), n_large = MD_COUNT(large);
    if (i < n_small)
        ++*small[i];
    else if ((i -= n_small) < n_large)
        ++*large[i];
    else if ((i -= n_large) == 0)
        md_strbuf_add(&s->text, "s");
    else if (i == 1)
        s->entry[0] = 'E';
    else if (i == 2)
        s->n_maps = 1;
    else if (i == 3)
        *compiler = "another";
    else if (i == 4)
        memcpy(dev->facts.flags, "-O9", 4);
    else if (i == 5)
        dev->facts.kind = dev->facts.kind == MD_DEV_CUDA ? MD_DEV_HOST : MD_DEV_CUDA;
    else
        return false;
    return true;
}

/* Each part of what reaches a kernel changes its key, to another one each time; what only people read does not. */
static void keys_are_of_all_that_counts(void **state)
{
    enum { MOST = 64 };
    fixture *f = *state;
    md_digest128 key[MOST];
    int n = 0;
    for (bool is_one = true; is_one; n++) {
        md_dev dev = f->fake.base;
        md_kn_launch_source s;
        const char *compiler = "compiler";
        assert_true(n + 1 < MOST);
        fill_source(&s);
        key[n] = md_bd_text_key(&dev, compiler, &s);
        memcpy(s.origin, "O", 1);
        memcpy(s.label, "L", 1);
        s.map[0].axis[1] = 9; /* of a dim that is not there, as are those behind */
        s.map[0].dim[2][1] = 9;
        s.map[1].axes[2] = 9;
        assert_memory_equal(&(md_digest128[]){md_bd_text_key(&dev, compiler, &s)}, &key[n], sizeof *key);
        s.map[0].axis[1] = 0;
        s.map[0].dim[2][1] = s.map[1].axes[2] = 0;
        if (n > 0)
            is_one = change(&s, &dev, &compiler, n - 1);
        key[n] = md_bd_text_key(&dev, compiler, &s);
        for (int i = 0; i < n && is_one; i++)
            assert_memory_not_equal(&key[i], &key[n], sizeof *key);
        md_strbuf_finish(&s.text);
    }
    assert_int_equal(n, 29);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_next_process_compiles_nothing),     TEST(bad_entries_are_compiled_anew),
        TEST(what_does_not_load_is_compiled_anew),   TEST(what_is_kept_comes_back),
        TEST(bundles_hold_the_librarys_own_kernels), TEST(bundles_hold_what_is_kept),
        TEST(final_failures_are_remembered),         TEST(keys_are_of_all_that_counts),
        TEST(a_disk_that_failed_is_asked_once),      TEST(kernels_come_from_bundles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
