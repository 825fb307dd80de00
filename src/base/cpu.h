/* Facts of this CPU, from cpuid and sysfs. Detection is not cached. */
#ifndef MD_BASE_CPU_H
#define MD_BASE_CPU_H
#include <md/md.h>
#include <stdbool.h>
typedef struct md_cpu {
    char name[64];
    char flags
        [256]; /* compiler options "-mavx2 -mfma ..." that processor and system support; "" on other architectures */
    int32_t n_cpus; /* md_cpu_count */
    int32_t vector_bytes; /* 64, 32 or 16 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches; typical sizes if unknown */
} md_cpu;
void md_cpu_detect(md_cpu *out);
/** A level of instructions ("x86-64", "avx2", "avx512") as in md_cpu; false for other names. The rest stays. */
bool md_cpu_level(md_cpu *out, const char *level);
/** Sets the name to what the processor says, without blanks around it; "x86-64" if that is nothing. */
void md_cpu_name(md_cpu *out, const char *brand);
/** Sets the sizes of the data caches that sysfs names in a folder: index0/level, type, size and on. The rest stays. */
void md_cpu_caches(md_cpu *out, const char *folder);
/** Processors that this process may use, by its affinity and by the quotas of its control groups; >= 1. */
int32_t md_cpu_count(void);
#endif
