/* Bundles: what was put in comes out, equal entries give equal files, and a bad file is refused with its reason,
 * however it is damaged. */
#include "support/check.h"

#include "base/file.h"
#include "store/bundle.h"
#include "store/bundle_format.h"
#include "store/scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char path_of_bundle[] = "/a.mdb";

static void path_in(char out[4200], void **state)
{
    const scratch *s = *state;
    snprintf(out, 4200, "%s%s", s->folder, path_of_bundle);
}

/* Three entries, two with equal payloads; `order` changes the order in which they are added. */
static void make(const char *path, int order)
{
    static const char *const key[] = {"one", "two", "three"}, *const text[] = {"a payload", "a payload", "another"};
    md_sr_bundle_maker *m = NULL;
    assert_ok(md_sr_bundle_maker_create(&m));
    for (int i = 0; i < 3; i++) {
        const int k = (i + order) % 3;
        assert_ok(md_sr_bundle_add(m, "kernel", key[k], text[k], strlen(text[k])));
    }
    assert_ok(md_sr_bundle_add(m, "kernel", "one", "too late", 8));
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
}

static void expect(const md_sr_bundle *b, const char *key, const char *text)
{
    void *bytes = NULL;
    size_t n = 0;
    assert_ok(md_sr_bundle_find(&bytes, &n, b, "kernel", key));
    assert_int_equal(n, strlen(text));
    assert_string_equal(bytes, text);
    free(bytes);
}

static void entries_come_back(void **state)
{
    char path[4200];
    void *bytes = NULL;
    size_t n = 0;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_int_equal(md_sr_bundle_count(b), 3);
    expect(b, "one", "a payload");
    expect(b, "two", "a payload");
    expect(b, "three", "another");
    assert_int_equal(md_sr_bundle_find(&bytes, &n, b, "kernel", "four"), MD_NOT_FOUND);
    assert_int_equal(md_sr_bundle_find(&bytes, &n, b, "facts", "one"), MD_NOT_FOUND);
    md_sr_bundle_close(&b);
    assert_null(b);
}

static void equal_entries_give_equal_files(void **state)
{
    char path[4200], *first = NULL, *second = NULL;
    size_t n_first = 0, n_second = 0;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_file_read(&first, &n_first, path));
    make(path, 2);
    assert_ok(md_file_read(&second, &n_second, path));
    assert_int_equal(n_first, n_second);
    assert_memory_equal(first, second, n_first);
    free(first);
    free(second);
}

/* What a visitor sees, as "kind:key=payload;", and how many entries it takes. */
typedef struct visited {
    char text[400];
    int n, most;
} visited;

static md_status visit(void *user, const md_sr_bundle_entry *e)
{
    visited *v = user;
    const size_t used = strlen(v->text);
    if (v->n == v->most)
        return MD_UNSUPPORTED;
    v->n++;
    snprintf(v->text + used, sizeof v->text - used, "%s:%s=%.*s;", e->kind, e->key, (int)e->n,
             (const char *)e->payload);
    return MD_OK;
}

static void expect_visits(const md_sr_bundle *b, const char *kind, const char *const *entry, int n)
{
    visited v = {.most = 9};
    assert_ok(md_sr_bundle_each(b, kind, visit, &v));
    assert_int_equal(v.n, n);
    for (int i = 0; i < n; i++)
        assert_non_null(strstr(v.text, entry[i]));
}

