/* Short memory in the functions of base. */
#include "support/check.h"
#include "support/fault.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/task/process.h"
#include "base/task/pool.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "base/trace.h"

#include <stdatomic.h>

/* Each scenario is run with its first, second, ... allocation failing, until it gets through without meeting one. It
 * must give OUT_OF_MEMORY, or carry on and be right; leaks and overruns are the sanitizers' to find. */

static md_status fill_strbuf(void)
{
    md_strbuf b = {0};
    for (int i = 0; i < 300; i++)
        md_strbuf_printf(&b, "%d ", i);
    md_strbuf_json(&b, "text");
    bool has_failed = b.failed;
    assert_true(has_failed || b.size == 10 + 0 + 90 * 3 + 10 + 200 * 4 + 6);
    assert_int_equal(strlen(md_strbuf_text(&b)), b.size);
    md_strbuf_finish(&b);
    return has_failed ? md_fail_memory() : MD_OK;
}

static md_status fill_arena(void)
{
    md_arena *arena = md_arena_create();
    if (!arena)
        return md_fail_memory();
    int n_failed = 0;
    for (int i = 0; i < 100; i++)
        n_failed += md_arena_printf(arena, "%*d", 100 + i * 50, i) == NULL;
    md_arena_destroy(&arena);
    return n_failed ? md_fail_memory() : MD_OK;
}

static md_status fill_table(void)
{
    md_table *table = md_table_create();
    if (!table)
        return md_fail_memory();
    md_status status = MD_OK;
    int64_t n = 0;
    for (; n < 1000 && status == MD_OK; n++)
        status = md_table_put(table, &n, sizeof n, table, NULL);
    if (status != MD_OK)
        n--; /* the last one is not in */
    assert_int_equal(md_table_count(table), n);
    for (int64_t i = 0; i < n; i++)
        assert_ptr_equal(md_table_find(table, &i, sizeof i), table);
    md_table_destroy(&table, NULL);
    return status;
}

static void count_blocks(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    memset(scratch, 1, 100);
    atomic_fetch_add((_Atomic int64_t *)context, last - first);
}

static void count_job(void *context)
{
    atomic_fetch_add((_Atomic int64_t *)context, 1);
}

static md_status use_pool(void)
{
    md_pool *pool = NULL;
    _Atomic int64_t n_blocks = 0, n_jobs = 0;
    MD_TRY(md_pool_create(&pool, 3));
    md_status status = MD_OK;
    for (int i = 0; i < 5 && status == MD_OK; i++) {
        atomic_store(&n_blocks, 0);
        status = md_pool_loop(pool, 50, 1, 100, count_blocks, &n_blocks);
        assert_int_equal(atomic_load(&n_blocks), status == MD_OK ? 50 : 0);
        md_jobs_submit(md_pool_jobs(pool), count_job, &n_jobs);
    }
    int64_t n_submitted = status == MD_OK ? 5 : 1;
    md_pool_destroy(&pool);
    assert_true(atomic_load(&n_jobs) >= n_submitted);
    return status;
}

static md_status run_program(void)
{
    int32_t code = -1;
    char *output = NULL;
    md_status status = md_process_run(&code, &output, (const char *const[]){"echo", "hello", NULL}, 0, NULL, NULL);
    if (status == MD_OK)
        assert_string_equal(output, "hello\n");
    else
        assert_null(output);
    free(output);
    return status;
}

static md_status read_file(void)
{
    char *text = NULL;
    size_t n = 0;
    md_status status = md_file_read(&text, &n, "/proc/self/maps");
    free(text);
    return status;
}

static md_status open_trace(void)
{
    md_trace *trace = NULL;
    MD_TRY(md_trace_open(&trace, "/dev/null"));
    md_trace_mark(trace, "choice", "mark", (const md_trace_arg[]){{.name = "i", .number = 1}, {0}});
    md_trace_close(&trace);
    return MD_OK;
}

static void with_every_allocation_failing(void **state)
{
    (void)state;
    md_status (*const scenarios[])(void) = {fill_strbuf, fill_arena, fill_table, use_pool,
                                            run_program, read_file,  open_trace};
    for (int i = 0; i < MD_COUNT(scenarios); i++) {
        for (int is_once = 0; is_once < 2; is_once++) {
            int64_t n = 1;
            for (;; n++) {
                const int64_t living = fault_living();
                fault_at(n, is_once);
                md_status status = scenarios[i]();
                int happened = fault_happened();
                fault_after(0);
                assert_int_equal(fault_living(), living);
                if (status != MD_OK)
                    assert_fails(status, MD_OUT_OF_MEMORY, "memory");
                if (!happened) {
                    assert_int_equal(status, MD_OK);
                    break;
                }
            }
            assert_true(n > 1); /* it did allocate */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
