/* Kernels as NVRTC compiles them without a GPU: what each may take of a processor. */
#ifndef MD_TESTS_FAMILY_CUDA_GATE_FIXTURE_H
#define MD_TESTS_FAMILY_CUDA_GATE_FIXTURE_H

#include "device/nvrtc/nvrtc.h"
#include "family/cuda/target_fixture.h"

#include <stdlib.h>

/* Skips the test, loudly, where there is no NVRTC. */
static inline void need_nvrtc(void)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        print_message("NO KERNEL IS COMPILED: %s\n", md_last_error());
        skip();
    }
}

/* The compiled launch, which spills nothing and has at most so many registers. */
static inline md_dev_cubin compile_gate(const md_kn_launch_source *launch, const fixture *f, const char *variant,
                                        int32_t registers)
{
    md_strbuf log = {0};
    md_dev_cubin cubin;
    void *binary = NULL;
    size_t n = 0;
    const char *text = md_strbuf_text(&launch->text);
    if (md_dev_nvrtc_compile(&binary, &n, &log, text, f->facts.arch) != MD_OK)
        fail_msg("%s: %s\n%.2000s", variant, md_last_error(), md_strbuf_text(&log));
    assert_ok(md_dev_nvrtc_check(&cubin, binary, n, md_strbuf_text(&log), text, launch->entry));
    print_message("%s, %s: %d registers\n", f->facts.arch, variant, (int)cubin.registers);
    assert_int_equal(cubin.frame_bytes, 0);
    assert_true(cubin.registers <= registers);
    free(binary);
    md_strbuf_finish(&log);
    return cubin;
}

#endif
