#include "common/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

typedef struct option_row {
    const char *name;
    int key;
    const char *value; /* NULL: a flag */
    const char *meaning;
} option_row;

enum {
    KEY_FIRST = 256,
    DEVICE,
    HINTS,
    SELECT,
    METRIC,
    PERSISTENT,
    NUMERIC,
    TF32,
    PIN,
    THREADS,
    CC,
    SIZES,
    STATIC,
    DTYPE,
    WEIGHTS,
    VARIANT,
    STAGE,
    SEED,
    REPEAT,
    TRACE,
    OUTPUT,
    MODES,
    PART,
    NO_LIBRARY,
    BOUNDS,
    COUNT,
    OP,
    BY_CALLS,
    STEP,
    LAST,
    SPACE,
    RIVALS,
    RIGOR,
    BUDGET,
    BUILDS,
    PLOT,
    FROM_STATS,
    INDICES,
    EXCLUDE,
    PATIENCE,
    WORKER,
    ALL_DIRECTIONS,
    OFF_HINTS,
    LIMIT,
    JSON,
    QUICK,
    HELP
};

static const option_row row[] = {
    {"sizes", SIZES, "LIST", "sizes of the dims at the call: \"b=8, n=64\""},
    {"static", STATIC, "LIST", "dims fixed when the op is made, and ranges: \"k=4096, b=1..8192\""},
    {"dtype", DTYPE, "TYPE", "of data tensors: f32 (default), f64, f16, bf16"},
    {"hints", HINTS, "LIST", "\"64,256,4096\", \"b=1,64 n=256\" or \"(b=1,n=64) (b=8,n=64)\""},
    {"select", SELECT, "MODE", "distance, model, measure or hybrid"},
    {"metric", METRIC, "METRIC", "log2 or inductor"},
    {"weights", WEIGHTS, "LIST", "of dims in the distance: \"b=1, n=0.5\""},
    {"persistent", PERSISTENT, "WHEN", "auto, only or never"},
    {"numeric", NUMERIC, "POLICY", "fast, deterministic or batch_invariant"},
    {"tf32", TF32, NULL, "GPU products of f32 may round their operands to tf32"},
    {"pin", PIN, "VARIANT", "use this variant; \"stage:variant;...\" where there are several stages"},
    {"no-library", NO_LIBRARY, NULL, "without the library's family (CBLAS, cuBLASLt)"},
    {"bounds", BOUNDS, "WHAT", "of an index out of range: report, clamp or zero"},
    {"variant", VARIANT, "NAME", "source: the variant to print"},
    {"stage", STAGE, "N", "source: the stage (default 0)"},
    {"trace", TRACE, "FILE", "demo: batch sizes, one a line, or an Azure LLM inference trace"},
    {"output", OUTPUT, "FILE", "bench, demo: write the JSON lines there too; store export: there"},
    {"modes", MODES, "LIST", "regret: of distance,model,measure,hybrid,hinted; default all"},
    {"step", STEP, "N", "bench sweep: sizes and hints N, 2N .. (default 64)"},
    {"last", LAST, "N", "bench sweep: the largest size and hint (default 4096)"},
    {"part", PART, "K/N", "regret, bench sweep: every N-th shape or size, from the K-th"},
    {"space", SPACE, "N",
     "regret: of the first N shapes, all configs of the families are built and timed, too, each within --budget "
     "(default 30000 ms)"},
    {"rivals", RIVALS, NULL, "regret: every variant's time at every shape, too"},
    {"repeat", REPEAT, "N", "bench: repetitions (default 15)"},
    {"op", OP, "NAME", "hints: of this op only"},
    {"count", COUNT, "N", "hints: at most so many (default 6)"},
    {"by-calls", BY_CALLS, NULL, "hints: a shape counts by its calls, not by their time"},
    {"rigor", RIGOR, "WHAT", "tune: measure (default) or exhaustive"},
    {"budget", BUDGET, "MS", "tune: time it may take; default MD_TUNE_BUDGET_MS, else 1500"},
    {"builds", BUILDS, "N", "tune: configs built for a point (default 12)"},
    {"plot", PLOT, "FILE", "tune: a picture of the search, as PNG, by gnuplot"},
    {"from-stats", FROM_STATS, "FILE", "tune: the ops and shapes of a service's MD_STATS=FILE.json"},
    {"indices", INDICES, "FILE", "tune: numbers that index tensors hold; default random"},
    {"exclude", EXCLUDE, "LIST", "tune: variants, separated by ';', that do not end"},
    {"patience", PATIENCE, "MS",
     "tune: a first run that takes longer is ended, and its variant never used (default 10000)"},
    {"worker", WORKER, NULL, "tune: in this process, as its helper does"},
    {"all-directions", ALL_DIRECTIONS, NULL, "tune: neighbours that differ in two parameters, too"},
    {"off-hints", OFF_HINTS, NULL,
     "tune: on GPUs half of the time for rows at no boundary and, without --hints, lopsided shapes"},
    {"limit", LIMIT, "MB", "store gc: what may stay (default 1024)"},
    {"seed", SEED, "N", "of random data (default 1)"},
    {"quick", QUICK, NULL, "bench, demo: less work, noisier figures"},
    {"device", DEVICE, "NAME", "auto, host, cuda or cuda:N"},
    {"threads", THREADS, "N", "of the host device"},
    {"cc", CC, "PROGRAM", "C compiler of the host device"},
    {"json", JSON, NULL, "machine-readable output"},
    {"help", HELP, NULL, "this text"},
};
enum { N_ROWS = sizeof row / sizeof *row };

