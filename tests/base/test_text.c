/* Growing texts, arenas, statuses, logs and embedded files. */
#include "support/check.h"

#include "base/arena.h"
#include "base/embed.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

static void strbuf_grows_and_formats(void **state)
{
    (void)state;
    md_strbuf b = {0};
    assert_string_equal(md_strbuf_text(&b), "");
    md_strbuf_add(&b, "");
    assert_string_equal(md_strbuf_text(&b), "");
    char expected[4096] = "";
    for (int i = 0; i < 500; i++) {
        md_strbuf_printf(&b, "%d,", i);
        snprintf(expected + strlen(expected), 16, "%d,", i);
    }
    assert_string_equal(md_strbuf_text(&b), expected);
    assert_int_equal(b.size, strlen(expected));
    md_strbuf_finish(&b);
    assert_string_equal(md_strbuf_text(&b), "");
    md_strbuf_bytes(&b, "a\0b", 3);
    assert_int_equal(b.size, 3);
    assert_memory_equal(b.text, "a\0b", 4);
    assert_false(b.failed);
    md_strbuf_finish(&b);
    assert_null(b.text);
}

/* The lengths around the capacity are where a terminator gets lost. */
static void strbuf_at_every_length(void **state)
{
    (void)state;
    for (int n = 0; n < 300; n++) {
        md_strbuf b = {0}, whole = {0};
        for (int i = 0; i < n; i++)
            md_strbuf_bytes(&b, "x", 1);
        assert_int_equal(strlen(md_strbuf_text(&b)), n);
        md_strbuf_printf(&whole, "%s%s", md_strbuf_text(&b), "yz");
        assert_int_equal(strlen(md_strbuf_text(&whole)), n + 2);
        md_strbuf_printf(&b, "%d", 7);
        assert_int_equal(b.size, n + 1);
        assert_int_equal(md_strbuf_text(&b)[n], '7');
        md_strbuf_finish(&b);
        md_strbuf_finish(&whole);
    }
}

static void strbuf_escapes_json(void **state)
{
    (void)state;
    md_strbuf b = {0};
    md_strbuf_json(&b, "a\"b\\c\n\t\x01é");
    assert_string_equal(md_strbuf_text(&b), "\"a\\\"b\\\\c\\n\\u0009\\u0001é\"");
    md_strbuf_finish(&b);
}

static void arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    md_arena *arena = md_arena_create();
    assert_non_null(arena);
    unsigned char *kept[200];
    size_t size[200];
    for (int i = 0; i < 200; i++) {
        size[i] = check_random(&seed) % (i % 10 == 0 ? 40000 : 200);
        kept[i] = md_arena_alloc(arena, size[i]);
        assert_non_null(kept[i]);
        assert_int_equal((uintptr_t)kept[i] % 16, 0);
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(kept[i][j], 0);
        memset(kept[i], i + 1, size[i]);
    }
    for (int i = 0; i < 200; i++) {
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(kept[i][j], (unsigned char)(i + 1));
    }
    assert_string_equal(md_arena_text(arena, "text"), "text");
    assert_string_equal(md_arena_printf(arena, "%s-%d", "a", 12), "a-12");
    assert_null(md_arena_alloc(arena, SIZE_MAX));
    assert_null(md_arena_alloc(arena, SIZE_MAX - 64));
    assert_non_null(md_arena_alloc(arena, 1));
    md_arena_destroy(&arena);
    assert_null(arena);
    md_arena_destroy(&arena);
    md_arena_destroy(NULL);
}

static void messages_are_set_cut_and_extended(void **state)
{
    (void)state;
    assert_int_equal(md_fail(MD_IO, "path %s", "x"), MD_IO);
    assert_string_equal(md_last_error(), "path x");
    assert_int_equal(md_fail_more(MD_IO, " in op %d", 3), MD_IO);
    assert_string_equal(md_last_error(), "path x in op 3");
    md_fail(MD_IO, "again: %s", md_last_error());
    assert_string_equal(md_last_error(), "again: path x in op 3");
    char lots[3000];
    memset(lots, 'y', sizeof lots - 1);
    lots[sizeof lots - 1] = 0;
    md_fail(MD_INTERNAL, "%s", lots);
    assert_int_equal(strlen(md_last_error()), 1023);
    md_fail_more(MD_INTERNAL, "%s", "more");
    assert_int_equal(strlen(md_last_error()), 1023);
    assert_int_equal(md_fail_memory(), MD_OUT_OF_MEMORY);
    assert_string_equal(md_last_error(), "out of memory");
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i <= MD_CANCELLED; i++) {
        assert_string_not_equal(md_status_name((md_status)i), "unknown status");
        for (int j = 0; j < i; j++)
            assert_string_not_equal(md_status_name((md_status)i), md_status_name((md_status)j));
    }
    assert_string_equal(md_status_name((md_status)(MD_CANCELLED + 1)), "unknown status");
    assert_string_equal(md_status_name((md_status)-1), "unknown status");
}

