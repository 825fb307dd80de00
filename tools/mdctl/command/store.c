/* store: what is kept on disk, as lists, as text, checked, made smaller. */
#include "common/cli.h"
#include "tuning/part_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_LIMIT_MB = 1024 };

/* Text in memory: what export writes and import reads. */
typedef struct text {
    char *bytes;
    size_t n, capacity;
} text;

static int add_text(void *user, const char *bytes, size_t n)
{
    text *t = user;
    if (t->capacity - t->n < n) {
        const size_t capacity = 2 * (t->n + n);
        char *more = realloc(t->bytes, capacity);
        if (!more)
            return 1;
        t->bytes = more;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    return 0;
}

/* "-" is stdin. */
static bool read_text(text *out, const char *path)
{
    char part[65536];
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!f)
        return false;
    bool is_good = true;
    for (size_t n; is_good && (n = fread(part, 1, sizeof part, f)) > 0;)
        is_good = add_text(out, part, n) == 0;
    is_good = is_good && !ferror(f);
    if (f != stdin)
        fclose(f);
    return is_good;
}

/* ---- The sub-commands */

static int store_path(const cli_options *o, md_context *context)
{
    const char *path = md_store_path(context);
    if (!path[0])
        return cli_fail("nothing is kept: MD_CACHE_DIR is empty, or there is no home folder");
    if (o->json) {
        printf("{\"path\":");
        cli_json_text(stdout, path);
        puts("}");
    } else {
        puts(path);
    }
    return CLI_OK;
}

static int store_list(const cli_options *o, md_context *context)
{
    return md_store_list(context, o->json, cli_write, stdout) == MD_OK ? CLI_OK : cli_fail_md();
}

static int store_verify(const cli_options *o, md_context *context)
{
    md_store_facts f;
    if (md_store_verify(&f, context, cli_write, o->json ? stderr : stdout) != MD_OK)
        return cli_fail_md();
    if (o->json)
        printf("{\"entries\":%lld,\"bytes\":%lld,\"bad\":%lld}\n", (long long)f.n_entries, (long long)f.n_bytes,
               (long long)f.n_bad);
    else
        printf("%lld entries, %lld bytes; %lld bad ones removed\n", (long long)f.n_entries, (long long)f.n_bytes,
               (long long)f.n_bad);
    return CLI_OK;
}

static int store_gc(const cli_options *o, md_context *context)
{
    md_store_facts f;
    const int64_t limit = (int64_t)(o->limit_mb ? o->limit_mb : DEFAULT_LIMIT_MB) << 20;
    if (md_store_gc(&f, context, limit) != MD_OK)
        return cli_fail_md();
    if (o->json)
        printf("{\"entries\":%lld,\"bytes\":%lld,\"removed\":%lld,\"removed_bytes\":%lld}\n", (long long)f.n_entries,
               (long long)f.n_bytes, (long long)f.n_removed, (long long)f.n_removed_bytes);
    else
        printf("%lld of %lld entries removed, %lld of %lld bytes\n", (long long)f.n_removed, (long long)f.n_entries,
               (long long)f.n_removed_bytes, (long long)f.n_bytes);
    return CLI_OK;
}

static int store_export(const cli_options *o, md_context *context)
{
    FILE *file = o->output ? fopen(o->output, "wb") : NULL;
    if (o->output && !file)
        return cli_fail("cannot write %s", o->output);
    const int status = md_wisdom_export(context, cli_write, file ? file : stdout) == MD_OK ? CLI_OK : cli_fail_md();
    return cli_close_output(file, o->output, status);
}

static int take(const cli_options *o, md_context *context, const char *from, const text *t)
{
    md_wisdom_counts c = {0};
    if (md_wisdom_import(&c, context, t->bytes, t->n, cli_write, stderr) != MD_OK)
        return cli_fail("%s: %s", from, md_last_error());
    if (o->json) {
        printf("{\"from\":");
        cli_json_text(stdout, from);
        printf(",\"lines\":%lld,\"taken\":%lld,\"related\":%lld,\"foreign\":%lld}\n", (long long)c.n_lines,
               (long long)c.n_taken, (long long)c.n_related, (long long)c.n_foreign);
    } else {
        printf("%s: %lld lines, %lld taken, %lld of them as estimates (another driver, compiler or version), %lld of "
               "other devices\n",
               from, (long long)c.n_lines, (long long)c.n_taken, (long long)c.n_related, (long long)c.n_foreign);
    }
    return CLI_OK;
}

