/* Long texts beside those of golden files. */
#ifndef MD_TESTS_SUPPORT_GOLDEN_H
#define MD_TESTS_SUPPORT_GOLDEN_H

#include "base/file.h"
#include "base/strbuf.h"
#include "support/check.h"

/** Fails at the first line that differs from the file's. MD_UPDATE_GOLDEN=1 writes the file first. */
static inline void check_golden(const char *path, const md_strbuf *text)
{
    char *before = NULL;
    size_t n = 0;
    assert_false(text->failed);
    if (getenv("MD_UPDATE_GOLDEN"))
        assert_ok(md_file_replace(path, md_strbuf_text(text), text->size));
    assert_ok(md_file_read(&before, &n, path));
    const char *a = md_strbuf_text(text), *b = before;
    for (int32_t line = 1; *a || *b; line++) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0)
            fail_msg("%s:%d:\nwas %.*s\nis  %.*s\nIf that is meant: MD_UPDATE_GOLDEN=1 writes it anew", path, line,
                     (int)nb, b, (int)na, a);
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
    free(before);
}

#endif
