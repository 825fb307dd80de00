/* The GPU passes the suite; skipped where there is none. MD_TEST_DEVICE names another, "cuda:1". */
#include "device/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SKIPPED = 77, MAX_THREADS = 32 };

/* Compiling kernels is what takes the time. */
static int count_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

int main(void)
{
    const char *name = getenv("MD_TEST_DEVICE");
    md_context *context = NULL;
    md_context_options o = {.device = name ? name : "cuda"};
    md_status s = md_context_create(&context, &o);
    md_context_destroy(&context);
    if (s == MD_UNSUPPORTED) {
        printf("skipped: %s\n", md_last_error());
        return SKIPPED;
    }
    return suite_run(&(suite_options){.device = o.device, .n_threads = count_threads()});
}
