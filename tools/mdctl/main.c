/* mdctl: multidispatch from the command line. */
#include "common/cli.h"

#include <md/list.h>
#include <string.h>

typedef struct command {
    const char *name;
    unsigned bit;
    cli_command run;
    const char *arguments;
    const char *meaning;
} command;

static const command commands[] = {
    {"demo", CLI_DEMO, cli_demo, "",
     "run a transformer block under changing batch sizes; say which variant serves what, and what that brings"},
    {"run", CLI_RUN, cli_run, "FORMULA|OP --sizes LIST", "make data, run, check against the reference, print"},
    {"check", CLI_CHECK, cli_check, "FORMULA|OP",
     "say what a formula becomes, before anything is compiled: sizes, stages, families, what is slow, what is checked"},
    {"explain", CLI_EXPLAIN, cli_explain, "FORMULA|OP --sizes LIST",
     "list all candidates at a shape, and say why one is picked"},
    {"choices", CLI_CHOICES, cli_choices, "FORMULA|OP --sizes LIST [FILE]",
     "print which variants serve these sizes, as text for other processes; with a file of such text, import it first"},
    {"source", CLI_SOURCE, cli_source, "FORMULA|OP [--variant NAME]",
     "print the generated source of a variant; without a name, list the variants"},
    {"combo", CLI_COMBO, cli_combo, "FORMULA|OP --sizes \"LIST; LIST; ...\"",
     "run a list of items as one launch; say what was merged and why, and what that brings"},
    {"bench", CLI_BENCH, cli_bench,
     "[BOARD... | FORMULA|OP --sizes LIST | table | sweep | --board quick | --compare OLD NEW]",
     "time kernels; print one JSON object a line"},
    {"hints", CLI_HINTS, cli_hints, "suggest STATS.json",
     "suggest hints that suit the shapes that a program met (MD_STATS)"},
    {"regret", CLI_REGRET, cli_regret, "BOARD...",
     "say how much slower than the best variant the automatic picks are, over many shapes"},
    {"tune", CLI_TUNE, cli_tune, "FORMULA|OP --hints LIST | --from-stats F",
     "search the fastest configs by building and timing them, and keep them"},
    {"store", CLI_STORE, cli_store, "path|list|verify|gc|export|import F...|merge F...",
     "list, check, limit, export or import kernels and tuned results on disk"},
    {"bundle", CLI_BUNDLE, cli_bundle, "FORMULA|OP... | --from-stats F, --output FILE",
     "compile all kernels of the ops ahead of time into one file, for programs without a compiler (MD_BUNDLE)"},
    {"report", CLI_REPORT, cli_report, "RESULTS... [-o report.html]",
     "make a page with tables and plots from recorded results, or from a program's MD_STATS=FILE.json"},
    {"ops", CLI_OPS, cli_ops, "[NAME]", "list the named ops"},
    {"info", CLI_INFO, cli_info, "", "describe the build, the device, the compiler and the environment variables"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int help(FILE *file)
{
    fprintf(file, "mdctl %s: one tensor operation, many kernels, the right one for every shape\n\n", md_version());
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  mdctl %-8s %-38s %s\n", commands[i].name, commands[i].arguments, commands[i].meaning);
    fprintf(file, "\noptions\n");
    cli_print_options(file, CLI_ALL, "");
    fprintf(
        file,
        "\nexamples\n"
        "  mdctl run softmax --sizes \"i=4, j=1000\"\n"
        "  mdctl explain \"Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + c[n])\" --static \"n=1024, k=512\" --sizes b=33\n"
        "  mdctl bench data/boards/rows.txt\n"
        "\nexit status: 0 success, 1 failure, 2 a wrong command line, 130 interrupted\n");
    return CLI_OK;
}

static void print_row(const char *first, const char *name, const char *values_key, const char *values,
                      const char *meaning)
{
    printf("%s{\"name\": ", first);
    cli_json_text(stdout, name);
    printf(", \"%s\": ", values_key);
    cli_json_text(stdout, values);
    printf(", \"meaning\": ");
    cli_json_text(stdout, meaning);
    printf("}");
}

/* Commands, options, variables and named ops as one JSON object: what the man pages are made from. */
static int help_json(void)
{
    const char *name, *values, *meaning;
    printf("{\"commands\": [");
    for (int i = 0; i < N_COMMANDS; i++)
        print_row(i ? ", " : "", commands[i].name, "arguments", commands[i].arguments, commands[i].meaning);
    printf("], \"options\": [");
    for (int i = 0; cli_option(i, &name, &values, &meaning); i++)
        print_row(i ? ", " : "", name, "value", values, meaning);
    printf("], \"variables\": [");
    for (int32_t i = 0; md_variables(i, &name, &values, &meaning), name; i++)
        print_row(i ? ", " : "", name, "values", values, meaning);
    printf("], \"ops\": [");
    for (int32_t i = 0; md_catalogue(i, &name, &values, &meaning), name; i++)
        print_row(i ? ", " : "", name, "formula", values, meaning);
    for (int32_t i = 0; md_list_catalogue(i, &name, &values, &meaning), name; i++)
        print_row(", ", name, "formula", values, meaning);
    puts("]}");
    return CLI_OK;
}

static const command *find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int help_of(const command *c)
{
    printf("usage: mdctl %s %s [options]\n%s\n\noptions\n", c->name, c->arguments, c->meaning);
    cli_print_options(stdout, c->bit, c->name);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    cli_options options;
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return argc > 2 && !strcmp(argv[2], "--json") ? help_json() : help(stdout);
    if (!strcmp(argv[1], "--version"))
        return printf("mdctl %s\n", md_version()) < 0;
    const command *c = find(argv[1]);
    if (!c)
        return cli_usage("there is no command '%s'; see mdctl --help", argv[1]);
    if (!cli_parse(&options, c->bit, argc - 1, argv + 1))
        return CLI_USAGE;
    return options.help ? help_of(c) : c->run(&options);
}

int main(int argc, char **argv)
{
    cli_watch_interrupts();
    cli_progress(NULL); /* its first second begins here */
    int status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK)
        status = cli_fail("the output could not be written");
    return status == CLI_OK && cli_has_failed() ? CLI_FAILED : status; /* the log has said why */
}
