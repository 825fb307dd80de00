/* The options of all commands: one table for parsing, for help and for the man page. */
#include "common/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct word {
    const char *name;
    int value;
} word;

static const word select_words[] = {{"distance", MD_SELECT_DISTANCE},
                                    {"model", MD_SELECT_MODEL},
                                    {"measure", MD_SELECT_MEASURE},
                                    {"hybrid", MD_SELECT_HYBRID},
                                    {NULL, 0}};
static const word metric_words[] = {{"log2", MD_METRIC_LOG2}, {"inductor", MD_METRIC_INDUCTOR}, {NULL, 0}};
static const word persistent_words[] = {
    {"auto", MD_PERSISTENT_AUTO}, {"only", MD_PERSISTENT_ONLY}, {"never", MD_PERSISTENT_NEVER}, {NULL, 0}};
static const word numeric_words[] = {{"fast", MD_NUMERIC_FAST},
                                     {"deterministic", MD_NUMERIC_DETERMINISTIC},
                                     {"batch_invariant", MD_NUMERIC_BATCH_INVARIANT},
                                     {NULL, 0}};
static const word rigor_words[] = {{"measure", MD_TUNE_MEASURE}, {"exhaustive", MD_TUNE_EXHAUSTIVE}, {NULL, 0}};
static const word strategy_words[] = {{"guess", MD_TUNE_GUESS}, {"descent", MD_TUNE_DESCENT}, {NULL, 0}};
static const word bounds_words[] = {
    {"report", MD_BOUNDS_REPORT}, {"clamp", MD_BOUNDS_CLAMP}, {"zero", MD_BOUNDS_ZERO}, {NULL, 0}};

typedef enum option_kind { FLAG, FLAG32, TEXT, INT32, UINT64, REAL, WORD, DTYPE, PART } option_kind;

/* Which commands take an option. */
enum {
    ALL = CLI_ALL,
    OPS = CLI_DEMO | CLI_RUN | CLI_CHECK | CLI_EXPLAIN | CLI_CHOICES | CLI_SOURCE | CLI_BENCH | CLI_REGRET | CLI_TUNE |
          CLI_HINTS | CLI_BUNDLE | CLI_COMBO,
    FORMULAS = CLI_RUN | CLI_CHECK | CLI_EXPLAIN | CLI_CHOICES | CLI_SOURCE | CLI_BENCH | CLI_TUNE | CLI_HINTS |
               CLI_BUNDLE | CLI_COMBO,
    DEVICES = OPS | CLI_STORE | CLI_INFO
};

typedef struct option_row {
    const char *name;
    const char *value; /* NULL: a flag */
    const char *meaning; /* begins with the commands that take it and a colon, unless most do */
    unsigned commands;
    option_kind kind;
    size_t at; /* of the field in cli_options */
    int64_t low, high; /* of numbers */
    const word *words; /* of WORD */
} option_row;

#define AT(field) offsetof(cli_options, field)
enum { DAY_MS = 86400000, MANY = 100000, MOST_THREADS = 1024 /* as MD_THREADS */ };

