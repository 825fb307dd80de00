/* Facts of the processor, and the flags that the compiler gets for them. */
#include "support/check.h"

#include "base/cpu.h"
#include "base/cpu_quota.h"
#include "base/file.h"
#include "base/status.h"
#include "base/task/process.h"
#include "base/temp.h"

#include <stdlib.h>
#include <unistd.h>

static void facts_are_plausible(void **state)
{
    (void)state;
    md_cpu cpu;
    md_cpu_detect(&cpu);
    print_message("%s; %d CPUs; caches %lld %lld %lld; %s\n", cpu.name, (int)cpu.n_cpus, (long long)cpu.l1_bytes,
                  (long long)cpu.l2_bytes, (long long)cpu.l3_bytes, cpu.flags);
    assert_true(cpu.name[0] != 0);
    assert_in_range(cpu.n_cpus, 1, (unsigned long)sysconf(_SC_NPROCESSORS_CONF));
    assert_true(cpu.vector_bytes == 16 || cpu.vector_bytes == 32 || cpu.vector_bytes == 64);
    assert_in_range(cpu.l1_bytes, 4 * 1024, 4 * 1024 * 1024);
    assert_in_range(cpu.l2_bytes, cpu.l1_bytes, 1024 * 1024 * 1024);
    assert_true(cpu.l3_bytes >= cpu.l1_bytes);
    assert_int_equal(strstr(cpu.flags, "-mavx512f") != NULL, strstr(cpu.flags, "-mprefer-vector-width") != NULL);
    assert_null(strstr(cpu.flags, "-march"));
}

/* What we say that the processor has, the kernel of the system says too. */
static void flags_agree_with_the_system(void **state)
{
    (void)state;
#if !defined(__x86_64__)
    skip();
#endif
    char *text = NULL, name[160];
    size_t n = 0;
    if (md_file_read(&text, &n, "/proc/cpuinfo") != MD_OK)
        skip();
    const char *const pairs[][2] = {
        {"-mavx2", " avx2"},
        {"-mfma", " fma"},
        {"-mf16c", " f16c"},
        {"-mavx512f", " avx512f"},
        {"-mavx512bw", " avx512bw"},
        {"-mavx512bf16", " avx512_bf16"},
        {"-mavx512vbmi", " avx512vbmi "},
        {"-mavx512vnni", " avx512_vnni"},
    };
    md_cpu cpu;
    md_cpu_detect(&cpu);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strstr(cpu.flags, pairs[i][0]))
            assert_non_null(strstr(text, pairs[i][1]));
        else if (!getenv("MD_CPU") && strstr(text, " avx2"))
            assert_null(strstr(text, pairs[i][1]));
    }
    snprintf(name, sizeof name, ": %s\n", cpu.name);
    assert_true(strstr(text, name) || !strstr(text, "model name"));
    free(text);
}

