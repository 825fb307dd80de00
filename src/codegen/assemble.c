/* One text from a template: its includes are replaced by what they name, so that the compiler opens no file of ours. */
#include "base/embed.h"
#include "codegen/codegen.h"

#include <stdio.h>
#include <string.h>

typedef struct assembly {
    md_strbuf *out;
    const char *folder; /* of the device in the embedded tree */
    const char *defines, *expr;
    int32_t depth;
} assembly;

static md_status add_file(assembly *a, const char *name);

/* How a line moves the indentation: closing braces at its start before it, the rest after it. */
static void count_braces(int *before, int *after, const char *line, size_t n)
{
    bool is_start = true;
    *before = *after = 0;
    for (size_t i = 0; i < n; i++) {
        int step = line[i] == '{' ? 1 : line[i] == '}' ? -1 : 0;
        is_start &= step < 0;
        *(is_start ? before : after) += step;
    }
}

/* Generated text is printed flat; a person reads it indented. */
static void add_indented(md_strbuf *out, const char *text)
{
    int depth = 0, before = 0, after = 0;
    while (*text) {
        text += strspn(text, " ");
        size_t n = strcspn(text, "\n");
        count_braces(&before, &after, text, n);
        depth += before;
        if (n > 0 && text[0] != '#')
            md_strbuf_printf(out, "%*s", depth > 0 ? depth * 4 : 0, "");
        md_strbuf_bytes(out, text, n);
        md_strbuf_add(out, "\n");
        depth += after;
        text += n + (text[n] == '\n');
    }
}

/* The name in `#include "name"`, or 0: the line is an ordinary one (system headers too). */
static size_t included(const char **name, const char *line, size_t n)
{
    static const char start[] = "#include \"";
    const char *quote = NULL;
    if (n <= sizeof start || memcmp(line, start, sizeof start - 1) != 0)
        return 0;
    *name = line + sizeof start - 1;
    quote = memchr(*name, '"', n - (sizeof start - 1));
    return quote ? (size_t)(quote - *name) : 0;
}

static md_status add_line(assembly *a, const char *line, size_t n)
{
    const char *name = NULL;
    char path[96];
    size_t length = included(&name, line, n);
    if (length == 0) {
        md_strbuf_bytes(a->out, line, n);
        return MD_OK;
    }
    if (length == strlen("md_config.h") && memcmp(name, "md_config.h", length) == 0) {
        md_strbuf_printf(a->out, "#define MD_CONFIGURED 1\n%s", a->defines);
        return MD_OK;
    }
    if (length == strlen("md_expr.h") && memcmp(name, "md_expr.h", length) == 0) {
        add_indented(a->out, a->expr);
        return MD_OK;
    }
    snprintf(path, sizeof path, "%s/%.*s", a->folder, (int)length, name);
    return add_file(a, path);
}

static md_status add_file(assembly *a, const char *name)
{
    const char *text = md_embed_find(name, NULL);
    if (!text || ++a->depth > 8)
        return md_fail(MD_INTERNAL, "no kernel source named \"%s\"", name);
    while (*text) {
        size_t n = strcspn(text, "\n");
        n += text[n] == '\n';
        MD_TRY(add_line(a, text, n));
        text += n;
    }
    a->depth--;
    return MD_OK;
}

md_status md_cg_assemble(md_strbuf *out, md_dev_kind dialect, const char *template_name, const char *defines,
                         const char *expr)
{
    assembly a = {.out = out, .folder = dialect == MD_DEV_CUDA ? "cuda" : "host", .defines = defines, .expr = expr};
    MD_TRY(add_file(&a, template_name));
    return out->failed ? md_fail_memory() : MD_OK;
}