void cli_print_options(FILE *file)
{
    for (int i = 0; i < N_ROWS; i++)
        fprintf(file, "  --%-10s %-8s %s\n", row[i].name, row[i].value ? row[i].value : "", row[i].meaning);
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

typedef struct word {
    const char *name;
    int value;
} word;

static const word select_word[] = {{"distance", MD_SELECT_DISTANCE},
                                   {"model", MD_SELECT_MODEL},
                                   {"measure", MD_SELECT_MEASURE},
                                   {"hybrid", MD_SELECT_HYBRID},
                                   {NULL, 0}};
static const word metric_word[] = {{"log2", MD_METRIC_LOG2}, {"inductor", MD_METRIC_INDUCTOR}, {NULL, 0}};
static const word persistent_word[] = {
    {"auto", MD_PERSISTENT_AUTO}, {"only", MD_PERSISTENT_ONLY}, {"never", MD_PERSISTENT_NEVER}, {NULL, 0}};
static const word numeric_word[] = {{"fast", MD_NUMERIC_FAST},
                                    {"deterministic", MD_NUMERIC_DETERMINISTIC},
                                    {"batch_invariant", MD_NUMERIC_BATCH_INVARIANT},
                                    {NULL, 0}};
static const word rigor_word[] = {{"measure", MD_TUNE_MEASURE}, {"exhaustive", MD_TUNE_EXHAUSTIVE}, {NULL, 0}};
static const word bounds_word[] = {
    {"report", MD_BOUNDS_REPORT}, {"clamp", MD_BOUNDS_CLAMP}, {"zero", MD_BOUNDS_ZERO}, {NULL, 0}};

static bool parse_word(int *out, const word *words, const char *option, const char *value)
{
    char allowed[128] = "";
    for (const word *w = words; w->name; w++) {
        if (!strcmp(w->name, value)) {
            *out = w->value;
            return true;
        }
        size_t n = strlen(allowed);
        snprintf(allowed + n, sizeof allowed - n, "%s%s", n ? ", " : "", w->name);
    }
    cli_usage("--%s '%s': expected one of %s", option, value, allowed);
    return false;
}

static bool parse_number(int64_t *out, const char *option, const char *value, int64_t lo, int64_t hi)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (errno || end == value || *end || v < lo || v > hi) {
        cli_usage("--%s '%s': expected a number in %lld..%lld", option, value, (long long)lo, (long long)hi);
        return false;
    }
    *out = v;
    return true;
}

static bool parse_dtype(md_dtype *out, const char *value)
{
    *out = md_dtype_parse(value);
    if (*out == MD_DTYPE_DEFAULT)
        cli_usage("--dtype '%s': expected f32, f64, f16 or bf16", value);
    return *out != MD_DTYPE_DEFAULT;
}

static bool set_part(cli_options *o, const char *value)
{
    int end = 0;
    if (sscanf(value, "%d/%d%n", &o->part, &o->n_parts, &end) == 2 && !value[end] && o->part >= 1 &&
        o->part <= o->n_parts)
        return true;
    cli_usage("--part '%s': expected K/N with K from 1 to N", value);
    return false;
}

static bool set_word(cli_options *o, int key, const char *option, const char *value)
{
    int v = 0;
    const word *words = key == SELECT       ? select_word
                        : key == METRIC     ? metric_word
                        : key == PERSISTENT ? persistent_word
                        : key == NUMERIC    ? numeric_word
                        : key == RIGOR      ? rigor_word
                                            : bounds_word;
    if (!parse_word(&v, words, option, value))
        return false;
    if (key == SELECT)
        o->op.select = (md_select)v;
    else if (key == METRIC)
        o->op.metric = (md_metric)v;
    else if (key == PERSISTENT)
        o->op.persistent = (md_persistent)v;
    else if (key == NUMERIC)
        o->op.numeric = (md_numeric)v;
    else if (key == RIGOR)
        o->rigor = (md_tune)v;
    else
        o->op.bounds = (md_bounds)v;
    return true;
}