/* Entries by kind, replaced ones, those of another bundle, and those alone that were named. */
static void entries_are_visited_and_copied(void **state)
{
    static const char *const all[] = {"fact:a=1;", "kernel:a b=first;", "kernel:c=;", "kernels:a=2;"},
                             *const kernels[] = {"kernel:a b=first;", "kernel:c=;"}, *const facts[] = {"fact:a=1;"},
                             *const left[] = {"fact:a=1;", "kernel:a b=first;", "kernel:c=;", "kernel:wanted=w;",
                                              "kernels:a=new;"};
    char path[4200];
    md_sr_bundle_maker *m = NULL;
    md_sr_bundle *b = NULL, *copy = NULL;
    path_in(path, state);
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_set(m, "fact", "a", "old and longer", 14));
    assert_ok(md_sr_bundle_set(m, "fact", "a", "1", 1));
    assert_ok(md_sr_bundle_add(m, "kernel", "a b", "first", 5));
    assert_ok(md_sr_bundle_add(m, "kernel", "a b", "second", 6));
    assert_ok(md_sr_bundle_add(m, "kernel", "c", "", 0));
    assert_ok(md_sr_bundle_add(m, "kernels", "a", "2", 1));
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_int_equal(md_sr_bundle_count(b), 4);
    assert_string_equal(md_sr_bundle_path(b), path);
    expect_visits(b, NULL, all, 4);
    expect_visits(b, "kernel", kernels, 2);
    expect_visits(b, "fact", facts, 1);
    expect_visits(b, "kern", NULL, 0);
    for (int most = 0; most < 4; most++) { /* a visitor may end it */
        visited v = {.most = most};
        assert_int_equal(md_sr_bundle_each(b, NULL, visit, &v), MD_UNSUPPORTED);
        assert_int_equal(v.n, most);
    }
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_add(m, "kernels", "a", "new", 3));
    assert_ok(md_sr_bundle_copy(m, b));
    assert_ok(md_sr_bundle_add(m, "kernel", "wanted", "w", 1));
    assert_ok(md_sr_bundle_add(m, "kernel", "not wanted", "n", 1));
    md_sr_bundle_keep_only(m, "kernel"); /* but for what was copied */
    md_sr_bundle_keep(m, "kernel", "wanted");
    md_sr_bundle_keep(m, "kernel", "never added");
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_sr_bundle_open(&copy, path));
    assert_int_equal(md_sr_bundle_count(copy), 5);
    expect_visits(copy, NULL, left, 5);
    const md_digest128 first = md_sr_bundle_digest(b), second = md_sr_bundle_digest(copy);
    assert_memory_not_equal(&first, &second, sizeof first);
    md_sr_bundle_close(&copy);
    md_sr_bundle_close(&b);
}

static void an_empty_one_has_nothing(void **state)
{
    char path[4200];
    void *bytes = NULL;
    size_t n = 0;
    md_sr_bundle_maker *m = NULL;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_int_equal(md_sr_bundle_find(&bytes, &n, b, "kernel", "one"), MD_NOT_FOUND);
    md_sr_bundle_close(&b);
}

/* Writes other bytes to the file. */
static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void no_truncated_file_opens(void **state)
{
    char path[4200], *bytes = NULL;
    size_t n = 0;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_file_read(&bytes, &n, path));
    for (size_t i = 0; i < n; i++) {
        write_bytes(path, bytes, i);
        assert_int_equal(md_sr_bundle_open(&b, path), MD_IO);
        assert_non_null(strstr(md_last_error(), path));
    }
    free(bytes);
}

/* Bytes in memory that end early, in front of a page that cannot be read. */
static void no_truncated_bytes_open(void **state)
{
    char path[4200], *bytes = NULL;
    size_t n = 0;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_file_read(&bytes, &n, path));
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n / page + 1) * page;
    char *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + room, page, PROT_NONE), 0);
    for (size_t i = 0; i <= n; i++) {
        memcpy(memory + room - i, bytes, i);
        assert_int_equal(md_sr_bundle_open_bytes(&b, memory + room - i, i), i < n ? MD_IO : MD_OK);
    }
    md_sr_bundle_close(&b);
    munmap(memory, room + page);
    free(bytes);
}

/* Every bit: the file is refused, or the entry is, or only padding changed. Other bytes never come out. */
static void no_flipped_bit_passes(void **state)
{
    static const char *const key[] = {"one", "two", "three"}, *const text[] = {"a payload", "a payload", "another"};
    char path[4200], *bytes = NULL;
    size_t n = 0, n_refused = 0;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_file_read(&bytes, &n, path));
    for (size_t i = 0; i < 8 * n; i++) {
        md_sr_bundle *b = NULL;
        bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
        write_bytes(path, bytes, n);
        bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
        if (md_sr_bundle_open(&b, path) != MD_OK) {
            n_refused++;
            continue;
        }
        for (int k = 0; k < 3; k++) {
            void *got = NULL;
            size_t n_got = 0;
            const md_status s = md_sr_bundle_find(&got, &n_got, b, "kernel", key[k]);
            assert_true(s == MD_IO || (s == MD_OK && n_got == strlen(text[k]) && !memcmp(got, text[k], n_got)));
            free(s == MD_OK ? got : NULL);
        }
        md_sr_bundle_close(&b);
    }
    assert_true(n_refused >= 8 * (48 + 3 * 64));
    free(bytes);
}

