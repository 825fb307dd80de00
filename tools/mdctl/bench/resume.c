/* What an earlier run of bench wrote, so that a later one goes on where it ended. */
#include "bench/resume.h"
#include "common/cli.h"
#include "common/results.h"

#include <stdlib.h>
#include <string.h>

void bench_key_of_size(char out[BENCH_KEY], md_dtype dtype, int64_t size)
{
    snprintf(out, BENCH_KEY, "sweep %s %lld", md_dtype_name(dtype), (long long)size);
}

void bench_key_of_case(char out[BENCH_KEY], const char *op, md_dtype dtype, const char *sizes)
{
    size_t n = (size_t)snprintf(out, BENCH_KEY, "%.200s %s ", op, md_dtype_name(dtype));
    for (; *sizes && n + 1 < BENCH_KEY; sizes++) /* blanks and commas say nothing */
        if (!strchr(", \t\r\n", *sizes))
            out[n++] = *sizes;
    out[n] = 0;
}

static void take_size(char key[BENCH_KEY], const json_t *j)
{
    bench_key_of_size(key, md_dtype_parse(result_dtype(j)),
                      json_integer_value(json_array_get(json_object_get(j, "shape"), 0)));
}

static void take_case(char key[BENCH_KEY], const json_t *j)
{
    char sizes[BENCH_KEY] = "";
    const char *name;
    json_t *size;
    json_object_foreach(json_object_get(j, "sizes"), name, size) snprintf(
        sizes + strlen(sizes), sizeof sizes - strlen(sizes), "%.32s=%lld ", name, (long long)json_integer_value(size));
    bench_key_of_case(key, result_word(j, "op"), md_dtype_parse(result_dtype(j)), sizes);
}

/* The last column of a size and the last contender of a case are written last. */
static void take_line(bench_done *out, const char *line)
{
    char key[BENCH_KEY] = "";
    json_t *j = json_loads(line, 0, NULL); /* NULL: the run was ended in the middle of a line */
    if (!strcmp(result_word(j, "column"), BENCH_LAST_COLUMN))
        take_size(key, j);
    else if (!strcmp(result_word(j, "peer"), BENCH_LAST_PEER))
        take_case(key, j);
    if (key[0] && out->n < BENCH_MOST_DONE && (out->key[out->n] = strdup(key)) != NULL)
        out->n++;
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

void bench_done_free(bench_done *done)
{
    for (int i = 0; i < done->n; i++)
        free(done->key[i]);
    done->n = 0;
}

bool bench_is_done(const bench_done *done, const char *key)
{
    for (int i = 0; i < done->n; i++)
        if (!strcmp(done->key[i], key))
            return true;
    return false;
}
