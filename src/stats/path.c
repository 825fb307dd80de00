/* Names the files of MD_STATS, so that neither processes nor contexts write the same one. */
#include "stats/report.h"

#include "base/status.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool md_ss_path_has_pid(const char *pattern)
{
    for (const char *c = pattern; (c = strchr(c, '%')) != NULL; c += c[1] ? 2 : 1)
        if (c[1] == 'p')
            return true;
    return false;
}

static void expand(md_strbuf *out, const char *pattern)
{
    for (const char *c = pattern; *c; c++) {
        const bool is_pid = c[0] == '%' && c[1] == 'p', is_percent = c[0] == '%' && c[1] == '%';
        if (is_pid)
            md_strbuf_printf(out, "%d", (int)getpid());
        else
            md_strbuf_bytes(out, c, 1);
        c += is_pid || is_percent;
    }
}

static bool may_be_numbered(const char *path)
{
    struct stat facts;
    return strcmp(path, "-") && (stat(path, &facts) != 0 || S_ISREG(facts.st_mode));
}

/* The ending of a file's name, else the end of the path. A number goes before it: the format follows from it. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot > name ? dot : path + strlen(path);
}

md_status md_ss_path(char out[4096], const char *pattern, int32_t number)
{
    md_strbuf text = {0};
    expand(&text, pattern);
    if (text.failed) {
        md_strbuf_finish(&text);
        return md_fail_memory();
    }
    const char *path = md_strbuf_text(&text), *ending = ending_of(path);
    char tag[16] = "";
    if (number > 1 && may_be_numbered(path))
        snprintf(tag, sizeof tag, ".%d", number);
    const int n = snprintf(out, 4096, "%.*s%s%s", (int)(ending - path), path, tag, ending);
    md_strbuf_finish(&text);
    return n < 4096 ? MD_OK : md_fail(MD_IO, "statistics: the path is longer than 4095 bytes");
}