enum { LONG = 20000 };

/* A bundle with one long entry that compression makes smaller; returns its bytes. */
static char *make_long(size_t *n, char payload[LONG], const char *path)
{
    char *bytes = NULL;
    md_sr_bundle_maker *m = NULL;
    for (int i = 0; i < LONG; i++)
        payload[i] = (char)("abcdefgh"[i % 8] + i / 1000);
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_add(m, "kernel", "long", payload, LONG));
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_file_read(&bytes, n, path));
    return bytes;
}

static void long_entries_are_compressed(void **state)
{
    char path[4200], payload[LONG];
    void *got = NULL;
    size_t n = 0, n_got = 0;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    char *bytes = make_long(&n, payload, path);
    assert_true(n < LONG / 10);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_ok(md_sr_bundle_find(&got, &n_got, b, "kernel", "long"));
    assert_int_equal(n_got, LONG);
    assert_memory_equal(got, payload, LONG);
    free(got);
    md_sr_bundle_close(&b);
    for (size_t i = n - 40; i < n; i++) { /* within the compressed payload, which ends the file */
        bytes[i] ^= 4;
        assert_ok(md_sr_bundle_open_bytes(&b, bytes, n));
        assert_int_equal(md_sr_bundle_find(&got, &n_got, b, "kernel", "long"), MD_IO);
        md_sr_bundle_close(&b);
        bytes[i] ^= 4;
    }
    free(bytes);
}

/* What a writer with a fault could have sealed. */
static void refuse(char *bytes, size_t n, const md_sr_bundle_header *h, const md_sr_bundle_row *row, const char *why)
{
    md_sr_bundle *b = NULL;
    md_sr_bundle_header sealed = *h;
    memcpy(bytes + sizeof *h, row, sizeof *row);
    sealed.digest = md_sr_bundle_seal(sealed, bytes + sizeof *h, sizeof *row + h->n_keys);
    memcpy(bytes, &sealed, sizeof sealed);
    assert_int_equal(md_sr_bundle_open_bytes(&b, bytes, n), MD_IO);
    assert_non_null(strstr(md_last_error(), why));
}

/* The maker does not copy it; the file is not compressed for less than an eighth. */
static void lent_ones_are_written_from_where_they_lie(void **state)
{
    enum { N = (1 << 20) + 100 };
    char path[4200], *payload = malloc(N);
    void *got = NULL;
    size_t n_got = 0;
    md_sr_bundle_maker *m = NULL;
    md_sr_bundle *b = NULL;
    uint32_t state_of_noise = 7;
    path_in(path, state);
    assert_non_null(payload);
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_lend(m, "kernel", "lent", "other", 5));
    for (int i = 0; i < N; i++)
        payload[i] = (char)((state_of_noise = state_of_noise * 1664525u + 1013904223u) >> 24);
    assert_ok(md_sr_bundle_lend(m, "kernel", "lent", payload, N));
    assert_ok(md_sr_bundle_lend(m, "kernel", "equal", payload, N));
    assert_ok(md_sr_bundle_add(m, "kernel", "empty", "", 0));
    assert_ok(md_sr_bundle_write(m, path));
    assert_ok(md_sr_bundle_write(m, path)); /* lending ends with the maker */
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_in_range(md_sr_bundle_bytes(b), N, N + 1000);
    for (int i = 0; i < 2; i++) {
        assert_ok(md_sr_bundle_find(&got, &n_got, b, "kernel", i ? "lent" : "equal"));
        assert_int_equal(n_got, N);
        assert_memory_equal(got, payload, N);
        free(got);
    }
    expect(b, "empty", "");
    md_sr_bundle_close(&b);
    free(payload);
}

