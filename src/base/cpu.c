/* Detects the processor: its name, instruction sets, caches and the number of usable CPUs. */
#include "base/cpu.h"

#include "base/cpu_quota.h"
#include "base/env.h"
#include "base/status.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int32_t count_visible(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* works for more than CPU_SETSIZE processors, too */
    return n > 0 ? (int32_t)n : 1;
}

int32_t md_cpu_count(void)
{
    const int32_t quota = md_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"), n = count_visible();
    return quota > 0 && quota < n ? quota : n;
}

/* Reads the first line of a sysfs file. False if there is none. */
static bool read_line(const char *path, char *line, int n)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool is_read = fgets(line, n, file) != NULL;
    fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = 0;
    return is_read;
}

/* Reads a file of cache `index`. False if there is none. */
static bool read_cache(char line[32], const char *folder, int index, const char *file)
{
    char path[256];
    return snprintf(path, sizeof path, "%s/index%d/%s", folder, index, file) < (int)sizeof path &&
           read_line(path, line, 32);
}

void md_cpu_caches(md_cpu *cpu, const char *folder)
{
    for (int index = 0; index < 8; index++) {
        char level[32], type[32], size[32], unit = 0;
        if (!read_cache(level, folder, index, "level"))
            return;
        bool holds_data = read_cache(type, folder, index, "type") && strcmp(type, "Instruction") != 0;
        long amount = 0;
        if (!holds_data || !read_cache(size, folder, index, "size") || sscanf(size, "%ld%c", &amount, &unit) < 1)
            continue;
        int64_t n_bytes = (int64_t)amount * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
        int64_t *const by_level[] = {&cpu->l1_bytes, &cpu->l2_bytes, &cpu->l3_bytes};
        int i = level[0] - '1';
        if (i >= 0 && i < 3 && n_bytes > 0)
            *by_level[i] = n_bytes;
    }
}

static void detect_caches(md_cpu *cpu)
{
    md_cpu_caches(cpu, "/sys/devices/system/cpu/cpu0/cache"); /* sysconf may not know them (musl, aarch64) */
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (cpu->l1_bytes <= 0)
        cpu->l1_bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (cpu->l2_bytes <= 0)
        cpu->l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (cpu->l3_bytes <= 0)
        cpu->l3_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (cpu->l1_bytes <= 0)
        cpu->l1_bytes = 32 * 1024;
    if (cpu->l2_bytes <= 0)
        cpu->l2_bytes = 1024 * 1024;
    if (cpu->l3_bytes <= 0)
        cpu->l3_bytes = 16 * 1024 * 1024;
}

void md_cpu_name(md_cpu *cpu, const char *brand)
{
    const char *text = brand + strspn(brand, " ");
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    snprintf(cpu->name, sizeof cpu->name, "%.*s", n ? (int)n : 6, n ? text : "x86-64");
}

#if defined(__x86_64__)

#include <cpuid.h>

typedef struct cpuid_leaf {
    unsigned eax, ebx, ecx, edx;
} cpuid_leaf;

static cpuid_leaf query(unsigned leaf, unsigned subleaf)
{
    cpuid_leaf r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx))
        r = (cpuid_leaf){0, 0, 0, 0};
    return r;
}