static bool set_number(cli_options *o, int key, const char *option, const char *value)
{
    int64_t v = 0;
    const bool is_any = key == STAGE || key == SEED;
    if (!parse_number(&v, option, value, is_any ? 0 : 1,
                      key == SEED                        ? INT64_MAX
                      : key == BUDGET || key == PATIENCE ? 86400000
                                                         : 100000))
        return false;
    if (key == THREADS)
        o->context.threads = (int32_t)v;
    else if (key == STAGE)
        o->stage = (int32_t)v;
    else if (key == LIMIT)
        o->limit_mb = (int32_t)v;
    else if (key == REPEAT)
        o->repeat = (int32_t)v;
    else if (key == STEP)
        o->step = (int32_t)v;
    else if (key == LAST)
        o->last = (int32_t)v;
    else if (key == SPACE)
        o->space = (int32_t)v;
    else if (key == COUNT)
        o->count = (int32_t)v;
    else if (key == BUDGET)
        o->budget = (double)v;
    else if (key == PATIENCE)
        o->patience = (int32_t)v;
    else if (key == BUILDS)
        o->builds = (int32_t)v;
    else
        o->seed = (uint64_t)v;
    return true;
}

static const char **text_of(cli_options *o, int key)
{
    switch (key) {
    case DEVICE:
        return &o->context.device;
    case HINTS:
        return &o->op.hints;
    case PIN:
        return &o->op.pin;
    case CC:
        return &o->context.cc;
    case SIZES:
        return &o->sizes;
    case STATIC:
        return &o->op.sizes;
    case WEIGHTS:
        return &o->op.weights;
    case VARIANT:
        return &o->variant;
    case TRACE:
        return &o->trace;
    case OUTPUT:
        return &o->output;
    case PLOT:
        return &o->plot;
    case FROM_STATS:
        return &o->from_stats;
    case INDICES:
        return &o->indices;
    case EXCLUDE:
        return &o->exclude;
    case OP:
        return &o->op.name;
    case MODES:
        return &o->modes;
    }
    return NULL;
}

static bool set_option(cli_options *o, int key, const char *option, const char *value)
{
    const char **text = text_of(o, key);
    if (text) {
        *text = value;
        return true;
    }
    switch (key) {
    case SELECT:
    case METRIC:
    case PERSISTENT:
    case NUMERIC:
    case BOUNDS:
    case RIGOR:
        return set_word(o, key, option, value);
    case THREADS:
    case STAGE:
    case SEED:
    case REPEAT:
    case COUNT:
    case STEP:
    case LAST:
    case SPACE:
    case BUDGET:
    case BUILDS:
    case LIMIT:
    case PATIENCE:
        return set_number(o, key, option, value);
    case PART:
        return set_part(o, value);
    case DTYPE:
        return parse_dtype(&o->op.dtype, value);
    case TF32:
        o->op.tf32 = 1;
        return true;
    case NO_LIBRARY:
        o->op.without_library = 1;
        return true;
    case BY_CALLS:
        o->by_calls = true;
        return true;
    case RIVALS:
        o->rivals = true;
        return true;
    case WORKER:
        o->worker = true;
        return true;
    case ALL_DIRECTIONS:
        o->all_directions = true;
        return true;
    case OFF_HINTS:
        o->off_hints = true;
        return true;
    case JSON:
        o->json = true;
        return true;
    case QUICK:
        o->quick = true;
        return true;
    case HELP:
        o->help = true;
        return true;
    }
    return false;
}

bool cli_parse(cli_options *out, int argc, char **argv)
{
    struct option longs[N_ROWS + 1] = {0};
    memset(out, 0, sizeof *out);
    out->seed = 1;
    out->part = out->n_parts = 1;
    out->argc = argc;
    out->argv = argv;
    out->context.log = cli_log;
    for (int i = 0; i < N_ROWS; i++)
        longs[i] = (struct option){row[i].name, row[i].value ? required_argument : no_argument, NULL, row[i].key};
    opterr = 0;
    int at = 0;
    for (int key; (key = getopt_long(argc, argv, ":h", longs, &at)) != -1;) {
        if (key == 'h')
            key = HELP;
        if (key == ':' || key == '?') {
            cli_usage("%s '%s'; see mdctl --help", key == ':' ? "a value is missing behind" : "unknown option",
                      argv[optind - 1]);
            return false;
        }
        if (!set_option(out, key, key == HELP ? "help" : longs[at].name, optarg))
            return false;
    }
    out->n = argc - optind;
    out->arg = argv + optind;
    return true;
}