static void version_is_the_headers(void **state)
{
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", MD_VERSION_MAJOR, MD_VERSION_MINOR, MD_VERSION_PATCH);
    assert_string_equal(md_version(), expected);
}

static char logged[4096];

static void log_to_buffer(void *user, md_log_level level, const char *message)
{
    snprintf(logged, sizeof logged, "%s%d:%s", (const char *)user, (int)level, message);
}

static void log_keeps_its_level(void **state)
{
    (void)state;
    char prefix[] = ">";
    md_log log = {log_to_buffer, prefix, MD_LOG_WARN};
    md_log_at(&log, MD_LOG_WARN, "%d threads", 3);
    assert_string_equal(logged, ">2:3 threads");
    md_log_at(&log, MD_LOG_INFO, "dropped");
    assert_string_equal(logged, ">2:3 threads");
    md_log_at(NULL, MD_LOG_ERROR, "nobody");
    md_log_at(&(md_log){0}, MD_LOG_ERROR, "nobody");
    assert_string_equal(logged, ">2:3 threads");
}

/* A condition is a line once, and later only for those who ask for everything. */
static void conditions_are_logged_once(void **state)
{
    (void)state;
    char prefix[] = ">";
    md_log_said said = {0};
    md_log log = {log_to_buffer, prefix, MD_LOG_WARN, &said};
    md_log_once(&log, MD_LOG_NOT_BUILT, MD_LOG_WARN, "kernel %d", 1);
    assert_string_equal(logged, ">2:kernel 1");
    md_log_once(&log, MD_LOG_NOT_BUILT, MD_LOG_WARN, "kernel %d", 2);
    assert_string_equal(logged, ">2:kernel 1");
    md_log_once(&log, MD_LOG_NO_LOCK, MD_LOG_WARN, "no lock");
    assert_string_equal(logged, ">2:no lock");
    log.level = MD_LOG_DEBUG;
    md_log_once(&log, MD_LOG_NOT_BUILT, MD_LOG_WARN, "kernel %d", 3);
    assert_string_equal(logged, ">4:kernel 3");
    md_log_once(&(md_log){log_to_buffer, prefix, MD_LOG_WARN, NULL}, MD_LOG_NOT_BUILT, MD_LOG_WARN, "kernel %d", 4);
    assert_string_equal(logged, ">2:kernel 4");
}

/* The same of texts. */
static void texts_are_logged_once(void **state)
{
    (void)state;
    char prefix[] = ">";
    md_log_said said = {0};
    md_log log = {log_to_buffer, prefix, MD_LOG_WARN, &said};
    logged[0] = 0;
    md_log_text_once(&log, MD_LOG_WARN, "100%s");
    assert_string_equal(logged, ">2:100%s");
    md_log_text_once(&log, MD_LOG_WARN, "another");
    assert_string_equal(logged, ">2:another");
    md_log_text_once(&log, MD_LOG_WARN, "100%s");
    assert_string_equal(logged, ">2:another");
    log.level = MD_LOG_DEBUG;
    md_log_text_once(&log, MD_LOG_WARN, "100%s");
    assert_string_equal(logged, ">4:100%s");
    md_log_text_once(&(md_log){log_to_buffer, prefix, MD_LOG_WARN, NULL}, MD_LOG_WARN, "100%s");
    assert_string_equal(logged, ">2:100%s");
    md_log_text_once(NULL, MD_LOG_WARN, "nobody");
    assert_string_equal(logged, ">2:100%s");
}

static void embedded_files_are_found(void **state)
{
    (void)state;
    size_t size = 7;
    assert_null(md_embed_find("no/such/file", &size));
    assert_int_equal(size, 7);
    for (const md_embedded_file *file = md_embedded_files; file->name; file++) {
        assert_ptr_equal(md_embed_find(file->name, &size), file->bytes);
        assert_int_equal(size, file->size);
        assert_int_equal(file->bytes[size], 0);
    }
    assert_int_not_equal(md_embedded_digest, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strbuf_grows_and_formats),
        cmocka_unit_test(strbuf_at_every_length),
        cmocka_unit_test(strbuf_escapes_json),
        cmocka_unit_test(arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(messages_are_set_cut_and_extended),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(version_is_the_headers),
        cmocka_unit_test(log_keeps_its_level),
        cmocka_unit_test(conditions_are_logged_once),
        cmocka_unit_test(texts_are_logged_once),
        cmocka_unit_test(embedded_files_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
