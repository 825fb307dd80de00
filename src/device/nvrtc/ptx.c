/* Reads facts of a kernel from PTX, as cubin.c does from machine code. */
#include "device/nvrtc/nvrtc.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry point whose name holds `kernel`; NULL if there is none. */
static const char *find_entry(char name[160], const char *text, const char *kernel)
{
    static const char word[] = ".entry ";
    for (const char *at = text; (at = strstr(at, word)) != NULL;) {
        at += sizeof word - 1;
        const size_t n = strcspn(at, "( \n");
        snprintf(name, 160, "%.*s", (int)(n < 160 ? n : 159), at);
        if (!kernel || strstr(name, kernel))
            return at + n;
    }
    return NULL;
}

/* The number in the first brackets after a word; 0 if it does not come before `end`. */
static int64_t bracketed(const char *from, const char *word, const char *end)
{
    const char *at = strstr(from, word);
    const char *open = at && at < end ? strchr(at, '[') : NULL;
    return open && open < end ? strtoll(open + 1, NULL, 10) : 0;
}

static int64_t count_shared(const char *text)
{
    int64_t n = 0;
    for (const char *at = text; (at = strstr(at, ".shared .align ")) != NULL; at++) {
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        const size_t indent = strspn(line, " \t");
        if (line + indent == at) /* the word begins a declaration; "extern" ones have no size */
            n += bracketed(at, "[", at + strcspn(at, ";\n"));
    }
    return n;
}

md_status md_dev_ptx_read(md_dev_cubin *out, const void *bytes, size_t n_bytes, const char *kernel)
{
    const char *text = bytes;
    if (n_bytes == 0 || !memchr(text, 0, n_bytes) || !strstr(text, ".target sm_"))
        return md_fail(MD_CORRUPT, "this is neither a cubin nor whole PTX");
    *out = (md_dev_cubin){.capability = (int32_t)strtol(strstr(text, ".target sm_") + 11, NULL, 10)};
    const char *at = find_entry(out->kernel, text, kernel);
    if (!at)
        return md_fail(MD_NOT_FOUND, "the PTX has no kernel '%.100s'", kernel ? kernel : "");
    const char *body = at + strcspn(at, "{"), *end = at + strcspn(at, ")");
    out->param_bytes = (int32_t)bracketed(at, "_param_0[", end);
    const char *most = strstr(at, ".maxntid ");
    out->max_threads = most && most < body ? (int32_t)strtol(most + 9, NULL, 10) : 0;
    out->shared_bytes = count_shared(text);
    return MD_OK;
}