/* The registers that the operating system saves (XCR0). */
static unsigned saved_registers(void)
{
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum { NEEDS_AVX = 0x6, NEEDS_AVX512 = 0xe6 }; /* XCR0: SSE and AVX state; also opmask and both halves of ZMM */

typedef enum cpu_word { LEAF1_ECX, LEAF7_EBX, LEAF7_ECX, LEAF7_EDX, LEAF7_1_EAX, N_WORDS } cpu_word;

typedef struct cpu_feature {
    const char *flag;
    cpu_word word;
    int bit;
    unsigned needs; /* bits of XCR0 */
    md_env_cpu level; /* the least of MD_CPU that allows it */
} cpu_feature;

/* Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E. */
static const cpu_feature features[] = {
    {"-mavx2", LEAF7_EBX, 5, NEEDS_AVX, MD_ENV_AVX2},
    {"-mfma", LEAF1_ECX, 12, NEEDS_AVX, MD_ENV_AVX2},
    {"-mf16c", LEAF1_ECX, 29, NEEDS_AVX, MD_ENV_AVX2},
    {"-mbmi2", LEAF7_EBX, 8, 0, MD_ENV_AVX2},
    {"-mavx512f", LEAF7_EBX, 16, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512bw", LEAF7_EBX, 30, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512dq", LEAF7_EBX, 17, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512vl", LEAF7_EBX, 31, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512vbmi", LEAF7_ECX, 1, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512vnni", LEAF7_ECX, 11, NEEDS_AVX512, MD_ENV_AVX512},
    {"-mavx512bf16", LEAF7_1_EAX, 5, NEEDS_AVX512, MD_ENV_AVX512},
};

static void add_flag(md_cpu *cpu, const char *flag)
{
    size_t used = strlen(cpu->flags);
    snprintf(cpu->flags + used, sizeof cpu->flags - used, "%s%s", used ? " " : "", flag);
}

static void detect_name(md_cpu *cpu)
{
    char brand[49] = "";
    for (unsigned i = 0; i < 3; i++) {
        cpuid_leaf r = query(0x80000002u + i, 0);
        memcpy(brand + 16 * i, &r, sizeof r); /* the text is eax, ebx, ecx, edx in this order */
    }
    md_cpu_name(cpu, brand);
}

static void detect_features(md_cpu *cpu)
{
    cpuid_leaf one = query(1, 0), seven = query(7, 0), seven_1 = query(7, 1);
    const unsigned words[N_WORDS] = {one.ecx, seven.ebx, seven.ecx, seven.edx, seven_1.eax};
    bool has_xgetbv = one.ecx & (1u << 27); /* OSXSAVE */
    unsigned saved = has_xgetbv ? saved_registers() : 0;
    const md_env_cpu widest = md_env_widest();
    for (int32_t i = 0; i < MD_COUNT(features); i++) {
        const cpu_feature *f = &features[i];
        bool is_allowed = widest == 0 || f->level <= widest;
        if (is_allowed && (words[f->word] >> f->bit & 1) && (saved & f->needs) == f->needs)
            add_flag(cpu, f->flag);
    }
    cpu->vector_bytes = strstr(cpu->flags, "-mavx512vl") ? 64 : strstr(cpu->flags, "-mavx2") ? 32 : 16;
    if (cpu->vector_bytes == 64)
        add_flag(cpu, "-mprefer-vector-width=512");
}

#else

static void detect_name(md_cpu *cpu)
{
    snprintf(cpu->name, sizeof cpu->name, "unknown");
}

static void detect_features(md_cpu *cpu)
{
    cpu->vector_bytes = 16; /* every 64-bit processor has it; kernels use the compiler's default target */
}

#endif

bool md_cpu_level(md_cpu *out, const char *level)
{
#define AVX2 "-mavx2 -mfma -mf16c -mbmi2"
    static const struct {
        const char *name, *flags;
        int32_t vector_bytes;
    } levels[] = {{"x86-64", "", 16},
                  {"avx2", AVX2, 32},
                  {"avx512", AVX2 " -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512", 64}};
    for (int32_t i = 0; i < MD_COUNT(levels); i++)
        if (!strcmp(levels[i].name, level)) {
            snprintf(out->flags, sizeof out->flags, "%s", levels[i].flags);
            out->vector_bytes = levels[i].vector_bytes;
            return true;
        }
    return false;
}

void md_cpu_detect(md_cpu *out)
{
    memset(out, 0, sizeof *out);
    out->n_cpus = md_cpu_count();
    detect_name(out);
    detect_features(out);
    detect_caches(out);
}
