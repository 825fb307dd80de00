/* Writes the files of MD_DUMP. */
#include "kernel/kernel.h"

#include "base/file.h"
#include "base/status.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct md_dump {
    const md_log *log;
    _Atomic bool has_failed;
    char folder[];
};

static void warn_once(md_dump *d, const char *why)
{
    if (!atomic_exchange(&d->has_failed, true))
        md_log_at(d->log, MD_LOG_ERROR, "MD_DUMP=%s: not all files are written: %s", d->folder, why);
}

md_status md_dump_open(md_dump **out, const char *folder, const md_log *log)
{
    const size_t n = strlen(folder) + 1;
    md_dump *d = calloc(1, sizeof *d + n);
    if (!d)
        return md_fail_memory();
    d->log = log;
    memcpy(d->folder, folder, n);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        warn_once(d, strerror(errno));
    *out = d;
    return MD_OK;
}

void md_dump_close(md_dump **dump)
{
    free(*dump);
    *dump = NULL;
}

static void clean(char *name)
{
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            *c = *c == '/' ? '.' : '_';
    if (name[0] == '.') /* not hidden, and not the folder above */
        name[0] = '_';
}

void md_dump_put(md_dump *dump, const char *name, const char *ending, const void *bytes, size_t n)
{
    char path[4096], beside[4096 + 32], plain[224];
    if (!dump)
        return;
    snprintf(plain, sizeof plain, "%s", name);
    clean(plain);
    if (snprintf(path, sizeof path, "%s/%s%s", dump->folder, plain, ending) >= (int)sizeof path) {
        warn_once(dump, strerror(ENAMETOOLONG));
        return;
    }
    snprintf(beside, sizeof beside, "%s.%d.tmp", path, (int)gettid()); /* no other thread's */
    unlink(beside);
    if (md_file_write(beside, bytes, n) != MD_OK) {
        warn_once(dump, md_last_error());
    } else if (rename(beside, path) != 0) {
        warn_once(dump, strerror(errno));
        unlink(beside);
    }
}
