/* What an earlier run of bench sweep wrote, so that a later one goes on where it ended. */
#include "bench/resume.h"
#include "common/cli.h"

#include <jansson.h>
#include <string.h>

/* The last column of a size is written last. */
static void take_line(bench_done *out, const char *line)
{
    const char *column = NULL, *dtype = NULL;
    json_int_t size = 0;
    json_t *j = json_loads(line, 0, NULL); /* NULL: the run was ended in the middle of a line */
    if (j && json_unpack(j, "{s:s, s:s, s:[I]}", "column", &column, "dtype", &dtype, "shape", &size) == 0 &&
        !strcmp(column, BENCH_LAST_COLUMN) && out->n < BENCH_MOST_DONE)
        out->of[out->n++] = (bench_done_size){md_dtype_parse(dtype), size};
    json_decref(j);
}

FILE *bench_resume(bench_done *out, const char *path)
{
    char line[4096];
    bool ends_line = true;
    FILE *f = fopen(path, "a+");
    out->n = 0;
    if (!f)
        return NULL;
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        ends_line = line[strlen(line) - 1] == '\n';
        take_line(out, line);
    }
    if (fseek(f, 0, SEEK_END) == 0 && !ends_line)
        fputc('\n', f);
    return f;
}

bool bench_is_done(const bench_done *done, md_dtype dtype, int64_t size)
{
    for (int i = 0; i < done->n; i++)
        if (done->of[i].dtype == dtype && done->of[i].size == size)
            return true;
    return false;
}