static const option_row row[] = {
    {"sizes", "LIST", "sizes at the call: \"b=8, n=64\"",
     CLI_RUN | CLI_EXPLAIN | CLI_CHOICES | CLI_BENCH | CLI_TUNE | CLI_COMBO, TEXT, AT(sizes), 0, 0, NULL},
    {"static", "LIST", "sizes that are fixed when the op is made, and ranges: \"k=4096, b=1..8192\"", FORMULAS, TEXT,
     AT(op.sizes), 0, 0, NULL},
    {"dtype", "TYPE", "type of data tensors: f32 (default), f64, f16, bf16, f8e4m3 or f8e5m2", FORMULAS | CLI_DEMO,
     DTYPE, AT(op.dtype), 0, 0, NULL},
    {"hints", "LIST", "sizes to generate kernels at: \"64,256\", \"b=1,64 n=256\" or \"(b=1,n=64) (b=8,n=64)\"", OPS,
     TEXT, AT(op.hints), 0, 0, NULL},
    {"select", "MODE", "how to pick: distance, model, measure or hybrid", OPS, WORD, AT(op.select), 0, 0, select_words},
    {"metric", "METRIC", "distance to hints: log2 or inductor", OPS, WORD, AT(op.metric), 0, 0, metric_words},
    {"weights", "LIST", "weights of sizes in the distance: \"b=1, n=0.5\"", OPS, TEXT, AT(op.weights), 0, 0, NULL},
    {"persistent", "WHEN", "whether reductions keep their row on chip: auto, only or never", OPS, WORD,
     AT(op.persistent), 0, 0, persistent_words},
    {"numeric", "POLICY", "which bits are allowed: fast, deterministic or batch_invariant", OPS, WORD, AT(op.numeric),
     0, 0, numeric_words},
    {"tf32", NULL, "GPU products of f32 may round their operands to tf32", OPS, FLAG32, AT(op.tf32), 0, 0, NULL},
    {"constant", "NAMES", "inputs that do not change, as weights: kernels may pack them once", OPS, TEXT,
     AT(op.constant), 0, 0, NULL},
    {"pin", "VARIANT", "use this variant; \"stage:variant;...\" where there are several stages", OPS, TEXT, AT(op.pin),
     0, 0, NULL},
    {"no-library", NULL, "do not use CBLAS or cuBLASLt", OPS, FLAG32, AT(op.without_library), 0, 0, NULL},
    {"bounds", "WHAT", "what an index out of range does: report, clamp or zero", FORMULAS, WORD, AT(op.bounds), 0, 0,
     bounds_words},
    {"variant", "NAME", "source: the variant to print", CLI_SOURCE, TEXT, AT(variant), 0, 0, NULL},
    {"stage", "N", "source: the stage (default 0)", CLI_SOURCE, INT32, AT(stage), 0, MANY, NULL},
    {"trace", "FILE", "demo: batch sizes, one a line, perhaps with counts; or an Azure LLM inference trace", CLI_DEMO,
     TEXT, AT(trace), 0, 0, NULL},
    {"output", "FILE",
     "bench, demo, regret, tune: also write the JSON lines to this file; store export, bundle, report: write to this "
     "file",
     CLI_BENCH | CLI_DEMO | CLI_REGRET | CLI_TUNE | CLI_STORE | CLI_BUNDLE | CLI_REPORT, TEXT, AT(output), 0, 0, NULL},
    {"modes", "LIST",
     "regret: some of distance,model,measure,hybrid,idle (the model with MD_IDLE_TUNE),default (what an op does "
     "that was told nothing),hinted; default all",
     CLI_REGRET, TEXT, AT(modes), 0, 0, NULL},
    {"board", "NAME", "bench: a board that is built in: quick", CLI_BENCH, TEXT, AT(board), 0, 0, NULL},
    {"compare", NULL,
     "bench: of two files of --output, the old one first, what became slower or faster; status 1 if something is "
     "slower "
     "beyond the noise",
     CLI_BENCH, FLAG, AT(compares), 0, 0, NULL},
    {"step", "N", "bench sweep: sizes and hints N, 2N .. (default 64)", CLI_BENCH, INT32, AT(step), 1, MANY, NULL},
    {"last", "N", "bench sweep: the largest size and hint (default 4096)", CLI_BENCH, INT32, AT(last), 1, MANY, NULL},
    {"part", "K/N",
     "regret, bench: every N-th shape, size or line of a board, from the K-th; tune: part K of the work, cut into N "
     "of equal predicted time",
     CLI_REGRET | CLI_BENCH | CLI_TUNE, PART, 0, 0, 0, NULL},
    {"plan", NULL, "tune: print the pieces of the work and their predicted time, with --part those of the part",
     CLI_TUNE, FLAG, AT(plans), 0, 0, NULL},
    {"wisdom", "FILE", "tune: work in pieces, and write what is found to this file, for mdctl store merge", CLI_TUNE,
     TEXT, AT(wisdom), 0, 0, NULL},
    {"space", "N",
     "regret: at the first N shapes also build and time all configs of the families, each within --budget "
     "(default 30000 ms)",
     CLI_REGRET, INT32, AT(space), 1, MANY, NULL},
    {"rivals", NULL, "regret: also print every variant's time at every shape, measured and by the model", CLI_REGRET,
     FLAG, AT(rivals), 0, 0, NULL},
    {"repeat", "N", "bench, regret: repetitions (default 15 and 6)", CLI_BENCH | CLI_REGRET, INT32, AT(repeat), 1, MANY,
     NULL},
    {"op", "NAME", "hints: for this op only", CLI_HINTS, TEXT, AT(op.name), 0, 0, NULL},
    {"count", "N", "hints: at most this many (default 6); combo: each list so often (default 1)", CLI_HINTS | CLI_COMBO,
     INT32, AT(count), 1, MANY, NULL},
    {"tune", NULL,
     "combo: first tune its kernels together and print each step; --budget is the time, --builds the steps at most",
     CLI_COMBO, FLAG, AT(tunes), 0, 0, NULL},
    {"field-order", "TEXT", "combo --tune: fields to try first, like \"X1 Y1 threads\"", CLI_COMBO, TEXT,
     AT(field_order), 0, 0, NULL},
    {"field-limits", "TEXT", "combo --tune: the most that fields may be, like \"X0=64 Y=32\"", CLI_COMBO, TEXT,
     AT(field_limits), 0, 0, NULL},
    {"by-calls", NULL, "hints: weigh shapes by calls, not by time", CLI_HINTS, FLAG, AT(by_calls), 0, 0, NULL},
    {"rigor", "WHAT", "tune: measure (default) or exhaustive", CLI_TUNE, WORD, AT(rigor), 0, 0, rigor_words},
    {"strategy", "NAME",
     "tune: which configs are tried: guess (default), the model's best guesses, corrected by what was measured, and "
     "their neighbours; descent, coordinate descent from the model's best",
     CLI_TUNE, WORD, AT(strategy), 0, 0, strategy_words},
    {"resume", NULL, "bench: go on with the file of --output, and leave out the sizes, or the lines of boards, it has",
     CLI_BENCH, FLAG, AT(resume), 0, 0, NULL},
    {"budget", "MS",
     "tune, regret: time it may take; default of tune MD_TUNE_BUDGET_MS, else 1500; bench: begin no size or line "
     "after it; combo --tune: begin no step after it (default 10000)",
     CLI_TUNE | CLI_REGRET | CLI_BENCH | CLI_COMBO, REAL, AT(budget), 1, DAY_MS, NULL},
    {"builds", "N", "tune: configs built for a point (default 12); combo --tune: steps at most", CLI_TUNE | CLI_COMBO,
     INT32, AT(builds), 1, MANY, NULL},
    {"plot", "FILE", "tune: a picture of the search, as PNG, by gnuplot", CLI_TUNE, TEXT, AT(plot), 0, 0, NULL},
    {"from-stats", "FILE",
     "tune: the ops and shapes of a service's MD_STATS=FILE.json; bundle: what serves them, and what covers the rest",
     CLI_TUNE | CLI_BUNDLE, TEXT, AT(from_stats), 0, 0, NULL},
    {"arch", "LIST",
     "bundle: for which hardware, separated by commas: sm_80, sm_90a, sm_100a, ptx (other GPUs), x86-64, avx2, avx512, "
     "host; no GPU is needed (default: the device)",
     CLI_BUNDLE, TEXT, AT(arch), 0, 0, NULL},
    {"c-source", NULL, "bundle: write a C file with the bytes, for md_context_options.bundle_bytes", CLI_BUNDLE, FLAG,
     AT(c_source), 0, 0, NULL},
    {"indices", "FILE", "tune: values of index tensors; default random", CLI_TUNE, TEXT, AT(indices), 0, 0, NULL},
    {"exclude", "LIST", "tune: variants to leave out because they do not end, separated by ';'", CLI_TUNE, TEXT,
     AT(exclude), 0, 0, NULL},
    {"patience", "MS", "tune: end a first run that takes longer, and never use its variant (default 10000)", CLI_TUNE,
     INT32, AT(patience), 1, DAY_MS, NULL},
    {"worker", NULL, "tune: work in this process, without a helper process", CLI_TUNE, FLAG, AT(worker), 0, 0, NULL},
    {"all-directions", NULL, "tune: also try neighbours that differ in two parameters", CLI_TUNE, FLAG,
     AT(all_directions), 0, 0, NULL},
    {"off-hints", NULL,
     "tune: on GPUs spend half of the time on odd row lengths and, without --hints, on lopsided shapes", CLI_TUNE, FLAG,
     AT(off_hints), 0, 0, NULL},
    {"limit", "MB", "store gc: size to keep (default 1024)", CLI_STORE, INT32, AT(limit_mb), 1, MANY, NULL},
    {"seed", "N", "seed of random data (default 1)", CLI_RUN | CLI_BENCH | CLI_DEMO | CLI_TUNE, UINT64, AT(seed), 0,
     INT64_MAX, NULL},
    {"quick", NULL, "bench, demo: less work, noisier figures", CLI_BENCH | CLI_DEMO, FLAG, AT(quick), 0, 0, NULL},
    {"device", "NAME", "where to run: auto, host, cuda or cuda:N", DEVICES, TEXT, AT(context.device), 0, 0, NULL},
    {"threads", "N", "threads of the host device, 1 to 1024", DEVICES, INT32, AT(context.threads), 1, MOST_THREADS,
     NULL},
    {"cc", "PROGRAM", "C compiler of the host device", DEVICES, TEXT, AT(context.cc), 0, 0, NULL},
    {"json", NULL, "print JSON", ALL & ~CLI_REPORT, FLAG, AT(json), 0, 0, NULL},
    {"help", NULL, "print this text", ALL, FLAG, AT(help), 0, 0, NULL},
};
enum { N_ROWS = sizeof row / sizeof *row };

