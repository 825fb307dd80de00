/* What the tests of the host device share: a folder for temporary files, devices with any compiler, kernels from short
 * texts. */
#ifndef MD_TESTS_DEVICE_HOST_FIXTURE_H
#define MD_TESTS_DEVICE_HOST_FIXTURE_H

#include "support/check.h"

#include "device/open.h"

typedef struct host_fixture {
    md_pool *pool;
    char folder[256]; /* TMPDIR of the test; scripts lie one level up */
    char root[200];
    md_log logger;
    char log[4096];
} host_fixture;

/** A kernel's text: y = 2 * FACTOR * y + p[1]; FACTOR is not defined in it. */
extern const char host_scale_text[];

int host_setup(void **state);
/** Fails the test if files are left in the folder. */
int host_teardown(void **state);
int host_count_left(const char *path);
md_dev *host_open(host_fixture *f, const char *cc, int32_t limit_ms);
/** The path of a compiler that answers --version and then does as the script says. */
const char *host_write_compiler(host_fixture *f, const char *script);
/** The caller finishes s.text. */
md_kn_launch_source host_source(const char *text, const char *entry);
md_status host_compile(void **binary, size_t *n, md_dev *dev, const char *text, const char *entry);
md_dev_kernel *host_make(md_dev *dev, const char *text, const char *entry);
md_dev_kernel *host_make_scale(md_dev *dev, double factor);

#endif
