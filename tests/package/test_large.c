/* A weight of more than 4 GiB, most of it zeros: written, opened from C, its last row read. Takes 10 GiB of memory. */
#include "support/check.h"

#include <md/package.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIDTH = 16, ROWS = (1 << 28) + 3, SKIPPED = 77 };
static const size_t n_bytes = (size_t)ROWS * WIDTH;

/* Rows of a table, by their numbers. */
#define PLAN                                                                                                           \
    "{\"version\": 1, \"library\": \"%s\", \"device\": \"host\", \"name\": \"rows\", \"hints\": \"16\","               \
    "\"dims\": [[0, 0]], \"weights\": [%zu], \"conditions\": [], \"examples\": [[2]],"                                 \
    "\"tensors\": [{\"name\": \"ids\", \"role\": 1, \"dtype\": \"i64\", \"size\": \"d0\", \"stride\": \"1\"},"         \
    "{\"name\": \"e\", \"role\": 3, \"dtype\": \"u8\", \"size\": \"%d, %d\", \"weight\": 0},"                          \
    "{\"name\": \"y\", \"role\": 2, \"dtype\": \"u8\", \"size\": \"d0, %d\"}],"                                        \
    "\"calls\": [{\"formula\": \"Y:u8[t,d] = E:u8[ids:i64[t],d]\", \"sizes\": \"d=%d\", \"name\": \"rows\","           \
    "\"args\": [3, 2, 1]}]}"

static double gigabytes_of_memory(void)
{
    return (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30);
}

static void write_table(const char *path, const unsigned char *table)
{
    char text[2048];
    snprintf(text, sizeof text, PLAN, md_version(), n_bytes, (int)ROWS, (int)WIDTH, (int)WIDTH, (int)WIDTH);
    assert_ok(md_package_write(path, text, &(md_package_weight){table, (int64_t)n_bytes}, 1,
                               &(md_context_options){.threads = 2, .cache_dir = ""}));
}

static void check_rows(const char *path)
{
    static const md_context_options plain = {.threads = 2, .cache_dir = "", .cc = "/nonexistent/cc"};
    int64_t ids[3] = {ROWS - 1, 0, ROWS - 2};
    const int64_t n = 3;
    unsigned char y[3][WIDTH], zeros[WIDTH] = {0};
    md_package *p = NULL;
    assert_ok(md_package_open(&p, path, &plain));
    md_tensor in = md_tensor_make(ids, MD_I64, 1, &n), out;
    assert_ok(md_package_outputs(&out, p, &in));
    out.data = y;
    assert_ok(md_package_call(p, NULL, &in, &out));
    for (int d = 0; d < WIDTH; d++)
        assert_int_equal(y[0][d], d + 1);
    assert_memory_equal(y[1], zeros, WIDTH);
    assert_memory_equal(y[2], zeros, WIDTH);
    md_package_close(&p);
}

static void test_a_weight_above_4_gib(void **state)
{
    (void)state;
    char path[] = "/tmp/md_large_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unsigned char *table =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(table != MAP_FAILED);
    for (int d = 0; d < WIDTH; d++)
        table[n_bytes - WIDTH + (size_t)d] = (unsigned char)(d + 1);
    write_table(path, table);
    munmap(table, n_bytes);
    check_rows(path);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_weight_above_4_gib)};
    if (gigabytes_of_memory() < 10) {
        printf("SKIPPED: %.1f GiB of memory are free, 10 are needed\n", gigabytes_of_memory());
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