/* ---- Help */

/* The meaning without its leading "command: ", if that is the command of this help. */
static const char *meaning_for(const option_row *r, const char *command)
{
    const size_t n = strlen(command);
    const bool is_own = n && !strncmp(r->meaning, command, n) && !strncmp(r->meaning + n, ": ", 2);
    return is_own ? r->meaning + n + 2 : r->meaning;
}

void cli_print_options(FILE *file, unsigned command, const char *name)
{
    for (int i = 0; i < N_ROWS; i++)
        if (row[i].commands & command)
            fprintf(file, "  --%-14s %-8s %s\n", row[i].name, row[i].value ? row[i].value : "",
                    meaning_for(&row[i], name));
}

bool cli_option(int i, const char **name, const char **value, const char **meaning)
{
    if (i >= N_ROWS)
        return false;
    *name = row[i].name;
    *value = row[i].value ? row[i].value : "";
    *meaning = row[i].meaning;
    return true;
}

/* ---- Parsing */

static bool parse_word(int *out, const option_row *r, const char *value)
{
    char allowed[128] = "";
    for (const word *w = r->words; w->name; w++) {
        if (!strcmp(w->name, value)) {
            *out = w->value;
            return true;
        }
        size_t n = strlen(allowed);
        snprintf(allowed + n, sizeof allowed - n, "%s%s", n ? ", " : "", w->name);
    }
    cli_usage("--%s '%s': expected one of %s", r->name, value, allowed);
    return false;
}