/* What a store in another folder knows of this device. */
static int import_folder(const cli_options *o, md_context *context, const char *path)
{
    text t = {0};
    md_context *other = NULL;
    md_context_options options = o->context;
    options.cache_dir = path;
    if (md_context_create(&other, &options) != MD_OK)
        return cli_fail_md();
    const int status = md_wisdom_export(other, add_text, &t) == MD_OK ? take(o, context, path, &t) : cli_fail_md();
    md_context_destroy(&other);
    free(t.bytes);
    return status;
}

/* Files are read before anything is taken: parts of different cuts are named, not half merged. */
typedef struct source {
    const char *path;
    bool is_folder;
    text text;
    part_head part;
} source;

static int read_source(source *out, const char *path)
{
    struct stat facts;
    *out = (source){.path = path};
    out->is_folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    if (out->is_folder)
        return CLI_OK;
    if (!read_text(&out->text, path))
        return cli_fail("cannot read %s", path);
    part_read(&out->part, out->text.bytes, out->text.n);
    return CLI_OK;
}

static int check_parts(const source *list, int n, md_context *context)
{
    const source *first = NULL;
    char device[96];
    int status = part_device(device, context) ? CLI_OK : cli_fail_md();
    for (int i = 0; i < n && status == CLI_OK; i++) {
        first = first ? first : list[i].part.n_parts ? &list[i] : NULL;
        if (first)
            status = part_check(&list[i].part, list[i].path, &first->part, first->path, device);
    }
    return status;
}

/* Says which parts of the cut are not there: their pieces stay as they are. */
static void name_missing(const source *list, int n)
{
    int n_parts = 0;
    for (int i = 0; i < n; i++)
        n_parts = list[i].part.n_parts ? list[i].part.n_parts : n_parts;
    for (int part = 1; part <= n_parts; part++) {
        bool is_there = false;
        for (int i = 0; i < n; i++)
            is_there = is_there || list[i].part.part == part;
        if (!is_there)
            fprintf(stderr, "mdctl: part %d/%d is not among these files\n", part, n_parts);
    }
}

static int take_sources(const cli_options *o, md_context *context, const source *list, int n)
{
    int status = check_parts(list, n, context);
    for (int i = 0; i < n && status == CLI_OK; i++)
        status =
            list[i].is_folder ? import_folder(o, context, list[i].path) : take(o, context, list[i].path, &list[i].text);
    if (status == CLI_OK)
        name_missing(list, n);
    return status;
}

static int store_import(const cli_options *o, md_context *context)
{
    const int n = o->n - 1;
    int n_read = 0, status = CLI_OK;
    source *list = calloc((size_t)n + 1, sizeof *list);
    if (!list)
        return cli_fail("out of memory");
    while (n_read < n && status == CLI_OK) {
        status = read_source(&list[n_read], o->arg[1 + n_read]);
        n_read++;
    }
    if (status == CLI_OK)
        status = take_sources(o, context, list, n);
    for (int i = 0; i < n_read; i++)
        free(list[i].text.bytes);
    free(list);
    return status;
}

static const struct {
    const char *name;
    int (*run)(const cli_options *o, md_context *context);
    bool takes_files;
} commands[] = {
    {"path", store_path, false},   {"list", store_list, false},     {"verify", store_verify, false},
    {"gc", store_gc, false},       {"export", store_export, false}, {"import", store_import, true},
    {"merge", store_import, true},
};

int cli_store(const cli_options *o)
{
    const char *name = o->n ? o->arg[0] : "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name))
            continue;
        if (commands[i].takes_files != (o->n > 1))
            return cli_usage(commands[i].takes_files ? "store %s takes files of wisdom, or folders of stores"
                                                     : "store %s takes no argument",
                             name);
        md_context *context = NULL;
        if (cli_open_context(&context, o) != MD_OK)
            return cli_fail_md();
        const int status = commands[i].run(o, context);
        cli_close_context(&context);
        return status;
    }
    return cli_usage("store '%s': expected path, list, verify, gc, export, import or merge", name);
}
