/* Build step: turns data/ops/catalogue.txt into a C table, so that the library neither parses nor owns anything at run
 * time. Format: "name: one line of description", then indented lines of formula; '#' starts a comment line; blank lines
 * part. Usage: md_catalogue OUT.c catalogue.txt NAME; the table is NAME_table. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 1024 };

typedef struct state {
    FILE *out;
    const char *path;
    int line, n_entries;
    bool in_entry, has_formula;
} state;

static int fail(const state *s, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", s->path, s->line, what);
    return 1;
}

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; ++text) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        ++text;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); --n)
        text[n - 1] = 0;
    return text;
}

static int end_entry(state *s)
{
    if (s->in_entry && !s->has_formula)
        return fail(s, "an entry without a formula");
    if (s->in_entry)
        fprintf(s->out, "\"},\n");
    s->in_entry = false;
    return 0;
}

/* The table's order of fields is name, description, formula: the formula may go on over several lines. */
static int begin_entry(state *s, char *line)
{
    char *const colon = strchr(line, ':');
    if (!colon)
        return fail(s, "expected \"name: description\"");
    if (end_entry(s))
        return 1;
    *colon = 0;
    fprintf(s->out, "    {.name = \"");
    put_escaped(s->out, trim(line));
    fprintf(s->out, "\", .description = \"");
    put_escaped(s->out, trim(colon + 1));
    fprintf(s->out, "\",\n     .formula = \"");
    s->in_entry = true;
    s->has_formula = false;
    ++s->n_entries;
    return 0;
}

static int take_line(state *s, char *line)
{
    const bool is_indented = isspace((unsigned char)line[0]);
    char *const text = trim(line);
    if (!*text || *text == '#')
        return 0;
    if (!is_indented)
        return begin_entry(s, text);
    if (!s->in_entry)
        return fail(s, "a formula without a name");
    fprintf(s->out, "%s", s->has_formula ? " \"\n                \"" : "");
    put_escaped(s->out, text);
    s->has_formula = true;
    return 0;
}

static int convert(state *s, FILE *in, const char *name)
{
    char line[LINE];
    fprintf(s->out,
            "/* Written by tools/catalogue.c. */\n#include \"expr/catalogue.h\"\n\n"
            "const md_catalogue_entry %s_table[] = {\n",
            name);
    while (fgets(line, sizeof line, in)) {
        ++s->line;
        if (!strchr(line, '\n') && !feof(in))
            return fail(s, "the line is too long");
        if (take_line(s, line))
            return 1;
    }
    if (end_entry(s))
        return 1;
    fprintf(s->out, "};\n\nconst int32_t %s_count = %d;\n", name, s->n_entries);
    return s->n_entries ? 0 : fail(s, "no entries");
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: md_catalogue OUT.c catalogue.txt NAME\n");
        return 2;
    }
    FILE *const in = fopen(argv[2], "r"), *const out = fopen(argv[1], "w");
    state s = {.out = out, .path = argv[2]};
    int failed = !in || !out;
    if (failed)
        fprintf(stderr, "md_catalogue: %s: %s\n", in ? argv[1] : argv[2], strerror(errno));
    else
        failed = convert(&s, in, argv[3]);
    if (in)
        fclose(in);
    if (out && fclose(out) != 0)
        failed = 1;
    if (failed)
        remove(argv[1]);
    return failed;
}