static bool parse_number(int64_t *out, const option_row *r, const char *value)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (errno || end == value || *end || v < r->low || v > r->high) {
        cli_usage("--%s '%s': expected a number in %lld..%lld", r->name, value, (long long)r->low, (long long)r->high);
        return false;
    }
    *out = v;
    return true;
}

static bool parse_dtype(md_dtype *out, const char *value)
{
    *out = md_dtype_parse(value);
    if (*out == MD_DTYPE_DEFAULT)
        cli_usage("--dtype '%s': expected f32, f64, f16, bf16, f8e4m3 or f8e5m2", value);
    return *out != MD_DTYPE_DEFAULT;
}

static bool parse_part(cli_options *o, const char *value)
{
    int end = 0;
    if (sscanf(value, "%d/%d%n", &o->part, &o->n_parts, &end) == 2 && !value[end] && o->part >= 1 &&
        o->part <= o->n_parts && o->n_parts <= MANY) {
        o->has_part = true;
        return true;
    }
    cli_usage("--part '%s': expected K/N with K from 1 to N, N at most %d", value, MANY);
    return false;
}

static bool set_number(void *field, const option_row *r, const char *value)
{
    int64_t v = 0;
    if (!parse_number(&v, r, value))
        return false;
    if (r->kind == INT32)
        *(int32_t *)field = (int32_t)v;
    else if (r->kind == UINT64)
        *(uint64_t *)field = (uint64_t)v;
    else
        *(double *)field = (double)v;
    return true;
}

