/* The GPU passes the suite; skipped where there is none. MD_TEST_DEVICE names another, "cuda:1". */
#include "device/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { SKIPPED = 77 };

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
    return suite_run(&(suite_options){.device = o.device});
}
