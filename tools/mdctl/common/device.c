/* Reads the device of a context from md_info. */
#include "common/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct found {
    char text[4096];
    size_t n;
} found;

static int keep(void *user, const char *text, size_t n_bytes)
{
    found *f = user;
    size_t room = sizeof f->text - 1 - f->n;
    n_bytes = n_bytes < room ? n_bytes : room;
    memcpy(f->text + f->n, text, n_bytes);
    f->n += n_bytes;
    f->text[f->n] = 0;
    return 0;
}

/* What stands behind a word at the start of a line; "" where there is no such line. */
static const char *line_of(const found *f, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = f->text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (!strncmp(at, word, n) && at[n] == ' ')
            return at + n + strspn(at + n, " ");
    }
    return "";
}

/* The rest of a line. */
static void copy_word(char *out, size_t room, const char *line)
{
    snprintf(out, room, "%.*s", (int)strcspn(line, "\n"), line);
}

cli_device device_of(md_context *context)
{
    cli_device d = {.threads = 1};
    found f = {.n = 0};
    (void)md_info(context, 0, keep, &f);
    copy_word(d.name, sizeof d.name, line_of(&f, "device"));
    copy_word(d.hardware, sizeof d.hardware, line_of(&f, "name"));
    d.is_gpu = !strncmp(d.name, "cuda", 4);
    if (atoi(line_of(&f, "threads")) > 0)
        d.threads = atoi(line_of(&f, "threads"));
    d.cold_bytes = atof(line_of(&f, "cold_bytes"));
    return d;
}