static void names_have_no_blanks_around(void **state)
{
    (void)state;
    static const char *const row[][2] = {{"CPU", "CPU"}, {"  A B  ", "A B"}, {"A ", "A"},           {" A", "A"},
                                         {"", "x86-64"}, {"    ", "x86-64"}, {"Seven!!", "Seven!!"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_cpu cpu = {.name = "before"};
        md_cpu_name(&cpu, row[i][0]);
        assert_string_equal(cpu.name, row[i][1]);
    }
}

static void levels_are_of_a_width(void **state)
{
    (void)state;
    static const struct {
        const char *name, *has, *lacks;
        int32_t bytes;
    } row[] = {{"x86-64", "", "-m", 16}, {"avx2", "-mavx2", "-mavx512", 32}, {"avx512", "-mavx512vl", "-march", 64}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_cpu cpu = {.n_cpus = 7};
        assert_true(md_cpu_level(&cpu, row[i].name));
        assert_int_equal(cpu.vector_bytes, row[i].bytes);
        assert_non_null(strstr(cpu.flags, row[i].has));
        assert_null(strstr(cpu.flags, row[i].lacks));
        assert_int_equal(cpu.n_cpus, 7);
    }
    md_cpu cpu = {.vector_bytes = 1};
    assert_false(md_cpu_level(&cpu, "avx3"));
    assert_int_equal(cpu.vector_bytes, 1);
}

/* Files of caches as sysfs has them: C index level type size makes them. 7 stands for a size that stays. */
static void caches_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *files;
        int64_t bytes[3];
    } row[] = {
        {":", {7, 7, 7}},
        {"C 0 1 Data 48K; C 1 1 Instruction 32K; C 2 2 Unified 2M; C 3 3 Unified 33M", {48 << 10, 2 << 20, 33 << 20}},
        {"C 0 1 Instruction 32K; C 1 1 Data 16K", {16 << 10, 7, 7}},
        {"C 0 1 Data 48K; C 2 2 Unified 2M", {48 << 10, 7, 7}}, /* the list ends at a gap */
        {"C 0 1 Data 65536; C 1 2 Data 0K; C 2 4 Unified 9M; C 3 0 Unified 9M", {65536, 7, 7}},
        {"C 0 1 Data nothing; C 1 2 Data -3K; C 2 3 Data 1M", {7, 7, 1 << 20}},
        {"C 0 1 Data 1K; rm index0/type; C 1 2 Data 2K; rm index1/size; C 2 3 Data 3K", {7, 7, 3 << 10}},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_temp folder;
        md_cpu cpu = {.l1_bytes = 7, .l2_bytes = 7, .l3_bytes = 7};
        char command[2 * sizeof folder.path];
        assert_ok(md_temp_make(&folder, NULL));
        snprintf(
            command, sizeof command,
            "cd '%s'\nC() { mkdir index$1; echo $2 >index$1/level; echo $3 >index$1/type; echo $4 >index$1/size; }\n%s",
            folder.path, row[i].files);
        assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
        md_cpu_caches(&cpu, folder.path);
        const int64_t got[] = {cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes};
        for (int k = 0; k < 3; k++)
            if (got[k] != row[i].bytes[k])
                fail_msg("row %zu, cache %d: %lld", i, k + 1, (long long)got[k]);
        snprintf(command, sizeof command, "rm -rf '%s'/*", folder.path);
        assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
        md_temp_remove(&folder);
    }
}

/* Limits of containers, by both versions of control groups. Files of groups: a shell's words, where S folder quota
 * period is one of version 2 and F one of version 1. */
static const struct {
    const char *list, *files;
    int32_t n;
} quota[] = {
    {"0::/\\n", ":", 0},
    {"0::/\\n", "S . max 100000", 0},
    {"0::/\\n", "S . 200000 100000", 2},
    {"0::/\\n", "S . 150000 100000", 2}, /* rounded up */
    {"0::/\\n", "S . 1000 100000", 1},
    {"0::/\\n", "S . 6400000 100000", 64},
    {"0::/a/b\\n", "S a/b max 100000; S a 300000 100000; S . max 100000", 3}, /* of a group around it */
    {"0::/a/b\\n", "S a/b 400000 100000; S a 300000 100000", 3}, /* the least */
    {"0::/a/b\\n", "S a/b 200000 100000; S a 300000 100000", 2},
    {"0::/docker/77\\n", "S . 200000 100000", 2}, /* the machine's path, and the container's files */
    {"0::/a\\n", "S unified/a 500000 100000", 5},
    {"0::/a\\n", "S a 2147483646 1", INT32_MAX - 1},
    {"0::/a\\n", "S a 2147483647 1", 0}, /* more than any machine has */
    {"0::/a\\n", "S a 1 1", 1},
    {"0::/a\\n", "S a nonsense", 0},
    {"0::/a\\n", "S a 0 100000", 0},
    {"0::/a\\n", "S a 100000 0", 0},
    {"4:cpu:/a\\n0::/\\n", "F cpu/a 200000 100000", 2},
    {"4:cpu:/a\\n0::/\\n", "F cpu/a -1 100000", 0},
    {"4:memory:/a\\n3:cpu,cpuacct:/b\\n", "F cpu,cpuacct/b 200000 50000", 4},
    {"3:cpuacct,cpu:/b\\n", "F cpuacct,cpu 700000 100000", 7},
    {"3:cpuset:/b\\n", "F cpu/b 200000 50000", 0}, /* another controller */
    {"3:cpu:/b\\n0::/c\\n", "S c 300000 100000; F cpu/b 200000 50000", 3},
    {"", "S . 200000 100000", 0},
    {"nonsense\\n3:cpu\\n", "S . 200000 100000", 0},
};