/* Enums of the library are as wide as int. */
_Static_assert(sizeof(md_select) == sizeof(int) && sizeof(md_tune) == sizeof(int) && sizeof(md_dtype) == sizeof(int),
               "enums are ints");

static bool set_option(cli_options *o, const option_row *r, const char *value)
{
    void *field = (char *)o + r->at;
    switch (r->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case FLAG32:
        *(int32_t *)field = 1;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case WORD:
        return parse_word(field, r, value);
    case DTYPE:
        return parse_dtype(field, value);
    case PART:
        return parse_part(o, value);
    default:
        return set_number(field, r, value);
    }
}

static bool is_for(const option_row *r, unsigned command, const char *name)
{
    if (!(r->commands & command))
        cli_usage("'--%s' is no option of mdctl %s; see mdctl %s --help", r->name, name, name);
    return r->commands & command;
}

/* The row of an option of one letter: -h, and -o for --output. */
static const option_row *row_of_letter(int letter)
{
    int i = 0;
    while (i + 1 < N_ROWS && strcmp(row[i].name, letter == 'h' ? "help" : "output") != 0)
        i++;
    return &row[i];
}

bool cli_parse(cli_options *out, unsigned command, int argc, char **argv)
{
    enum { FIRST = 256 }; /* rows are told apart by numbers that are no characters */
    struct option longs[N_ROWS + 1] = {0};
    memset(out, 0, sizeof *out);
    out->seed = 1;
    out->part = out->n_parts = 1;
    out->argc = argc;
    out->argv = argv;
    out->context.log = cli_log;
    out->op.idle_tune = -1; /* what is timed or reported must not change meanwhile */
    for (int i = 0; i < N_ROWS; i++)
        longs[i] = (struct option){row[i].name, row[i].value ? required_argument : no_argument, NULL, FIRST + i};
    opterr = 0;
    for (int key; (key = getopt_long(argc, argv, ":ho:", longs, NULL)) != -1;) {
        if (key == ':' || key == '?') {
            cli_usage("%s '%s'; see mdctl %s --help", key == ':' ? "a value is missing behind" : "unknown option",
                      argv[optind - 1], argv[0]);
            return false;
        }
        const option_row *const r = key < FIRST ? row_of_letter(key) : &row[key - FIRST];
        if (!is_for(r, command, argv[0]) || !set_option(out, r, optarg))
            return false;
    }
    out->n = argc - optind;
    out->arg = argv + optind;
    return true;
}
