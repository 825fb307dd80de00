/* Kernels as NVRTC compiles them without a GPU: what each may take of a processor. */
#ifndef MD_TESTS_FAMILY_CUDA_GATE_FIXTURE_H
#define MD_TESTS_FAMILY_CUDA_GATE_FIXTURE_H

#include "device/nvrtc/nvrtc.h"
#include "family/cuda/keep_cubin.h"
#include "family/cuda/target_fixture.h"

#include <stdlib.h>
#include <time.h>

/* Skips the test, loudly, where there is no NVRTC. */
static inline void need_nvrtc(void)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("NO KERNEL IS COMPILED: %s\n", md_last_error());
        skip();
    }
}

static inline double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* A launch as a GPU gets it. */
typedef struct gate_binary {
    void *bytes;
    size_t n;
    md_dev_cubin about;
    double ms; /* of the CPU, to compile it */
} gate_binary;

/* Compiles the launch, which is held to no stack frame, no spills, no lost performance. The caller frees the bytes. */
static inline md_status gate_compile(gate_binary *out, const md_kn_launch_source *launch, const char *arch)
{
    md_strbuf log = {0};
    const char *text = md_strbuf_text(&launch->text);
    const double start = thread_ms();
    *out = (gate_binary){0};
    md_status s = md_dev_nvrtc_compile(&out->bytes, &out->n, &log, text, arch);
    out->ms = thread_ms() - start;
    if (s == MD_OK)
        s = md_dev_nvrtc_check(&out->about, out->bytes, out->n, md_strbuf_text(&log), text, launch->entry);
    md_strbuf_finish(&log);
    return s;
}

/* All launches that are texts. */
static inline md_status gate_compile_all(const md_kn_source *source, const char *arch)
{
    md_status s = MD_OK;
    for (int32_t i = 0; s == MD_OK && i < source->n_launches; i++) {
        gate_binary b;
        if (source->launch[i].code != MD_KN_TEXT)
            continue;
        s = gate_compile(&b, &source->launch[i], arch);
        free(b.bytes);
    }
    return s;
}

/* The compiled launch, which has at most so many registers. Files (keep_cubin) are numbered. */
static inline md_dev_cubin compile_gate(const md_kn_launch_source *launch, const fixture *f, const char *variant,
                                        int32_t registers)
{
    gate_binary b;
    if (gate_compile(&b, launch, f->facts.arch) != MD_OK)
        fail_msg("%s: %s", variant, md_last_error());
    print_message("%s, %s: %d registers\n", f->facts.arch, variant, (int)b.about.registers);
    static int n_kept;
    keep_cubin(variant, n_kept++, b.bytes, b.n);
    assert_int_equal(b.about.frame_bytes, 0);
    assert_true(b.about.registers <= registers);
    free(b.bytes);
    return b.about;
}

#endif