static void quotas_of_groups_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof quota / sizeof *quota; i++) {
        md_temp folder;
        char command[3 * sizeof folder.path], list[sizeof folder.path + 8];
        assert_ok(md_temp_make(&folder, NULL));
        snprintf(command, sizeof command,
                 "cd '%s' && printf '%s' >list\n"
                 "S() { mkdir -p $1 && echo $2 $3 >$1/cpu.max; }\n"
                 "F() { mkdir -p $1 && echo $2 >$1/cpu.cfs_quota_us && echo $3 >$1/cpu.cfs_period_us; }\n%s",
                 folder.path, quota[i].list, quota[i].files);
        assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
        snprintf(list, sizeof list, "%s/list", folder.path);
        const int32_t n = md_cpu_quota(list, folder.path);
        if (n != quota[i].n)
            fail_msg("row %zu: %d", i, (int)n);
        assert_int_equal(md_cpu_quota("/no/such", folder.path), 0);
        snprintf(command, sizeof command, "rm -r '%s'/*", folder.path);
        assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
        md_temp_remove(&folder);
    }
    assert_in_range(md_cpu_count(), 1, 1 << 20);
}

/* MD_CPU leaves out what is wider, and asks for nothing that the processor lacks. */
static void the_environment_limits_the_width(void **state)
{
    (void)state;
    static const struct {
        const char *limit, *without;
        int32_t most;
    } rows[] = {{"x86-64", "-m", 16}, {"avx2", "-mavx512", 32}, {"avx512", "-mno", 64}, {"avx3", "-mno", 64}};
    md_cpu all, cpu;
    const char *given = getenv("MD_CPU");
    char *own = given ? strdup(given) : NULL;
    unsetenv("MD_CPU");
    md_cpu_detect(&all);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("MD_CPU", rows[i].limit, 1);
        md_cpu_detect(&cpu);
        assert_null(strstr(cpu.flags, rows[i].without));
        assert_int_equal(cpu.vector_bytes, MD_MIN(rows[i].most, all.vector_bytes));
        assert_true(strlen(cpu.flags) <= strlen(all.flags));
    }
    assert_string_equal(cpu.flags, all.flags); /* a wrong word: contexts refuse it */
    if (own)
        setenv("MD_CPU", own, 1);
    else
        unsetenv("MD_CPU");
    free(own);
}

/* The compiler takes the flags, and code made with them runs here. */
static void compiler_takes_the_flags(void **state)
{
    (void)state;
    md_temp folder;
    char source[4200], program[4200], command[16384];
    md_cpu cpu;
    md_cpu_detect(&cpu);
    assert_ok(md_temp_make(&folder, NULL));
    snprintf(source, sizeof source, "%s/a.c", folder.path);
    snprintf(program, sizeof program, "%s/a", folder.path);
    const char text[] =
        "float x[64] = {1}; int main(void) { float s = 0; for (int i = 0; i < 64; i++) s += x[i] * x[i]; "
        "return s != 1; }\n";
    assert_ok(md_file_write(source, text, strlen(text)));
    snprintf(command, sizeof command, "cc -O3 -ffast-math %s -o '%s' '%s' && '%s'", cpu.flags, program, source,
             program);
    int32_t code = -1;
    char *output = NULL;
    assert_ok(md_process_run(&code, &output, (const char *const[]){"sh", "-c", command, NULL}, 60000, NULL, NULL));
    if (code != 0)
        fail_msg("%s: %s", command, output);
    free(output);
    md_temp_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_plausible),      cmocka_unit_test(flags_agree_with_the_system),
        cmocka_unit_test(quotas_of_groups_count),   cmocka_unit_test(the_environment_limits_the_width),
        cmocka_unit_test(compiler_takes_the_flags), cmocka_unit_test(names_have_no_blanks_around),
        cmocka_unit_test(levels_are_of_a_width),    cmocka_unit_test(caches_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