/* A hole of 8 GiB lies before the payload. */
static void places_beyond_4_gib(void **state)
{
    char path[4200], *bytes = NULL;
    size_t n = 0;
    md_sr_bundle_header h;
    md_sr_bundle_row row;
    md_sr_bundle_maker *m = NULL;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    assert_ok(md_sr_bundle_maker_create(&m));
    assert_ok(md_sr_bundle_add(m, "kernel", "far", "a payload", 9));
    assert_ok(md_sr_bundle_write(m, path));
    md_sr_bundle_maker_destroy(&m);
    assert_ok(md_file_read(&bytes, &n, path));
    memcpy(&h, bytes, sizeof h);
    memcpy(&row, bytes + sizeof h, sizeof row);
    row.at = (uint64_t)8 << 30;
    h.n_bytes = row.at + row.n_stored;
    memset(&h.digest, 0, sizeof h.digest);
    memcpy(bytes + sizeof h, &row, sizeof row);
    h.digest = md_sr_bundle_seal(h, bytes + sizeof h, sizeof row + h.n_keys);
    memcpy(bytes, &h, sizeof h);
    write_bytes(path, bytes, n - 9);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, "a payload", 9, (off_t)row.at) == 9);
    close(fd);
    assert_ok(md_sr_bundle_open(&b, path));
    assert_true(md_sr_bundle_bytes(b) == (int64_t)h.n_bytes);
    expect(b, "far", "a payload");
    md_sr_bundle_close(&b);
    free(bytes);
}

static void impossible_ones_are_refused(void **state)
{
    char path[4200], payload[LONG];
    size_t n = 0;
    path_in(path, state);
    char *bytes = make_long(&n, payload, path);
    md_sr_bundle_header h;
    md_sr_bundle_row row;
    memcpy(&h, bytes, sizeof h);
    memcpy(&row, bytes + sizeof h, sizeof row);
    md_sr_bundle_row wrong = row;
    wrong.n = UINT64_MAX; /* would ask for all memory */
    refuse(bytes, n, &h, &wrong, "impossible lengths");
    wrong.n = row.n_stored - 1;
    refuse(bytes, n, &h, &wrong, "impossible lengths");
    wrong = row;
    wrong.at = h.n_bytes - 1;
    refuse(bytes, n, &h, &wrong, "beyond its end");
    wrong = row;
    wrong.n_key++;
    refuse(bytes, n, &h, &wrong, "beyond its end");
    md_sr_bundle_header other = h;
    other.version++;
    refuse(bytes, n, &other, &row, "another version of the format");
    other.version = 1;
    refuse(bytes, n, &other, &row, "another version of the format");
    free(bytes);
}

static void a_file_that_changes_while_open_is_an_error(void **state)
{
    char path[4200], *bytes = NULL;
    size_t n = 0;
    void *got = NULL;
    size_t n_got = 0;
    md_sr_bundle *b = NULL;
    path_in(path, state);
    make(path, 0);
    assert_ok(md_file_read(&bytes, &n, path));
    assert_ok(md_sr_bundle_open(&b, path));
    write_bytes(path, bytes, n / 2);
    assert_int_equal(md_sr_bundle_find(&got, &n_got, b, "kernel", "one"), MD_IO);
    assert_non_null(strstr(md_last_error(), "': kernel one is damaged, or the file was changed"));
    md_sr_bundle_close(&b);
    free(bytes);
}

static void others_may_not_write(void **state)
{
    char path[4200];
    md_sr_bundle *b = NULL;
    path_in(path, state);
    make(path, 0);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(md_sr_bundle_open(&b, path), MD_IO);
    assert_non_null(strstr(md_last_error(), "others may write"));
    assert_int_equal(chmod(path, 0444), 0);
    assert_ok(md_sr_bundle_open(&b, path));
    md_sr_bundle_close(&b);
    assert_int_equal(md_sr_bundle_open(&b, "/nowhere/a.mdb"), MD_NOT_FOUND);
    assert_int_equal(md_sr_bundle_open(&b, "/tmp"), MD_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_come_back, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(equal_entries_give_equal_files, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(entries_are_visited_and_copied, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_empty_one_has_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(no_truncated_file_opens, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(no_truncated_bytes_open, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(no_flipped_bit_passes, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(long_entries_are_compressed, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lent_ones_are_written_from_where_they_lie, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(places_beyond_4_gib, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(impossible_ones_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_changes_while_open_is_an_error, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(others_may_not_write, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
